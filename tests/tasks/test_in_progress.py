"""Work that ends its process again and again is put off and set aside; what killed workers held is given back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.clock import FixedClock
from engram.models.leases import lease_owners, take_lease
from engram.models.store import Store, open_store
from engram.models.work import BACK_OFF_SECONDS, Work, WorkState, find_work, make_due
from engram.tasks.in_progress import FREE_CRASHES, MAX_CRASHES, clear_dead_leases, in_progress, running

#: No system has a process of this number.
DEAD_PID = 2**22 + 7


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(tmp_path / "memory.db", clock=FixedClock()) as opened:
        with opened.transaction() as tx:
            make_due(tx, "extract", "s1", opened.now_ms(), reason="messages")
        yield opened


def crash(store: Store) -> Work:
    """A worker dies while it extracts, and the next one starts."""
    take_lease(store, "at extract s1", f"{DEAD_PID}-mark", 60)
    clear_dead_leases(store)
    work = find_work(store, "extract", "s1")
    assert work is not None
    return work


def test_what_a_worker_is_at_can_be_seen_and_leaves_nothing_behind(store: Store) -> None:
    with in_progress(store, "extract", "s1"):
        assert running(store) == [("extract", "s1")]

    assert running(store) == []
    assert store.value("SELECT count(*) FROM lease") == 0


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

    clear_dead_leases(store)

    assert lease_owners(store) == {"scan": "1-1"}
