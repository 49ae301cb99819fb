"""Read turns: their text and entries, which turns are due for extraction, and which a language model has read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import peewee
from peewee import EXCLUDED, JOIN, ColumnBase, ModelSelect, Query, fn

from engram.errors import Conflict
from engram.models import tables
from engram.models.engine.statement import (
    RecordReader,
    entry_key,
    grouped,
    in_json_list,
    insertion,
    prepared,
    unpack_actions,
    unpack_calls,
    unpack_entries,
    unpack_uuid,
)
from engram.models.engine.transaction import Reader, Tx, asks_any, asks_rows, asks_values
from engram.models.memories.memory_history import BY_HAND_ACTIONS, Change
from engram.models.memories.memory_records import IS_AUTO, IS_BY_RULES, Memory
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

#: Reason for archiving a memory from a queued prompt: the same words appeared as a line of their own.
PROMPT_MOVED = "its prompt was written again as a line of its own"

# -- Turns: their text, the facts of their tool calls, and how far they have been extracted.


@dataclass(frozen=True, slots=True)
class StoredTurn:
    """A turn with facts that only the database has."""

    id: int
    turn: Turn
    revision: int
    extracted_revision: int
    project_id: int | None
    session_ref: int
    path: Path
    #: Identifies the turn on every machine: ``turn_<stable_id>`` in hits.
    stable_id: str = ""

    @property
    def is_due(self) -> bool:
        """True if the turn has grown since it was extracted."""
        return self.extracted_revision < self.revision


def load_turn(store: Reader, key: str) -> StoredTurn | None:
    return next(iter(_stored_turns(store, store.fetch(_by_key(key)))), None)


@asks_any
def is_turn_stored(key: str) -> Query:
    return tables.Turn.select(tables.Turn.id).where(tables.Turn.key == key)


def load_turn_row(store: Reader, turn_id: int) -> StoredTurn | None:
    return next(iter(turns_by_row(store, [turn_id])), None)


@asks_values
def times_of_prompts(from_ms: int, to_ms: int, without_session: str) -> Query:
    """Return the times of all sessions' prompts except one's in a time span, including both ends."""
    turn, session = tables.Turn, tables.Session
    query = turn.select(turn.started_at_ms).join(session).where(session.session_id != without_session)
    return query.where(turn.started_at_ms.between(from_ms, to_ms))


@asks_values
def turns_begun_at(times: Sequence[int], project_ids: Sequence[int], without_session: str) -> Query:
    """Return the row ids of turns of these projects, except one session's, that began at any of these times."""
    turn, session = tables.Turn, tables.Session
    query = turn.select(turn.id).join(session).where(session.session_id != without_session)
    return query.where(in_json_list(turn.project, project_ids) & in_json_list(turn.started_at_ms, times))


def turns_by_row(store: Reader, turn_ids: Sequence[int]) -> list[StoredTurn]:
    return _stored_turns(store, store.fetch(_by_row_ids(turn_ids))) if turn_ids else []


def texts_of_turns(store: Reader, turn_ids: Sequence[int]) -> dict[int, Turn]:
    """Return row id → turn with its texts and times, for the existing turns.

    Tool calls and entries are left out, because they take longest to read.
    """
    said = store.fetch_records_by(_BLOCKS, _blocks_of(turn_ids))
    return {
        row.id: Turn(
            key=row.key,
            session_id=row.session_id,
            opening=Opening(row.opening),
            started_at_ms=row.started_at_ms,
            ended_at_ms=row.ended_at_ms,
            said=tuple(said.get(row.id, ())),
        )
        for row in store.fetch(_heads_of(turn_ids))
    }


def turns_of_session(
    store: Reader, session_ref: int, *, only_due: bool = False, limit: int = 1_000_000
) -> list[StoredTurn]:
    """Return a session's turns in the order of its transcript; with ``only_due``, only those due for extraction.

    Row ids don't give that order, because a queued prompt may be stored before one that is answered earlier.
    """
    query = _due_of_session(session_ref, limit) if only_due else _of_session(session_ref, limit)
    return _stored_turns(store, store.fetch(query))


def calls_of_session(store: Reader, session_ref: int) -> list[StoredTurn]:
    """Return a session's turns without their text and entries, which take longest to read."""
    return [_stored_turn(row, (), is_whole=False) for row in store.fetch(_of_session(session_ref, 1_000_000))]


def projects_of_sessions(store: Reader, session_refs: Sequence[int]) -> dict[int, list[int]]:
    """Return row id of a session → sorted row ids of the projects of its turns."""
    turn = tables.Turn
    of_sessions = in_json_list(turn.session, session_refs) & turn.project.is_null(False)
    query = turn.select(turn.session, turn.project).distinct().where(of_sessions)
    rows = store.fetch(query.order_by(turn.session, turn.project))
    return grouped((row.session_ref, row.project_id) for row in rows)


class WorkedIn(NamedTuple):
    session_ref: int
    project_id: int | None
    cwd: str


@asks_rows(lambda rows: [WorkedIn(*row) for row in rows])
def folders_of_turns() -> Query:
    """Return the distinct combinations of session, project and folder of all turns."""
    turn = tables.Turn
    return turn.select(turn.session, turn.project, turn.cwd).distinct().where(turn.cwd != "")


def mark_extracted(tx: Tx, revisions: Mapping[int, int]) -> None:
    """Record that turns, given as row id → revision, have been extracted at these revisions, with compare-and-set.

    Raises:
        Conflict: a turn has since grown, or been extracted or forgotten; roll back and read again.
    """
    check_unmoved(tx, revisions)
    if tx.run(_mark_extracted(list(revisions))) != len(revisions):
        raise Conflict()


def check_unmoved(store: Reader, revisions: Mapping[int, int]) -> None:
    """Check that turns, given as row id → revision, are still at these revisions.

    Raises:
        Conflict: a turn has since grown or been forgotten; roll back and read again.
    """
    if count_unmoved(store, list(revisions.items())) < len(revisions):
        raise Conflict()


def count_unmoved(store: Reader, turns: Sequence[tuple[int, int]]) -> int:
    """Return how many turns, given as row id and revision, come before the first that has grown or been forgotten."""
    now = {row.id: row.revision for row in store.fetch(_revisions_of([row_id for row_id, _ in turns]))}
    return next((place for place, (row_id, revision) in enumerate(turns) if now.get(row_id) != revision), len(turns))


def _stored_turns(store: Reader, rows: Sequence[Any]) -> list[StoredTurn]:
    """Return the turns for rows of ``_turns``, reading their text blocks with one query."""
    said = store.fetch_records_by(_BLOCKS, _blocks_of([row.id for row in rows])) if rows else {}
    return [_stored_turn(row, said.get(row.id, ())) for row in rows]


#: Columns whose values are those of the fields of the same name.
_TURN_COLUMNS = (
    *("key", "session_id", "cwd", "branch", "started_at_ms", "ended_at_ms"),
    *("start_offset", "end_offset", "message_count", "agent"),
)


def _stored_turn(row: Any, said: Sequence[TextBlock], *, is_whole: bool = True) -> StoredTurn:
    entries = unpack_entries(bytes(row.entries)) if is_whole else ()
    turn = Turn(
        **{name: getattr(row, name) for name in _TURN_COLUMNS},
        opening=Opening(row.opening),
        is_closed=bool(row.is_closed),
        is_interrupted=bool(row.is_interrupted),
        extra=json.loads(row.extra),
        actions=unpack_actions(row.actions, entries) if is_whole else unpack_calls(row.actions),
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
    """Return a query for turns with the id of their session and the path of their transcript."""
    turn = tables.Turn
    columns = [turn, tables.Session.session_id, tables.Transcript.path]
    return turn.select(*columns).join(tables.Session).join_from(turn, tables.Transcript)


@prepared
def _by_key(key: str) -> Query:
    return _turns().where(tables.Turn.key == key)


@prepared
def _by_row_ids(turn_ids: Sequence[int]) -> Query:
    return _turns().where(in_json_list(tables.Turn.id, turn_ids)).order_by(tables.Turn.id)


@prepared
def _heads_of(turn_ids: Sequence[int]) -> Query:
    turn, session = tables.Turn, tables.Session
    columns = [turn.id, turn.key, turn.opening, turn.started_at_ms, turn.ended_at_ms, session.session_id]
    return turn.select(*columns).join(session).where(in_json_list(turn.id, turn_ids)).order_by(turn.id)


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
def _mark_extracted(turn_ids: Sequence[int]) -> Query:
    turn = tables.Turn
    is_due = in_json_list(turn.id, turn_ids) & (turn.extracted_revision < turn.revision)
    return turn.update(extracted_revision=turn.revision).where(is_due)


@prepared
def _revisions_of(turn_ids: Sequence[int]) -> Query:
    turn = tables.Turn
    return turn.select(turn.id, turn.revision).where(in_json_list(turn.id, turn_ids))


@prepared
def _blocks_of(turn_ids: Sequence[int]) -> Query:
    block = tables.TextBlock
    return _BLOCKS.select_by(block.turn).where(in_json_list(block.turn, turn_ids)).order_by(block.turn, block.seq)


# -- The turn that an entry belongs to, found by a key made from the entry's id. The ids and locations are in the turn's
# row.


def turn_of_entry(store: Reader, uuid: str) -> int | None:
    """Return the row id of the turn that an entry belongs to; None if it is unknown."""
    return next(iter(_turns_of_key(store, entry_key(uuid))), None)


@asks_rows(lambda rows: unpack_entries(bytes(rows[0].entries)) if rows else ())
def entries_of_turn(turn_id: int) -> Query:
    """Return a turn's entries, in the order of the file."""
    return tables.Turn.select(tables.Turn.entries).where(tables.Turn.id == turn_id)


def claimed_entries(store: Reader, uuids: Sequence[str]) -> set[str]:
    """Return the entries that already belong to a turn."""
    by_key = {entry_key(uuid): uuid for uuid in uuids}
    return {by_key[key] for key in _known_keys(store, by_key)}


def claim_entries(tx: Tx, turn_id: int, entries: Sequence[EntryRef]) -> None:
    """Record that new entries belong to a turn.

    Raises:
        Conflict: one of them has since been stored with another turn; roll back and read again.
    """
    rows = [(entry_key(entry.uuid), turn_id) for entry in entries]
    try:
        tx.run_many(insertion(tables.Entry, ("key", "turn_id")), rows)
    except peewee.IntegrityError as error:
        raise Conflict() from error


def free_entries(tx: Tx, turn_id: int) -> None:
    """Release a turn's entries, so that another turn may claim them."""
    keys = [entry_key(entry.uuid) for entry in entries_of_turn(tx, turn_id)]
    tx.run(tables.Entry.delete().where(in_json_list(tables.Entry.key, keys)))


@asks_values
def _turns_of_key(key: int) -> Query:
    return tables.Entry.select(tables.Entry.turn_id).where(tables.Entry.key == key)


@asks_values
def _known_keys(keys: Iterable[int]) -> Query:
    return tables.Entry.select(tables.Entry.key).where(in_json_list(tables.Entry.key, keys))


# -- Which turns a language model has read, and which sessions it may read again after the local extractor.

#: Actions after which a memory of the local extractor is not replaced: someone decided, or others were merged into it.
KEPT_ACTIONS = (*BY_HAND_ACTIONS, "merge", "graduate", "undo", "redo")
#: The period from which turns count as use of a project, in milliseconds (30 days).
USE_WINDOW_MS = 30 * 86_400_000


@dataclass(frozen=True, slots=True)
class SecondChances:
    """Progress of reading sessions again with a language model."""

    #: Sessions that have been read again.
    done: int
    #: Sessions with turns that have been extracted but that no model has read.
    waiting: int


def note_model_reading(tx: Tx, turns: Iterable[StoredTurn], *, is_second: bool = False) -> None:
    """Record that a language model has read these turns at their revisions."""
    reading = tables.ModelReading
    higher = {
        column: fn.MAX(column, getattr(EXCLUDED, column.name)) for column in (reading.revision, reading.is_second)
    }
    for turn in turns:
        query = reading.insert(turn=turn.id, revision=turn.revision, is_second=is_second)
        tx.run(query.on_conflict(conflict_target=[reading.turn], update=higher))


def is_replaceable(memory: Memory, history: Sequence[Change]) -> bool:
    """Return True for a current memory of the local extractor that was not changed, judged or pinned by hand."""
    is_free = not (memory.is_pinned or memory.is_lowered or memory.suspect or memory.graduated_at_ms)
    is_open = memory.is_by_rules and memory.is_current and is_free
    return is_open and not any(change.action in KEPT_ACTIONS for change in history)


def waiting_sessions(store: Reader) -> list[str]:
    """Return the sessions to read again, those of the most used projects first, and the newest first in each."""
    rows = store.fetch(_waiting())
    turn = tables.Turn
    query = turn.select(turn.project.alias("project_id"), fn.COUNT(turn.id).alias("uses")).group_by(turn.project)
    query = query.where(turn.started_at_ms >= store.now_ms() - USE_WINDOW_MS)
    uses = {row.project_id: row.uses for row in store.fetch(query)} if rows else {}
    ordered = sorted(rows, key=lambda row: (-uses.get(row.project_id, 0), -row.last_at_ms, row.id))
    return [row.session_id for row in ordered]


@asks_values
def unread_turns(session_ref: int) -> Query:
    """Return the row ids of a session's turns that have been extracted but that no model has read."""
    turn, reading = tables.Turn, tables.ModelReading
    query = turn.select(turn.id).join(reading, JOIN.LEFT_OUTER, on=reading.turn == turn.id)
    return query.where((turn.session == session_ref) & _is_unread())


def second_chances(store: Reader) -> SecondChances:
    """Return how many sessions have been read again, and how many are still waiting."""
    waiting = waiting_sessions(store)
    reading, turn, session = tables.ModelReading, tables.Turn, tables.Session
    read_again = turn.select(turn.session).join(reading, on=reading.turn == turn.id).where(reading.is_second == 1)
    names = store.fetch_values(session.select(session.session_id).where(session.id.in_(read_again)))
    return SecondChances(done=len(set(names) - set(waiting)), waiting=len(waiting))


def _is_unread() -> ColumnBase:
    turn, reading = tables.Turn, tables.ModelReading
    is_extracted = turn.extracted_revision == turn.revision
    return is_extracted & (fn.COALESCE(reading.revision, 0) < turn.revision)


@prepared
def _waiting() -> Query:
    """Return the sessions with turns that contain text and have been extracted, but that no model has read.

    That includes sessions from which the local extractor kept nothing, because a model usually finds something in them.
    """
    memory, turn, session, reading = tables.Memory, tables.Turn, tables.Session, tables.ModelReading
    evidence, said = tables.Evidence, tables.TextBlock
    columns = [session.id, session.session_id, session.project.alias("project_id"), session.last_at_ms]
    # Turns that a model read before readings were recorded.
    was_read = (
        evidence.select(1)
        .join(memory, on=memory.id == evidence.memory)
        .where((evidence.turn_id == turn.id) & (evidence.seq == 0) & IS_AUTO & ~IS_BY_RULES)
    )
    query = (
        session.select(*columns)
        .join(turn, on=turn.session == session.id)
        .join(reading, JOIN.LEFT_OUTER, on=reading.turn == turn.id)
    )
    has_text = said.select(1).where(said.turn == turn.id)
    return query.where(_is_unread() & fn.EXISTS(has_text) & ~fn.EXISTS(was_read)).group_by(session.id)


@asks_any
def has_due_turns(session_ref: int) -> Query:
    turn = tables.Turn
    is_due = (turn.session == session_ref) & (turn.extracted_revision < turn.revision)
    return turn.select(turn.id).where(is_due).limit(1)


@asks_values
def sessions_with_due_turns() -> Query:
    """Return the sessions with turns that are due for extraction, the one that has been silent the longest first."""
    session, turn = tables.Session, tables.Turn
    query = turn.select(session.session_id).distinct().join(session).where(turn.extracted_revision < turn.revision)
    return query.order_by(session.last_at_ms, session.id)
