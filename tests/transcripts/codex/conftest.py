"""A memory that reads rollouts, and a writer of rollouts in Codex's folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engram.ingest.read_sources import ingest_source
from engram.models.engine.transaction import Store
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts import registry
from engram.transcripts.turns import Turn
from tests.rollouts import Rollout


@pytest.fixture
def codex_folder(tmp_path: Path) -> Path:
    """Codex's folder, empty."""
    return tmp_path / "codex"


@pytest.fixture
def settings(tmp_path: Path, codex_folder: Path) -> Settings:
    """A separate home next to an empty Claude Code folder."""
    made = Settings(
        home=tmp_path / "home",
        claude_folder=tmp_path / "claude",
        codex_folder=codex_folder,
        gemini_folder=tmp_path / "gemini",
        embedding_model="hashed",
    )
    made.places.prepare()
    return made


@pytest.fixture
def rollout(codex_folder: Path) -> Rollout:
    """A rollout without lines."""
    return Rollout(codex_folder)


@pytest.fixture
def read(store: Store, settings: Settings) -> Callable[..., list[Turn]]:
    """Read what is new in Codex's folder; returns all turns of a session, by default of the first one."""

    def read_all(session: str = "", *, max_bytes: int = 1 << 20) -> list[Turn]:
        sources = list(registry.discover(settings))
        for source in sources:
            ingest_source(store, source, settings=settings, redact=redact, max_bytes=max_bytes)
        row = find_session(store, session or sources[0].session_id)
        return [] if row is None else [stored.turn for stored in turns_of_session(store, row.id)]

    return read_all
