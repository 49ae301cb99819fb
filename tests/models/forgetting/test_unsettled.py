"""Turns that were stored before their folder was known go where it may not be read, with what was made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import Actor, Source
from engram.memories.save import edit_memory, pin_memory
from engram.models.engine.transaction import Store
from engram.models.forgetting.erase_project import drop_unsettled_turns
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.memories.tombstones import is_turn_forgotten
from engram.models.sessions.sessions import find_session, touch_session
from engram.models.sessions.stored_turns import load_turn
from engram.redaction import redact
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


def test_what_a_person_made_of_an_automatic_memory_stays(store: Store, keep: Callable[..., Memory]) -> None:
    turn_id = store_turn(store, make_turn("t1", "said"), None)
    pinned, edited, automatic = (keep(text, evidence=[Evidence("", "s1", turn_id)]) for text in ("one", "two", "three"))
    pin_memory(store, pinned.episode_id, actor=Actor.USER)
    edit_memory(store, edited.episode_id, redact, actor=Actor.USER, summary="Two, in the user's own words.")
    session = store_session(store, "s1", None)

    assert drop_unsettled_turns(store, session, None) == 1

    assert find_memory(store, pinned.episode_id) is not None
    assert find_memory(store, edited.episode_id) is not None
    assert find_memory(store, automatic.episode_id) is None


def test_a_turn_stored_just_before_the_transaction_goes_too(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store_turn(store, make_turn("t1", "said"), None)
    session = store_session(store, "s1", None)
    begin = store.transaction

    def begin_late(*args: object, **named: object) -> object:
        monkeypatch.setattr(store, "transaction", begin)
        store_turn(store, make_turn("t2", "said meanwhile"), None)
        return begin(*args, **named)

    monkeypatch.setattr(store, "transaction", begin_late)

    assert drop_unsettled_turns(store, session, None) == 2
    assert load_turn(store, "t2") is None
