"""Indexed notes, and the user's own files that an agent reads at startup."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, replace

from peewee import Query, fn

from engram.enums import Scope
from engram.models import tables
from engram.models.engine.statement import RecordReader
from engram.models.engine.transaction import Reader, Tx, asks_records, asks_rows
from engram.models.projects.projects import project_id_of_name
from engram.text.words import in_pairs

#: Separator between the nested headings of a chunk.
HEADING_SEPARATOR = " › "
#: Prefix of the names of daily logs.
DAILY_FOLDER = "daily/"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a chunk of a note."""

    #: "" (everyone), session, project, memory or unknown.
    kind: str = ""
    #: The id of the session or memory, or a current or previous name of the project.
    key: str = ""


#: The owner of text that the user wrote, which every project may see.
EVERYONE = Owner()
#: The owner of text of unknown origin, which no project may see.
NOBODY = Owner("unknown")


@dataclass(frozen=True, slots=True)
class NoteRow:
    """A note file, as of when it was indexed."""

    id: int
    #: The name that search prints and ``memory_get`` accepts.
    source: str
    path: str
    size: int
    changed_at_ns: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class NoteChunk:
    """A part of a note, from one heading to the next."""

    heading: str
    text: str
    start_line: int
    stop_line: int
    id: int = 0
    source: str = ""
    owner: Owner = EVERYONE


_NOTES = RecordReader(
    NoteRow, tables.Note, readers={"digest": bytes}, left_out={"stable_id", "origin", "revision", "updated_at_ms"}
)


def list_notes(store: Reader) -> list[NoteRow]:
    return store.fetch_records(_NOTES, _NOTES.select().order_by(tables.Note.source))


def put_note(tx: Tx, note: NoteRow, chunks: Sequence[NoteChunk]) -> None:
    """Store a note with its chunks, replacing earlier ones; their vectors are computed later."""
    drop_note(tx, note.source)
    row = asdict(note) | {"stable_id": secrets.token_hex(8), "updated_at_ms": tx.now_ms()}
    del row["id"]
    note_id = tx.insert_row(tables.Note, row)
    for chunk in chunks:
        chunk_id = tx.insert_row(
            tables.NoteChunk,
            {
                "note_id": note_id,
                "heading": chunk.heading,
                "text": chunk.text,
                "start_line": chunk.start_line,
                "stop_line": chunk.stop_line,
                "owner_kind": chunk.owner.kind,
                "owner": chunk.owner.key,
            },
        )
        words = (chunk_id, in_pairs(chunk.heading), in_pairs(chunk.text))
        tx.run("INSERT INTO note_fts(rowid, heading, text) VALUES (?, ?, ?)", words)


def drop_note(tx: Tx, source: str) -> None:
    """Remove a note and its vectors from the index; the file is not changed."""
    for note_id in tx.fetch_values(tables.Note.select(tables.Note.id).where(tables.Note.source == source)):
        _unindex_chunks(tx, note_id)
        chunks = tables.NoteChunk.select(tables.NoteChunk.id).where(tables.NoteChunk.note == note_id)
        tx.run(tables.Vector.delete().where((tables.Vector.owner == "n") & tables.Vector.owner_id.in_(chunks)))
        tx.run(tables.NoteChunk.delete().where(tables.NoteChunk.note == note_id))
        tx.run(tables.Note.delete().where(tables.Note.id == note_id))


def drop_daily_logs(tx: Tx, first_day: str, last_day: str) -> None:
    """Remove the daily logs of some days from the index, because their contents may have moved to another project.

    They must be rewritten before they are next indexed.

    Args:
        first_day: YYYY-MM-DD, like ``last_day``; both days are included.
    """
    note = tables.Note
    is_of_day = (note.source >= f"{DAILY_FOLDER}{first_day}") & (note.source < f"{DAILY_FOLDER}{last_day}~")
    for source in tx.fetch_values(note.select(note.source).where(is_of_day)):
        drop_note(tx, source)


def count_notes(store: Reader) -> tuple[int, int]:
    """Return the number of notes and the number of chunks."""
    note, chunk = tables.Note, tables.NoteChunk
    return store.fetch_value(note.select(fn.COUNT(note.id))), store.fetch_value(chunk.select(fn.COUNT(chunk.id)))


def is_seen_by(store: Reader, owner: Owner, project_id: int) -> bool:
    """Return True if a project may see an owner's chunks.

    The ``note_chunk_project`` view follows the same rule.
    """
    if owner == EVERYONE:
        return True
    owner_project: int | None = None
    if owner.kind == "session":
        session = tables.Session
        owner_project = store.fetch_value(session.select(session.project).where(session.session_id == owner.key))
    elif owner.kind == "project":
        owner_project = project_id_of_name(store, owner.key)
    elif owner.kind == "memory":
        memory = tables.Memory
        row = store.fetch_first(memory.select(memory.scope, memory.project).where(memory.episode_id == owner.key))
        if row is not None:
            owner_project = project_id if row.scope == Scope.GLOBAL else row.project_id
    return owner_project == project_id


def _unindex_chunks(tx: Tx, note_id: int) -> None:
    """Remove a note's chunks from the text index.

    This uses raw SQL, because a command to FTS5 is a column with the same name as the table, which peewee can't
    express.
    """
    chunks = tx.rows("SELECT id, heading, text FROM note_chunk WHERE note_id = ?", (note_id,))
    tx.run_many(
        "INSERT INTO note_fts(note_fts, rowid, heading, text) VALUES ('delete', ?, ?, ?)",
        [(row_id, in_pairs(heading), in_pairs(text)) for row_id, heading, text in chunks],
    )


# -- The user's own files that an agent reads at startup, as they were last read.

#: Maximum number of forgotten lines that are stored for a file; the latest ones are kept.
MAX_FORGOTTEN_LINES = 200


@dataclass(frozen=True, slots=True)
class StandingFile:
    path: str
    #: Row id of its project; None for a file that applies everywhere.
    project_id: int | None
    #: Name by which memories refer to it, such as ``CLAUDE.md``.
    name: str
    size: int
    changed_at_ns: int
    #: Redacted, and without forgotten lines.
    text: str
    #: JSON list of hashes of the lines that must never be stored.
    forgotten: str = "[]"


_FILES = RecordReader(StandingFile, tables.StandingFile, left_out={"id", "read_at_ms"})


def list_standing_files(store: Reader) -> list[StandingFile]:
    return store.fetch_records(_FILES, _FILES.select().order_by(tables.StandingFile.path))


@asks_records(_FILES)
def standing_files_of(project_id: int | None) -> Query:
    """Return the files that apply in a project, and those that apply everywhere."""
    project = tables.StandingFile.project
    return _FILES.select().where(project.is_null() | (project == project_id)).order_by(tables.StandingFile.path)


@asks_rows(lambda rows: (int(rows[0].latest), int(rows[0].number), int(rows[0].changed_at_ns)))
def standing_watermark() -> Query:
    """Return a value that changes when a file is reread, added or removed. Fast."""
    file = tables.StandingFile
    return file.select(
        fn.COALESCE(fn.MAX(file.read_at_ms), 0).alias("latest"),
        fn.COUNT(file.id).alias("number"),
        fn.COALESCE(fn.MAX(file.changed_at_ns), 0).alias("changed_at_ns"),
    )


def put_standing_file(tx: Tx, file: StandingFile) -> StandingFile:
    """Store a file's current content, without forgotten lines; return it as stored."""
    file_table = tables.StandingFile
    stored = tx.fetch_value(file_table.select(file_table.forgotten).where(file_table.path == file.path)) or "[]"
    kept = replace(file, text=_without(file.text, set(json.loads(stored))), forgotten=stored)
    drop_standing_file(tx, file.path)
    tx.insert_row(file_table, asdict(kept) | {"read_at_ms": tx.now_ms()})
    return kept


def drop_standing_file(tx: Tx, path: str) -> None:
    """Delete a file's stored content; the file itself is not changed."""
    tx.run(tables.StandingFile.delete().where(tables.StandingFile.path == path))


def forget_standing_lines(tx: Tx, is_kept: Callable[[str], bool]) -> None:
    """Remove lines from the stored content of all files.

    Hashes of the lines are kept, so that they are not stored when a file is reread.
    """
    for file in list_standing_files(tx):
        gone = [line for line in file.text.splitlines() if not is_kept(line)]
        if gone:
            hashes = [*json.loads(file.forgotten), *map(_hash, gone)][-MAX_FORGOTTEN_LINES:]
            changed = tables.StandingFile.update(
                text=_without(file.text, set(hashes)), forgotten=json.dumps(hashes), read_at_ms=tx.now_ms()
            )
            tx.run(changed.where(tables.StandingFile.path == file.path))


def _without(text: str, hashes: Collection[str]) -> str:
    if not hashes:
        return text
    return "\n".join(line for line in text.splitlines() if _hash(line) not in hashes)


def _hash(line: str) -> str:
    return hashlib.sha256(" ".join(line.split()).encode()).hexdigest()[:16]
