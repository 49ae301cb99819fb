"""Notes as they were last indexed, and their chunks."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from engram.models.conditions import IS_GLOBAL
from engram.models.project_names import project_id_of_name
from engram.models.transaction import Reader, Tx


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


def list_notes(store: Reader) -> list[NoteRow]:
    """Every indexed note."""
    rows = store.rows("SELECT id, source, path, size, changed_at_ns, digest FROM note ORDER BY source")
    return [NoteRow(row[0], row[1], row[2], row[3], row[4], bytes(row[5])) for row in rows]


def put_note(tx: Tx, note: NoteRow, chunks: Sequence[NoteChunk]) -> None:
    """Store a note's chunks in place of the old ones; vectors follow later."""
    drop_note(tx, note.source)
    note_id = tx.insert(
        "INSERT INTO note (stable_id, source, path, size, changed_at_ns, digest, updated_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (secrets.token_hex(8), note.source, note.path, note.size, note.changed_at_ns, note.digest, tx.now_ms()),
    )
    for chunk in chunks:
        chunk_id = tx.insert(
            "INSERT INTO note_chunk (note_id, heading, text, start_line, stop_line, owner_kind, owner) "
            "VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                note_id,
                chunk.heading,
                chunk.text,
                chunk.start_line,
                chunk.stop_line,
                chunk.owner.kind,
                chunk.owner.key,
            ),
        )
        tx.run("INSERT INTO note_fts(rowid, heading, text) VALUES (?, ?, ?)", (chunk_id, chunk.heading, chunk.text))


def drop_note(tx: Tx, source: str) -> None:
    """Take a note out of the index with its vectors; the file is not touched."""
    for (note_id,) in tx.rows("SELECT id FROM note WHERE source = ?", (source,)):
        tx.run(
            "INSERT INTO note_fts(note_fts, rowid, heading, text) SELECT 'delete', id, heading, text FROM note_chunk "
            "WHERE note_id = ?",
            (note_id,),
        )
        tx.run(
            "DELETE FROM vector WHERE owner = 'n' AND owner_id IN (SELECT id FROM note_chunk WHERE note_id = ?)",
            (note_id,),
        )
        tx.run("DELETE FROM note_chunk WHERE note_id = ?", (note_id,))
        tx.run("DELETE FROM note WHERE id = ?", (note_id,))


def count_notes(store: Reader) -> tuple[int, int]:
    """(notes, chunks)."""
    return int(store.value("SELECT count(*) FROM note")), int(store.value("SELECT count(*) FROM note_chunk"))


def is_seen_by(store: Reader, owner: Owner, project_id: int) -> bool:
    """True where a project may see what belongs to an owner; the rule of the view ``note_chunk_project``."""
    if owner == EVERYONE:
        return True
    if owner.kind == "session":
        found = store.value("SELECT project_id FROM session WHERE session_id = ?", (owner.key,))
    elif owner.kind == "project":
        found = project_id_of_name(store, owner.key)
    elif owner.kind == "memory":
        sql = f"SELECT CASE WHEN {IS_GLOBAL} THEN ? ELSE e.project_id END FROM episode e WHERE e.episode_id = ?"
        found = store.value(sql, (project_id, owner.key))
    else:
        return False
    return found is not None and int(found) == project_id
