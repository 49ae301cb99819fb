"""Projects that move: everything goes with them, and a name is never another project's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.enums import Actor, Scope
from engram.errors import BadRequest
from engram.models import tables
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.projects import project_folders
from engram.models.projects.projects import find_project_of_identity, list_projects, project_id_of_name
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import load_turn
from engram.models.tables.session_tables import sessions_of_projects
from engram.models.work.work import pause
from tests.models.conversations import make_turn, store_project, store_turn


def test_a_merged_project_continues_as_the_other_with_all_it_had(store: Store, keep: Callable[..., Memory]) -> None:
    into, other = store_project(store, "a"), store_project(store, "b")
    store_turn(store, make_turn("t1", "said in b"), "b")
    memory = keep("of b", project_id=other.id, scope=Scope.PROJECT)

    moved = project_folders.merge_projects(store, into, other, "same remote", actor=Actor.USER)

    session, turn, kept = find_session(store, "s1"), load_turn(store, "t1"), find_memory(store, memory.episode_id)
    assert session is not None
    assert turn is not None
    assert kept is not None
    assert (moved, session.project_id, turn.project_id, kept.project_id) == (1, into.id, into.id, into.id)
    assert list_projects(store) == [into]
    assert find_project_of_identity(store, other.identity) == into
    assert project_id_of_name(store, "b") == into.id
    (hints,) = project_folders.list_hints(store)
    assert hints.folders == ("/b",)


def test_a_project_is_not_merged_with_itself_or_while_one_is_paused(store: Store) -> None:
    into, other = store_project(store, "a"), store_project(store, "b")
    pause(store, other.identity, store.now_ms() + 1000)

    for project in (into, other):
        with pytest.raises(BadRequest):
            project_folders.merge_projects(store, into, project, "told", actor=Actor.USER)

    assert list_projects(store) == [into, other]


def test_hints_and_counts_are_each_projects_own(store: Store, keep: Callable[..., Memory]) -> None:
    first, second = store_project(store, "a"), store_project(store, "b")
    store_turn(store, make_turn("t1", "said"), "b")
    keep("of b", project_id=second.id, scope=Scope.PROJECT)

    with store.transaction() as tx:
        project_folders.note_hints(tx, first.id, "host/a", "abc")

    assert [(hint.remote, hint.first_commit, hint.read_at_ms) for hint in project_folders.list_hints(store)] == [
        ("host/a", "abc", store.now_ms()),
        ("", "", 0),
    ]
    counts = project_folders.count_projects(store)
    assert [(counts[project.id].sessions, counts[project.id].memories) for project in (first, second)] == [
        (0, 0),
        (1, 1),
    ]


def test_a_session_counts_for_every_project_that_it_has_a_turn_of(store: Store) -> None:
    first, second, third = (store_project(store, name) for name in "abc")
    for number, name in enumerate("aaab"):
        store_turn(store, make_turn(f"t{number}", "said", session_id=f"s{number}"), name)
    with store.transaction() as tx:
        for turn, place in ((0, second), (1, second), (1, first)):
            tx.run(tables.Turn.update(project=place.id).where(tables.Turn.key == f"t{turn}"))

    counts = project_folders.count_projects(store)

    assert [counts[project.id].sessions for project in (first, second, third)] == [3, 2, 0]


def test_what_all_projects_have_is_counted_in_one_pass_each(store: Store) -> None:
    for query in (sessions_of_projects(), project_folders._memories_of_projects()):
        plan = [str(step[3]) for step in store.rows("EXPLAIN QUERY PLAN " + query.sql()[0], query.sql()[1])]
        assert plan
        assert not any("CORRELATED" in step for step in plan)
