"""Fixtures of the hub: a PostgreSQL, a hub's database, the service on a port, machines that join it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the extra hub is not installed")

from tests.hub.machines import Hub, Machine
from tests.hub.postgres import Postgres, first_postgres, free_port, running_postgres, system_folder, wheel_folder


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A running PostgreSQL; skips the test where none is installed."""
    with running_postgres(first_postgres()) as server:
        yield server


@pytest.fixture(scope="session")
def older_postgres() -> Iterator[Postgres]:
    """The second lane: Debian's PostgreSQL."""
    programs = system_folder()
    if programs is None or wheel_folder() is None:
        pytest.skip("no second PostgreSQL is installed")
    with running_postgres(programs) as server:
        yield server


@pytest.fixture
def hub(postgres: Postgres) -> Iterator[Hub]:
    """A hub that serves an empty database on this machine."""
    with Hub.running(postgres.make_database()) as hub:
        yield hub


@pytest.fixture
def make_machine(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Makes machines, each with its own home."""
    with contextlib.ExitStack() as stack:

        def make(name: str, **options: Any) -> Machine:
            return stack.enter_context(Machine.open(tmp_path / name, **options))

        yield make


__all__ = ["free_port", "threading"]
