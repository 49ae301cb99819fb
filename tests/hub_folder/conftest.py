"""Machines of one person over a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engram.system.clock import FixedClock
from tests.hub.machines import Machine


@pytest.fixture
def clock() -> FixedClock:
    """The clock of every machine."""
    return FixedClock()


@pytest.fixture
def make_machine(tmp_path: Path, clock: FixedClock) -> Iterator[Callable[..., Machine]]:
    """Makes machines, each with a home of its own."""
    with contextlib.ExitStack() as stack:

        def make(name: str, **options: Any) -> Machine:
            return stack.enter_context(Machine.open(tmp_path / name, **{"clock": clock, **options}))

        yield make


@pytest.fixture
def pair(make_machine: Callable[..., Machine], tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines in step through one folder, ``tmp_path / "synced"``."""
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.use_folder(tmp_path / "synced", device_name="laptop")
    laptop.save("The staging database is called heron.")
    laptop.sync()
    desktop.use_folder(tmp_path / "synced", laptop.phrase, device_name="desktop")
    desktop.save("Deploy on Fridays with two switches.")
    desktop.sync()
    laptop.sync()
    return laptop, desktop
