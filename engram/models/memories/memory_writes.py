"""Write the rows of memories without history, for ``memory_changes``, ``memory_imports`` and ``memory_undo`` only."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter

from peewee import ColumnBase, Query, fn

from engram.models import tables
from engram.models.engine.statement import (
    Statement,
    entry_key,
    in_json_list,
    pack_text,
    pack_uuid,
    prepared,
    unpack_uuid,
)
from engram.models.engine.transaction import Reader, Tx, Value, asks_number, writes
from engram.models.memories.memory_index import index_memories, index_memory, unindex_memory
from engram.models.memories.memory_records import ENUM_FIELDS, LIST_FIELDS, Evidence, Memory, evidence_of

#: Columns that are not written from the field of the same name: the row id, the reference to the session, and columns
#: that ``pack_old_content`` and ``watermarks`` write.
_OWN_COLUMNS = {"id", "session_ref", "packed_content", "is_unjoined"}
_COLUMNS = tuple(name for name in tables.column_names(tables.Memory) if name not in _OWN_COLUMNS)
_fields_of = attrgetter(*_COLUMNS)
#: Columns that contain an enum value or a list.
_CONVERTED_COLUMNS = (*ENUM_FIELDS, *LIST_FIELDS)
#: Fields in the text index.
_INDEXED_FIELDS = {"summary", "content", "entities", "questions"}
#: Fields that determine which projects may see a memory. If one changes, the vector is deleted.
_VISIBILITY_FIELDS = {"scope", "project_id"}


def insert_memory(tx: Tx, memory: Memory) -> int:
    """Store a new memory with its text index and entities; return its row id."""
    columns = _new_row(memory)
    columns["session_ref"] = _session_ref(tx, memory.session_id)
    row_id = tx.insert_row(tables.Memory, columns)
    index_memory(tx, row_id)
    _link_entities(tx, {row_id: memory.entities})
    return row_id


def insert_memories(
    tx: Tx, memories: Sequence[tuple[Memory, Sequence[Evidence]]], dates: Sequence[Mapping[str, Value]]
) -> dict[str, int]:
    """Store new memories without a session, with text index, entities and evidence; return id → row id.

    ``dates`` contains each memory's timestamps and stable id. Inserting in bulk takes a third of the time of separate
    inserts.
    """
    rows = [_new_row(memory) | dict(dated) for (memory, _), dated in zip(memories, dates, strict=True)]
    tx.insert_many(tables.Memory, rows)
    row_ids = _row_ids(tx, [memory.episode_id for memory, _ in memories])
    index_memories(tx, [(row_ids[memory.episode_id], memory) for memory, _ in memories])
    _link_entities(tx, {row_ids[memory.episode_id]: memory.entities for memory, _ in memories})
    evidence_rows = [
        _evidence_row(row_ids[memory.episode_id], seq, entry)
        for memory, evidence in memories
        for seq, entry in enumerate(dict.fromkeys(evidence))
    ]
    tx.insert_many(tables.Evidence, evidence_rows)
    return row_ids


def _new_row(memory: Memory) -> dict[str, Value]:
    """Return a memory's columns. This is twice as fast as calling ``_stored_value`` for each."""
    row = dict(zip(_COLUMNS, _fields_of(memory), strict=True))
    row["content"] = pack_text(memory.content)
    for name in _CONVERTED_COLUMNS:
        row[name] = _stored_value(memory, name)
    return row


def _row_ids(store: Reader, episode_ids: Sequence[str]) -> dict[str, int]:
    memory = tables.Memory
    listed = in_json_list(memory.episode_id, episode_ids)
    return {row.episode_id: row.id for row in store.fetch(memory.select(memory.episode_id, memory.id).where(listed))}


def update_memory(tx: Tx, memory: Memory, changed: Collection[str]) -> None:
    """Store the changed fields and the revision of a memory; update its index, entities and vector.

    If the text or visibility changes, the vector is deleted and recomputed later.
    """
    is_text_changed = bool(_INDEXED_FIELDS & set(changed))
    columns = {
        name: _stored_value(memory, name) for name in (*changed, "revision", "updated_at_ms") if name in _COLUMNS
    }
    if "content" in changed:
        columns["packed_content"] = None
    if "session_id" in changed:
        columns["session_ref"] = _session_ref(tx, memory.session_id)
    if is_text_changed:
        unindex_memory(tx, memory.id)
    tx.update_row(tables.Memory, memory.id, columns)
    if is_text_changed or _VISIBILITY_FIELDS & set(changed):
        _delete_vectors(tx, memory.id)
    if is_text_changed:
        index_memory(tx, memory.id)
        _delete_entity_links(tx, memory.id)
        _link_entities(tx, {memory.id: memory.entities})


def delete_memory_rows(tx: Tx, memory: Memory) -> None:
    """Delete a memory with everything that refers to it: index, vectors, evidence, entities, history, injections.

    Outcomes of prompts are kept but no longer list the memory.
    """
    unindex_memory(tx, memory.id)
    for table in (tables.History, tables.Injection, tables.OutcomeCandidate):
        tx.run(table.delete().where(table.episode_id == memory.episode_id))
    contradiction = tables.Contradiction
    is_part = (contradiction.older_id == memory.episode_id) | (contradiction.newer_id == memory.episode_id)
    tx.run(contradiction.delete().where(is_part))
    _delete_vectors(tx, memory.id)
    tx.run(tables.Evidence.delete().where(tables.Evidence.memory == memory.id))
    _delete_entity_links(tx, memory.id)
    tx.run(tables.Memory.delete().where(tables.Memory.id == memory.id))
    delete_unused_entities(tx)


def delete_unused_entities(tx: Tx) -> None:
    used = tables.MemoryEntity.select(tables.MemoryEntity.entity)
    tx.run(tables.Entity.delete().where(tables.Entity.id.not_in(used)))


def insert_evidence(tx: Tx, row_id: int, evidence: Sequence[Evidence]) -> int:
    """Add evidence to a memory, skipping entries that it already has; return how many were added."""
    known = {entry.uuid for entry in evidence_of(tx, row_id)}
    new = [entry for entry in dict.fromkeys(evidence) if not entry.uuid or entry.uuid not in known]
    first_seq = _next_evidence_seq(tx, row_id)
    tx.insert_many(tables.Evidence, [_evidence_row(row_id, seq, entry) for seq, entry in enumerate(new, first_seq)])
    if any(entry.turn_id is None for entry in new):
        link_evidence(tx, _unlinked_of_memory(row_id))
    return len(new)


@prepared
def _unlinked_of_memory(row_id: int) -> Query:
    """Return a memory's evidence that has no turn yet, for ``link_evidence``."""
    return _unlinked(tables.Evidence.memory == row_id)


@prepared
def unlinked_of_session(session_id: str) -> Query:
    """Return a session's evidence that has no turn yet, for ``link_evidence``."""
    return _unlinked(tables.Evidence.session_id == session_id)


def _unlinked(which: ColumnBase) -> Query:
    """Return the evidence that matches a condition and has no turn yet.

    Evidence without a session was extracted on another machine. It stays unlinked, so that the local extractor, which
    may be worse, does not archive its memory.
    """
    evidence = tables.Evidence
    is_unlinked = evidence.turn_id.is_null() & evidence.uuid.is_null(False) & (evidence.session_id != "")
    return evidence.select(evidence.memory.alias("episode_ref"), evidence.seq, evidence.uuid).where(which & is_unlinked)


def link_evidence(tx: Tx, unlinked: Statement) -> None:
    """Link evidence to the turns that contain its entries, as far as these are stored."""
    evidence, entry, turn = tables.Evidence, tables.Entry, tables.Turn
    names = {(row.episode_ref, row.seq): unpack_uuid(bytes(row.uuid)) for row in tx.fetch(unlinked)}
    if not names:
        return
    by_entry = entry.select(entry.key, entry.turn_id).where(in_json_list(entry.key, [*map(entry_key, names.values())]))
    turns: dict[int | str, int] = {row.key: row.turn_id for row in tx.fetch(by_entry)}
    # A queued prompt has no entry.
    by_key = turn.select(turn.key, turn.id).where(in_json_list(turn.key, list(names.values())))
    turns |= {row.key: row.id for row in tx.fetch(by_key)}
    for (row_id, seq), name in names.items():
        if (turn_id := turns.get(entry_key(name), turns.get(name))) is not None:
            tx.update_row(evidence, {"episode_ref": row_id, "seq": seq}, {"turn_id": turn_id})


def _evidence_row(row_id: int, seq: int, entry: Evidence) -> dict[str, Value]:
    return {
        "episode_ref": row_id,
        "seq": seq,
        "uuid": pack_uuid(entry.uuid) if entry.uuid else None,
        "turn_id": entry.turn_id,
        "session_id": entry.session_id,
    }


def delete_evidence(tx: Tx, row_id: int, which: ColumnBase | None = None) -> int:
    """Delete a memory's evidence, or only what matches a condition; return how many entries were deleted."""
    query = tables.Evidence.delete().where(tables.Evidence.memory == row_id)
    return tx.run(query if which is None else query.where(which))


def set_packed_content(tx: Tx, row_id: int, content: Value, packed_content: bytes | None) -> None:
    """Store the content of a memory in one of its two columns; update the text index."""
    unindex_memory(tx, row_id)
    tx.update_row(tables.Memory, row_id, {"content": content, "packed_content": packed_content})
    index_memory(tx, row_id)


def set_accessed(tx: Tx, episode_id: str, at_ms: int, *, is_use: bool) -> None:
    """Record when a memory was last accessed; with ``is_use``, count the access."""
    memory = tables.Memory
    accessed = memory.update(accessed_at_ms=at_ms, access_count=memory.access_count + int(is_use))
    tx.run(accessed.where(memory.episode_id == episode_id))


def _stored_value(memory: Memory, name: str) -> Value:
    value = getattr(memory, name)
    if name == "content":
        return pack_text(value)
    if isinstance(value, tuple):
        return json.dumps(value, ensure_ascii=False)
    return str(value) if isinstance(value, str) else value


def _session_ref(store: Reader, session_id: str) -> int | None:
    return store.fetch_value(_row_of_session(session_id)) if session_id else None


@prepared
def _row_of_session(session_id: str) -> Query:
    return tables.Session.select(tables.Session.id).where(tables.Session.session_id == session_id)


@asks_number
def _next_evidence_seq(row_id: int) -> Query:
    evidence = tables.Evidence
    return evidence.select(fn.coalesce(fn.max(evidence.seq), -1) + 1).where(evidence.memory == row_id)


@writes
def _delete_vectors(row_id: int) -> Query:
    vector = tables.Vector
    return vector.delete().where((vector.owner == "e") & (vector.owner_id == row_id))


@writes
def _delete_entity_links(row_id: int) -> Query:
    return tables.MemoryEntity.delete().where(tables.MemoryEntity.memory == row_id)


def _link_entities(tx: Tx, entities_by_row: Mapping[int, Sequence[str]]) -> None:
    """Store new entities, and link all given entities, new or not, with the memories that mention them."""
    unique = dict.fromkeys(name for names in entities_by_row.values() for name in names)
    tx.insert_many(tables.Entity, [{"kind": "", "name": name} for name in unique], or_ignore=True)
    links = [
        _insert_entity_link(row_id, name) for row_id, names in entities_by_row.items() for name in dict.fromkeys(names)
    ]
    if links:
        tx.run_many(links[0].sql, [link.parameters for link in links])


@prepared
def _insert_entity_link(row_id: int, name: str) -> Query:
    entity, link = tables.Entity, tables.MemoryEntity
    chosen = entity.select(entity.id, row_id).where((entity.kind == "") & (entity.name == name))
    return link.insert_from(chosen, [link.entity, link.memory]).on_conflict_ignore()
