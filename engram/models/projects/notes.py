"""Notes as they were last indexed, and the user's own files that an agent reads at its start."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from peewee import Query, fn

from engram.enums import Scope
from engram.models import tables
from engram.models.engine.statement import RecordReader, prepared
from engram.models.engine.transaction import Reader, Tx
from engram.models.projects.projects import project_id_of_name
from engram.text.words import in_pairs

# -- Notes as they were last indexed, and their chunks.

#: What the names of the daily logs begin with.
DAILY_FOLDER = "daily/"


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a part of a note is."""

    #: "" (everyone's), session, project, memory, or unknown.
    kind: str = ""
    #: The session's id, a name that the project has or had, or the memory's id.
    key: str = ""


#: The owner of what the user wrote, which every project may see.
EVERYONE = Owner()
#: The owner of what no project may see, since nobody knows where it came from.
NOBODY = Owner("unknown")


@dataclass(frozen=True, slots=True)
class NoteRow:
    """A note file as it was indexed."""

    id: int
    #: The name that search prints and ``memory_get`` takes.
    source: str
    path: str
    size: int
    changed_at_ns: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class NoteChunk:
    """One part of a note, from a heading to the next."""

    heading: str
    text: str
    #: First line in the file, from 1.
    start_line: int
    #: Last line in the file.
    stop_line: int
    id: int = 0
    source: str = ""
    owner: Owner = EVERYONE


_NOTES = RecordReader(
    NoteRow, tables.Note, readers={"digest": bytes}, left_out={"stable_id", "origin", "revision", "updated_at_ms"}
)


def list_notes(store: Reader) -> list[NoteRow]:
    """Every indexed note."""
    return store.fetch_records(_NOTES, _NOTES.select().order_by(tables.Note.source))


def put_note(tx: Tx, note: NoteRow, chunks: Sequence[NoteChunk]) -> None:
    """Store a note's chunks in place of the old ones; vectors follow later."""
    drop_note(tx, note.source)
    note_id = tx.insert_row(
        tables.Note,
        {
            "stable_id": secrets.token_hex(8),
            "source": note.source,
            "path": note.path,
            "size": note.size,
            "changed_at_ns": note.changed_at_ns,
            "digest": note.digest,
            "updated_at_ms": tx.now_ms(),
        },
    )
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
        tx.run(_index_chunk(chunk_id, in_pairs(chunk.heading), in_pairs(chunk.text)))


def drop_note(tx: Tx, source: str) -> None:
    """Take a note out of the index with its vectors; the file is not touched."""
    for note_id in tx.fetch_values(tables.Note.select(tables.Note.id).where(tables.Note.source == source)):
        _unindex_chunks(tx, note_id)
        chunks = tables.NoteChunk.select(tables.NoteChunk.id).where(tables.NoteChunk.note == note_id)
        tx.run(tables.Vector.delete().where((tables.Vector.owner == "n") & tables.Vector.owner_id.in_(chunks)))
        tx.run(tables.NoteChunk.delete().where(tables.NoteChunk.note == note_id))
        tx.run(tables.Note.delete().where(tables.Note.id == note_id))


def drop_daily_logs(tx: Tx, first_day: str, last_day: str) -> None:
    """Take the daily logs of some days out of the index: what they tell may have gone to another project.

    They come back with the next indexing; write them again before that.

    Args:
        first_day: YYYY-MM-DD, as ``last_day``; both are included.
    """
    note = tables.Note
    is_of_day = (note.source >= f"{DAILY_FOLDER}{first_day}") & (note.source < f"{DAILY_FOLDER}{last_day}~")
    for source in tx.fetch_values(note.select(note.source).where(is_of_day)):
        drop_note(tx, source)


def count_notes(store: Reader) -> tuple[int, int]:
    """(notes, chunks)."""
    note, chunk = tables.Note, tables.NoteChunk
    return store.fetch_value(note.select(fn.COUNT(note.id))), store.fetch_value(chunk.select(fn.COUNT(chunk.id)))


def is_seen_by(store: Reader, owner: Owner, project_id: int) -> bool:
    """True where a project may see what belongs to an owner; the rule of the view ``note_chunk_project``."""
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
    """Take a note's chunks out of the text index.

    Raw SQL: a command to FTS5 is a column of the same name as the table, which peewee cannot say.
    """
    chunks = tx.rows("SELECT id, heading, text FROM note_chunk WHERE note_id = ?", (note_id,))
    tx.run_many(
        "INSERT INTO note_fts(note_fts, rowid, heading, text) VALUES ('delete', ?, ?, ?)",
        [(row_id, in_pairs(heading), in_pairs(text)) for row_id, heading, text in chunks],
    )


@prepared
def _index_chunk(chunk_id: int, heading: str, text: str) -> Query:
    query: Query = tables.NoteIndex.insert(rowid=chunk_id, heading=heading, text=text)
    return query


# -- The user's own files that an agent reads at its start, as they were read last.

#: Forgotten lines that are remembered of a file, the latest.
MAX_FORGOTTEN_LINES = 200


@dataclass(frozen=True, slots=True)
class StandingFile:
    """One file."""

    path: str
    #: Row id of its project; None for a file that holds everywhere.
    project_id: int | None
    #: What it is called where a memory names it, such as ``CLAUDE.md``.
    name: str
    size: int
    changed_at_ns: int
    #: Redacted, and without the lines that were forgotten.
    text: str
    #: JSON list of the hashes of lines that are never kept.
    forgotten: str = "[]"


_FILES = RecordReader(StandingFile, tables.StandingFile, left_out={"id", "read_at_ms"})


def list_standing_files(store: Reader) -> list[StandingFile]:
    """Every file that was read."""
    return store.fetch_records(_FILES, _FILES.select().order_by(tables.StandingFile.path))


def standing_files_of(store: Reader, project_id: int | None) -> list[StandingFile]:
    """The files that hold in a project, and those that hold everywhere."""
    return store.fetch_records(_FILES, _of_project(-1 if project_id is None else project_id))


def standing_watermark(store: Reader) -> tuple[int, int, int]:
    """What differs once a file was read again, has come or has gone; cheap."""
    row = store.fetch_first(_watermark())
    return row.latest, row.number, row.changed_at_ns


def put_standing_file(tx: Tx, file: StandingFile) -> StandingFile:
    """Store what a file says now, without the lines that were forgotten; returns it as it is kept."""
    file_table = tables.StandingFile
    stored = tx.fetch_value(file_table.select(file_table.forgotten).where(file_table.path == file.path)) or "[]"
    text = _without(file.text, set(json.loads(stored)))
    drop_standing_file(tx, file.path)
    tx.insert_row(
        file_table,
        {
            "path": file.path,
            "project_id": file.project_id,
            "name": file.name,
            "size": file.size,
            "changed_at_ns": file.changed_at_ns,
            "text": text,
            "forgotten": stored,
            "read_at_ms": tx.now_ms(),
        },
    )
    return StandingFile(
        path=file.path,
        project_id=file.project_id,
        name=file.name,
        size=file.size,
        changed_at_ns=file.changed_at_ns,
        text=text,
        forgotten=stored,
    )


def drop_standing_file(tx: Tx, path: str) -> None:
    """Forget that a file was read; the file is not touched."""
    tx.run(tables.StandingFile.delete().where(tables.StandingFile.path == path))


def forget_standing_lines(tx: Tx, is_kept: Callable[[str], bool]) -> None:
    """Take lines out of what was read. Hashes stay, so that they are not kept when the file is read again."""
    for file in list_standing_files(tx):
        gone = [line for line in file.text.splitlines() if not is_kept(line)]
        if gone:
            hashes = [*json.loads(file.forgotten), *map(_hash, gone)][-MAX_FORGOTTEN_LINES:]
            changed = tables.StandingFile.update(
                text=_without(file.text, set(hashes)), forgotten=json.dumps(hashes), read_at_ms=tx.now_ms()
            )
            tx.run(changed.where(tables.StandingFile.path == file.path))


def forget_standing_files(tx: Tx, project_id: int) -> None:
    """Delete what was read of a project's files."""
    tx.run(tables.StandingFile.delete().where(tables.StandingFile.project == project_id))


def _without(text: str, hashes: Collection[str]) -> str:
    if not hashes:
        return text
    return "\n".join(line for line in text.splitlines() if _hash(line) not in hashes)


def _hash(line: str) -> str:
    return hashlib.sha256(" ".join(line.split()).encode()).hexdigest()[:16]


@prepared
def _of_project(project_id: int) -> Query:
    project = tables.StandingFile.project
    return _FILES.select().where(project.is_null() | (project == project_id)).order_by(tables.StandingFile.path)


@prepared
def _watermark() -> Query:
    file = tables.StandingFile
    return file.select(
        fn.COALESCE(fn.MAX(file.read_at_ms), 0).alias("latest"),
        fn.COUNT(file.id).alias("number"),
        fn.COALESCE(fn.MAX(file.changed_at_ns), 0).alias("changed_at_ns"),
    )
