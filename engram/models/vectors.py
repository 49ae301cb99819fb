"""Vectors in memory.db: of passages (p), episodes (e) and note chunks (n). Each names its model; float16 outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from peewee import Query, Select, fn

from engram.embedding.stored import pack_vector, unpack_vectors
from engram.models import tables
from engram.models.conditions import IS_GLOBAL
from engram.models.statement import prepared
from engram.models.transaction import Reader, Tx


@dataclass(frozen=True, slots=True)
class Missing:
    """A row whose vector is missing or of another model."""

    #: p, e or n.
    owner: str
    owner_id: int
    #: What is embedded: "role: text" for passages.
    text: str
    #: For a passage of a reply: the prompt of its turn, so that it can be embedded with it; else "".
    prompt: str = ""


def missing_vectors(store: Reader, model: str, limit: int) -> list[Missing]:
    """Rows without a current vector: episodes first, then notes, then the newest passages."""
    number = _model_id(store, model)
    found = [
        Missing("e", row[0], row[1])
        for row in store.rows(
            "SELECT e.id, e.summary FROM episode e LEFT JOIN vector v ON v.owner = 'e' AND v.owner_id = e.id "
            "WHERE v.model_id IS NULL OR v.model_id <> ? LIMIT ?",
            (number, limit),
        )
    ]
    if len(found) < limit:
        found += [
            Missing("n", row[0], f"{row[1]}: {row[2]}" if row[1] else row[2])
            for row in store.rows(
                "SELECT n.id, n.heading, n.text FROM note_chunk n LEFT JOIN vector v ON v.owner = 'n' AND v.owner_id = n.id "
                "WHERE v.model_id IS NULL OR v.model_id <> ? LIMIT ?",
                (number, limit - len(found)),
            )
        ]
    if len(found) < limit:
        found += [
            Missing("p", row[0], f"{row[1]}: {row[2]}", row[3] or "")
            for row in store.rows(
                "SELECT p.id, p.role, p.text, (SELECT q.text FROM said q WHERE q.turn_id = p.turn_id AND q.role = 'user' "
                "AND p.role <> 'user' ORDER BY q.seq LIMIT 1) "
                "FROM passage_text p LEFT JOIN vector v ON v.owner = 'p' AND v.owner_id = p.id "
                "WHERE v.model_id IS NULL OR v.model_id <> ? ORDER BY p.id DESC LIMIT ?",
                (number, limit - len(found)),
            )
        ]
    return found


def count_missing_vectors(store: Reader, model: str) -> int:
    """How many rows wait for a vector."""
    total = 0
    for owner, table in (("e", "episode"), ("n", "note_chunk"), ("p", "passage")):
        total += int(store.value(f"SELECT count(*) FROM {table}"))
        total -= int(
            store.value(
                f"SELECT count(*) FROM vector v JOIN {table} t ON t.id = v.owner_id WHERE v.owner = ? AND "
                "v.model_id = ? AND v.piece = 0",
                (owner, _model_id(store, model)),
            )
        )
    return total


def put_vectors(tx: Tx, model: str, vectors: Sequence[tuple[str, int, int, bytes]]) -> None:
    """Store ``(owner, owner_id, piece, float16 bytes)``; rows that were forgotten meanwhile are left out."""
    tables = {"p": "passage", "e": "episode", "n": "note_chunk"}
    tx.run("INSERT OR IGNORE INTO vector_model (name) VALUES (?)", (model,))
    number = _model_id(tx, model)
    for owner, table in tables.items():
        some = [v for v in vectors if v[0] == owner]
        tx.run_many(
            f"INSERT OR REPLACE INTO vector (owner, owner_id, piece, model_id, data) SELECT ?, id, ?, ?, ? FROM {table} "
            "WHERE id = ?",
            [(owner, piece, number, pack_vector(data), owner_id) for _, owner_id, piece, data in some],
        )


def load_vectors(store: Reader, owner: str, model: str, after_id: int = 0) -> list[tuple[int, int, bytes]]:
    """``(owner_id, piece, float16 bytes)`` of an owner kind, beyond a row id."""
    rows = store.rows(
        "SELECT owner_id, piece, data FROM vector WHERE owner = ? AND owner_id > ? AND model_id = ? ORDER BY owner_id, piece",
        (owner, after_id, _model_id(store, model)),
    )
    return [(row[0], row[1], data) for row, data in zip(rows, unpack_vectors([row[2] for row in rows]), strict=True)]


def vectors_since(
    store: Reader, owner: str, model: str, seq: int, limit: int
) -> list[tuple[int, int, int | None, bytes]]:
    """``(seq, owner_id, project id, stored vector)`` of the vectors written after ``seq``, at most ``limit`` of them.

    The project is None for what every project may see: global memories, and the user's own notes. ``unpack_rows`` reads the vectors.
    """
    project = {
        "p": "(SELECT project_id FROM passage WHERE id = v.owner_id)",
        "e": f"(SELECT CASE WHEN {IS_GLOBAL} THEN NULL ELSE e.project_id END FROM episode e WHERE e.id = v.owner_id)",
        "n": "(SELECT project_id FROM note_chunk_project WHERE id = v.owner_id)",
    }[owner]
    rows = store.rows(
        # The + keeps SQLite from walking through all rows of the owner for the few that are new.
        f"SELECT v.seq, v.owner_id, {project}, v.data FROM vector v WHERE v.seq > ? AND +v.owner = ? AND v.model_id = ? "
        "ORDER BY v.seq LIMIT ?",
        (seq, owner, _model_id(store, model), limit),
    )
    return [(row[0], row[1], row[2], bytes(row[3])) for row in rows]


def last_vector_seq(store: Reader) -> int:
    """What was given to the newest vector; while it stays the same no vector has come. Cheap at any size."""
    return int(store.value("SELECT coalesce(max(seq), 0) FROM vector"))


def vector_owner_ids(store: Reader, owner: str) -> list[int]:
    """The rows of an owner kind that have vectors, ascending; one entry for each piece."""
    return [
        int(row[0]) for row in store.rows("SELECT owner_id FROM vector WHERE owner = ? ORDER BY owner_id", (owner,))
    ]


def count_vectors(store: Reader, owner: str) -> int:
    """How many vectors an owner kind has, of all models."""
    return int(store.value("SELECT count(*) FROM vector WHERE owner = ?", (owner,)))


def vectors_of(store: Reader, owner: str, model: str, owner_ids: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """``(owner_id, piece, float16 bytes)`` of certain rows."""
    sql = "SELECT owner_id, piece, data FROM vector WHERE owner = ? AND model_id = ? AND owner_id IN"
    rows = list(store.rows_among(sql, owner_ids, (owner, _model_id(store, model))))
    return [(row[0], row[1], data) for row, data in zip(rows, unpack_vectors([row[2] for row in rows]), strict=True)]


def _model_id(store: Reader, model: str) -> int:
    """The number that a model's vectors carry; 0 for one without any."""
    return int(store.value("SELECT id FROM vector_model WHERE name = ?", (model,)) or 0)


def embeddable_watermark(store: Reader) -> tuple[int, int, int]:
    """What differs once a passage, an episode or a note has come or changed; cheap at any size."""
    row = store.fetch_first(_latest_embeddable())
    return row.passage_id, row.episode_at_ms, row.note_chunk_id


@prepared
def _latest_embeddable() -> Query:
    return Select(
        columns=[
            fn.COALESCE(tables.Passage.select(fn.MAX(tables.Passage.id)), 0).alias("passage_id"),
            fn.COALESCE(tables.Episode.select(fn.MAX(tables.Episode.updated_at_ms)), 0).alias("episode_at_ms"),
            fn.COALESCE(tables.NoteChunk.select(fn.MAX(tables.NoteChunk.id)), 0).alias("note_chunk_id"),
        ]
    )
