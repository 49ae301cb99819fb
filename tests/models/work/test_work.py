"""Work that is due is never lost: it waits, comes again after a failure, and is set aside only where that was asked."""

from __future__ import annotations

import pytest

from engram.models.engine.transaction import Store
from engram.models.work import work
from engram.models.work.work import MAX_DELAY_MS, MAX_ERROR_CHARS, Work, WorkState
from engram.system.clock import FixedClock


def make_due(store: Store, key: str = "s1", *, in_ms: int = 0) -> Work:
    with store.transaction() as tx:
        work.make_due(tx, "extract", key, tx.now_ms() + in_ms)
    return find(store, key)


def find(store: Store, key: str = "s1") -> Work:
    item = work.find_work(store, "extract", key)
    assert item is not None
    return item


def due_keys(store: Store) -> list[str]:
    return [item.key for item in work.due_work(store)]


def test_work_comes_the_oldest_first_when_its_time_has_come_and_an_earlier_time_stays(
    store: Store, clock: FixedClock
) -> None:
    make_due(store, "late", in_ms=2000)
    make_due(store, "soon", in_ms=1000)
    make_due(store, "soon", in_ms=9000)
    assert due_keys(store) == []

    clock.advance(2)

    assert due_keys(store) == ["soon", "late"]
    assert [item.key for item in work.due_work(store, limit=1)] == ["soon"]


def test_work_that_failed_waits_even_where_it_is_made_due_again(store: Store, clock: FixedClock) -> None:
    state = work.fail(store, make_due(store), "x" * 900)

    failed = make_due(store)

    assert (state, failed.attempts, failed.last_error) == (WorkState.DUE, 1, "x" * MAX_ERROR_CHARS)
    assert due_keys(store) == []
    clock.advance(15)
    assert due_keys(store) == ["s1"]


def test_dead_work_stays_dead_until_it_is_tried_again(store: Store) -> None:
    assert work.fail(store, make_due(store), "no", max_attempts=1) is WorkState.DEAD
    assert make_due(store).state is WorkState.DEAD
    assert due_keys(store) == []

    assert work.retry(store, find(store).id)

    assert due_keys(store) == ["s1"]
    assert find(store).attempts == 0
    assert not work.retry(store, 99)


def test_work_that_is_done_or_cancelled_comes_again_with_the_next_change(store: Store) -> None:
    item = make_due(store)
    with store.transaction() as tx:
        assert work.finish(tx, item)
    assert (due_keys(store), find(store).state) == ([], WorkState.DONE)

    again = make_due(store)
    assert due_keys(store) == ["s1"]
    with store.transaction() as tx:
        assert not work.finish(tx, item), "what finished is the change before"
    assert work.cancel(store, again.id)
    assert due_keys(store) == []


def test_nothing_is_begun_in_a_pause_and_nothing_is_lost(store: Store, clock: FixedClock) -> None:
    make_due(store)
    work.pause(store, work.TASKS_SCOPE, clock.now_ms() + 1000)
    assert (work.is_work_paused(store), due_keys(store)) == (True, [])

    clock.advance(1)

    assert (work.is_work_paused(store), due_keys(store)) == (False, ["s1"])


def test_a_clock_that_went_back_puts_nothing_off_for_longer_than_a_day(store: Store) -> None:
    make_due(store, "tomorrow", in_ms=MAX_DELAY_MS)
    make_due(store, "of a wrong clock", in_ms=MAX_DELAY_MS + 1)

    assert due_keys(store) == ["of a wrong clock"]


def test_waiting_work_is_put_off_and_work_that_failed_is_not_hastened(store: Store) -> None:
    make_due(store)
    with store.transaction() as tx:
        work.postpone(tx, "extract", "s1", tx.now_ms() + 500)
    assert due_keys(store) == []
    work.fail(store, find(store), "no")
    until_ms = find(store).due_at_ms

    with store.transaction() as tx:
        work.postpone(tx, "extract", "s1", tx.now_ms())

    assert find(store).due_at_ms == until_ms


@pytest.mark.parametrize("kind", ["extrcat", "", "embed"])
def test_work_of_a_kind_that_no_task_does_is_refused(store: Store, kind: str) -> None:
    with pytest.raises(ValueError, match="WorkKind"), store.transaction() as tx:
        work.make_due(tx, kind, "s1", 0)

    assert work.list_work(store) == []
