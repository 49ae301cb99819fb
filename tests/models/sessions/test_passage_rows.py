"""What a search gets of passages: those that exist, of the project asked, each with its place."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.sessions import passage_rows
from tests.models.conversations import make_turn, store_project, store_turn


def test_a_passage_comes_with_its_words_its_place_and_whether_it_closes_its_turn(store: Store) -> None:
    store_turn(store, make_turn("t1", "why?", "because of the wind", at_ms=77))

    rows = passage_rows.passage_rows(store, [1, 2, 99])
    places = passage_rows.passage_places(store, [2, 99])

    assert [(row.role, row.text, row.at_ms, row.is_closing) for row in rows.values()] == [
        ("user", "why?", 77, False),
        ("assistant", "because of the wind", 77, True),
    ]
    assert list(places) == [2]
    assert (places[2].project, places[2].place.text, places[2].place.uuid) == ("a", "/x/s1.jsonl:2", "t1-reply")


def test_a_part_of_a_long_text_says_where_it_begins(store: Store) -> None:
    text = "\n\n".join(f"Paragraph {number} tells of something else. " * 12 for number in range(6))
    store_turn(store, make_turn("t1", text))

    rows = list(passage_rows.passage_rows(store, range(1, 50)).values())

    assert len(rows) > 1
    for row in rows:
        assert text[row.start : row.start + len(row.text)] == row.text
        assert row.said_chars == len(text)


def test_only_the_project_that_is_named_is_looked_at(store: Store) -> None:
    store_turn(store, make_turn("t1", "here", session_id="s1"), "a")
    store_turn(store, make_turn("t2", "there", session_id="s2"), "b")
    own = store_project(store, "b").id

    assert [spot[0] for spot in passage_rows.passage_spots(store, [2, 1])] == [1, 2]
    assert [spot[0] for spot in passage_rows.passage_spots(store, [1, 2], own)] == [2]
    assert passage_rows.passages_between(store, 0, 100) == [1, 2]
    assert passage_rows.passages_between(store, 0, 100, project_id=own) == [2]


def test_passages_of_a_time_are_at_most_the_limit_and_spread_over_it(store: Store) -> None:
    for number in range(10):
        store_turn(store, make_turn(f"t{number}", f"prompt {number}", at_ms=100 + number))

    ids = passage_rows.passages_between(store, 101, 109, limit=4)

    assert ids == [2, 4, 6, 8], "the begin counts, the end does not"
