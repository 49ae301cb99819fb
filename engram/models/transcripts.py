"""How far each transcript was read, and the lines that could not be."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.errors import BrokenDatabase, Moved
from engram.models.entries import claimed_entries
from engram.models.store import Store
from engram.models.transaction import Reader, Tx
from engram.models.uuids import pack_uuid, unpack_uuid


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


def load_cursor(store: Reader, path: Path) -> Cursor:
    """How far ``path`` was read; a cursor at 0 where it never was."""
    found = store.row(
        "SELECT cursor, line_number, generation, fingerprint, reader_state, id, coalesce(session_ref, 0), size "
        "FROM transcript WHERE path = ?",
        (os.fsencode(path),),
    )
    if found is None:
        return Cursor(path)
    return Cursor(path, found[0], found[1], found[2], bytes(found[3]), found[4], found[5], found[6], found[7])


def ensure_transcript(tx: Tx, path: Path, session_ref: int | None) -> int:
    """Row id of a transcript, made where it is new."""
    tx.run(
        "INSERT INTO transcript (path, session_ref) VALUES (?, ?) ON CONFLICT (path) DO UPDATE SET "
        "session_ref = coalesce(session_ref, excluded.session_ref)",
        (os.fsencode(path), session_ref),
    )
    return int(tx.value("SELECT id FROM transcript WHERE path = ?", (os.fsencode(path),)))


def move_cursor(tx: Tx, before: Cursor, after: Cursor, transcript_id: int) -> None:
    """Compare and set: move the cursor of a transcript from ``before`` to ``after``.

    Raises:
        Moved: another reader moved it meanwhile; roll back and read again.
    """
    changed = tx.run(
        "UPDATE transcript SET cursor = ?, line_number = ?, generation = ?, fingerprint = ?, reader_state = ?, size = ?, "
        "is_gone = 0, read_at_ms = ?, last_error = '' "
        "WHERE id = ? AND cursor = ? AND generation = ? AND reader_state = ?",
        (
            after.offset, after.line_number, after.generation, after.fingerprint, after.reader_state, after.size,
            tx.now_ms(), transcript_id, before.offset, before.generation, before.reader_state,
        ),
    )  # fmt: skip
    if changed != 1:
        raise Moved()


def add_bad_lines(tx: Tx, transcript_id: int, generation: int, lines: Iterable[BadLine]) -> None:
    """Remember lines that could not be read."""
    tx.run_many(
        "INSERT OR IGNORE INTO bad_line VALUES (?, ?, ?, ?, ?)",
        [(transcript_id, generation, line.offset, line.length, line.reason) for line in lines],
    )


def all_cursors(store: Reader) -> dict[Path, tuple[int, int]]:
    """Path → (bytes read, size when read) of every transcript that was ever read."""
    return {
        Path(os.fsdecode(bytes(path))): (offset, size)
        for path, offset, size in store.rows("SELECT path, cursor, size FROM transcript")
    }


def note_gone(store: Store, path: Path, *, is_gone: bool) -> None:
    """Note whether a transcript's file is still there; nothing else changes."""
    with store.transaction() as tx:
        tx.run("UPDATE transcript SET is_gone = ? WHERE path = ?", (int(is_gone), os.fsencode(path)))


def note_size(store: Store, cursor: Cursor, size: int) -> None:
    """Note that a file of ``size`` bytes has no whole line behind the cursor, unless the cursor moved meanwhile."""
    with store.transaction() as tx:
        tx.run(
            "UPDATE transcript SET size = ? WHERE id = ? AND cursor = ? AND generation = ?",
            (size, cursor.transcript_id, cursor.offset, cursor.generation),
        )


def rename_transcript(store: Store, old: Path, new: Path) -> None:
    """A transcript's file was moved: how far it was read goes with it, unless the new place is known already."""
    with store.transaction() as tx:
        tx.run(
            "UPDATE OR IGNORE transcript SET path = ?, is_gone = 0 WHERE path = ?", (os.fsencode(new), os.fsencode(old))
        )


def note_error(store: Store, path: Path, error: str) -> None:
    """Note why a transcript could not be read; the cursor stays."""
    with store.transaction() as tx:
        tx.run("UPDATE transcript SET last_error = ? WHERE path = ?", (error, os.fsencode(path)))


def transcript_of_session(store: Reader, session_id: str) -> list[Path]:
    """The files of a session."""
    rows = store.rows(
        "SELECT t.path FROM transcript t JOIN session s ON s.id = t.session_ref WHERE s.session_id = ?", (session_id,)
    )
    return [Path(os.fsdecode(bytes(row[0]))) for row in rows]


def known_uuids(store: Reader, uuids: Sequence[str]) -> set[str]:
    """Those of the uuids that belong to a turn already, or to one that was forgotten."""
    known = claimed_entries(store, uuids)
    if store.row("SELECT 1 FROM tombstone WHERE kind = 'entry' LIMIT 1"):
        forgotten = "SELECT key FROM tombstone WHERE kind = 'entry' AND key IN"
        known.update(unpack_uuid(row[0]) for row in store.rows_among(forgotten, [pack_uuid(one) for one in uuids]))
    return known
