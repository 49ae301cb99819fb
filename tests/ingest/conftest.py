"""A store, a transcript that grows, and one call that reads it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from growing_transcript import Transcript

from engram.ingest.read_sources import ingest_path
from engram.ingest.write_portion import IngestResult
from engram.models.engine.statement import unpack_entries
from engram.models.engine.transaction import Store
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock


@pytest.fixture
def clock() -> FixedClock:
    """A clock that stands at the time of the transcripts."""
    return FixedClock(1_767_225_700_000)


@pytest.fixture
def transcript(make_transcript: Callable[..., Transcript]) -> Transcript:
    """An empty session file."""
    return make_transcript("s1")


@pytest.fixture
def make_transcript(settings: Settings) -> Callable[..., Transcript]:
    """Makes empty session files."""

    def make(name: str, **fields: Any) -> Transcript:
        folder = settings.claude_folder / "projects" / "-gone-engine"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{name}.jsonl"
        path.touch()
        return Transcript(path, **fields)

    return make


@pytest.fixture
def ingest(store: Store, settings: Settings) -> Callable[..., IngestResult]:
    """Reads one transcript."""

    def read(transcript: Transcript | Path, **options: Any) -> IngestResult:
        path = transcript if isinstance(transcript, Path) else transcript.path
        (result,) = ingest_path(store, path, **({"settings": settings, "redact": redact} | options))
        return result

    return read


@pytest.fixture
def turns(store: Store) -> Callable[[], list[StoredTurn]]:
    """Every stored turn, in order."""

    def load() -> list[StoredTurn]:
        ids = [int(value) for (value,) in store.rows("SELECT id FROM turn ORDER BY id")]
        return [turn for turn in (load_turn_row(store, one) for one in ids) if turn is not None]

    return load


@pytest.fixture
def content(store: Store) -> Callable[[], Any]:
    """Everything that reading stores, apart from row ids, cursors and times of writing."""

    def load() -> Any:
        return (
            store.rows(
                "SELECT key, opening, started_at_ms, ended_at_ms, start_offset, end_offset, is_closed, is_interrupted, "
                "message_count, actions, extra FROM turn ORDER BY key"
            ),
            store.rows("SELECT t.key, s.seq, s.role, s.text FROM said s JOIN turn t ON t.id = s.turn_id ORDER BY 1, 2"),
            sorted(
                (entry.uuid, key, entry.line)
                for key, packed in store.rows("SELECT key, entries FROM turn")
                for entry in unpack_entries(bytes(packed))
            ),
            store.rows("SELECT e.key, t.key FROM entry e JOIN turn t ON t.id = e.turn_id ORDER BY 1"),
            store.rows("SELECT session_id, message_count, last_at_ms, cwd FROM session ORDER BY 1"),
        )

    return load
