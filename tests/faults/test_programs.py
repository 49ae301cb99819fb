"""The programs that break things can be started: those that only `make soak` runs would not be missed otherwise."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from fault_programs import FAULTS, PROGRAMS, program_environment

pytest.importorskip("apsw")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_finds_all_that_it_imports(name: str, tmp_path: Path) -> None:
    code = f"import runpy; runpy.run_path({str(FAULTS / name) + '.py'!r}, run_name='imported')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=program_environment(tmp_path),
    )

    assert done.returncode == 0, done.stderr[-3000:]
