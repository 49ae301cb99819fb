"""Write, close and delete turns with their passages and the text index of these, and move turns to another project."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from peewee import SQL, Query, Select, Value, fn

from engram.enums import Actor, Scope, Source, Status
from engram.models import tables
from engram.models.engine.statement import (
    entry_key,
    in_json_list,
    in_order,
    pack_actions,
    pack_entries,
    pack_uuid,
    prepared,
    row_change,
    unpack_entries,
)
from engram.models.engine.transaction import Reader, Tx, asks_number, asks_values, writes
from engram.models.engine.transaction import Value as StoredValue
from engram.models.memories.memory_changes import change_memory, link_evidence, move_memories, unlink_evidence
from engram.models.memories.memory_records import evidence_of, memories_of_turns
from engram.models.memories.tombstones import TombstoneKind, add_tombstones
from engram.models.sessions.failures_and_commits import replace_failed_calls
from engram.models.sessions.passage_rows import drop_quotation_records
from engram.models.sessions.prompt_outcomes import drop_outcomes_of_turn
from engram.models.sessions.sessions import SessionRow
from engram.models.sessions.stored_turns import PROMPT_MOVED, claim_entries, entries_of_turn, free_entries
from engram.models.tables import CONTEXT_CHARS
from engram.text.splitting import split_passages
from engram.text.words import in_pairs
from engram.transcripts.turns import EntryRef, Role, TextBlock, Turn

#: Reason recorded for a memory that was sorted into another project. It is not shared from there automatically.
SORTED = "sorted by the folder that it was said in"


def join_in(tx: Tx, into: int, other: int, *, actor: Actor, is_said: bool = True) -> int:
    """Move everything in another project to the project ``into``; return how many sessions were moved.

    With ``is_said``, hubs are notified; otherwise, the projects are merged by sorting.
    """
    reason = "two projects became one" if is_said else SORTED
    renumber_vectors(tx, [other])
    move_memories(tx, tables.Memory.project == other, into, reason, actor=actor, is_said=is_said)
    moved = 0
    for table in (tables.Turn, tables.Passage, tables.Outcome, tables.Session):
        project = table._meta.columns["project_id"]
        moved = tx.run(table.update({project: into}).where(project == other))
    return moved


def move_turns(tx: Tx, turn_ids: Sequence[int], project_id: int | None, reason: str, *, actor: Actor) -> list[str]:
    """Move turns to a project, with the automatic memories that rest only on them; return the ids of these memories.

    Hubs are not notified, because each machine determines the project of a turn on its own.
    """
    memories = tx.fetch(_resting_on_alone(turn_ids))
    row_ids = [row.id for row in memories]
    move_memories(tx, in_json_list(tables.Memory.id, row_ids), project_id, reason, actor=actor, is_said=False)
    tx.run(tables.Turn.update(project=project_id).where(in_json_list(tables.Turn.id, turn_ids)))
    tx.run(tables.Passage.update(project_id=project_id).where(in_json_list(tables.Passage.turn_id, turn_ids)))
    _renumber(tx, "p", tables.Passage.select(tables.Passage.id).where(in_json_list(tables.Passage.turn_id, turn_ids)))
    _renumber(tx, "e", tables.Memory.select(tables.Memory.id).where(in_json_list(tables.Memory.id, row_ids)))
    return [row.episode_id for row in memories]


def move_sessions(tx: Tx, session_refs: Sequence[int], from_id: int, to_id: int, *, actor: Actor) -> list[int]:
    """Move sessions of a project to another one, with the memories from them; return the row ids of these memories.

    ``move_turns`` and ``renumber_notes`` move their turns and notes. Hubs are not notified.
    """
    session, memory, outcome = tables.Session, tables.Memory, tables.Outcome
    memories = tx.fetch_values(
        memory.select(memory.id).where(in_json_list(memory.session, session_refs) & (memory.project == from_id))
    )
    move_memories(tx, in_json_list(memory.id, memories), to_id, SORTED, actor=actor, is_said=False)
    names = session.select(session.session_id).where(in_json_list(session.id, session_refs))
    tx.run(outcome.update(project_id=to_id).where(outcome.session_id.in_(names) & (outcome.project_id == from_id)))
    tx.run(session.update(project=to_id).where(in_json_list(session.id, session_refs) & (session.project == from_id)))
    _renumber(tx, "e", memory.select(memory.id).where(in_json_list(memory.id, memories)))
    return [int(row_id) for row_id in memories]


def renumber_vectors(tx: Tx, projects: Sequence[int]) -> None:
    """Renumber the vectors of these projects, so that in-memory indexes read them again."""
    renumber_notes(tx, projects)
    _renumber_vectors(tx, "p", tables.Passage, projects)
    _renumber_vectors(tx, "e", tables.Memory, projects)


def renumber_notes(tx: Tx, projects: Sequence[int]) -> None:
    """Renumber the vectors of the notes of these projects. A note belongs to the project of its session."""
    _renumber_vectors(tx, "n", tables.NoteChunkProject, projects)


def _renumber_vectors(tx: Tx, owner: str, table: type[tables.Table], projects: Sequence[int]) -> None:
    """Give the vectors of these projects' rows new numbers, after all existing ones."""
    columns = table._meta.columns
    _renumber(tx, owner, table.select(columns["id"]).where(columns["project_id"].in_(list(projects))))


def _renumber(tx: Tx, owner: str, owned: Query) -> None:
    vector = tables.Vector
    moving = vector.select(vector.seq).where((vector.owner == owner) & vector.owner_id.in_(owned))
    newest = int(tx.fetch_value(vector.select(fn.coalesce(fn.max(vector.seq), 0))))
    for number, seq in enumerate(tx.fetch_values(moving.order_by(vector.seq)), newest + 1):
        tx.update_row(tables.Vector, {"seq": seq}, {"seq": number})


@prepared
def _resting_on_alone(turn_ids: Sequence[int]) -> Query:
    memory, evidence = tables.Memory, tables.Evidence
    here = evidence.select(evidence.memory).where(in_json_list(evidence.turn_id, turn_ids))
    elsewhere = evidence.select(Value(1)).where(
        (evidence.memory == memory.id)
        & (evidence.turn_id.is_null() | evidence.turn_id.not_in(Select([fn.json_each(turn_ids)], [SQL("value")])))
    )
    is_own = (memory.source == Source.AUTO.value) & (memory.scope == Scope.PROJECT.value)
    return memory.select(memory.id, memory.episode_id).where(memory.id.in_(here) & is_own & ~fn.EXISTS(elsewhere))


# -- Write, close, withdraw and delete turns, with their text, passages and entries.


def write_turns(
    tx: Tx,
    turns: Sequence[Turn],
    session: SessionRow,
    transcript_id: int,
    projects: Mapping[str, int] = MappingProxyType({}),
) -> list[int]:
    """Store new turns of one session, or the growth of known ones; return their row ids.

    A turn grows only at its end; its earlier text never changes. Its revision is incremented whenever it grows.

    Args:
        turns: in the order of the transcript.
        projects: key of a turn → row id of its project, if that isn't the session's project.

    Raises:
        Conflict: an entry has since been stored with another turn; roll back and read again.
    """
    ids: list[int] = []
    blocks: list[tuple[int, int, TextBlock]] = []
    places: dict[int, int | None] = {}
    stored_rows = {
        row.key: _StoredRow(row.id, row.entries, row.revision, row.project_id)
        for row in tx.fetch(_stored_rows([turn.key for turn in turns]))
    }
    for turn in turns:
        project_id = projects.get(turn.key, session.project_id)
        before = stored_rows.get(turn.key)
        stored_rows[turn.key] = now = _write_row(tx, turn, before, session, transcript_id, project_id)
        turn_id = now.id
        places[turn_id] = project_id
        have, next_seq = 0, 0
        if before is not None:
            # Positions of erased text blocks are not reused, so the next one follows from the highest position, not
            # from the number of blocks.
            stored = tx.fetch_first(_stored_blocks(turn_id))
            have, next_seq = stored.count, stored.next_seq
        blocks += [(turn_id, seq, block) for seq, block in enumerate(turn.said[have:], next_seq)]
        ids.append(turn_id)
    _add_passages(tx, session.id, _write_blocks(tx, blocks), places)
    link_evidence(tx, session.session_id)
    return ids


class _StoredRow(NamedTuple):
    """What is needed of a turn's row to write it again."""

    id: int
    entries: bytes
    revision: int
    project_id: int | None


def _write_row(
    tx: Tx, turn: Turn, stored: _StoredRow | None, session: SessionRow, transcript_id: int, project_id: int | None
) -> _StoredRow:
    """Store a turn's row in place of the stored one, if there is one; return the new row."""
    entries = in_order(turn.entries)
    packed = pack_entries(entries)
    columns: dict[str, StoredValue] = {
        "cwd": turn.cwd,
        "branch": turn.branch,
        "started_at_ms": turn.started_at_ms,
        "ended_at_ms": turn.ended_at_ms,
        "start_offset": turn.start_offset,
        "end_offset": turn.end_offset,
        "is_closed": turn.is_closed,
        "is_interrupted": turn.is_interrupted,
        "message_count": turn.message_count,
        "actions": pack_actions(turn.actions, entries),
        "extra": json.dumps(turn.extra),
        "entries": packed,
        "updated_at_ms": tx.now_ms(),
    }
    known: set[str] = set()
    if stored is None:
        columns |= {
            "stable_id": secrets.token_hex(8),
            "key": turn.key,
            "session_ref": session.id,
            "project_id": project_id,
            "transcript_id": transcript_id,
            "opening": turn.opening.value,
            "agent": turn.agent,
        }
        turn_id, revision = tx.insert_row(tables.Turn, columns), 1
    else:
        turn_id, revision = stored.id, stored.revision + 1
        if stored.project_id != project_id:
            move_turns(tx, [turn_id], project_id, "its turn went on in another project", actor=Actor.TIDYING)
        known = {entry.uuid for entry in unpack_entries(bytes(stored.entries))}
        tx.update_row(tables.Turn, turn_id, columns | {"revision": revision})
    if stored is not None or any(action.error_keys for action in turn.actions):
        replace_failed_calls(tx, turn_id, turn.actions)
    claim_entries(tx, turn_id, [entry for entry in turn.entries if entry.uuid not in known])
    return _StoredRow(turn_id, packed, revision, project_id)


def _write_blocks(tx: Tx, blocks: Sequence[tuple[int, int, TextBlock]]) -> list[tuple[int, int, TextBlock]]:
    """Store text blocks, given as (turn, position, block), in bulk; return (turn, row id, block) for each.

    Row ids can be assigned here, because no other process can write at the same time.
    """
    first_id = _last_block(tx) + 1 if blocks else 0
    rows: list[dict[str, StoredValue]] = [
        {
            "id": row_id,
            "turn_id": turn_id,
            "seq": seq,
            "uuid": pack_uuid(block.uuid) if block.uuid else None,
            "role": block.role.value,
            **{name: getattr(block, name) for name in ("text", "message_id", "offset", "length", "line", "at_ms")},
        }
        for row_id, (turn_id, seq, block) in enumerate(blocks, first_id)
    ]
    tx.insert_many(tables.TextBlock, rows)
    return [(turn_id, row_id, block) for row_id, (turn_id, _, block) in enumerate(blocks, first_id)]


def close_turn(tx: Tx, key: str) -> None:
    """Close a turn that has not grown, without changing its revision."""
    tx.run(tables.Turn.update(is_closed=True).where(tables.Turn.key == key))


def withdraw_turn(tx: Tx, key: str) -> None:
    """Delete a turn that turned out not to be one of its own, so that another turn may claim its entries."""
    for turn_id in _ids_of(tx, key):
        drop_passages(tx, turn_id)
        _delete_rows(tx, turn_id)


def withdraw_memories(tx: Tx, turn_id: int) -> None:
    """Archive the memories from a queued prompt that turned out not to be a turn of its own."""
    for memory in memories_of_turns(tx, [turn_id]):
        is_automatic = memory.source == Source.AUTO and memory.is_current
        if is_automatic and not memory.is_pinned and evidence_of(tx, memory.id)[0].turn_id == turn_id:
            change_memory(tx, memory, "archive", PROMPT_MOVED, status=Status.ARCHIVED, actor=Actor.TIDYING)


def clear_turn(tx: Tx, key: str) -> None:
    """Empty a stored turn that is about to be rewritten with different words; its row and revision are kept."""
    for turn_id in _ids_of(tx, key):
        drop_passages(tx, turn_id)
        free_entries(tx, turn_id)
        tx.run(tables.TextBlock.delete().where(tables.TextBlock.turn == turn_id))
        tx.update_row(tables.Turn, turn_id, {"entries": b""})


def delete_turn(tx: Tx, turn_id: int) -> list[str]:
    """Delete a turn permanently, with its text, passages, vectors and outcomes; add tombstones for it and its entries.

    Return the ids of its entries.
    """
    uuids = [entry.uuid for entry in entries_of_turn(tx, turn_id)]
    key = tx.fetch_value(tables.Turn.select(tables.Turn.key).where(tables.Turn.id == turn_id))
    drop_passages(tx, turn_id)
    drop_quotation_records(tx, [*uuids, *([] if key is None else [str(key)])])
    add_tombstones(tx, TombstoneKind.ENTRY, map(pack_uuid, uuids))
    if key is not None:
        add_tombstones(tx, TombstoneKind.TURN, [str(key).encode()])
    drop_outcomes_of_turn(tx, turn_id)
    _delete_rows(tx, turn_id)
    return uuids


def _delete_rows(tx: Tx, turn_id: int) -> None:
    """Delete a turn's rows, after its passages have been deleted."""
    free_entries(tx, turn_id)
    unlink_evidence(tx, turn_id)
    tx.run(tables.TextBlock.delete().where(tables.TextBlock.turn == turn_id))
    tx.run(tables.Turn.delete().where(tables.Turn.id == turn_id))


def move_entries(tx: Tx, transcript_id: int, places: Sequence[EntryRef]) -> None:
    """Record the new locations of the entries of a rewritten source, in the turns that were read from it."""
    if not places:
        return
    by_uuid = {place.uuid: place for place in places}
    keys = [entry_key(uuid) for uuid in by_uuid]
    entry, turn = tables.Entry, tables.Turn
    query = turn.select(turn.id, turn.entries).join(entry, on=turn.id == entry.turn_id).distinct()
    query = query.where((turn.transcript == transcript_id) & in_json_list(entry.key, keys))
    for row in tx.fetch(query):
        _place_entries(tx, row.id, unpack_entries(bytes(row.entries)), by_uuid)


def forget_places(tx: Tx, transcript_id: int) -> None:
    """Record that the locations of a source's entries are unknown, because it has been rewritten and is read again."""
    turn = tables.Turn
    for row in tx.fetch(turn.select(turn.id, turn.entries).where(turn.transcript == transcript_id)):
        entries = unpack_entries(bytes(row.entries))
        _place_entries(tx, row.id, entries, {entry.uuid: EntryRef(entry.uuid, 0, 0, 0) for entry in entries})


def take_for_prompt(tx: Tx, turn_id: int) -> None:
    """Record that the first words of a turn, which were in an unknown element, are the user's."""
    turn, block, passage = tables.Turn, tables.TextBlock, tables.Passage
    blocks = block.select(block.id, block.role).where(block.turn == turn_id).order_by(block.seq)
    first = tx.fetch_first(blocks.limit(1))
    row = tx.fetch_first(turn.select(turn.extra, turn.revision).where(turn.id == turn_id))
    if first.role == Role.CONTEXT.value:
        tx.run(block.update(role=Role.USER.value).where(block.id == first.id))
        tx.run(passage.update(role=Role.USER.value).where(passage.text_block == first.id))
    extra = {name: value for name, value in json.loads(row.extra).items() if name != "element"}
    tx.update_row(tables.Turn, turn_id, {"extra": json.dumps(extra), "revision": row.revision + 1})


def _place_entries(tx: Tx, turn_id: int, before: Sequence[EntryRef], places: Mapping[str, EntryRef]) -> None:
    """Store new locations for a turn's entries, in the same order, because tool calls refer to entries by position."""
    after = [places.get(entry.uuid, entry) for entry in before]
    if after == list(before):
        return
    columns: dict[str, StoredValue] = {"entries": pack_entries(after)}
    known = [entry for entry in after if entry.line]
    if known:
        columns["start_offset"] = min(entry.offset for entry in known)
        columns["end_offset"] = max(entry.offset + entry.length for entry in known)
    tx.update_row(tables.Turn, turn_id, columns)
    moved = {pack_uuid(new.uuid): new for old, new in zip(before, after, strict=True) if old != new}
    said = tables.TextBlock
    blocks = tx.fetch(said.select(said.id, said.uuid).where((said.turn == turn_id) & said.uuid.is_null(False)))
    now = ((row.id, moved.get(bytes(row.uuid))) for row in blocks)
    change = row_change(said, ("offset", "length", "line"), ("id",))
    tx.run_many(change, [(new.offset, new.length, new.line, row_id) for row_id, new in now if new is not None])


@prepared
def _stored_rows(keys: Sequence[str]) -> Query:
    turn = tables.Turn
    query = turn.select(turn.key, turn.id, turn.entries, turn.revision, turn.project)
    return query.where(in_json_list(turn.key, keys))


@prepared
def _stored_blocks(turn_id: int) -> Query:
    block = tables.TextBlock
    next_seq = fn.COALESCE(fn.MAX(block.seq), -1) + 1
    return block.select(fn.COUNT(block.id).alias("count"), next_seq.alias("next_seq")).where(block.turn == turn_id)


@asks_number
def _last_block() -> Query:
    return tables.TextBlock.select(fn.MAX(tables.TextBlock.id))


@writes
def close_turns(session_ref: int) -> Query:
    """Close a session's open turns; return how many there were."""
    turn = tables.Turn
    return turn.update(is_closed=True).where((turn.session == session_ref) & (turn.is_closed == 0))


@asks_values
def _ids_of(key: str) -> Query:
    """Return the row id of the turn with a key, if there is one."""
    return tables.Turn.select(tables.Turn.id).where(tables.Turn.key == key)


# -- Passages and their text index. A passage is indexed with the words of its neighbours, so adding or deleting one
# requires reindexing its neighbours.


def _add_passages(
    tx: Tx, session_ref: int, blocks: Sequence[tuple[int, int, TextBlock]], projects: Mapping[int, int | None]
) -> None:
    """Split new text blocks (turn, row id, text) of a session into passages and index them.

    Args:
        projects: row id of a turn → row id of its project.
    """
    parts = [(*block, start, stop) for block in blocks for start, stop in split_passages(block[2].text)]
    if not parts:
        return
    rows: list[dict[str, StoredValue]] = [
        {
            "said_id": row_id,
            "turn_id": turn_id,
            "session_ref": session_ref,
            "project_id": projects[turn_id],
            "role": block.role.value,
            "start": start,
            "stop": stop,
        }
        for turn_id, row_id, block, start, stop in parts
    ]
    last = _last_of_session(tx, session_ref)
    if last:
        _unindex(tx, [last])
    tx.insert_many(tables.Passage, rows)
    new = _after(tx, session_ref, last)
    before = ""
    if last:
        _index(tx, [last])
        before = str(tx.fetch_value(_text_of(last)) or "")
    _index_new(tx, new, [block.text[start:stop] for _, _, block, start, stop in parts], before)


def drop_passages(tx: Tx, turn_id: int) -> None:
    """Delete a turn's passages with their vectors and all traces in the text index."""
    _drop(tx, [row.id for row in tx.fetch(_of_turn(turn_id))])


def drop_passages_of_texts(tx: Tx, turn_id: int, said_ids: Sequence[int]) -> None:
    """Delete the passages of some of a turn's text blocks, as ``drop_passages`` does."""
    _drop(tx, [row.id for row in tx.fetch(_of_turn(turn_id)) if row.said_id in set(said_ids)])


def _drop(tx: Tx, ids: Sequence[int]) -> None:
    if not ids:
        return
    neighbours = _neighbours(tx, ids)
    _unindex(tx, [*ids, *neighbours])
    _delete_vectors(tx, ids)
    _delete(tx, ids)
    _index(tx, neighbours)


def _neighbours(store: Reader, ids: Sequence[int]) -> list[int]:
    """Return the passages directly before and after the given ones, which are indexed with words of theirs."""
    session_ref = store.fetch_value(_session_of(ids[0]))
    neighbours = set()
    for row_id in ids:
        row = store.fetch_first(_beside(session_ref, row_id))
        neighbours |= {row.before, row.after}
    return sorted(neighbours - {None, *ids})


# -- The text index, in raw SQL, because its commands are columns with the same name as the table, which peewee can't
# express.


_INSERT = "INSERT INTO passage_fts(rowid, own, before, after) VALUES (?, ?, ?, ?)"


def _index_new(tx: Tx, ids: Sequence[int], texts: Sequence[str], before: str) -> None:
    """Index consecutive new passages of a session, with the words of ``passage_context`` but without querying it."""
    neighbours = zip(ids, texts, [before, *texts], [*texts[1:], ""], strict=False)
    tx.run_many(
        _INSERT,
        [
            (row_id, in_pairs(own), in_pairs(left[-CONTEXT_CHARS:]), in_pairs(right[:CONTEXT_CHARS]))
            for row_id, own, left, right in neighbours
        ],
    )


def _index(tx: Tx, ids: Sequence[int]) -> None:
    tx.run_many(_INSERT, _words(tx, ids))


def _unindex(tx: Tx, ids: Sequence[int]) -> None:
    """Remove rows from the index.

    The passages and their neighbours must still be in the state in which they were indexed.
    """
    tx.run_many(
        "INSERT INTO passage_fts(passage_fts, rowid, own, before, after) VALUES ('delete', ?, ?, ?, ?)", _words(tx, ids)
    )


def _words(store: Reader, ids: Sequence[int]) -> list[tuple[StoredValue, ...]]:
    """Return the rows of ``passage_context`` for a few passages, faster than by querying it."""
    rows = (
        row
        for row_id in ids
        for row in store.rows("SELECT id, own, before, after FROM passage_beside WHERE id = ?", (row_id,))
    )
    return [(row_id, in_pairs(own), in_pairs(before), in_pairs(after)) for row_id, own, before, after in rows]


# -- queries


@asks_number
def _last_of_session(session_ref: int) -> Query:
    return tables.Passage.select(fn.MAX(tables.Passage.id)).where(tables.Passage.session_ref == session_ref)


@asks_values
def _after(session_ref: int, row_id: int) -> Query:
    passage = tables.Passage
    query = passage.select(passage.id).where((passage.session_ref == session_ref) & (passage.id > row_id))
    return query.order_by(passage.id)


@prepared
def _text_of(row_id: int) -> Query:
    return tables.PassageText.select(tables.PassageText.text).where(tables.PassageText.id == row_id)


@prepared
def _of_turn(turn_id: int) -> Query:
    passage = tables.Passage
    return passage.select(passage.id, passage.text_block).where(passage.turn_id == turn_id).order_by(passage.id)


@prepared
def _session_of(row_id: int) -> Query:
    return tables.Passage.select(tables.Passage.session_ref).where(tables.Passage.id == row_id)


@prepared
def _beside(session_ref: int, row_id: int) -> Query:
    passage = tables.Passage
    of_session = passage.session_ref == session_ref
    before = passage.select(fn.MAX(passage.id)).where(of_session & (passage.id < row_id))
    after = passage.select(fn.MIN(passage.id)).where(of_session & (passage.id > row_id))
    return Select(columns=[before.alias("before"), after.alias("after")])


@writes
def _delete(ids: Sequence[int]) -> Query:
    return tables.Passage.delete().where(in_json_list(tables.Passage.id, ids))


@writes
def _delete_vectors(ids: Sequence[int]) -> Query:
    vector = tables.Vector
    return vector.delete().where((vector.owner == "p") & in_json_list(vector.owner_id, ids))
