"""An agent whose sessions are rows of one SQLite database, as those of OpenCode are."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from engram.errors import TranscriptError
from engram.settings import Settings
from engram.transcripts.agents import Cursor, EntryTime, Reading, Source, StoredTurns
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import Skipped
from tests.agents.messages import Message, whole_turns

SCHEMA = """
CREATE TABLE IF NOT EXISTS session (id INTEGER PRIMARY KEY, name TEXT UNIQUE, cwd TEXT);
CREATE TABLE IF NOT EXISTS message (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER, role TEXT, text TEXT, at_ms INTEGER);
"""
#: Bytes that a message counts for against the limit of one read.
MESSAGE_BYTES = 100


class DatabaseAgent:
    """Reads ``sessions.db`` in one folder. A cursor is the row of the open turn's prompt and the last row read."""

    name = "database-agent"
    title = "Database Agent"
    suffixes = (".db", ".db-wal")

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        return (self._folder,)

    def discover(self, settings: Settings) -> Iterator[Source]:
        yield from self._sources(self._folder / "sessions.db")

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        if path == self._folder:
            path = path / "sessions.db"
        path = path.with_name(path.name.removesuffix("-wal"))
        if path == self._folder / "sessions.db":
            yield from self._sources(path)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        place = json.loads(cursor.position or '{"prompt": 0, "last": 0}')
        limit = max(1, max_bytes // MESSAGE_BYTES)
        with _open(source.path) as database:
            (cwd,) = database.execute("SELECT cwd FROM session WHERE id = ?", (source.part,)).fetchone()
            new = database.execute(
                "SELECT id, role, text, at_ms FROM message WHERE session = ? AND id > ? ORDER BY id LIMIT ?",
                (source.part, place["last"], limit + 1),
            ).fetchall()
            old = database.execute(
                "SELECT id, role, text, at_ms FROM message WHERE session = ? AND id >= ? AND id <= ? ORDER BY id",
                (source.part, place["prompt"], place["last"]),
            ).fetchall()
        if not new:
            return Reading(cursor, stamp=str(place["last"]))
        has_more, new = len(new) > limit, new[:limit]
        rows = [row for row in old if place["prompt"]] + new
        messages = [Message(f"{source.session_id}:{row_id}", *rest, row_id) for row_id, *rest in rows]
        last, prompts = new[-1][0], [message.position for message in messages if message.role == "user"]
        return Reading(
            cursor=Cursor(json.dumps({"prompt": (prompts or [messages[0].position])[-1], "last": last})),
            updates=whole_turns(self.name, source.session_id, cwd, messages),
            entries=[EntryTime(message.id, message.at_ms) for message in messages],
            cwd=cwd,
            stamp=str(last),
            has_more=has_more,
        )

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        return ""

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        return Speaker.PERSON

    def skipped(self, settings: Settings) -> list[Skipped]:
        return []

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        return False

    def _sources(self, path: Path) -> Iterator[Source]:
        if not path.is_file():
            return
        with _open(path) as database:
            rows = database.execute(
                "SELECT s.id, s.name, max(m.id), max(m.at_ms) FROM session s JOIN message m ON m.session = s.id "
                "GROUP BY s.id ORDER BY s.id"
            ).fetchall()
        for row_id, name, last, at_ms in rows:
            yield Source(
                agent=self.name,
                path=path,
                session_id=f"database-{name}",
                stamp=str(last),
                changed_at_ns=at_ms * 1_000_000,
                part=str(row_id),
            )


@contextlib.contextmanager
def _open(path: Path) -> Iterator[sqlite3.Connection]:
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
        try:
            yield database
        finally:
            database.close()
    except sqlite3.Error as error:
        raise TranscriptError(f"{path}: {error}") from error
