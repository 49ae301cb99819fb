"""Any number of processes may be started by mistake, also at the very first start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fault_programs import run_program

from engram.models.engine.database import SAFE_SQLITE, sqlite_version

DRIVERS = ("cysqlite", "sqlite3")


def crowd(folder: Path, what: str, processes: int, rounds: int, driver: str) -> dict[str, Any]:
    """What crowd.py found."""
    return run_program("crowd", folder, what, str(processes), str(rounds), driver, timeout_seconds=600)


#: (driver, rounds).
TIERS = [pytest.param("cysqlite", 4, id="fast")] + [
    pytest.param(driver, 100, id=f"{driver}-full", marks=[pytest.mark.soak, pytest.mark.timeout(900)])
    for driver in DRIVERS
]


@pytest.mark.parametrize(("driver", "rounds"), TIERS)
def test_eight_processes_make_the_database_at_once(tmp_path: Path, driver: str, rounds: int) -> None:
    found = crowd(tmp_path, "migrate", 8, rounds, driver)

    assert found == {"codes": {"0": 8 * rounds}, "problems": []}


@pytest.mark.parametrize(("driver", "rounds"), TIERS)
def test_a_kill_in_the_middle_of_a_migration_leaves_the_old_or_the_new_version(
    tmp_path: Path, driver: str, rounds: int
) -> None:
    found = crowd(tmp_path, "kill-migrate", 8, rounds, driver)

    assert found["problems"] == []
    assert found["codes"].get("-9", 0) >= rounds // 4
    assert set(found["codes"]) == {"0", "-9"}


@pytest.mark.parametrize("driver", DRIVERS)
def test_of_many_processes_that_find_a_foreign_database_one_sets_it_aside(tmp_path: Path, driver: str) -> None:
    if driver == "sqlite3" and sqlite_version(driver) < SAFE_SQLITE:
        pytest.skip("this SQLite may lose a write when several processes end at once; Engram does not choose it")
    found = crowd(tmp_path, "foreign", 6, 6, driver)

    assert found == {"codes": {"0": 36}, "problems": []}


@pytest.mark.parametrize(("processes", "driver"), [(2, "sqlite3"), (8, "cysqlite")])
def test_of_many_watchers_and_workers_started_at_once_one_of_each_stays(
    tmp_path: Path, processes: int, driver: str
) -> None:
    found = crowd(tmp_path, "start", processes, 2, driver)

    assert found["stayed"] == [1, 1, 1, 1]
    assert found["ended"] == {"0": 4 * (processes - 1)}
    assert found["last"] == {"0": 4}
