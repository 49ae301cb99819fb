"""A real memory, a real search without a model, and a clock that moves by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from recollecting import Scene

from engram.models.engine.transaction import Store
from engram.models.projects import projects
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock
from tests.empty_memory import open_empty


@pytest.fixture
def make_memory(tmp_path: Path) -> Iterator[Callable[..., Scene]]:
    """Opens the memory with other settings."""
    stores: list[Store] = []

    def make(**settings: Any) -> Scene:
        found = Settings(home=tmp_path / "home", embedding_model="hashed", **settings)
        found.places.prepare()
        clock = FixedClock()
        store = open_empty(found.places.memory_db, clock=clock)
        stores.append(store)
        with store.transaction() as tx:
            project = projects.ensure_project(tx, "/dev/lab/proj", "proj", "/dev/lab/proj")
        return Scene(store, found, RecollectionService(store, Searcher(store, found), found), clock, project)

    yield make
    for store in stores:
        store.close()


@pytest.fixture
def memory(make_memory: Callable[..., Scene]) -> Scene:
    """The memory with the default settings."""
    return make_memory()
