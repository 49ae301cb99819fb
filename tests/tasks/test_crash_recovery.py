"""Work that ends its process again and again is put off and set aside; what killed workers held is given back."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.work.task_runs import RunState, begin_task_run, list_task_runs
from engram.models.work.work import BACK_OFF_SECONDS, Work, WorkState, find_work, lease_owners, make_due, take_lease
from engram.system.clock import FixedClock
from engram.tasks.runtime import FREE_CRASHES, MAX_CRASHES, recover_from_crash

#: No system has a process of this number.
DEAD_PID = 2**22 + 7


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "memory.db", clock=FixedClock()) as opened:
        with opened.transaction() as tx:
            make_due(tx, "extract", "s1", opened.now_ms(), reason="messages")
        yield opened


def crash(store: Store) -> Work:
    """A worker is killed while it extracts, and the next one starts."""
    worker = os.fork()
    if not worker:
        with open_store(store.path) as own:
            begin_task_run(own, "extract", "s1")
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(worker, 0)
    recover_from_crash(store)
    work = find_work(store, "extract", "s1")
    assert work is not None
    return work


def test_a_single_crash_is_tried_again_at_once(store: Store) -> None:
    work = crash(store)

    assert (work.state, work.attempts) == (WorkState.DUE, 1)
    assert work.due_at_ms <= store.now_ms()


def test_further_crashes_wait_longer_and_in_the_end_the_work_is_set_aside(store: Store) -> None:
    states = [crash(store) for _ in range(MAX_CRASHES)]

    waits = [(work.due_at_ms - store.now_ms()) // 1000 for work in states]
    assert waits[FREE_CRASHES - 1 : FREE_CRASHES + 5] == [0, *BACK_OFF_SECONDS, 120]
    assert [work.state for work in states[:-1]] == [WorkState.DUE] * (MAX_CRASHES - 1)
    assert states[-1].state is WorkState.DEAD
    assert "crashed" in states[-1].last_error


def test_leases_of_the_living_stay(store: Store) -> None:
    take_lease(store, "scan", "1-1", 60)
    take_lease(store, "consolidate", f"{DEAD_PID}-1", 60)

    recover_from_crash(store)

    assert lease_owners(store) == {"scan": "1-1"}


def test_a_run_of_a_killed_worker_is_told_as_interrupted(store: Store) -> None:
    crash(store)

    (run,) = list_task_runs(store)
    assert (run.kind, run.key, run.state) == ("extract", "s1", RunState.INTERRUPTED)
    assert "killed" in run.outcome


def test_a_run_of_the_living_continues(store: Store) -> None:
    begin_task_run(store, "extract", "s1")
    with store.transaction() as tx:
        tx.run("UPDATE task_run SET pid = ?", (os.getppid(),))

    recover_from_crash(store)

    assert [run.state for run in list_task_runs(store)] == [RunState.RUNNING]
