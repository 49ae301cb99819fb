"""What an extraction leaves behind: how far it came, which sessions wait, and what it made, whatever became of it."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Source, Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.sessions import sessions, stored_turns, turn_changes
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import mark_extracted
from tests.models.conversations import make_turn, store_session, store_turn


def test_the_number_of_extracted_messages_never_falls(store: Store) -> None:
    session = store_session(store, "s1")

    for messages in (8, 3):
        with store.transaction() as tx:
            sessions.note_extraction(tx, session.id, messages)

    noted = find_session(store, "s1")
    assert noted is not None
    assert (noted.extracted_messages, noted.extractions, noted.extracted_at_ms) == (8, 2, store.now_ms())


def test_sessions_with_turns_to_extract_come_by_how_long_they_were_silent(store: Store) -> None:
    store_turn(store, make_turn("t1", "late", session_id="s1", at_ms=900))
    store_turn(store, make_turn("t2", "early", session_id="s2", at_ms=100))
    done = store_turn(store, make_turn("t3", "done", session_id="s3", at_ms=50))
    with store.transaction() as tx:
        mark_extracted(tx, {done: 1})

    assert stored_turns.sessions_with_due_turns(store) == ["s2", "s1"]
    assert [stored_turns.has_due_turns(store, store_session(store, name).id) for name in ("s1", "s3")] == [True, False]


def test_the_cap_counts_only_what_an_extractor_kept_of_those_moments(store: Store, keep: Callable[..., Memory]) -> None:
    for at_ms, source in ((99, Source.AUTO), (100, Source.AUTO), (150, Source.MANUAL), (200, Source.AUTO)):
        keep(f"said at {at_ms}", created_at_ms=at_ms, source=source)

    assert sessions.count_auto_memories(store, 100, 200) == 1


def test_a_prompt_that_moved_takes_only_its_own_untouched_memories_along(
    store: Store, keep: Callable[..., Memory]
) -> None:
    turn_id = store_turn(store, make_turn("t1", "use tabs"))
    other = store_turn(store, make_turn("t2", "use spaces", entries=()))
    of_turn = Evidence("t1", "s1", turn_id)
    extracted = keep("tabs", evidence=[of_turn])
    saved = keep("saved", evidence=[of_turn], source=Source.MANUAL)
    pinned = keep("pinned", evidence=[of_turn], is_pinned=True)
    shared = keep("shared", evidence=[Evidence("t2", "s1", other), of_turn])

    with store.transaction() as tx:
        turn_changes.withdraw_memories(tx, turn_id)

    left = [find_memory(store, made.episode_id) for made in (extracted, saved, pinned, shared)]
    assert [memory.status for memory in left if memory] == [
        Status.ARCHIVED,
        Status.ACTIVE,
        Status.ACTIVE,
        Status.ACTIVE,
    ]
