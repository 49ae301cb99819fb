"""A lease has one holder at a time, and remembers when the work was last done."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.work.work import (
    drop_lease,
    is_overdue,
    last_run_ms,
    lease_owners,
    release_lease,
    renew_lease,
    take_lease,
)
from engram.system.clock import FixedClock


def test_a_lease_that_ran_out_goes_to_the_next_who_asks(store: Store, clock: FixedClock) -> None:
    assert take_lease(store, "scan", "first", 60)
    assert not take_lease(store, "scan", "second", 60)

    clock.advance(61)

    assert take_lease(store, "scan", "second", 60)
    assert lease_owners(store) == {"scan": "second"}


def test_the_holder_prolongs_its_lease_and_does_not_take_it_twice(store: Store, clock: FixedClock) -> None:
    assert take_lease(store, "scan", "first", 60)
    assert not take_lease(store, "scan", "first", 60)

    clock.advance(50)
    assert renew_lease(store, "scan", "first", 60)
    clock.advance(50)
    assert not take_lease(store, "scan", "second", 60)

    clock.advance(11)
    assert take_lease(store, "scan", "second", 60)
    assert not renew_lease(store, "scan", "first", 60)


def test_only_a_run_counts_as_one(store: Store, clock: FixedClock) -> None:
    take_lease(store, "scan", "first", 60)
    release_lease(store, "scan", "first", has_run=False)
    assert (last_run_ms(store, "scan"), is_overdue(store, "scan", 600)) == (0, True)

    take_lease(store, "scan", "first", 60)
    release_lease(store, "scan", "first")

    assert (last_run_ms(store, "scan"), is_overdue(store, "scan", 600)) == (clock.now_ms(), False)
    assert not take_lease(store, "scan", "second", 60, every_seconds=600)
    clock.advance(600)
    assert is_overdue(store, "scan", 600)
    assert take_lease(store, "scan", "second", 60, every_seconds=600)


def test_who_does_not_hold_a_lease_cannot_give_it_back(store: Store) -> None:
    take_lease(store, "scan", "first", 60)

    release_lease(store, "scan", "second")
    drop_lease(store, "scan", "second")

    assert lease_owners(store) == {"scan": "first"}


def test_dropping_a_lease_keeps_its_last_run(store: Store, clock: FixedClock) -> None:
    take_lease(store, "scan", "first", 60)
    release_lease(store, "scan", "first")
    ran_at = clock.now_ms()
    clock.advance(5)
    take_lease(store, "scan", "dead", 60)
    take_lease(store, "embed", "dead", 60)

    drop_lease(store, "scan", "dead")
    drop_lease(store, "embed", "dead")

    assert lease_owners(store) == {}
    assert (last_run_ms(store, "scan"), last_run_ms(store, "embed")) == (ran_at, 0)


def test_a_clock_that_went_back_keeps_no_lease_away(store: Store, clock: FixedClock) -> None:
    take_lease(store, "scan", "first", 60)

    clock.advance(-86_400)

    assert take_lease(store, "scan", "second", 60)
    assert is_overdue(store, "scan", 600)
