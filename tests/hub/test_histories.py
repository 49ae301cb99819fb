"""Random histories of several machines: all agree in the end, nothing is lost, nothing comes back."""

from __future__ import annotations

import pytest

from engram.clock import FixedClock
from tests.hub.histories import main, run_history
from tests.hub.machines import Hub
from tests.hub.postgres import Postgres

#: Histories that every run of the tests goes through.
SHORT_RUNS = 4


@pytest.mark.timeout(600)
def test_machines_agree_after_any_history(postgres: Postgres) -> None:
    clock = FixedClock()
    dsn = postgres.make_database()
    steps = 0
    with Hub.running(dsn, clock) as hub:
        for seed in range(SHORT_RUNS):
            # One database for all: each has a member of its own. Nobody puts the hub back under the others.
            steps += run_history(hub, clock, seed, with_hub_put_back=False).total()
    assert steps > SHORT_RUNS * 30


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_machines_agree_after_five_hundred_histories() -> None:
    assert main(10_000, 500) == 0
