"""Turns: what was said, the facts of tool calls, and how far memories were made of them."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from peewee import ModelSelect, Query, fn

from engram.errors import Conflict
from engram.models import tables
from engram.models.packed_actions import unpack_actions
from engram.models.packed_entries import unpack_entries
from engram.models.records import RecordReader
from engram.models.statement import in_json_list, prepared
from engram.models.tombstones import TombstoneKind
from engram.models.transaction import Reader, Tx
from engram.models.uuids import unpack_uuid
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
    #: Names the turn on every machine: ``turn_<stable_id>`` in hits.
    stable_id: str = ""


def load_turn(store: Reader, key: str) -> StoredTurn | None:
    """A turn by its key."""
    row = store.fetch_first(_by_key(key))
    return None if row is None else _stored_turns(store, [row])[0]


def load_turn_row(store: Reader, turn_id: int) -> StoredTurn | None:
    """A turn by its row id."""
    row = store.fetch_first(_by_row_id(turn_id))
    return None if row is None else _stored_turns(store, [row])[0]


def times_of_prompts(store: Reader, from_ms: int, to_ms: int, *, without_session: str) -> list[int]:
    """Return when prompts of all sessions but one were asked within a span, both ends included."""
    return [int(at_ms) for at_ms in store.fetch_values(_asked_between(from_ms, to_ms, without_session))]


def turns_by_row(store: Reader, turn_ids: Sequence[int]) -> list[StoredTurn]:
    """The turns of these row ids, for those that exist."""
    return _stored_turns(store, store.fetch(_by_row_ids(json.dumps(list(turn_ids)))))


def turns_of_session(
    store: Reader, session_ref: int, *, only_due: bool = False, limit: int = 1_000_000
) -> list[StoredTurn]:
    """Turns of a session in the order of its transcript; ``only_due`` takes those that grew since their extraction.

    Row ids do not tell that order: a prompt may wait in the queue before the prompt that is answered first.
    """
    query = _due_of_session(session_ref, limit) if only_due else _of_session(session_ref, limit)
    return _stored_turns(store, store.fetch(query))


def projects_of_sessions(store: Reader, session_refs: Sequence[int]) -> dict[int, list[int]]:
    """Row id of a session → row ids of the projects that its turns belong to, sorted."""
    turn = tables.Turn
    of_sessions = in_json_list(turn.session, json.dumps(list(session_refs))) & turn.project.is_null(False)
    projects: dict[int, list[int]] = {}
    query = turn.select(turn.session, turn.project).distinct().where(of_sessions)
    for row in store.fetch(query.order_by(turn.session, turn.project)):
        projects.setdefault(row.session_ref, []).append(row.project_id)
    return projects


class WorkedIn(NamedTuple):
    """A folder in which a session worked."""

    session_ref: int
    project_id: int | None
    cwd: str


def folders_of_turns(store: Reader) -> list[WorkedIn]:
    """Where turns were said, each session, project and folder once."""
    turn = tables.Turn
    query = turn.select(turn.session, turn.project, turn.cwd).distinct().where(turn.cwd != "")
    return [WorkedIn(row.session_ref, row.project_id, row.cwd) for row in store.fetch(query)]


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


def is_forgotten(store: Reader, key: str) -> bool:
    """True where the turn of this key was forgotten."""
    return store.has_any(_tombstone_of(key.encode()))


def last_turn_ms(store: Reader) -> int:
    """When the last turn ended, in milliseconds since 1970; 0 where there is none."""
    return int(store.fetch_value(_last_turn_end()))


def _stored_turns(store: Reader, rows: Sequence[Any]) -> list[StoredTurn]:
    """The turns of rows of ``_turns``, with their texts, which are read together."""
    said = store.fetch_records_by(_BLOCKS, _blocks_of(json.dumps([row.id for row in rows])))
    return [_stored_turn(row, said.get(row.id, ())) for row in rows]


def _stored_turn(row: Any, said: Sequence[TextBlock]) -> StoredTurn:
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
        said=tuple(said),
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
        stable_id=row.stable_id,
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
def _by_key(key: str) -> Query:
    return _turns().where(tables.Turn.key == key)


@prepared
def _by_row_id(turn_id: int) -> Query:
    return _turns().where(tables.Turn.id == turn_id)


@prepared
def _by_row_ids(turn_ids: str) -> Query:
    return _turns().where(in_json_list(tables.Turn.id, turn_ids)).order_by(tables.Turn.id)


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
def _asked_between(from_ms: int, to_ms: int, without_session: str) -> Query:
    turn, session = tables.Turn, tables.Session
    query = turn.select(turn.started_at_ms).join(session).where(session.session_id != without_session)
    return query.where(turn.started_at_ms.between(from_ms, to_ms))


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
def _tombstone_of(key: bytes) -> Query:
    tombstone = tables.Tombstone
    of_turn = (tombstone.kind == TombstoneKind.TURN) & (tombstone.key == key)
    return tombstone.select(tombstone.at_ms).where(of_turn)


@prepared
def _blocks_of(turn_ids: str) -> Query:
    block = tables.TextBlock
    return _BLOCKS.select_by(block.turn).where(in_json_list(block.turn, turn_ids)).order_by(block.turn, block.seq)


@prepared
def _last_turn_end() -> Query:
    turn = tables.Turn
    return turn.select(fn.COALESCE(fn.MAX(fn.COALESCE(turn.ended_at_ms, turn.started_at_ms)), 0))
