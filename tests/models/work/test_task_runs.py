"""Runs of tasks: begun, ended, merged, bounded, interrupted, and without words of what was forgotten."""

from __future__ import annotations

import os

from engram.models.engine.transaction import Store
from engram.models.forgetting.forget_memories import clean_runs
from engram.models.work.task_runs import (
    KEPT_RUNS,
    MAX_TRACEBACK_CHARS,
    NOTHING,
    RunState,
    begin_task_run,
    end_task_run,
    interrupt_task_runs,
    latest_failure,
    list_task_runs,
    running_task_runs,
)


def record(store: Store, kind: str, outcome: str = "", *, state: RunState = RunState.DONE, error: str = "") -> int:
    run_id = begin_task_run(store, kind, "s1")
    end_task_run(store, run_id, kind, state, duration_ms=3, outcome=outcome, error=error)
    return run_id


def test_a_run_is_running_until_it_ends(store: Store) -> None:
    run_id = begin_task_run(store, "extract", "s1")
    (running,) = running_task_runs(store, lambda pid: pid == os.getpid())

    end_task_run(store, run_id, "extract", RunState.DONE, duration_ms=1234, outcome="memories changed")

    assert (running.kind, running.key, running.duration_ms) == ("extract", "s1", None)
    (ended,) = list_task_runs(store)
    assert (ended.state, ended.duration_ms, ended.outcome) == (RunState.DONE, 1234, "memories changed")
    assert running_task_runs(store, lambda pid: True) == []


def test_a_run_of_a_dead_process_is_interrupted(store: Store) -> None:
    begin_task_run(store, "embed", "")

    assert running_task_runs(store, lambda pid: False) == []
    assert [run.kind for run in interrupt_task_runs(store, lambda pid: False)] == ["embed"]

    (run,) = list_task_runs(store, states=(RunState.INTERRUPTED,))
    assert run.duration_ms is None


def test_runs_with_nothing_to_do_are_merged_within_their_kind_alone(store: Store) -> None:
    for _ in range(3):
        record(store, "scan", NOTHING)
        record(store, "index_notes", NOTHING)

    assert {(run.kind, run.times) for run in list_task_runs(store)} == {("scan", 3), ("index_notes", 3)}


def test_each_kind_is_bounded_with_its_failures_apart(store: Store) -> None:
    for number in range(KEPT_RUNS + 5):
        record(store, "extract", str(number))
        record(store, "extract", str(number), state=RunState.FAILED)
    record(store, "embed", "only one")

    runs = list_task_runs(store, limit=10_000)

    assert len(runs) == 2 * KEPT_RUNS + 1
    assert min(int(run.outcome) for run in runs if run.kind == "extract") == 5


def test_the_end_of_a_long_traceback_is_kept(store: Store) -> None:
    record(store, "extract", "bad", state=RunState.FAILED, error="x" * MAX_TRACEBACK_CHARS + "ValueError: the reason")

    failure = latest_failure(store, "extract", "s1")

    assert failure is not None
    assert failure.error.endswith("ValueError: the reason")
    assert len(failure.error) == MAX_TRACEBACK_CHARS


def test_forgetting_leaves_no_word_of_a_failure(store: Store) -> None:
    record(store, "extract", "ValueError: the harbor is secret", state=RunState.FAILED, error="the harbor is secret")

    with store.transaction() as tx:
        clean_runs(tx, lambda line: True)

    (run,) = list_task_runs(store)
    assert (run.state, run.outcome, run.error) == (RunState.FAILED, "", "")
