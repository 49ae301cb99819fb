"""Changes of turns: they grow at their end, and one that goes leaves nothing but, where forgotten, its tombstone."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.memories.tombstones import forgotten_entries, is_turn_forgotten
from engram.models.search import fulltext, vector_rows
from engram.models.sessions.stored_turns import claimed_entries, load_turn
from engram.models.sessions.turn_changes import clear_turn, close_turn, close_turns, delete_turn, withdraw_turn
from tests.models.conversations import make_turn, store_session, store_turn


def test_a_turn_that_grows_adds_its_new_texts_alone(store: Store) -> None:
    first = store_turn(store, make_turn("t1", "the banana"))
    second = store_turn(store, make_turn("t1", "the banana", "the cherry"))

    stored = load_turn(store, "t1")

    assert stored is not None
    assert (second, stored.revision) == (first, 2)
    assert stored.turn == make_turn("t1", "the banana", "the cherry")
    assert store.value("SELECT count(*) FROM passage") == 2
    assert store.find_damage() == ""


def test_closing_changes_no_revision(store: Store) -> None:
    for key in ("t1", "t2"):
        store_turn(store, make_turn(key, "why?"))
    store_turn(store, make_turn("t3", "why?", session_id="s2"))

    with store.transaction() as tx:
        close_turn(tx, "t1")
        assert close_turns(tx, store_session(store, "s1").id) == 1, "the other one was closed already"

    stored = [load_turn(store, key) for key in ("t1", "t2", "t3")]
    assert [turn and (turn.turn.is_closed, turn.revision) for turn in stored] == [(True, 1), (True, 1), (False, 1)]


def test_a_withdrawn_turn_may_come_again_and_a_forgotten_one_is_known(store: Store) -> None:
    for key in ("withdrawn", "forgotten"):
        row_id = store_turn(store, make_turn(key, f"the {key} banana", "the cherry"))
    with store.transaction() as tx:
        vector_rows.put_vectors(tx, "m", [("p", passage_id, 0, b"\0\0") for passage_id in range(1, 5)])

    with store.transaction() as tx:
        withdraw_turn(tx, "withdrawn")
        withdraw_turn(tx, "never seen")
        assert delete_turn(tx, row_id) == ["forgotten", "forgotten-reply"]

    assert fulltext.search_passages(store, ["banana", "cherry"], 9) == []
    assert vector_rows.count_vectors(store, "p") == 0
    assert claimed_entries(store, ["withdrawn", "forgotten"]) == set()
    assert forgotten_entries(store, ["withdrawn", "withdrawn-reply", "forgotten", "forgotten-reply"]) == {
        "forgotten",
        "forgotten-reply",
    }
    assert [is_turn_forgotten(store, key) for key in ("withdrawn", "forgotten")] == [False, True]
    assert store.find_damage() == ""


def test_a_turn_is_written_again_with_other_words_in_its_own_row(store: Store) -> None:
    first = store_turn(store, make_turn("t1", "the banana", "the cherry"))

    with store.transaction() as tx:
        clear_turn(tx, "t1")
        clear_turn(tx, "never seen")
    second = store_turn(store, make_turn("t1", "the apple"))

    stored = load_turn(store, "t1")
    assert stored is not None
    assert (second, stored.revision, stored.turn) == (first, 2, make_turn("t1", "the apple"))
    assert fulltext.search_passages(store, ["banana", "cherry"], 9) == []
    assert claimed_entries(store, ["t1", "t1-reply"]) == {"t1"}
