"""The disk fails, is full, or everything is killed at each single operation on memory.db: what was committed stays.

The fast tier tries every 43rd operation (an odd number: after a kill the drivers take turns), the full tier each one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_programs import run_program

pytest.importorskip("apsw")

FAULTS = ("kill", "error", "full")
TIERS = [pytest.param(fault, 43, id=fault) for fault in FAULTS] + [
    pytest.param(fault, 1, id=f"{fault}-full", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]) for fault in FAULTS
]


@pytest.mark.parametrize(("fault", "every"), TIERS)
def test_a_life_continues_after_a_fault_at_any_operation(fault: str, every: int, tmp_path: Path) -> None:
    found = run_program("disk", tmp_path, fault, str(every), timeout_seconds=1700)
    assert found["problems"] == []
    assert found["tried"] >= 20
    assert fault != "kill" or found["killed"] == found["tried"]
    assert fault == "kill" or sum(found["hits"].values()) == found["tried"]
