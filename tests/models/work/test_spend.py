"""Caps hold: for processes that race, for clocks that jump, for calls whose end nobody saw."""

from __future__ import annotations

import dataclasses
import multiprocessing
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from planting import plant

from engram.errors import BudgetReached
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.work.spend import Caps, reserve, settle
from engram.system.clock import FixedClock, SystemClock

CAPS = Caps(
    dollars_per_hour=0.5, dollars_per_day=1.0, dollars_per_project=1.0, calls_per_hour=60, tokens_per_day=2_000_000
)
SMALL = Caps(
    dollars_per_hour=0.5, dollars_per_day=1.0, dollars_per_project=0.3, calls_per_hour=60, tokens_per_day=2_000_000
)


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(steady=1e6)


def spend(store: Store, dollars: float, *, project_id: int | None = None, caps: Caps = CAPS) -> int:
    return reserve(
        store, caps, task="extract", model="m", project_id=project_id, input_tokens=1, output_tokens=1, dollars=dollars
    )


def reserve_all(path: str, count: int) -> None:
    """Ask for more than there is, as a separate worker."""
    with open_store(Path(path)) as store:
        for _ in range(count):
            try:
                settle(
                    store,
                    spend(store, 0.01, caps=Caps(9, 9, 9, 25, 2_000_000)),
                    input_tokens=1,
                    output_tokens=1,
                    dollars=0.01,
                )
            except BudgetReached:
                continue


def spend_twice(store: Store, dollars: float, caps: Caps) -> None:
    for _ in range(2):
        spend(store, dollars, caps=caps)


@pytest.mark.parametrize(
    ("caps", "dollars", "said"),
    [
        (
            dataclasses.replace(CAPS, dollars_per_day=0.1),
            0.165,
            "0.1 dollars a day is less than one call may take (0.165)",
        ),
        (dataclasses.replace(CAPS, tokens_per_day=1), 0.1, "1 tokens a day is less than one call may take (2)"),
        (dataclasses.replace(CAPS, calls_per_hour=0), 0.1, "0 calls an hour is less than one call may take (1)"),
        (CAPS, 0.3, "0.5 dollars an hour has been reached"),
    ],
)
def test_a_cap_that_no_call_fits_under_is_not_said_to_have_been_reached(
    store: Store, caps: Caps, dollars: float, said: str
) -> None:
    with pytest.raises(BudgetReached, match=re.escape(said)):
        spend_twice(store, dollars, caps)


def test_two_processes_that_race_stay_under_the_cap_together(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    open_store(path).close()
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=reserve_all, args=(str(path), 30)) for _ in range(2)]

    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    with open_store(path) as store:
        assert store.value("SELECT count(*) FROM spend") == 25


def keep_asking(path: str, hours: list[int]) -> None:
    """Ask as a worker whose wall clock jumps before each call; the machine's steady clock is the real one."""
    clock = JumpingClock()
    with open_store(Path(path), clock=clock) as store:
        for jump in hours:
            clock.ahead_ms = jump * 3_600_000
            try:
                reservation = spend(store, 0.02, caps=Caps(0.5, 9, 9, 1_000, 2_000_000))
            except BudgetReached:
                continue
            settle(store, reservation, input_tokens=1, output_tokens=1, dollars=0.02)


class JumpingClock(SystemClock):
    """The machine's clocks, the wall clock set wrong."""

    ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


def test_two_processes_whose_clocks_jump_stay_under_the_cap_together(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    open_store(path).close()
    context = multiprocessing.get_context("spawn")
    jumps = ([0, 25, -25, 400, -400] * 8, [0, -1, 2, 0, 8_760] * 8)
    workers = [context.Process(target=keep_asking, args=(str(path), hours)) for hours in jumps]

    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)

    assert [worker.exitcode for worker in workers] == [0, 0]
    with open_store(path) as store:
        assert store.value("SELECT count(*) FROM spend") == 25


@pytest.mark.parametrize("dollars", [float("nan"), float("inf")])
def test_what_is_not_an_amount_passes_no_cap(store: Store, dollars: float) -> None:
    with pytest.raises(BudgetReached):
        spend(store, dollars)
    with pytest.raises(BudgetReached):
        spend(store, 0.1, caps=dataclasses.replace(CAPS, dollars_per_day=float("nan")))


def test_what_was_never_settled_keeps_counting_in_full(store: Store) -> None:
    spend(store, 0.5)

    with pytest.raises(BudgetReached, match="an hour"):
        spend(store, 0.01)


def test_the_windows_open_again_when_their_time_has_passed(store: Store, clock: FixedClock) -> None:
    spend(store, 0.5)
    clock.advance(3601)
    spend(store, 0.5)
    clock.advance(3601)
    with pytest.raises(BudgetReached, match="a day"):
        spend(store, 0.01)
    clock.advance(86_400)
    spend(store, 0.5)


def test_a_project_has_its_own_cap(store: Store, clock: FixedClock) -> None:
    for number in (1, 2):
        plant(
            store,
            "INSERT INTO project (id, stable_id, identity, name, updated_at_ms) VALUES (?, ?, ?, ?, 0)",
            (number, str(number), str(number), str(number)),
        )
    spend(store, 0.3, project_id=1, caps=SMALL)

    with pytest.raises(BudgetReached, match="project"):
        spend(store, 0.01, project_id=1, caps=SMALL)
    spend(store, 0.2, project_id=2, caps=SMALL)


@pytest.mark.parametrize("jump_hours", [-400, -24, -1, 1, 24, 400])
def test_a_clock_that_jumps_opens_no_cap(store: Store, clock: FixedClock, jump_hours: int) -> None:
    spend(store, 0.5)
    clock.at_ms += jump_hours * 3_600_000

    with pytest.raises(BudgetReached):
        spend(store, 0.01)
    clock.at_ms -= jump_hours * 3_600_000
    with pytest.raises(BudgetReached):
        spend(store, 0.01)
    clock.advance(3601)
    spend(store, 0.01)


def test_after_a_restart_of_the_machine_the_wall_clock_counts(store: Store, clock: FixedClock) -> None:
    spend(store, 0.5)
    clock.steady = 5.0
    clock.at_ms += 3_700_000

    spend(store, 0.5)


@given(
    steps=st.lists(st.tuples(st.integers(0, 4000), st.integers(-200_000, 200_000), st.floats(0.01, 0.3)), max_size=40)
)
@hypothesis_settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_hour_and_no_day_of_steady_time_ever_passes_its_cap(
    steps: list[tuple[int, int, float]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    clock = FixedClock(steady=1e6)
    spent: list[tuple[float, float]] = []
    with open_store(tmp_path_factory.mktemp("spend") / "memory.db", clock=clock) as store:
        for wait, jump, dollars in steps:
            clock.advance(wait)
            clock.at_ms += jump * 1000
            try:
                spend(store, dollars)
                spent.append((clock.steady, dollars))
            except BudgetReached:
                pass
    for at, _ in spent:
        assert sum(cost for then, cost in spent if at - 3600 < then <= at) <= 0.5 + 1e-6
        assert sum(cost for then, cost in spent if at - 86_400 < then <= at) <= 1.0 + 1e-6
