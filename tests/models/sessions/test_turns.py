"""Turns are read in the order of the transcript, and memories are made of each revision once."""

from __future__ import annotations

import pytest

from engram.errors import Conflict
from engram.models.engine.transaction import Store
from engram.models.sessions import stored_turns
from engram.models.sessions.turn_changes import delete_turn
from tests.models.conversations import make_turn, store_session, store_turn


def test_turns_come_in_the_order_of_the_transcript_not_of_their_storing(store: Store) -> None:
    store_turn(store, make_turn("waited", "stored first", start_offset=90))
    store_turn(store, make_turn("earlier", "stored second", start_offset=10))
    store_turn(store, make_turn("other", "elsewhere", session_id="s2"))
    session_ref = store_session(store, "s1").id

    keys = [stored.turn.key for stored in stored_turns.turns_of_session(store, session_ref)]

    assert keys == ["earlier", "waited"]
    assert [stored.turn.key for stored in stored_turns.turns_of_session(store, session_ref, limit=1)] == ["earlier"]


def test_a_turn_is_due_until_its_revision_was_extracted_and_again_when_it_grew(store: Store) -> None:
    row_id = store_turn(store, make_turn("t1", "why?"))
    session_ref = store_session(store, "s1").id
    with store.transaction() as tx:
        stored_turns.mark_extracted(tx, {row_id: 1})
    assert stored_turns.turns_of_session(store, session_ref, only_due=True) == []

    store_turn(store, make_turn("t1", "why?", "because"))

    (due,) = stored_turns.turns_of_session(store, session_ref, only_due=True)
    assert (due.revision, due.extracted_revision) == (2, 1)


def test_a_revision_is_extracted_once(store: Store) -> None:
    row_id = store_turn(store, make_turn("t1", "why?"))
    with store.transaction() as tx:
        stored_turns.mark_extracted(tx, {row_id: 1})

    with pytest.raises(Conflict), store.transaction() as tx:
        stored_turns.mark_extracted(tx, {row_id: 1})


def test_a_turn_that_grew_or_was_forgotten_has_moved(store: Store) -> None:
    row_id = store_turn(store, make_turn("t1", "why?"))
    stored_turns.check_unmoved(store, {row_id: 1})

    store_turn(store, make_turn("t1", "why?", "because"))
    with pytest.raises(Conflict):
        stored_turns.check_unmoved(store, {row_id: 1})
    stored_turns.check_unmoved(store, {row_id: 2})
    with store.transaction() as tx:
        delete_turn(tx, row_id)
    with pytest.raises(Conflict):
        stored_turns.check_unmoved(store, {row_id: 2})
    assert stored_turns.load_turn(store, "t1") is stored_turns.load_turn_row(store, row_id) is None
