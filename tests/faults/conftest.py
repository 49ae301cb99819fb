"""What the tests of faults share."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK, Clock


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A prepared home with the embedder that needs no model."""
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    return made


@pytest.fixture
def clock() -> Clock:
    """The clock of the machine, which the other processes of these tests have too."""
    return SYSTEM_CLOCK
