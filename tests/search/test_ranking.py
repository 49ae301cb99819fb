"""The pure parts of the ranking: words, coverage, excerpts, abstaining."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engram.enums import Importance, Status
from engram.models.search.fulltext import MemoryRow
from engram.search.abstain import MIN_HITS, count_likely, is_unsupported, query_support, select_relevant
from engram.search.passages.features import FEATURE_GROUPS, load_ranking_model
from engram.search.passages.passage_search import excerpt, extend_short
from engram.search.question import (
    LARGE_INDEX_ROWS,
    MAX_TERM_SHARE,
    MAX_TERMS,
    Coverage,
    ParsedQuery,
    Query,
    parse_query,
    select_terms,
)
from engram.search.ranking import MemoryCandidates, build_candidates
from engram.text import words
from engram.text.words import names_of, proper_names_of, terms_of

NOW = 1_767_225_600_000
DAY = 86_400_000


def test_names_are_paths_symbols_flags_and_quoted_code() -> None:
    assert {"src/app.py", "load_all", "--dry-run", "worktreepath", "#172"} <= set(
        names_of("Why does src/app.py call load_all with --dry-run, see WorktreePath in #172?")
    )


@pytest.mark.parametrize("letter", ["a", "/", ".", "-"])
def test_a_path_is_not_looked_for_at_each_letter_of_a_word(letter: str) -> None:
    assert not [place for place in range(1, 20) if words._NAME.match(letter * 20 + "/end", place)]
    assert names_of("see #12a/b, x//y and a.b/c-d") == ["#12", "a/b", "x//y", "a.b/c-d"]


def test_compound_names_are_also_searched_by_their_parts() -> None:
    assert {"worktreepath", "worktree", "path"} <= set(terms_of("WorktreePath"))


def test_rare_words_weigh_more_than_common_ones() -> None:
    coverage = Coverage(["lock", "the_queue", "code"], {"lock": 3, "code": 900}, 1000)

    rare, common = coverage.share(coverage.stems_in("locked")), coverage.share(coverage.stems_in("some code"))

    assert rare > 0.9 > 0.1 > common
    assert coverage.share(coverage.stems_in("nothing of it")) == 0


def test_an_excerpt_keeps_the_sentences_that_answer() -> None:
    text = (
        "We talked long about colours and shapes of things. " * 4
        + "The queue lock is held by the loader. "
        + "Bye. " * 9
    )

    shown = excerpt(text, Coverage(["queue", "lock"], {"queue": 2, "lock": 2}, 100), 20)

    assert "The queue lock is held by the loader." in shown
    assert len(shown.split()) <= 20


@settings(deadline=None, max_examples=60)
@given(st.text(max_size=400), st.lists(st.text(min_size=1, max_size=8), max_size=4))
def test_an_excerpt_is_always_a_part_of_the_text(text: str, terms: list[str]) -> None:
    assert excerpt(text, Coverage(terms, dict.fromkeys(terms, 1), 10), 10) in text


def test_few_and_rare_terms_are_asked_of_a_large_index() -> None:
    counts = {f"t{number}": number + 1 for number in range(30)} | {"common": LARGE_INDEX_ROWS}

    chosen = select_terms([*counts, "unknown"], counts, 2 * LARGE_INDEX_ROWS)

    assert len(chosen) == MAX_TERMS
    assert "common" not in chosen
    assert select_terms(["common"], counts, 2 * LARGE_INDEX_ROWS) == ["common"]
    assert counts["common"] > MAX_TERM_SHARE * 2 * LARGE_INDEX_ROWS


def support(question: str, cosine: float, texts: tuple[str, ...] = (), unknown: frozenset[str] = frozenset()) -> float:
    """Return the support of a question whose nearest passages have this cosine; the model's floor is 0.25."""
    return query_support(parse_query(Query(question), NOW), unknown, texts, [cosine] * 5, 0.25)


def test_a_question_that_comes_near_to_nothing_gets_only_what_is_very_likely() -> None:
    plain = "Which colour did the designers choose for trains?"

    far, close = support(plain, 0.1), support(plain, 0.6)

    assert count_likely([1.2, 0.9, 0.8], close, is_chat=False) == 3
    assert count_likely([1.2, 0.9, 0.8], far, is_chat=False) == 1
    assert count_likely([1.0, 0.9, 0.8], far, is_chat=False) == 0
    assert is_unsupported(far)
    assert not is_unsupported(close)


def test_a_look_up_by_a_known_name_a_date_or_few_known_words_is_always_answered() -> None:
    named = "Which colour did the designers choose in train_set.py?"

    assert count_likely([0.1] * 9, support(named, 0.1, ("See train_set.py.",)), is_chat=False) == MIN_HITS
    assert count_likely([0.1] * 9, support(named, 0.1), is_chat=False) == 0
    assert (
        count_likely([0.1] * 9, support("What did we choose on 4 May 2025 for trains?", 0.1), is_chat=False) == MIN_HITS
    )
    assert count_likely([0.1] * 9, support("colour trains", 0.1), is_chat=False) == MIN_HITS
    assert count_likely([0.1] * 9, support("pancake trains", 0.1, unknown=frozenset({"pancake"})), is_chat=False) == 0


@pytest.mark.parametrize("question", ["--x", "C", "why?"])
def test_a_question_without_terms_is_not_a_look_up(question: str) -> None:
    assert is_unsupported(support(question, 0.1))
    assert not is_unsupported(support(question, 0.6))


def test_a_question_about_a_name_that_nobody_ever_named_is_far() -> None:
    question = "How do we run the import inside a Kubernetes job?"
    unknown = frozenset({"kubernetes"})

    assert is_unsupported(support(question, 0.35, unknown=unknown))
    assert not is_unsupported(support(question, 0.35))
    assert not is_unsupported(support(question, 0.35, ("KubernetesJob is made here.",), unknown))


def test_without_a_model_everything_is_near() -> None:
    assert not is_unsupported(
        query_support(parse_query(Query("Which colour do trains have now?"), NOW), frozenset(), (), [], 0.0)
    )


def row(number: int, summary: str) -> MemoryRow:
    """A current global memory."""
    return MemoryRow(
        id=number,
        project_id=None,
        is_global=True,
        status=Status.ACTIVE,
        importance=Importance.NORMAL,
        is_pinned=False,
        is_lowered=False,
        created_at_ms=NOW,
        access_count=0,
        session_ref=0,
        summary=summary,
        entities="",
    )


def memories(summaries: dict[str, float | None]) -> tuple[MemoryCandidates, Coverage, ParsedQuery]:
    """Memories with their cosines to a question, and that question parsed."""
    rows = {number: row(number, summary) for number, summary in enumerate(summaries)}
    cosines = {number: value for number, value in enumerate(summaries.values()) if value is not None}
    query = parse_query(Query("Which colour did the designers choose for trains in paint_set.py?"), NOW)
    counts = dict.fromkeys(query.terms, 1)
    return build_candidates(rows, {}, cosines), Coverage(query.terms, counts, 100), query


def test_a_memory_is_shown_that_is_near_or_holds_half_the_words_or_a_name_or_has_no_vector_yet() -> None:
    candidates, coverage, query = memories(
        {
            "The livery is green": 0.5,
            "Lunch is at noon": 0.05,
            "Designers choose the colour of trains": 0.05,
            "See paint_set.py": 0.05,
            "Written a moment ago": None,
        }
    )

    is_relevant, is_doubtful = select_relevant(candidates, query, coverage, 0.3)

    assert is_relevant.tolist() == [True, False, True, True, True]
    assert not is_doubtful


def test_where_no_memory_is_near_the_question_is_doubtful() -> None:
    candidates, coverage, query = memories({"Lunch is at noon": 0.05, "Green is a fine colour": 0.16})

    is_relevant, is_doubtful = select_relevant(candidates, query, coverage, 0.3)

    assert not is_relevant.any()
    assert is_doubtful


def test_without_a_model_every_memory_that_was_found_is_shown() -> None:
    candidates, coverage, query = memories({"Lunch is at noon": None})

    is_relevant, is_doubtful = select_relevant(candidates, query, coverage, 0.0)

    assert is_relevant.all()
    assert not is_doubtful


def test_names_are_told_by_capitals_in_english_alone() -> None:
    assert proper_names_of("Why did we drop GitLab, and when did Ann say so? January?") == ["gitlab", "ann"]
    assert proper_names_of("Welche Datenbank haben wir für das Archiv gewählt?") == []


def test_every_feature_has_a_weight_with_and_without_a_model() -> None:
    for with_vectors in (True, False):
        assert set(load_ranking_model(with_vectors=with_vectors).weights) == set(FEATURE_GROUPS)


def test_parts_add_up_to_the_score_and_a_feature_group_can_be_left_out() -> None:
    features = {feature: np.array([0.5, 1.0]) for feature in FEATURE_GROUPS}
    model = load_ranking_model(with_vectors=True)

    whole, less = model.rank(features), model.rank(features, without=("time",))

    assert np.allclose(sum(whole.parts.values()), whole.score)
    assert np.allclose(whole.score - whole.parts["time"], less.score)
    assert "time" not in less.parts


def test_a_hit_too_short_to_be_understood_is_shown_with_its_neighbours() -> None:
    told = "The lock was held by the loader while the queue of the worker was being drained to the end."
    before = f"We looked at the log. {told}"

    assert extend_short("Fixed.", before, "") == f"{told}\nFixed."
    assert extend_short("Fixed.", "", "") == "Fixed."
    assert extend_short("x" * 90, before, before) == "x" * 90


def test_the_words_of_a_question_are_found_in_many_texts_as_in_each() -> None:
    words = ["read_file", "file", "go", "locking"]
    coverage = Coverage(words, dict.fromkeys(words, 1), 10)
    texts = ["", "read_files, then a profile", "go on, x_go", "gone; file", "Locked", "x_file_file"]
    found = coverage.stems_in_each(texts)
    assert found == [coverage.stems_in(text) for text in texts]
    assert [sorted(stems) for stems in found] == [[], ["read_fil"], ["go"], ["fil"], ["lock"], ["fil"]]
