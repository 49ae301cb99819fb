"""Turns for the extraction tests, in few words: ``make.turn("prompt", "reply", make.run("pytest"))``."""

from __future__ import annotations

import pytest
from made_turns import Make


@pytest.fixture
def make() -> type[Make]:
    """The maker of turns."""
    return Make
