"""A private memory folder with an open memory, and a transcript to say things in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from transcript_lines import say

from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.paths import Home, default_home
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK, Clock
from tests.empty_memory import open_empty

#: Says ``(role, text, time)`` in the session "s1" and reads it.
Speak = Callable[[str, str, str], None]


@pytest.fixture
def clock() -> Clock:
    """The clock of the machine."""
    return SYSTEM_CLOCK


@pytest.fixture
def home() -> Home:
    return Home(default_home()).prepare()


@pytest.fixture
def memory(home: Home) -> Iterator[Store]:
    opened = open_empty(home.memory_db)
    yield opened
    opened.close()


@pytest.fixture
def speak(memory: Store, tmp_path: Path) -> Speak:
    transcript = tmp_path / "claude" / "projects" / "-work-demo" / "s1.jsonl"

    def speak(role: str, text: str, at: str) -> None:
        say(transcript, role, text, at=at)
        ingest_path(memory, transcript, settings=Settings(), redact=redact, close=True)

    return speak
