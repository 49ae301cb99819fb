"""Fixtures of the hub: a second PostgreSQL, machines that join it, and a proxy before it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg", reason="the extra hub is not installed")

from tests.hub.machines import Hub, Machine
from tests.hub.postgres import Postgres, running_postgres, system_folder, wheel_folder
from tests.hub.proxy import Proxy


@pytest.fixture(scope="session")
def older_postgres() -> Iterator[Postgres]:
    """The second lane: Debian's PostgreSQL."""
    programs = system_folder()
    if programs is None or wheel_folder() is None:
        pytest.skip("no second PostgreSQL is installed")
    with running_postgres(programs) as server:
        yield server


@pytest.fixture
def make_machine(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Makes machines, each with its own home."""
    with contextlib.ExitStack() as stack:

        def make(name: str, **options: Any) -> Machine:
            return stack.enter_context(Machine.open(tmp_path / name, **options))

        yield make


@pytest.fixture
def pair(hub: Hub, make_machine: Callable[..., Machine]) -> tuple[Machine, Machine]:
    """Two machines of one person, in step."""
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("Ada"))
    laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()
    return laptop, desktop


@pytest.fixture
def proxy(hub: Hub) -> Iterator[Proxy]:
    """A proxy before the hub, which does what a test tells it to."""
    with Proxy.before(hub.url) as proxy:
        yield proxy
