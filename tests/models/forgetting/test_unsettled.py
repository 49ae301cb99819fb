"""Turns that were stored before their folder was known go where it may not be read, with what was made of them."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Source
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_project import drop_unsettled_turns
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.memories.tombstones import is_turn_forgotten
from engram.models.sessions.sessions import find_session, touch_session
from engram.models.sessions.stored_turns import load_turn
from tests.models.conversations import make_turn, store_session, store_turn


def test_only_what_was_said_in_a_pause_goes_with_the_memories_made_of_it(
    store: Store, keep: Callable[..., Memory]
) -> None:
    before = store_turn(store, make_turn("t1", "before", at_ms=99), None)
    within = store_turn(store, make_turn("t2", "within", at_ms=100), None)
    after = store_turn(store, make_turn("t3", "after", at_ms=200), None)
    memories = [keep(f"of {row_id}", evidence=[Evidence("", "s1", row_id)]) for row_id in (before, within, after)]
    saved = keep("saved", evidence=[Evidence("", "s1", within)], source=Source.MANUAL)
    session = store_session(store, "s1", None)
    with store.transaction() as tx:
        touch_session(tx, session.id, at_ms=200, branch="", new_messages=3)

    dropped = drop_unsettled_turns(store, session, [(100, 200)])

    assert dropped == 1
    assert [load_turn(store, key) is None for key in ("t1", "t2", "t3")] == [False, True, False]
    assert [find_memory(store, memory.episode_id) is None for memory in memories] == [False, True, False]
    assert find_memory(store, saved.episode_id) is not None
    noted = find_session(store, "s1")
    assert noted is not None
    assert noted.message_count == 2


def test_all_of_an_excluded_folder_goes_and_nothing_of_other_sessions(store: Store) -> None:
    for key in ("t1", "t2"):
        store_turn(store, make_turn(key, "said"), None)
    store_turn(store, make_turn("t3", "said", session_id="s2"), None)
    session = store_session(store, "s1", None)

    assert drop_unsettled_turns(store, session, None) == 2
    assert drop_unsettled_turns(store, session, None) == 0

    assert load_turn(store, "t1") is load_turn(store, "t2") is None
    assert load_turn(store, "t3") is not None
    assert not is_turn_forgotten(store, "t1"), "once its folder may be read, the turn may come again"
