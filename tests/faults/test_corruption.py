"""Random damage to memory.db: everything comes back, or what is missing is said; no command ends in a fault.

The fast tier tries five kinds of damage once, the full tier all nine, 200 times and more with each driver.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_programs import run_program

#: (driver, seed, damages).
TIERS = [pytest.param("cysqlite", 1, 5, id="cysqlite", marks=pytest.mark.timeout(600))] + [
    pytest.param(driver, 2026, 207, id=f"{driver}-full", marks=[pytest.mark.soak, pytest.mark.timeout(7_200)])
    for driver in ("cysqlite", "sqlite3")
]


@pytest.mark.parametrize(("driver", "seed", "count"), TIERS)
def test_every_damage_is_recovered_or_reported(driver: str, seed: int, count: int, tmp_path: Path) -> None:
    found = run_program("corruption", tmp_path, str(seed), str(count), driver, timeout_seconds=7_000)
    assert found["problems"] == []
    assert sum(found["counts"].values()) == count
