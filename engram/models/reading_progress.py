"""How far the files of sessions were read, and what of them could not be read."""

from __future__ import annotations

import os
from dataclasses import dataclass

from peewee import fn

from engram.models import tables
from engram.models.records import RecordReader
from engram.models.transaction import Reader


@dataclass(frozen=True, slots=True)
class ReadFault:
    """A transcript, or a line of one, that could not be read."""

    path: str
    reason: str
    #: Where the line begins, in bytes; None for the whole file.
    offset: int | None = None
    length: int | None = None


def read_faults(store: Reader, limit: int = 50) -> list[ReadFault]:
    """Transcripts and lines that could not be read."""
    transcript, bad_line = tables.Transcript, tables.BadLine
    files = transcript.select(transcript.path, transcript.last_error).where(transcript.last_error != "").limit(limit)
    faults = [ReadFault(path=_path(row.path), reason=row.last_error) for row in store.fetch(files)]
    columns = (transcript.path, bad_line.reason, bad_line.offset, bad_line.length)
    lines = bad_line.select(*columns).join(transcript).limit(limit - len(faults))
    return faults + [
        ReadFault(path=_path(row.path), reason=row.reason, offset=row.offset, length=row.length)
        for row in store.fetch(lines)
    ]


@dataclass(frozen=True, slots=True)
class FileTotals:
    """How far a session's file was read."""

    path: str
    offset: int
    size: int
    lines: int
    is_gone: bool
    last_error: str


def files_of_session(store: Reader, session_id: str) -> list[FileTotals]:
    """The files of a session with how far each was read."""
    query = _FILES.select().join(tables.Session).where(tables.Session.session_id == session_id)
    return store.fetch_records(_FILES, query.order_by(tables.Transcript.id))


def unknown_elements(store: Reader) -> dict[str, list[int]]:
    """The elements in the user's place that were not known when they were read: name → row ids of their turns."""
    turn = tables.Turn
    name = fn.json_extract(turn.extra, "$.element")
    query = turn.select(turn.id, name.alias("name")).where(turn.extra.contains('"element"') & name.is_null(False))
    found: dict[str, list[int]] = {}
    for row in store.fetch(query.order_by(turn.id)):
        found.setdefault(str(row.name), []).append(int(row.id))
    return found


def _path(stored: bytes) -> str:
    return os.fsdecode(bytes(stored))


_FILES = RecordReader(
    FileTotals,
    tables.Transcript,
    expressions={"offset": tables.Transcript.bytes_read, "lines": tables.Transcript.lines_read},
    readers={"path": _path},
    is_whole=False,
)
