"""The programs that break things can be started: those that only `make soak` runs would not be missed otherwise."""

from __future__ import annotations

import runpy
import sys

import pytest
from fault_programs import FAULTS, PROGRAMS

from tests.forked import run_forked

pytest.importorskip("apsw")


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_finds_all_that_it_imports(name: str) -> None:
    def start() -> None:
        sys.path.insert(0, str(FAULTS))
        runpy.run_path(str(FAULTS / f"{name}.py"), run_name="imported")

    assert run_forked(start) == 0
