"""A store in memory for what a builder makes, and a writer of transcript lines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from turn_memory import Memory, Script


@pytest.fixture
def memory() -> Memory:
    """An empty store."""
    return Memory()


@pytest.fixture(scope="session")
def make_memory() -> Callable[[], Memory]:
    """Makes empty stores."""
    return Memory


@pytest.fixture
def script() -> Script:
    """An empty session."""
    return Script()


@pytest.fixture(scope="session")
def make_script() -> Callable[..., Script]:
    """Makes empty sessions."""
    return Script
