"""The disk fails, is full, or everything is killed at each single operation on memory.db: what was committed stays.

The fast tier tries every twenty-fourth operation, the full tier each one.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("apsw")

DISK = Path(__file__).parent / "disk.py"
FAULTS = ("kill", "error", "full")
TIERS = [pytest.param(fault, 24, id=fault) for fault in FAULTS] + [
    pytest.param(fault, 1, id=f"{fault}-full", marks=[pytest.mark.soak, pytest.mark.timeout(1800)]) for fault in FAULTS
]


@pytest.mark.parametrize(("fault", "every"), TIERS)
def test_a_life_goes_on_after_a_fault_at_any_operation(fault: str, every: int, tmp_path: Path) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ENGRAM_", "CLAUDE_"))}
    done = subprocess.run(
        [sys.executable, str(DISK), str(tmp_path), fault, str(every)],
        capture_output=True,
        text=True,
        timeout=1700,
        check=False,
        env=environment | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": str(tmp_path)},
    )

    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(found))
    assert found["problems"] == []
    assert found["tried"] >= 20
    assert fault != "kill" or found["killed"] == found["tried"]
    assert fault == "kill" or sum(found["hits"].values()) == found["tried"]
