"""A session belongs to the first project that is known of it, with all that was stored before."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Scope
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.search import fulltext
from engram.models.sessions import sessions
from engram.models.sessions.stored_turns import load_turn
from tests.models.conversations import make_turn, store_project, store_session, store_turn


def test_a_session_keeps_its_first_project(store: Store) -> None:
    first = store_session(store, "s1", "a")
    second = store_session(store, "s1", "b")

    assert second.id == first.id
    assert second.project_id == store_project(store, "a").id
    assert second.is_settled


def test_what_was_stored_before_the_folder_was_known_goes_to_the_project_too(
    store: Store, keep: Callable[..., Memory]
) -> None:
    store_turn(store, make_turn("t1", "the banana"), None)
    memory = keep("early", session_id="s1", scope=Scope.PROJECT)
    assert not store_session(store, "s1", None).is_settled

    store_session(store, "s1", "a")

    project_id = store_project(store, "a").id
    turn, moved = load_turn(store, "t1"), find_memory(store, memory.episode_id)
    assert turn is not None
    assert moved is not None
    assert (turn.project_id, moved.project_id) == (project_id, project_id)
    assert len(fulltext.search_passages(store, ["banana"], 5, project_id=project_id)) == 1


def test_time_never_goes_back_and_a_branch_stays_until_another_is_named(store: Store) -> None:
    session = store_session(store, "s1", at_ms=100)
    for at_ms, branch in ((300, "main"), (200, "")):
        with store.transaction() as tx:
            sessions.touch_session(tx, session.id, at_ms=at_ms, branch=branch, new_messages=2)

    touched = sessions.find_session(store, "s1")

    assert touched is not None
    assert (touched.first_at_ms, touched.last_at_ms, touched.branch, touched.message_count) == (100, 300, "main", 4)


def test_sessions_come_the_latest_first(store: Store) -> None:
    for session_id, at_ms in (("s1", 100), ("s2", 300), ("s3", 200)):
        store_turn(store, make_turn(session_id, "a prompt", session_id=session_id, at_ms=at_ms))
    store_session(store, "empty", at_ms=400)

    assert [session.session_id for session in sessions.list_sessions(store, 2)] == ["s2", "s3"]


def test_known_values_add_up_in_their_own_session_under_a_salt_that_stays(store: Store) -> None:
    session = store_session(store, "s1")
    store_session(store, "s2")
    for hashes in ({b"one"}, {b"one", b"two"}):
        with store.transaction() as tx:
            sessions.add_known_values(tx, session.id, frozenset(hashes))

    assert sessions.known_values(store, "s1") == {b"one", b"two"}
    assert sessions.known_values(store, "s2") == frozenset()
    assert len(sessions.salt(store)) >= 16
    with Store(store.path, driver=store.driver) as again:
        assert sessions.salt(again) == sessions.salt(store)
