"""Turns: what was said, the facts of tool calls, the entries they came from, and the passages that are searched."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peewee import ModelSelect, Query, fn

from engram.errors import Conflict
from engram.models import tables
from engram.models.entries import claim_entries, entries_of_turn, free_entries, turn_of_entry
from engram.models.packed_actions import pack_actions, unpack_actions
from engram.models.packed_entries import in_order, pack_entries, unpack_entries
from engram.models.passages import add_passages, drop_passages
from engram.models.records import RecordReader
from engram.models.sessions import SessionRow
from engram.models.statement import prepared
from engram.models.tombstones import TombstoneKind, add_tombstones
from engram.models.transaction import Reader, Tx, Value
from engram.models.uuids import pack_uuid, unpack_uuid
from engram.transcripts.record import Opening, Role, TextBlock, Turn


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn with what only the database knows of it."""

    id: int
    turn: Turn
    revision: int
    extracted_revision: int
    project_id: int | None
    session_ref: int
    path: Path


@dataclass(frozen=True, slots=True)
class EvidencePlace:
    """Where an entry stands."""

    session_id: str
    uuid: str
    path: str
    #: Line number from 1; 0 if the source has no lines, or if it is not known.
    line: int
    #: The session's key within a file that holds several; "" if the file is one session.
    part: str = ""
    #: Position in the source, in the unit that its agent counts by; bytes in a file of lines.
    position: int = 0

    @property
    def text(self) -> str:
        """The place for people: path and line, or path, part and position if there are no lines."""
        if self.line:
            return f"{self.path}:{self.line}"
        return f"{self.path} {self.part} at {self.position}" if self.part else f"{self.path} at {self.position}"


def write_turn(tx: Tx, turn: Turn, session: SessionRow, transcript_id: int) -> int:
    """Store a new turn or what a known one has grown by; returns its row id.

    A turn grows only at its end: what was said before stays as it is. Every growth raises its revision.

    Raises:
        Conflict: one of its entries went to another turn meanwhile; roll back and read again.
    """
    return write_turns(tx, [turn], session, transcript_id)[0]


def write_turns(tx: Tx, turns: Sequence[Turn], session: SessionRow, transcript_id: int) -> list[int]:
    """Store several turns of one session like ``write_turn``; their passages are indexed together, which is faster."""
    ids: list[int] = []
    blocks: list[tuple[int, int, TextBlock]] = []
    for turn in turns:
        turn_id, is_new = _write_row(tx, turn, session, transcript_id)
        have, next_seq = 0, 0
        if not is_new:
            # Places of erased texts stay free, so that the highest place tells more than the number.
            stored = tx.fetch_first(_stored_blocks(turn_id))
            have, next_seq = stored.count, stored.next_seq
        blocks += [(turn_id, seq, block) for seq, block in enumerate(turn.said[have:], next_seq)]
        ids.append(turn_id)
    add_passages(tx, session, _write_blocks(tx, blocks))
    return ids


def _write_row(tx: Tx, turn: Turn, session: SessionRow, transcript_id: int) -> tuple[int, bool]:
    """Store the turn's own row; returns its id and whether the turn is new."""
    entries = in_order(turn.entries)
    columns: dict[str, Value] = {
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
        "entries": pack_entries(entries),
        "updated_at_ms": tx.now_ms(),
    }
    stored = tx.fetch_first(_stored_row(turn.key))
    known: set[str] = set()
    if stored is None:
        columns |= {
            "stable_id": secrets.token_hex(8),
            "key": turn.key,
            "session_ref": session.id,
            "project_id": session.project_id,
            "transcript_id": transcript_id,
            "opening": turn.opening.value,
            "agent": turn.agent,
        }
        turn_id = tx.insert_row(tables.Turn, columns)
    else:
        turn_id = stored.id
        known = {entry.uuid for entry in unpack_entries(bytes(stored.entries))}
        tx.update_row(tables.Turn, turn_id, columns | {"revision": stored.revision + 1})
    claim_entries(tx, turn_id, [entry for entry in turn.entries if entry.uuid not in known])
    return turn_id, stored is None


def _write_blocks(tx: Tx, blocks: Sequence[tuple[int, int, TextBlock]]) -> list[tuple[int, int, TextBlock]]:
    """Store texts (turn, place in it, text) in one go; returns turn, row id and text of each.

    The row ids are given out here: nobody else writes meanwhile.
    """
    first_id = int(tx.fetch_value(_last_block()) or 0) + 1 if blocks else 0
    rows: list[dict[str, Value]] = [
        {
            "id": row_id,
            "turn_id": turn_id,
            "seq": seq,
            "uuid": pack_uuid(block.uuid) if block.uuid else None,
            "role": block.role.value,
            "text": block.text,
            "message_id": block.message_id,
            "offset": block.offset,
            "length": block.length,
            "line": block.line,
            "at_ms": block.at_ms,
        }
        for row_id, (turn_id, seq, block) in enumerate(blocks, first_id)
    ]
    tx.insert_many(tables.TextBlock, rows)
    return [(turn_id, row_id, block) for row_id, (turn_id, _, block) in enumerate(blocks, first_id)]


def close_turns(tx: Tx, session_ref: int) -> int:
    """Close a session's open turns; returns how many there were."""
    return tx.run(_close_of_session(session_ref))


def close_turn(tx: Tx, key: str) -> None:
    """Close one turn that did not grow, so that its revision stays."""
    tx.run(tables.Turn.update(is_closed=True).where(tables.Turn.key == key))


def withdraw_turn(tx: Tx, key: str) -> None:
    """Remove a turn that proved to be none (its entries may come again in another)."""
    turn_id = tx.fetch_value(_id_of(key))
    if turn_id is not None:
        drop_passages(tx, int(turn_id))
        _delete_rows(tx, int(turn_id))


def clear_turn(tx: Tx, key: str) -> None:
    """Empty a stored turn that is about to be written again with other words; its row and revision stay."""
    turn_id = tx.fetch_value(_id_of(key))
    if turn_id is None:
        return
    drop_passages(tx, int(turn_id))
    free_entries(tx, int(turn_id))
    tx.run(tables.TextBlock.delete().where(tables.TextBlock.turn == turn_id))
    tx.update_row(tables.Turn, int(turn_id), {"entries": b""})


def load_turn(store: Reader, key: str) -> StoredTurn | None:
    """A turn by its key."""
    row = store.fetch_first(_by_key(key))
    return None if row is None else _stored_turn(store, row)


def load_turn_row(store: Reader, turn_id: int) -> StoredTurn | None:
    """A turn by its row id."""
    row = store.fetch_first(_by_row_id(turn_id))
    return None if row is None else _stored_turn(store, row)


def turns_of_session(
    store: Reader, session_ref: int, *, only_due: bool = False, limit: int = 1_000_000
) -> list[StoredTurn]:
    """Turns of a session in the order of its transcript; ``only_due`` takes those that grew since their extraction.

    Row ids do not tell that order: a prompt may wait in the queue before the prompt that is answered first.
    """
    query = _due_of_session(session_ref, limit) if only_due else _of_session(session_ref, limit)
    return [_stored_turn(store, row) for row in store.fetch(query)]


def mark_extracted(tx: Tx, turn_id: int, revision: int) -> None:
    """Compare and set: this revision of the turn has been extracted.

    Raises:
        Conflict: the turn has grown, was extracted or was forgotten meanwhile; roll back and read again.
    """
    if tx.run(_mark_extracted(turn_id, revision)) != 1:
        raise Conflict()


def check_unmoved(store: Reader, turn_id: int, revision: int) -> None:
    """Compare: the turn is still at this revision.

    Raises:
        Conflict: the turn has grown or was forgotten meanwhile; roll back and read again.
    """
    if not store.has_any(_at_revision(turn_id, revision)):
        raise Conflict()


def places_of(store: Reader, uuids: Iterable[str]) -> list[EvidencePlace]:
    """Session, file and position of entries, in the order asked; unknown ones have no file."""
    return [_place_of(store, uuid) for uuid in uuids]


def _place_of(store: Reader, uuid: str) -> EvidencePlace:
    turn_id = turn_of_entry(store, uuid)
    row = None if turn_id is None else store.fetch_first(_place_of_turn(turn_id))
    entries = {} if row is None else {entry.uuid: entry for entry in unpack_entries(bytes(row.entries))}
    if row is None or uuid not in entries:
        return EvidencePlace(session_id="", uuid=uuid, path="", line=0)
    return EvidencePlace(
        session_id=row.session_id,
        uuid=uuid,
        path=os.fsdecode(bytes(row.path)),
        line=entries[uuid].line,
        part=row.part,
        position=entries[uuid].offset,
    )


def delete_turn(tx: Tx, turn_id: int) -> list[str]:
    """Forget a turn for good: texts, passages, index, vectors; its entries leave tombstones.

    Returns the uuids of its entries.
    """
    uuids = [entry.uuid for entry in entries_of_turn(tx, turn_id)]
    key = tx.fetch_value(tables.Turn.select(tables.Turn.key).where(tables.Turn.id == turn_id))
    drop_passages(tx, turn_id)
    add_tombstones(tx, TombstoneKind.ENTRY, map(pack_uuid, uuids))
    if key is not None:
        add_tombstones(tx, TombstoneKind.TURN, [str(key).encode()])
    _delete_rows(tx, turn_id)
    return uuids


def _delete_rows(tx: Tx, turn_id: int) -> None:
    """A turn's own rows; its passages are gone already."""
    free_entries(tx, turn_id)
    tx.run(tables.TextBlock.delete().where(tables.TextBlock.turn == turn_id))
    tx.run(tables.Turn.delete().where(tables.Turn.id == turn_id))


def is_forgotten(store: Reader, key: str) -> bool:
    """True where the turn of this key was forgotten."""
    return store.has_any(_tombstone_of(key.encode()))


def _stored_turn(store: Reader, row: Any) -> StoredTurn:
    """The turn of a row of ``_turns``, with its texts."""
    entries = unpack_entries(bytes(row.entries))
    turn = Turn(
        key=row.key,
        session_id=row.session_id,
        opening=Opening(row.opening),
        cwd=row.cwd,
        branch=row.branch,
        started_at_ms=row.started_at_ms,
        ended_at_ms=row.ended_at_ms,
        start_offset=row.start_offset,
        end_offset=row.end_offset,
        is_closed=bool(row.is_closed),
        message_count=row.message_count,
        is_interrupted=bool(row.is_interrupted),
        agent=row.agent,
        extra=json.loads(row.extra),
        actions=unpack_actions(row.actions, entries),
        said=tuple(store.fetch_records(_BLOCKS, _blocks_of(row.id))),
        entries=entries,
    )
    return StoredTurn(
        id=row.id,
        turn=turn,
        revision=row.revision,
        extracted_revision=row.extracted_revision,
        project_id=row.project_id,
        session_ref=row.session_ref,
        path=Path(os.fsdecode(bytes(row.path))),
    )


_BLOCKS = RecordReader(
    TextBlock, tables.TextBlock, readers={"uuid": unpack_uuid, "role": Role}, left_out={"id", "turn_id", "seq"}
)


def _turns() -> ModelSelect[tables.Turn]:
    """Turns with the id of their session and the path of their transcript."""
    turn = tables.Turn
    columns = [turn, tables.Session.session_id, tables.Transcript.path]
    return turn.select(*columns).join(tables.Session).join_from(turn, tables.Transcript)


@prepared
def _stored_row(key: str) -> Query:
    turn = tables.Turn
    return turn.select(turn.id, turn.entries, turn.revision).where(turn.key == key)


@prepared
def _stored_blocks(turn_id: int) -> Query:
    block = tables.TextBlock
    next_seq = fn.COALESCE(fn.MAX(block.seq), -1) + 1
    return block.select(fn.COUNT(block.id).alias("count"), next_seq.alias("next_seq")).where(block.turn == turn_id)


@prepared
def _last_block() -> Query:
    return tables.TextBlock.select(fn.MAX(tables.TextBlock.id))


@prepared
def _close_of_session(session_ref: int) -> Query:
    turn = tables.Turn
    return turn.update(is_closed=True).where((turn.session == session_ref) & (turn.is_closed == 0))


@prepared
def _id_of(key: str) -> Query:
    return tables.Turn.select(tables.Turn.id).where(tables.Turn.key == key)


@prepared
def _by_key(key: str) -> Query:
    return _turns().where(tables.Turn.key == key)


@prepared
def _by_row_id(turn_id: int) -> Query:
    return _turns().where(tables.Turn.id == turn_id)


@prepared
def _of_session(session_ref: int, limit: int) -> Query:
    turn = tables.Turn
    query = _turns().where(turn.session == session_ref)
    return query.order_by(tables.Transcript.path, turn.start_offset, turn.id).limit(limit)


@prepared
def _due_of_session(session_ref: int, limit: int) -> Query:
    turn = tables.Turn
    query = _turns().where((turn.session == session_ref) & (turn.extracted_revision < turn.revision))
    return query.order_by(tables.Transcript.path, turn.start_offset, turn.id).limit(limit)


@prepared
def _mark_extracted(turn_id: int, revision: int) -> Query:
    turn = tables.Turn
    is_unmoved = (turn.revision == revision) & (turn.extracted_revision < revision)
    return turn.update(extracted_revision=revision).where((turn.id == turn_id) & is_unmoved)


@prepared
def _at_revision(turn_id: int, revision: int) -> Query:
    turn = tables.Turn
    return turn.select(turn.id).where((turn.id == turn_id) & (turn.revision == revision))


@prepared
def _place_of_turn(turn_id: int) -> Query:
    turn = tables.Turn
    columns = (tables.Session.session_id, tables.Transcript.path, tables.Transcript.part, turn.entries)
    return turn.select(*columns).join(tables.Session).join_from(turn, tables.Transcript).where(turn.id == turn_id)


@prepared
def _tombstone_of(key: bytes) -> Query:
    tombstone = tables.Tombstone
    of_turn = (tombstone.kind == TombstoneKind.TURN) & (tombstone.key == key)
    return tombstone.select(tombstone.at_ms).where(of_turn)


@prepared
def _blocks_of(turn_id: int) -> Query:
    return _BLOCKS.select().where(tables.TextBlock.turn == turn_id).order_by(tables.TextBlock.seq)
