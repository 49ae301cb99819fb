"""Projects that become one: sessions, turns, memories and passages move together, and every index notices."""

from __future__ import annotations

from collections.abc import Callable

from bench.storing import join_projects
from engram.enums import Actor, Scope
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.search.fulltext import search_passages
from engram.models.search.vector_rows import last_vector_seq, put_vectors, vectors_since
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import load_turn
from tests.models.conversations import make_turn, store_project, store_turn


def test_everything_of_the_others_moves_and_nothing_else(store: Store, keep: Callable[..., Memory]) -> None:
    into, first, second, bystander = (store_project(store, name) for name in ("a", "b", "c", "d"))
    for name, session_id in (("b", "s1"), ("c", "s2"), ("d", "s3")):
        store_turn(store, make_turn(f"turn of {name}", "the zebra", session_id=session_id), name)
    moved = keep("of b", project_id=first.id, scope=Scope.PROJECT)
    left = keep("of d", project_id=bystander.id, scope=Scope.PROJECT)

    assert join_projects(store, into.id, [first.id, second.id], actor=Actor.USER) == 2

    sessions = [find_session(store, session_id) for session_id in ("s1", "s2", "s3")]
    turns = [load_turn(store, f"turn of {name}") for name in "bcd"]
    assert [session and session.project_id for session in sessions] == [into.id, into.id, bystander.id]
    assert [turn and turn.project_id for turn in turns] == [into.id, into.id, bystander.id]
    assert len(search_passages(store, [("zebra",)], 9, project_id=into.id)) == 2
    after = find_memory(store, moved.episode_id)
    assert after is not None
    assert after.project_id == into.id
    untouched = find_memory(store, left.episode_id)
    assert untouched is not None
    assert (untouched.project_id, untouched.revision) == (bystander.id, left.revision)
    last = history_of(store, moved.episode_id)[-1]
    assert (last.action, last.actor, dict(last.before)) == ("move", Actor.USER, {"project_id": first.id})


def test_vectors_get_numbers_that_an_index_in_memory_reads_again(store: Store, keep: Callable[..., Memory]) -> None:
    into, other = store_project(store, "a"), store_project(store, "b")
    staying = keep("of a", project_id=into.id, scope=Scope.PROJECT)
    moving = keep("of b", project_id=other.id, scope=Scope.PROJECT)
    with store.transaction() as tx:
        put_vectors(tx, "m", [("e", memory.id, 0, b"\0\0") for memory in (moving, staying)])
    seen = last_vector_seq(store)

    join_projects(store, into.id, [other.id], actor=Actor.USER)

    renumbered = store.rows("SELECT owner_id FROM vector WHERE seq > ?", (seen,))
    assert renumbered == [(moving.id,)]
    assert len(vectors_since(store, "e", "m", seen, 9)) == 1
