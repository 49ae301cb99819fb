"""What an import added goes again without a trace, unless something here has taken it up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from engram.enums import Actor, Kind, Scope, Status
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history
from engram.models.memories.judgements import Contradiction
from engram.models.memories.memory_changes import remove_memory, supersede
from engram.models.memories.memory_history import Change, history_of
from engram.models.memories.memory_imports import (
    carry_contradiction,
    contradictions_of,
    drop_empty_projects,
    drop_empty_sessions,
    import_memory,
    imported_by,
    why_not_removed,
)
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.projects.projects import ensure_project, find_project
from engram.models.rescue.clean_copies import read_tombstones
from engram.models.sessions.sessions import ensure_session, find_session
from tests.memory_states import current_row, states_of


def bring(store: Store, summary: str, run_id: int, history: tuple[Change, ...] = ()) -> Memory:
    memory = Memory(
        episode_id="ep_" + summary.encode().hex()[:12].ljust(12, "0"),
        kind=Kind.FACT,
        summary=summary,
        content=summary,
        scope=Scope.GLOBAL,
        created_at_ms=1000,
    )
    with store.transaction() as tx:
        return import_memory(tx, memory, [Evidence("", "s-1")], history, reason="test", run_id=run_id)


def begin(store: Store) -> int:
    with store.transaction() as tx:
        return memory_history.add_run(tx, memory_history.IMPORT_KIND)


def test_the_history_of_elsewhere_keeps_its_times_and_the_import_is_its_last_step(store: Store) -> None:
    run_id = begin(store)
    step = Change(5, "edit", "by hand", Actor.USER, None, {"summary": "old"}, {"summary": "new"})

    memory = bring(store, "new", run_id, (step,))

    history = history_of(store, memory.episode_id)
    assert [(change.at_ms, change.action, change.actor) for change in history] == [
        (5, "edit", Actor.USER),
        (store.now_ms(), "import", Actor.USER),
    ]
    assert current_row(store, memory).created_at_ms == 1000
    assert imported_by(store, run_id) == [memory.episode_id]


def test_what_was_changed_or_stands_for_others_stays(store: Store, keep: Callable[..., Memory]) -> None:
    run_id = begin(store)
    free, pinned, aged, merged, standing = (bring(store, name, run_id) for name in "abcde")
    mine, taken = keep("mine"), keep("taken")
    with store.transaction() as tx:
        change = memory_changes.change_memory
        change(tx, pinned, "pin", actor=Actor.USER, is_pinned=True)
        change(tx, aged, "age", actor=Actor.TIDYING, weight=0.5)
        change(tx, merged, "merge", actor=Actor.TIDYING, summary="b | other")
        supersede(tx, mine, standing, "newer", actor=Actor.TIDYING)
        change(tx, taken, "archive", actor=Actor.TIDYING, status=Status.ARCHIVED, superseded_by=merged.episode_id)
    imported = frozenset(imported_by(store, run_id))

    reasons = [why_not_removed(store, memory, imported) for memory in (free, pinned, aged, merged, standing)]

    assert reasons == [
        "",
        "it has been changed since (pin)",
        "",
        "another memory was merged into it",
        "it replaced other memories",
    ]
    with store.transaction() as tx:
        remove_memory(tx, standing, actor=Actor.USER)
    assert states_of(store, mine) == [("active", "")]
    assert read_tombstones(store) == []


def test_projects_and_sessions_that_came_along_go_if_nothing_uses_them(
    store: Store, keep: Callable[..., Memory]
) -> None:
    with store.transaction() as tx:
        empty, used = (ensure_project(tx, f"name:{name}", name) for name in ("empty", "used"))
        for session_id, project in (("s-empty", empty), ("s-used", used)):
            ensure_session(tx, session_id, agent="a", project_id=project.id, is_global=False, cwd="", at_ms=1)
    keep("a memory", session_id="s-used", project_id=used.id)

    with store.transaction() as tx:
        drop_empty_sessions(tx, ["s-empty", "s-used", "never seen"])
        assert drop_empty_projects(tx, [empty.id, used.id, 999]) == 1

    assert [find_session(store, name) is None for name in ("s-empty", "s-used")] == [True, False]
    assert [find_project(store, name) is None for name in ("empty", "used")] == [True, False]


def test_a_contradiction_comes_along_where_both_memories_are_here(store: Store, keep: Callable[..., Memory]) -> None:
    older, newer = keep("older"), keep("newer")
    known = Contradiction(older.episode_id, newer.episode_id, "they disagree", 1, "both", 2)
    other = Contradiction(older.episode_id, "ep_000000000000", "gone", 1)

    with store.transaction() as tx:
        for contradiction in (known, other, known):
            carry_contradiction(tx, contradiction)

    assert [replace(one, id=0) for one in contradictions_of(store, newer.episode_id)] == [known]
    assert contradictions_of(store, "ep_000000000000") == []
