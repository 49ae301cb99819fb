"""Run the programs in ``tests/faults`` that break things, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent
FAULTS = TESTS / "faults"
#: Every program there, by name.
PROGRAMS = tuple(sorted(path.stem for path in FAULTS.glob("*.py") if not path.stem.startswith(("test_", "conftest"))))


def program_environment(home: Path) -> dict[str, str]:
    """The environment of a program: the helpers of the tests can be imported, nothing of the user's is seen."""
    others = {name: value for name, value in os.environ.items() if not name.startswith(("ENGRAM_", "CLAUDE_"))}
    paths = os.pathsep.join([str(FAULTS), str(TESTS), str(TESTS.parent)])
    return others | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": str(home)}


def run_program(name: str, folder: Path, *arguments: str, timeout_seconds: float) -> dict[str, Any]:
    """Run a program to its end in ``folder``; returns the JSON object that its last line holds, and prints it.

    Raises AssertionError with the end of its messages where it fails, and TimeoutExpired.
    """
    done = subprocess.run(
        [sys.executable, str(FAULTS / f"{name}.py"), str(folder), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
        check=False,
        env=program_environment(folder),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(result))
    return result
