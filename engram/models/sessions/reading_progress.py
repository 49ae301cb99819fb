"""How far each source has been read, parts that could not be read, and what a reader may query about stored turns."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import peewee
from peewee import Query, fn

from engram.errors import Conflict
from engram.models import tables
from engram.models.engine.meta import drop_meta, get_meta, metas_beginning_with, put_meta
from engram.models.engine.statement import RecordReader, grouped, prepared
from engram.models.engine.transaction import Reader, Store, Tx, Value, asks_any, asks_rows, asks_values, writes
from engram.models.memories.tombstones import forgotten_entries, is_turn_forgotten
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import (
    StoredTurn,
    claimed_entries,
    is_turn_stored,
    load_turn,
    load_turn_row,
    times_of_prompts,
    turn_of_entry,
    turns_of_session,
)
from engram.transcripts.agents import Cursor, Place, Source, Unreadable
from engram.transcripts.turns import TextBlock, Turn


@dataclass(frozen=True, slots=True)
class Progress:
    place: Place
    cursor: Cursor = field(default_factory=Cursor)
    #: Incremented when the source is truncated or rewritten, and when words from it are forgotten.
    generation: int = 0
    #: The source's stamp when it was last read to its end; "" if it never was.
    stamp: str = ""
    #: Size of the source at the last read, in bytes; numbers of bytes and lines read.
    size: int = 0
    bytes_read: int = 0
    lines_read: int = 0
    #: Row id; 0 if the source has never been read.
    transcript_id: int = 0
    #: Row id of the session; None if it is not known yet.
    session_ref: int | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """The stored state with which the sweep compares a source."""

    stamp: str
    bytes_read: int
    #: True if its file was found deleted.
    is_gone: bool


@prepared
def _select_progress(path: bytes, part: str) -> peewee.Query:
    table = tables.Transcript
    return table.select().where(table.path == path, table.part == part)


def load_progress(store: Reader, place: Place) -> Progress:
    """Return how far a source has been read; an empty ``Progress`` if it never has been."""
    row = store.fetch_first(_select_progress(os.fsencode(place.path), place.part))
    if row is None:
        return Progress(place)
    return Progress(
        place=place,
        cursor=Cursor(row.cursor, row.cursor_words),
        generation=row.generation,
        stamp=row.stamp,
        size=row.size,
        bytes_read=row.bytes_read,
        lines_read=row.lines_read,
        transcript_id=row.id,
        session_ref=row.session_ref,
    )


def ensure_transcript(tx: Tx, path: Path, session_ref: int | None, part: str = "") -> int:
    """Return the row id of a source, creating it if it is new."""
    _ensure(tx, os.fsencode(path), part, session_ref)
    return int(tx.fetch_first(_select_progress(os.fsencode(path), part)).id)


@writes
def _ensure(path: bytes, part: str, session_ref: int | None) -> Query:
    table = tables.Transcript
    known_session = peewee.fn.COALESCE(table.session, peewee.EXCLUDED.session_ref)
    return table.insert(path=path, part=part, session=session_ref).on_conflict(
        conflict_target=(table.path, table.part), update={table.session: known_session}
    )


def move_cursor(tx: Tx, before: Progress, after: Progress, transcript_id: int) -> None:
    """Move the cursor of a source from ``before`` to ``after`` with compare-and-set.

    Raises:
        Conflict: another reader has moved it in the meantime; roll back and read again.
    """
    if not _is_at(tx, transcript_id, before.cursor.position, before.cursor.words, before.generation):
        raise Conflict()
    columns: dict[str, Value] = {
        "cursor": after.cursor.position,
        "cursor_words": after.cursor.words,
        "generation": after.generation,
        "stamp": after.stamp,
        "size": after.size,
        "bytes_read": after.bytes_read,
        "lines_read": after.lines_read,
        "is_gone": False,
        "read_at_ms": tx.now_ms(),
        "last_error": "",
    }
    tx.update_row(tables.Transcript, transcript_id, columns)


@asks_any
def _is_at(transcript_id: int, cursor: str, cursor_words: str, generation: int) -> Query:
    table = tables.Transcript
    is_at = (table.cursor == cursor) & (table.cursor_words == cursor_words) & (table.generation == generation)
    return table.select(table.id).where((table.id == transcript_id) & is_at)


def add_unreadable(tx: Tx, transcript_id: int, generation: int, parts: Iterable[Unreadable]) -> None:
    """Record parts of a source that could not be read."""
    rows: list[dict[str, Value]] = [
        {
            "transcript_id": transcript_id,
            "generation": generation,
            "offset": part.offset,
            "length": part.length,
            "reason": part.reason,
        }
        for part in parts
    ]
    tx.insert_many(tables.BadLine, rows, or_ignore=True)


def drop_unreadable(tx: Tx, transcript_id: int) -> None:
    """Delete the records of unreadable parts of a source, because it is being read again."""
    tx.run(tables.BadLine.delete().where(tables.BadLine.transcript == transcript_id))


def all_seen(store: Reader) -> dict[Place, Seen]:
    """Return the last seen state of every source that has ever been read."""
    table = tables.Transcript
    rows = store.fetch(table.select(table.path, table.part, table.stamp, table.bytes_read, table.is_gone))
    return {
        Place(Path(os.fsdecode(bytes(row.path))), row.part): Seen(row.stamp, row.bytes_read, bool(row.is_gone))
        for row in rows
    }


def gone_sessions(store: Reader) -> set[int]:
    """Return the row ids of the sessions that were read and of which no file exists any more."""
    table, gone = tables.Transcript, _gone_files(store)
    rows = store.fetch(table.select(table.id, table.session).where(table.session.is_null(False)))
    return {session for _, session in rows} - {session for file, session in rows if file not in gone}


def gone_turns(store: Reader) -> set[int]:
    """Return the row ids of the turns whose files no longer exist, so that they can't be read again."""
    turn, gone = tables.Turn, _gone_files(store)
    return {int(row_id) for row_id, file in store.fetch(turn.select(turn.id, turn.transcript)) if file in gone}


def _gone_files(store: Reader) -> set[int]:
    """Return the row ids of the transcripts whose files no longer exist."""
    rows = store.fetch(tables.Transcript.select(tables.Transcript.id, tables.Transcript.path))
    return {int(row_id) for row_id, path in rows if not os.path.lexists(_path(path))}


def is_changed(source: Source, seen: Seen | None) -> bool:
    """Return True if a source has changed since it was read. An empty source that has never been read doesn't count."""
    return source.size != 0 if seen is None else source.stamp != seen.stamp


#: Prefix of the keys in ``meta`` under which the stamps of sources that must not be read are stored. A hash of the
#: place follows.
_KEPT_OUT = "kept_out "


def note_kept_out(store: Store, source: Source) -> None:
    """Record that a source must not be read in its current state, because it is excluded or belongs to a vault."""
    key = _key_of(source.place)
    if get_meta(store, key) != source.stamp:
        with store.transaction() as tx:
            put_meta(tx, key, source.stamp)


def drop_kept_out(store: Reader, sources: Iterable[Source], seen: Mapping[Place, Seen]) -> list[Source]:
    """Return the sources, except those that must not be read according to ``note_kept_out``.

    Args:
        seen: the state in which each was read. A source that was read in its current state, such as one from a
            dissolved vault, is never left out.
    """
    known = metas_beginning_with(store, _KEPT_OUT)
    return [
        source
        for source in sources
        if known.get(_key_of(source.place)) != source.stamp or not is_changed(source, seen.get(source.place))
    ]


def unread_of(store: Reader, sources: Iterable[Source]) -> list[Source]:
    """Return the sources that are still to be read, at least in part, in the same order."""
    seen = all_seen(store)
    return [source for source in drop_kept_out(store, sources, seen) if is_changed(source, seen.get(source.place))]


def _key_of(place: Place) -> str:
    hidden = hashlib.sha256(os.fsencode(place.path) + b"\0" + place.part.encode()).hexdigest()[:16]
    return f"{_KEPT_OUT}{hidden}"


def read_missing_again(tx: Tx, source: Reader) -> int:
    """Reset each source from which another copy of this database has turns that this one lacks, to read it again.

    Only turns before the point up to which the source has been read count, and forgotten turns don't. Sources that were
    kept out are checked again. Return the number of sources.
    """
    transcript, turn = tables.Transcript, tables.Turn
    read_here = {
        (bytes(row.path), row.part): row
        for row in tx.fetch(transcript.select(transcript.id, transcript.path, transcript.part, transcript.bytes_read))
    }
    known = set(tx.fetch_values(turn.select(turn.key)))
    query = turn.select(turn.key, turn.start_offset, transcript.path, transcript.part).join(transcript)
    chosen = set()
    for row in source.fetch(query.order_by(turn.id)):
        progress = read_here.get((bytes(row.path), row.part))
        if progress is None or progress.id in chosen or row.key in known or row.start_offset >= progress.bytes_read:
            continue
        if not is_turn_forgotten(tx, row.key):
            chosen.add(progress.id)
    for row_id in chosen:
        read_from_beginning(tx, row_id)
    for key in metas_beginning_with(tx, _KEPT_OUT):
        drop_meta(tx, key)
    return len(chosen)


def read_from_beginning(tx: Tx, transcript_id: int) -> None:
    """Reset how far a source has been read. Stored data from it is kept, and recognised when it is read again.

    If it is a part of a file, the file is reset too, because some parts are found only by reading the file.
    """
    table = tables.Transcript
    path = table.select(table.path).where(table.id == transcript_id)
    is_meant = (table.id == transcript_id) | ((table.path == path) & (table.part == ""))
    for row_id in tx.fetch_values(table.select(table.id).where(is_meant)):
        _reset(tx, row_id)


def read_parts_from_beginning(tx: Tx, path: Path) -> list[int]:
    """Reset how far all parts of a file have been read, as ``read_from_beginning`` does; return their row ids."""
    table = tables.Transcript
    row_ids = tx.fetch_values(table.select(table.id).where(table.path == os.fsencode(path), table.part != ""))
    for row_id in row_ids:
        _reset(tx, row_id)
    return row_ids


def _reset(tx: Tx, row_id: int) -> None:
    table = tables.Transcript
    drop_unreadable(tx, row_id)
    nothing = table.update(
        cursor="", cursor_words="", generation=table.generation + 1, stamp="", size=0, bytes_read=0, lines_read=0
    )
    tx.run(nothing.where(table.id == row_id))


def note_gone(store: Store, path: Path, *, is_gone: bool = True) -> None:
    """Record that a file has been deleted, or is there again; nothing else changes."""
    with store.transaction() as tx:
        tx.run(tables.Transcript.update(is_gone=is_gone).where(tables.Transcript.path == os.fsencode(path)))


def note_unchanged(store: Store, seen: Progress) -> None:
    """Record the stamp and size of a source that has nothing new after the cursor.

    Do nothing if the cursor has moved in the meantime.
    """
    table = tables.Transcript
    with store.transaction() as tx:
        tx.run(
            table.update(stamp=seen.stamp, size=seen.size).where(
                table.id == seen.transcript_id,
                table.cursor == seen.cursor.position,
                table.generation == seen.generation,
            )
        )


def rename_transcript(store: Store, old: Path, new: Path) -> None:
    """Store the new path of a moved file, keeping its cursor; do nothing if that path is already known."""
    with store.transaction() as tx:
        # peewee has no UPDATE OR IGNORE.
        tx.run(
            "UPDATE OR IGNORE transcript SET path = ?, is_gone = 0 WHERE path = ?", (os.fsencode(new), os.fsencode(old))
        )


def note_error(store: Store, place: Place, error: str) -> None:
    """Record why a source could not be read; the cursor is not moved."""
    table = tables.Transcript
    with store.transaction() as tx:
        tx.run(table.update(last_error=error).where(table.path == os.fsencode(place.path), table.part == place.part))


@asks_rows(lambda rows: [Place(Path(os.fsdecode(bytes(row.path))), row.part) for row in rows])
def places_of_session(session_id: str) -> Query:
    table, session = tables.Transcript, tables.Session
    query = table.select(table.path, table.part).join(session).where(session.session_id == session_id)
    return query.order_by(table.id)


def session_of_file(store: Reader, path: Path) -> str:
    """Return the id of the session that was read from a file; "" if there is not exactly one."""
    table, session = tables.Transcript, tables.Session
    query = session.select(session.session_id).join(table, on=table.session == session.id)
    ids = set(store.fetch_values(query.where(table.path == os.fsencode(path))))
    return str(ids.pop()) if len(ids) == 1 else ""


def is_known_file(store: Reader, path: Path) -> bool:
    """Return True if any part of a file has been read."""
    table = tables.Transcript
    return store.has_any(table.select(table.id).where(table.path == os.fsencode(path)).limit(1))


def known_uuids(store: Reader, uuids: Sequence[str]) -> set[str]:
    """Return the entries that belong to a stored or a forgotten turn."""
    return claimed_entries(store, uuids) | forgotten_entries(store, uuids)


# -- How far the files of sessions have been read, and which parts could not be read.


@dataclass(frozen=True, slots=True)
class ReadFault:
    """A transcript, or a line of one, that could not be read."""

    path: str
    reason: str
    #: Position of the beginning of the line, in bytes; None for the whole file.
    offset: int | None = None
    length: int | None = None


def read_faults(store: Reader, limit: int = 50) -> list[ReadFault]:
    """Return the transcripts and lines that could not be read."""
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
    """How far a session's file has been read."""

    path: str
    offset: int
    size: int
    lines: int
    is_gone: bool
    last_error: str


def files_of_session(store: Reader, session_id: str) -> list[FileTotals]:
    """Return the files of a session, with how far each has been read."""
    query = _FILES.select().join(tables.Session).where(tables.Session.session_id == session_id)
    return store.fetch_records(_FILES, query.order_by(tables.Transcript.id))


def unknown_elements(store: Reader) -> dict[str, list[int]]:
    """Return name → row ids of turns, for elements in the user's messages that were unknown when they were read."""
    turn = tables.Turn
    name = fn.json_extract(turn.extra, "$.element")
    query = turn.select(turn.id, name.alias("name")).where(turn.extra.contains('"element"') & name.is_null(False))
    return grouped((str(row.name), int(row.id)) for row in store.fetch(query.order_by(turn.id)))


def _path(stored: bytes) -> str:
    return os.fsdecode(bytes(stored))


_FILES = RecordReader(
    FileTotals,
    tables.Transcript,
    expressions={"offset": tables.Transcript.bytes_read, "lines": tables.Transcript.lines_read},
    readers={"path": _path},
    is_whole=False,
)


# -- Facts about stored turns that an agent's reader may query.


@asks_values
def _folders_of_projects() -> peewee.Query:
    return tables.Project.select(tables.Project.root).where(tables.Project.root != "")


@dataclass(slots=True)
class TurnsInStore:
    """``StoredTurns`` from memory.db, for one portion of a source. Results for entries are cached."""

    store: Store
    session_id: str
    #: The file being read; None if nothing is asked about other sessions in it.
    path: Path | None = None
    #: Other sessions in the file that were asked about → how far each had been read.
    others: dict[str, Progress] = field(default_factory=dict)
    _asked: set[str] = field(default_factory=set)
    _known: set[str] = field(default_factory=set)
    #: Row id → turn, for the turns that ``holder`` read: a turn has up to thousands of entries.
    _turns: dict[int, StoredTurn | None] = field(default_factory=dict)

    def load(self, key: str) -> Turn | None:
        stored = load_turn(self.store, key)
        return None if stored is None else stored.turn

    def is_known(self, key: str) -> bool:
        return is_turn_stored(self.store, key) or is_turn_forgotten(self.store, key)

    def known_entries(self, uuids: Sequence[str]) -> set[str]:
        new = [uuid for uuid in uuids if uuid not in self._asked]
        if new:
            self._asked.update(new)
            self._known |= known_uuids(self.store, new)
        return self._known.intersection(uuids)

    def other(self, session_id: str) -> tuple[Cursor, TurnsInStore]:
        if self.path is None:
            raise ValueError("no file is being read")
        progress = self.others[session_id] = load_progress(self.store, Place(self.path, session_id))
        return progress.cursor, TurnsInStore(self.store, session_id)

    def is_session_known(self) -> bool:
        return find_session(self.store, self.session_id) is not None

    def holder(self, uuid: str) -> Turn | None:
        turn_id = turn_of_entry(self.store, uuid)
        if turn_id is not None and turn_id not in self._turns:
            self._turns[turn_id] = load_turn_row(self.store, turn_id)
        stored = None if turn_id is None else self._turns[turn_id]
        return stored.turn if stored is not None and stored.turn.session_id == self.session_id else None

    def texts_of_session(self) -> list[TextBlock]:
        session = find_session(self.store, self.session_id)
        stored = [] if session is None else turns_of_session(self.store, session.id)
        return [block for row in stored for block in row.turn.said]

    def is_stored(self, session_id: str) -> bool:
        return find_session(self.store, session_id) is not None

    def project_folders(self) -> list[str]:
        return [str(root) for root in _folders_of_projects(self.store)]

    def prompt_times(self, from_ms: int, to_ms: int) -> list[int]:
        return times_of_prompts(self.store, from_ms, to_ms, self.session_id)
