"""Random histories and kills over a folder: all machines agree in the end, nothing is lost, nothing comes back."""

from __future__ import annotations

import pytest

from tests.hub_folder.folder_histories import main, run_history
from tests.hub_folder.folder_kills import run_kills

#: Histories that every run of the tests goes through: everything that a folder does happens in them.
SHORT_RUNS = range(1, 3)


@pytest.mark.timeout(600)
def test_machines_agree_after_any_history() -> None:
    sums = [run_history(seed) for seed in SHORT_RUNS]
    assert all(sum(counts.values()) > 60 for counts in sums)
    assert {"late", "cut", "doubled", "put back", "foreign"} <= {name for counts in sums for name in counts}


@pytest.mark.timeout(600)
def test_a_few_kills_lose_nothing() -> None:
    assert "0 lost, 0 back" in run_kills(3, 7)


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_machines_agree_after_two_hundred_histories() -> None:
    assert main(10_000, 200) == 0


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_kills_lose_nothing() -> None:
    assert "0 lost, 0 back" in run_kills(160, 2026)
