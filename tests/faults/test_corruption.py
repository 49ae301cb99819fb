"""Random damage to memory.db: everything comes back, or what is missing is said; no command ends in a fault.

The fast tier tries each kind of damage once with each driver, the full tier 200 and more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CORRUPTION = Path(__file__).parent / "corruption.py"
#: (driver, seed, damages).
TIERS = [
    pytest.param(driver, seed, 9, id=driver, marks=pytest.mark.timeout(600))
    for driver, seed in (("cysqlite", 1), ("sqlite3", 2))
] + [
    pytest.param(driver, 2026, 207, id=f"{driver}-full", marks=[pytest.mark.soak, pytest.mark.timeout(1800)])
    for driver in ("cysqlite", "sqlite3")
]


@pytest.mark.parametrize(("driver", "seed", "count"), TIERS)
def test_every_damage_is_recovered_or_reported(driver: str, seed: int, count: int, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ENGRAM_", "CLAUDE_"))}
    paths = os.pathsep.join([str(CORRUPTION.parent), str(CORRUPTION.parent.parent)])
    done = subprocess.run(
        [sys.executable, str(CORRUPTION), str(tmp_path), str(seed), str(count), driver],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
        env=environment | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
    )

    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found))
    assert found["problems"] == []
    assert sum(found["counts"].values()) == count
