"""Passages and their index live and die with their texts; a neighbour's words are context, not its own."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.search import fulltext, vector_rows
from engram.models.sessions.turn_changes import drop_passages, drop_passages_of_texts
from tests.models.conversations import make_turn, store_turn


def ids_of(store: Store, word: str) -> list[int]:
    return [row_id for row_id, _ in fulltext.search_passages(store, [word], 9)]


def test_a_passage_is_found_by_its_neighbours_words_too_but_after_them(store: Store) -> None:
    store_turn(store, make_turn("t1", "the banana"))
    store_turn(store, make_turn("t2", "the cherry", at_ms=9))

    own, neighbour = ids_of(store, "banana")

    assert ids_of(store, "cherry") == [neighbour, own]


def test_sessions_are_not_neighbours(store: Store) -> None:
    store_turn(store, make_turn("t1", "the banana", session_id="s1"))
    store_turn(store, make_turn("t2", "the cherry", session_id="s2"))

    assert len(ids_of(store, "banana")) == 1


def test_a_dropped_passage_leaves_its_neighbours_context_and_its_vector_goes(store: Store) -> None:
    for key, words in (("t1", "the apple"), ("t2", "the banana"), ("t3", "the cherry")):
        turn_id = store_turn(store, make_turn(key, words))
        if key == "t2":
            middle = turn_id
    (own, *_) = ids_of(store, "banana")
    with store.transaction() as tx:
        vector_rows.put_vectors(tx, "m", [("p", own, 0, b"\0\0")])

    with store.transaction() as tx:
        drop_passages(tx, middle)

    assert ids_of(store, "banana") == []
    assert len(ids_of(store, "apple")) == 2, "the cherry follows the apple now"
    assert vector_rows.count_vectors(store, "p") == 0
    assert store.find_damage() == ""


def test_one_text_of_a_turn_is_dropped_without_the_others(store: Store) -> None:
    turn_id = store_turn(store, make_turn("t1", "the banana", "the cherry"))
    (reply, *_) = ids_of(store, "cherry")

    with store.transaction() as tx:
        said_id = tx.value("SELECT said_id FROM passage WHERE id = ?", (reply,))
        drop_passages_of_texts(tx, turn_id, [said_id])

    assert len(ids_of(store, "banana")) == 1
    assert ids_of(store, "cherry") == []
    assert store.find_damage() == ""
