"""Figures over the whole memory count what there is, each thing once, and under its own project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from showing import show

from engram.enums import Scope, Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.search.vector_rows import put_vectors
from engram.models.shown import usage
from engram.models.work import work
from engram.system.clock import FixedClock
from engram.transcripts.turns import Opening
from tests.empty_memory import open_empty
from tests.models.conversations import make_turn, store_project, store_turn


def test_archived_memories_and_pending_bites_are_not_counted_with_the_others(
    store: Store, keep: Callable[..., Memory]
) -> None:
    keep("in force")
    keep("gone by", status=Status.ARCHIVED)
    keep("odd", suspect="reads like an instruction")
    for state in ("shown", "pending", "pending"):
        show(store, "ep_1", prompt_key=state, state=state)

    totals = usage.count_totals(store)

    assert (totals.memories, totals.archived, totals.suspects, totals.injections) == (2, 1, 1, 1)


def test_projects_come_by_name_and_what_belongs_to_none_comes_last(store: Store, keep: Callable[..., Memory]) -> None:
    store_turn(store, make_turn("t1", "first", session_id="s1"), "pears")
    store_turn(store, make_turn("t2", "second", session_id="s2"), "apples")
    store_turn(store, make_turn("t3", "", session_id="s2", opening=Opening.CONTINUATION), "apples")
    store_turn(store, make_turn("t4", "nowhere", session_id="s3"), None)
    keep("of apples", project_id=store_project(store, "apples").id, scope=Scope.PROJECT)

    totals = usage.count_projects(store)

    assert [(row.name, row.turns, row.prompts, row.memories) for row in totals] == [
        ("apples", 2, 1, 1),
        ("pears", 1, 1, 0),
        ("", 1, 1, 0),
    ]


def steps_of(store: Store, read: Callable[[Store], object]) -> int:
    """How many thousands of SQLite's steps it takes to read something."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    connection = store._database.connection()
    connection.set_progress_handler(count, 1000)
    try:
        read(store)
    finally:
        connection.set_progress_handler(None, 0)
    return steps


@pytest.mark.parametrize("read", [usage.count_projects, usage.count_totals, usage.count_agents, usage.count_work])
def test_figures_take_no_step_for_each_session_of_each_project(tmp_path: Path, read: Callable[[Store], object]) -> None:
    steps = []
    for size in (40, 160):
        with open_empty(tmp_path / f"{size}.db", driver="sqlite3") as store:
            for number in range(2 * size):
                turn = make_turn(f"t{number}", "why", session_id=f"s{number}")
                store_turn(store, turn, f"project {number % size}")
            steps.append(steps_of(store, read))

    assert steps[1] <= 6 * steps[0] + 10


def test_work_that_waits_is_told_from_work_that_is_due_failing_or_dead(store: Store, clock: FixedClock) -> None:
    with store.transaction() as tx:
        work.make_due(tx, "extract", "now", clock.now_ms() - 50)
        work.make_due(tx, "extract", "later", clock.now_ms() + 1000)
        work.make_due(tx, "extract", "broken", clock.now_ms())
        work.make_due(tx, "extract", "hopeless", clock.now_ms())
    for key, max_attempts in (("broken", 0), ("hopeless", 1)):
        item = work.find_work(store, "extract", key)
        assert item is not None
        work.fail(store, item, "no answer", max_attempts=max_attempts)

    (totals,) = usage.count_work(store)

    assert (totals.waiting, totals.due, totals.dead) == (3, 1, 1)
    assert totals.oldest_due_at_ms == clock.now_ms() - 50


def test_a_row_without_a_vector_of_any_model_is_counted_once(store: Store, keep: Callable[..., Memory]) -> None:
    made = keep("a memory")
    store_turn(store, make_turn("t1", "a prompt"))
    before = usage.count_without_vector(store)

    with store.transaction() as tx:
        put_vectors(tx, "m", [("e", made.id, 0, b"\0\0"), ("e", made.id, 1, b"\0\0")])

    assert (before, usage.count_without_vector(store)) == (2, 1)
