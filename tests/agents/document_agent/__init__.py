"""An agent whose sessions are JSON files, each rewritten whole with every message."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from engram.errors import TranscriptError
from engram.settings import Settings
from engram.transcripts.agents import Cursor, EntryTime, Reading, Source, StoredTurns
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import Skipped
from tests.agents.messages import Message, whole_turns


class DocumentAgent:
    """Reads the files ``*.session.json`` in one folder. A cursor is the digest of the content that was read."""

    name = "document-agent"
    title = "Document Agent"
    suffixes = (".session.json",)

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        return (self._folder,)

    def discover(self, settings: Settings) -> Iterator[Source]:
        for path in sorted(self._folder.glob("*.session.json")):
            yield self._source(path)

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        if path == self._folder:
            yield from self.discover(settings)
        elif path.parent == self._folder and path.name.endswith(self.suffixes) and path.is_file():
            yield self._source(path)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        data = _read(source.path)
        stamp = self._source(source.path).stamp
        after = Cursor(json.dumps({"digest": hashlib.sha256(data).hexdigest()}))
        if after == cursor:
            return Reading(cursor, stamp=stamp, size=len(data), bytes_read=len(data))
        whole = json.loads(data)
        messages = [
            Message(f"{self.name}:{message['id']}", message["role"], message["text"], message["at_ms"], position)
            for position, message in enumerate(whole["messages"])
        ]
        return Reading(
            cursor=after,
            updates=whole_turns(self.name, source.session_id, whole["cwd"], messages),
            entries=[EntryTime(message.id, message.at_ms) for message in messages],
            cwd=whole["cwd"],
            stamp=stamp,
            size=len(data),
            bytes_read=len(data),
        )

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        return ""

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        return Speaker.PERSON

    def skipped(self, settings: Settings) -> list[Skipped]:
        return []

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        return json.loads(cursor.position)["digest"] == hashlib.sha256(_read(source.path)).hexdigest()

    def _source(self, path: Path) -> Source:
        facts = path.stat()
        return Source(
            agent=self.name,
            path=path,
            session_id=f"document-{path.name.removesuffix('.session.json')}",
            stamp=f"{facts.st_mtime_ns}-{facts.st_size}-{facts.st_ino}",
            size=facts.st_size,
            changed_at_ns=facts.st_mtime_ns,
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TranscriptError(f"{path}: {error}") from error
