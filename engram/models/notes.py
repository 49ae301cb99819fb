"""Notes as they were last indexed, and their chunks."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from peewee import Query, fn

from engram.enums import Scope
from engram.models import tables
from engram.models.project_names import project_id_of_name
from engram.models.records import RecordReader
from engram.models.statement import prepared
from engram.models.transaction import Reader, Tx
from engram.text.unspaced import in_pairs

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
        episode = tables.Episode
        row = store.fetch_first(episode.select(episode.scope, episode.project).where(episode.episode_id == owner.key))
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
