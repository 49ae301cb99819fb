"""A merge of two projects is undone: each has its own again, and later additions stay where they were put."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import Actor, Scope
from engram.errors import BadRequest, NotFound
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.projects.project_folders import MAX_MERGES, list_merges, merge_projects, undo_merge
from engram.models.projects.projects import (
    ProjectRow,
    find_project,
    find_project_of_identity,
    list_projects,
    rename_project,
)
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import load_turn
from tests.models.conversations import make_turn, store_project, store_turn

Keep = Callable[..., Memory]


def project_of(store: Store, memory: Memory) -> int | None:
    found = find_memory(store, memory.episode_id)
    assert found is not None
    return found.project_id


def merge(store: Store, into: ProjectRow, other: ProjectRow) -> int:
    merge_projects(store, into, other, "by hand", actor=Actor.USER)
    return list_merges(store)[0].number


def test_each_project_has_its_own_again(store: Store, keep: Keep) -> None:
    into, other, shed = (store_project(store, name) for name in ("a", "b", "shed"))
    store_turn(store, make_turn("t0", "said in the shed", session_id="s0"), "shed")
    merge(store, other, shed)
    store_turn(store, make_turn("t1", "said in b", session_id="s1"), "b")
    store_turn(store, make_turn("t2", "said in a", session_id="s2"), "a")
    of_a, of_b, gone = (keep(f"of {one.name}", project_id=one.id, scope=Scope.PROJECT) for one in (into, other, other))

    number = merge(store, into, other)
    later = keep("learned since", project_id=into.id, scope=Scope.PROJECT)
    store_turn(store, make_turn("t3", "said since", session_id="s3"), "a")
    with store.transaction() as tx:
        tx.run(tables.Memory.update(project=None).where(tables.Memory.episode_id == gone.episode_id))
    (known, _) = list_merges(store)
    assert (known.into_id, known.name, known.root, known.sessions, known.memories) == (into.id, "b", "/b", 2, 2)

    again = undo_merge(store, number, actor=Actor.USER)

    assert [project.name for project in list_projects(store)] == ["a", "b"]
    assert (again.identity, again.root) == (other.identity, other.root)
    assert find_project_of_identity(store, shed.identity) == again
    assert [project_of(store, one) for one in (of_a, of_b, later, gone)] == [into.id, again.id, into.id, None]
    assert history_of(store, of_b.episode_id)[-1].reason == "a merge of projects was undone"
    for session_id, key, project_id in (
        ("s0", "t0", again.id),
        ("s1", "t1", again.id),
        ("s2", "t2", into.id),
        ("s3", "t3", into.id),
    ):
        session, turn = find_session(store, session_id), load_turn(store, key)
        assert session is not None
        assert turn is not None
        assert (session.project_id, turn.project_id) == (project_id, project_id)
        passages = tables.Passage.select(tables.Passage.project_id).where(tables.Passage.session_ref == session.id)
        assert set(store.fetch_values(passages)) == {project_id}

    # The merge before it is undone after it: its project belongs to the one that is there again.
    with pytest.raises(NotFound):
        undo_merge(store, number, actor=Actor.USER)
    (before,) = list_merges(store)
    assert before.into_id == again.id
    first = undo_merge(store, before.number, actor=Actor.USER)
    session = find_session(store, "s0")
    assert session is not None
    assert (first, session.project_id) == (find_project(store, "shed"), first.id)
    assert list_merges(store) == []


def test_a_name_or_folder_that_another_project_has_since_is_not_taken(store: Store) -> None:
    into, other = store_project(store, "a"), store_project(store, "b")
    rename_project(store, other, "once b")
    number = merge(store, into, other)
    with store.transaction() as tx:
        tx.run(tables.ProjectFolder.delete())
    store_project(store, "b")

    with pytest.raises(BadRequest, match="has the folder or the name"):
        undo_merge(store, number, actor=Actor.USER)


def test_only_the_latest_merges_are_kept(store: Store) -> None:
    into = store_project(store, "a")
    for number in range(MAX_MERGES + 2):
        merge(store, into, store_project(store, f"p{number}"))

    assert [merge.name for merge in list_merges(store)] == [f"p{number}" for number in range(MAX_MERGES + 1, 1, -1)]
