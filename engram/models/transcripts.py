"""How far each transcript was read, and the lines that could not be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peewee import EXCLUDED, Query, fn

from engram.errors import BrokenDatabase, Conflict
from engram.models import tables
from engram.models.entries import claimed_entries
from engram.models.records import RecordReader
from engram.models.statement import prepared
from engram.models.store import Store
from engram.models.tombstones import forgotten_entries
from engram.models.transaction import Reader, Tx, Value


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a transcript was read."""

    path: Path
    #: Bytes read; always the end of a line.
    offset: int = 0
    #: Lines read.
    line_number: int = 0
    #: Raised when the file was cut or rewritten.
    generation: int = 0
    #: What the file began with, to tell a rewritten file.
    fingerprint: bytes = b""
    #: The reader's own state (JSON), to go on where it stopped.
    reader_state: str = "{}"
    #: Row id; 0 where the transcript was never read.
    transcript_id: int = 0
    #: Row id of the session; 0 where none is known yet.
    session_ref: int = 0
    size: int = 0


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not be read, by its place."""

    offset: int
    length: int
    reason: str


def state_of(cursor: Cursor) -> dict[str, Any]:
    """What the reader kept to go on with a turn. Raises BrokenDatabase where that is damaged."""
    try:
        state = json.loads(cursor.reader_state)
    except ValueError as error:
        raise BrokenDatabase(f"what the reader kept of {cursor.path.name} is damaged: {error}") from error
    if not isinstance(state, dict):
        raise BrokenDatabase(f"what the reader kept of {cursor.path.name} is damaged: it is no object")
    return state


_CURSORS = RecordReader(
    Cursor,
    tables.Transcript,
    expressions={
        "offset": tables.Transcript.cursor,
        "transcript_id": tables.Transcript.id,
        "session_ref": fn.COALESCE(tables.Transcript.session, 0),
    },
    readers={"path": lambda stored: Path(os.fsdecode(bytes(stored))), "fingerprint": bytes},
    left_out={"id", "cursor", "is_gone", "read_at_ms", "last_error"},
)


def load_cursor(store: Reader, path: Path) -> Cursor:
    """How far ``path`` was read; a cursor at 0 where it never was."""
    return store.fetch_record(_CURSORS, _cursor_of(os.fsencode(path))) or Cursor(path)


def ensure_transcript(tx: Tx, path: Path, session_ref: int | None) -> int:
    """Row id of a transcript, made where it is new."""
    stored = os.fsencode(path)
    tx.run(_ensure(stored, session_ref))
    return int(tx.fetch_value(_id_of(stored)))


def move_cursor(tx: Tx, before: Cursor, after: Cursor, transcript_id: int) -> None:
    """Compare and set: move the cursor of a transcript from ``before`` to ``after``.

    Raises:
        Conflict: another reader moved it meanwhile; roll back and read again.
    """
    transcript = tables.Transcript
    query = transcript.update(
        cursor=after.offset,
        line_number=after.line_number,
        generation=after.generation,
        fingerprint=after.fingerprint,
        reader_state=after.reader_state,
        size=after.size,
        is_gone=False,
        read_at_ms=tx.now_ms(),
        last_error="",
    )
    is_unmoved = (
        (transcript.cursor == before.offset)
        & (transcript.generation == before.generation)
        & (transcript.reader_state == before.reader_state)
    )
    if tx.run(query.where((transcript.id == transcript_id) & is_unmoved)) != 1:
        raise Conflict()


def add_bad_lines(tx: Tx, transcript_id: int, generation: int, lines: Iterable[BadLine]) -> None:
    """Remember lines that could not be read."""
    rows: list[dict[str, Value]] = [
        {
            "transcript_id": transcript_id,
            "generation": generation,
            "offset": line.offset,
            "length": line.length,
            "reason": line.reason,
        }
        for line in lines
    ]
    tx.insert_many(tables.BadLine, rows, or_ignore=True)


def all_cursors(store: Reader) -> dict[Path, tuple[int, int]]:
    """Path → (bytes read, size when read) of every transcript that was ever read."""
    transcript = tables.Transcript
    rows = store.fetch(transcript.select(transcript.path, transcript.cursor, transcript.size))
    return {Path(os.fsdecode(bytes(row.path))): (row.cursor, row.size) for row in rows}


def note_gone(store: Store, path: Path, *, is_gone: bool) -> None:
    """Note whether a transcript's file is still there; nothing else changes."""
    with store.transaction() as tx:
        tx.run(tables.Transcript.update(is_gone=is_gone).where(tables.Transcript.path == os.fsencode(path)))


def note_size(store: Store, cursor: Cursor, size: int) -> None:
    """Note that a file of ``size`` bytes has no whole line behind the cursor, unless the cursor moved meanwhile."""
    transcript = tables.Transcript
    is_unmoved = (transcript.cursor == cursor.offset) & (transcript.generation == cursor.generation)
    with store.transaction() as tx:
        tx.run(transcript.update(size=size).where((transcript.id == cursor.transcript_id) & is_unmoved))


def rename_transcript(store: Store, old: Path, new: Path) -> None:
    """A transcript's file was moved: how far it was read goes with it, unless the new place is known already."""
    transcript = tables.Transcript
    with store.transaction() as tx:
        if not tx.has_any(_id_of(os.fsencode(new))):
            query = transcript.update(path=os.fsencode(new), is_gone=False)
            tx.run(query.where(transcript.path == os.fsencode(old)))


def note_error(store: Store, path: Path, error: str) -> None:
    """Note why a transcript could not be read; the cursor stays."""
    with store.transaction() as tx:
        tx.run(tables.Transcript.update(last_error=error).where(tables.Transcript.path == os.fsencode(path)))


def transcript_of_session(store: Reader, session_id: str) -> list[Path]:
    """The files of a session."""
    return [Path(os.fsdecode(bytes(path))) for path in store.fetch_values(_paths_of(session_id))]


def known_uuids(store: Reader, uuids: Sequence[str]) -> set[str]:
    """Those of the uuids that belong to a turn already, or to one that was forgotten."""
    return claimed_entries(store, uuids) | forgotten_entries(store, uuids)


@prepared
def _cursor_of(path: bytes) -> Query:
    return _CURSORS.select().where(tables.Transcript.path == path)


@prepared
def _id_of(path: bytes) -> Query:
    return tables.Transcript.select(tables.Transcript.id).where(tables.Transcript.path == path)


@prepared
def _ensure(path: bytes, session_ref: int | None) -> Query:
    transcript = tables.Transcript
    known_session = fn.COALESCE(transcript.session, EXCLUDED.session_ref)
    return transcript.insert(path=path, session=session_ref).on_conflict(
        conflict_target=(transcript.path,), update={transcript.session: known_session}
    )


@prepared
def _paths_of(session_id: str) -> Query:
    query = tables.Transcript.select(tables.Transcript.path).join(tables.Session)
    return query.where(tables.Session.session_id == session_id)
