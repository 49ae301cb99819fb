"""Random histories of several machines: all agree in the end, nothing is lost, nothing comes back."""

from __future__ import annotations

import pytest

from engram.system.clock import FixedClock
from tests.hub.histories import main, run_history
from tests.hub.machines import Hub
from tests.hub.postgres import Postgres
from tests.hub.proxy import Proxy

#: Histories that every run of the tests goes through.
SHORT_RUNS = 2
#: The same through a proxy.
PROXY_RUNS = 2


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


@pytest.mark.timeout(600)
def test_machines_agree_after_histories_through_a_proxy_that_lies(postgres: Postgres) -> None:
    clock = FixedClock()
    faults = 0
    with Hub.running(postgres.make_database(), clock) as hub, Proxy.before(hub.url) as proxy:
        for seed in range(20_000, 20_000 + PROXY_RUNS):
            counts = run_history(hub, clock, seed, proxy=proxy)
            faults += sum(count for name, count in counts.items() if name.startswith("fault "))
    assert faults > PROXY_RUNS * 5


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_machines_agree_after_sixty_histories_through_a_proxy_that_lies() -> None:
    assert main(20_000, 60, with_proxy=True) == 0


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_machines_agree_after_five_hundred_histories() -> None:
    assert main(10_000, 500) == 0
