"""The vectors of passages (p), memories (e) and note chunks (n) in memory.db; callers get and pass float16."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, ModelSelect, Query, Select, fn

from engram.embedding.packed_vectors import pack_vector, unpack_vectors
from engram.models import tables
from engram.models.engine.statement import Statement, in_json_list, prepared
from engram.models.engine.transaction import Reader, Tx, asks_number, asks_rows, asks_values
from engram.models.memories.memory_records import GLOBAL_SQL, read_texts
from engram.transcripts.turns import OPENING_ROLES

#: Roles of prompts, as stored.
_ASKED = tuple(role.value for role in OPENING_ROLES)


@dataclass(frozen=True, slots=True)
class Missing:
    """A row whose vector is missing or was made by another model."""

    #: p, e or n.
    owner: str
    owner_id: int
    #: The text to embed; "role: text" for passages.
    text: str
    #: For a passage of a reply, the prompt of its turn, so that the two can be embedded together; otherwise "".
    prompt: str = ""
    #: Questions that a memory answers.
    questions: tuple[str, ...] = ()


#: Kind of owner → table of its rows, in the order in which rows get their vectors.
_OWNERS: dict[str, Any] = {"e": tables.Memory, "n": tables.NoteChunk, "p": tables.Passage}


def missing_vectors(store: Reader, model: str, limit: int) -> list[Missing]:
    """Return rows without a current vector: memories first, then notes, then the newest passages."""
    model_id = _model_id(store, model)
    missing = [
        Missing(owner="e", owner_id=row.id, text=row.summary, questions=read_texts(row.questions))
        for row in store.fetch(_missing_memories(model_id, limit))
    ]
    if len(missing) < limit:
        missing += [
            Missing(owner="n", owner_id=row.id, text=f"{row.heading}: {row.text}" if row.heading else row.text)
            for row in store.fetch(_missing_chunks(model_id, limit - len(missing)))
        ]
    if len(missing) < limit:
        missing += [
            Missing(owner="p", owner_id=row.id, text=f"{row.role}: {row.text}", prompt=row.prompt or "")
            for row in store.fetch(_missing_passages(model_id, limit - len(missing)))
        ]
    return missing


def count_vectors_by_model(store: Reader) -> dict[str, int]:
    """Return name of a model → number of its vectors. This reads the row of every vector."""
    vector, model = tables.Vector, tables.VectorModel
    query = vector.select(model.name, fn.COUNT(vector.seq).alias("vectors")).join(model).group_by(model.name)
    return {row.name: row.vectors for row in store.fetch(query)}


def put_vectors(tx: Tx, model: str, vectors: Sequence[tuple[str, int, int, bytes]]) -> None:
    """Store vectors, given as ``(owner, owner_id, piece, float16 bytes)``. Deleted owners are skipped.

    This uses raw SQL to insert each vector only if its owner still exists, with one statement for many vectors.
    """
    tx.run(tables.VectorModel.insert(name=model).on_conflict_ignore())
    model_id = _model_id(tx, model)
    for owner, table in _OWNERS.items():
        tx.run_many(
            "INSERT OR REPLACE INTO vector (owner, owner_id, piece, model_id, data) "
            f"SELECT ?, id, ?, ?, ? FROM {table._meta.table_name} WHERE id = ?",
            [
                (owner, piece, model_id, pack_vector(data), owner_id)
                for kind, owner_id, piece, data in vectors
                if kind == owner
            ],
        )


def vector_batches(store: Reader, owner: str, model: str, size: int) -> Iterator[list[tuple[int, int, bytes]]]:
    """Yield ``(owner_id, piece, float16 bytes)`` of one kind of owner by row id, in batches of about ``size``."""
    model_id = _model_id(store, model)
    ids = vector_owner_ids(store, owner)
    last_id = 0
    vector = tables.Vector
    query = vector.select(vector.owner_id, vector.piece, vector.data).order_by(vector.owner_id, vector.piece)
    query = query.where((vector.owner == owner) & (vector.model == model_id))
    for end in range(size, len(ids) + size, size):
        first_id, last_id = last_id, ids[min(end, len(ids)) - 1]
        is_between = (vector.owner_id > first_id) & (vector.owner_id <= last_id)
        batch = _unpacked(store.fetch(query.where(is_between)))
        if batch:
            yield batch


def vectors_since(
    store: Reader, owner: str, model: str, seq: int, limit: int
) -> list[tuple[int, int, int | None, bytes]]:
    """Return ``(seq, owner_id, project id, stored vector)`` for at most ``limit`` vectors written after ``seq``.

    The project is None for owners that every project may see: global memories, and the user's own notes.
    ``unpack_rows`` decodes the vectors. In the raw SQL, the + keeps SQLite from scanning all vectors of this kind for
    the few new ones.
    """
    project = {
        "p": "(SELECT project_id FROM passage WHERE id = v.owner_id)",
        "e": f"(SELECT CASE WHEN {GLOBAL_SQL} THEN NULL ELSE e.project_id END FROM episode e WHERE e.id = v.owner_id)",
        "n": "(SELECT project_id FROM note_chunk_project WHERE id = v.owner_id)",
    }[owner]
    sql = (
        f"SELECT v.seq, v.owner_id, {project} AS project_id, v.data FROM vector v "
        "WHERE v.seq > ? AND +v.owner = ? AND v.model_id = ? ORDER BY v.seq LIMIT ?"
    )
    rows = store.fetch(Statement(sql, (seq, owner, _model_id(store, model), limit)))
    return [(row.seq, row.owner_id, row.project_id, bytes(row.data)) for row in rows]


def vectors_of(store: Reader, owner: str, model: str, owner_ids: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """Return ``(owner_id, piece, float16 bytes)`` for the given owners."""
    return _unpacked(store.fetch(_vectors_among(owner, _model_id(store, model), owner_ids)))


@asks_rows(lambda rows: (int(rows[0].passage_id), int(rows[0].memory_at_ms), int(rows[0].note_chunk_id)))
def embeddable_watermark() -> Query:
    """Return a value that changes when a passage, a memory or a note is added or changed. Fast at any size."""
    return Select(
        columns=[
            fn.COALESCE(tables.Passage.select(fn.MAX(tables.Passage.id)), 0).alias("passage_id"),
            fn.COALESCE(tables.Memory.select(fn.MAX(tables.Memory.updated_at_ms)), 0).alias("memory_at_ms"),
            fn.COALESCE(tables.NoteChunk.select(fn.MAX(tables.NoteChunk.id)), 0).alias("note_chunk_id"),
        ]
    )


def _unpacked(rows: Sequence[Any]) -> list[tuple[int, int, bytes]]:
    vectors = unpack_vectors([row.data for row in rows])
    return [(row.owner_id, row.piece, data) for row, data in zip(rows, vectors, strict=True)]


# -- queries


def _without_current_vector(query: ModelSelect[Any], table: Any, owner: str, model_id: int) -> ModelSelect[Any]:
    vector = tables.Vector
    query = query.join(vector, JOIN.LEFT_OUTER, on=(vector.owner == owner) & (vector.owner_id == table.id))
    return query.where(vector.model.is_null() | (vector.model != model_id))


@prepared
def _missing_memories(model_id: int, limit: int) -> Query:
    memory = tables.Memory
    query = _without_current_vector(memory.select(memory.id, memory.summary, memory.questions), memory, "e", model_id)
    # Newest first, because text that has just been saved is likely to be searched for next.
    return query.order_by(memory.id.desc()).limit(limit)


@prepared
def _missing_chunks(model_id: int, limit: int) -> Query:
    chunk = tables.NoteChunk
    query = chunk.select(chunk.id, chunk.heading, chunk.text)
    return _without_current_vector(query, chunk, "n", model_id).limit(limit)


@prepared
def _missing_passages(model_id: int, limit: int) -> Query:
    passage, block = tables.PassageText, tables.TextBlock
    is_prompt = (block.turn == passage.turn_id) & block.role.in_(_ASKED) & passage.role.not_in(_ASKED)
    prompt = block.select(block.text).where(is_prompt).order_by(block.seq).limit(1)
    query = passage.select(passage.id, passage.role, passage.text, prompt.alias("prompt"))
    return _without_current_vector(query, passage, "p", model_id).order_by(passage.id.desc()).limit(limit)


@asks_number
def _model_id(model: str) -> Query:
    """Return the id that is stored with a model's vectors; 0 if it has none."""
    return tables.VectorModel.select(tables.VectorModel.id).where(tables.VectorModel.name == model)


@prepared
def _vectors_among(owner: str, model_id: int, owner_ids: Sequence[int]) -> Query:
    vector = tables.Vector
    query = vector.select(vector.owner_id, vector.piece, vector.data)
    is_asked = (vector.owner == owner) & (vector.model == model_id) & in_json_list(vector.owner_id, owner_ids)
    return query.where(is_asked)


@asks_number
def last_vector_seq() -> Query:
    """Return the number of the newest vector, which changes whenever one is added. Fast at any size."""
    return tables.Vector.select(fn.COALESCE(fn.MAX(tables.Vector.seq), 0))


@asks_values
def vector_owner_ids(owner: str) -> Query:
    """Return the ids of the owners of one kind that have vectors, in ascending order, once for each piece."""
    vector = tables.Vector
    return vector.select(vector.owner_id).where(vector.owner == owner).order_by(vector.owner_id)


@asks_number
def count_vectors(owner: str) -> Query:
    """Return how many vectors the owners of one kind have, from all models."""
    return tables.Vector.select(fn.COUNT(tables.Vector.seq)).where(tables.Vector.owner == owner)
