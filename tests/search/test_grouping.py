"""One hit for what a turn says to a question: which entries stand together, and in which order hits come."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.search.passages.candidate_set import Shortlist, build_candidate_set
from engram.search.passages.passage_search import MAX_ENTRIES, MAX_WORDS, HitGroup, group_hits

FAR = 1.0


def group(keys: list[tuple[int, int]], scores: list[float], limit: int = 10, words: int = 10) -> list[HitGroup]:
    """Group passages given as (turn, entry), all of one session."""
    candidates = build_candidate_set(
        [(number + 1, 1, turn, entry) for number, (turn, entry) in enumerate(keys)], {}, {}
    )
    shortlist = Shortlist(candidates, np.arange(len(keys)), {})
    return group_hits(shortlist, np.array(scores), limit, lambda index: " ".join([f"w{index}"] * words))


def test_a_prompt_and_its_reply_are_one_hit_and_stand_above_a_single_entry_as_good() -> None:
    hits = group([(1, 1), (2, 2), (2, 3)], [0.91, 0.9, 0.85])

    assert [hit.indexes for hit in hits] == [[1, 2], [0]]
    assert hits[0].score > hits[1].score > hits[0].best_score


def test_a_much_worse_entry_of_the_turn_stays_a_separate_hit() -> None:
    assert [hit.indexes for hit in group([(1, 1), (1, 2)], [FAR + 0.5, 0.5])] == [[0], [1]]


def test_an_entry_is_shown_once_by_its_best_passage() -> None:
    assert [hit.indexes for hit in group([(1, 1), (1, 1), (2, 2)], [0.3, 0.4, 0.2])] == [[1], [2]]


def test_what_must_not_be_shown_is_left_out() -> None:
    assert [hit.indexes for hit in group([(1, 1), (2, 2)], [-np.inf, 0.2])] == [[1]]


def test_long_entries_of_a_turn_stand_alone() -> None:
    assert len(group([(1, 1), (1, 2)], [0.5, 0.5], words=MAX_WORDS // 2 + 1)) == 2


@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.integers(1, 6), st.floats(0, 1.5)), min_size=1, max_size=30), st.integers(1, 12))
def test_a_hit_is_bounded_and_fewer_hits_are_the_beginning_of_more(turns: list[tuple[int, float]], limit: int) -> None:
    keys, scores = [(turn, number) for number, (turn, _) in enumerate(turns)], [score for _, score in turns]

    few, all_of_them = group(keys, scores, limit), group(keys, scores, 1000)

    assert len(few) <= limit
    assert all(
        len(hit.indexes) <= MAX_ENTRIES and sum(len(text.split()) for text in hit.texts) <= MAX_WORDS
        for hit in all_of_them
    )
    assert sorted(index for hit in all_of_them for index in hit.indexes) == list(range(len(turns)))
    assert [hit.indexes[0] for hit in few] == [hit.indexes[0] for hit in all_of_them][:limit]
