"""An entry belongs to one turn, whoever asks first, until that turn gives it up."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from engram.errors import Conflict
from engram.models.engine.transaction import Store
from engram.models.sessions.stored_turns import claimed_entries, entries_of_turn, free_entries, turn_of_entry
from engram.transcripts.turns import EntryRef
from tests.models.conversations import make_turn, store_session, store_turn

ENTRY = EntryRef("11111111-1111-1111-1111-111111111111", 0, 5, 1)


def test_of_turns_that_race_for_an_entry_one_gets_it(store: Store) -> None:
    store_session(store, "s1")
    barrier = Barrier(4)

    def write(key: str) -> bool:
        barrier.wait()
        try:
            store_turn(store, make_turn(key, "who?", entries=(ENTRY,)))
        except Conflict:
            return False
        finally:
            store.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(write, ("t1", "t2", "t3", "t4")))

    assert won.count(True) == 1
    winner = turn_of_entry(store, ENTRY.uuid)
    assert winner is not None
    assert entries_of_turn(store, winner) == (ENTRY,)


def test_entries_come_in_the_order_of_the_file(store: Store) -> None:
    entries = (EntryRef("late", 90, 5, 3), EntryRef("early", 0, 5, 1), EntryRef("middle", 40, 5, 2))

    turn_id = store_turn(store, make_turn("t1", "what?", entries=entries))

    assert [entry.uuid for entry in entries_of_turn(store, turn_id)] == ["early", "middle", "late"]


def test_an_entry_that_was_given_up_may_come_in_another_turn(store: Store) -> None:
    first = store_turn(store, make_turn("t1", "what?", entries=(ENTRY,)))
    with pytest.raises(Conflict):
        store_turn(store, make_turn("t2", "what?", entries=(ENTRY,)))

    with store.transaction() as tx:
        free_entries(tx, first)

    assert claimed_entries(store, [ENTRY.uuid]) == set()
    assert turn_of_entry(store, ENTRY.uuid) is None
    assert turn_of_entry(store, "never seen") is None
    second = store_turn(store, make_turn("t2", "what?", entries=(ENTRY,)))
    assert turn_of_entry(store, ENTRY.uuid) == second
    assert claimed_entries(store, [ENTRY.uuid, "never seen"]) == {ENTRY.uuid}
