"""Turns: what was said, the facts of tool calls, the entries they came from, and the passages that are searched."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.errors import Moved
from engram.models.entries import claim_entries, entries_of_turn, free_entries, turn_of_entry
from engram.models.packed import pack_text, unpack_text
from engram.models.packed_entries import in_order, pack_entries, unpack_entries
from engram.models.passages import add_passages, drop_passages
from engram.models.sessions import SessionRow
from engram.models.tombstones import TombstoneKind, add_tombstones
from engram.models.transaction import Reader, Tx
from engram.models.uuids import pack_uuid, unpack_uuid
from engram.transcripts.record import Action, EntryRef, Opening, Role, TextBlock, Turn


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
    #: Line number from 1; 0 where it is not known.
    line: int


_TURN = (
    "SELECT t.id, t.key, s.session_id, t.opening, t.cwd, t.branch, t.started_at_ms, t.ended_at_ms, t.start_offset, "
    "t.end_offset, t.is_closed, t.message_count, t.is_interrupted, t.agent, t.actions, t.extra, t.revision, "
    "t.extracted_revision, t.project_id, t.session_ref, f.path, t.entries "
    "FROM turn t JOIN session s ON s.id = t.session_ref JOIN transcript f ON f.id = t.transcript_id"
)


def write_turn(tx: Tx, turn: Turn, session: SessionRow, transcript_id: int) -> int:
    """Store a new turn or what a known one has grown by; returns its row id.

    A turn grows only at its end: what was said before stays as it is. Every growth raises its revision.

    Raises:
        Moved: one of its entries went to another turn meanwhile; roll back and read again.
    """
    return write_turns(tx, [turn], session, transcript_id)[0]


def write_turns(tx: Tx, turns: Sequence[Turn], session: SessionRow, transcript_id: int) -> list[int]:
    """Store several turns of one session like ``write_turn``; their passages are indexed together, which is faster."""
    ids: list[int] = []
    said: list[tuple[int, int, TextBlock]] = []
    for turn in turns:
        turn_id, is_new = _write_row(tx, turn, session, transcript_id)
        have, next_seq = 0, 0
        if not is_new:
            # Places of erased texts stay free, so that the highest place tells more than the number.
            sql = "SELECT count(*), coalesce(max(seq), -1) + 1 FROM said WHERE turn_id = ?"
            have, next_seq = map(int, tx.row(sql, (turn_id,)) or (0, 0))
        said += [(turn_id, seq, one) for seq, one in enumerate(turn.said[have:], next_seq)]
        ids.append(turn_id)
    add_passages(tx, session, _write_said(tx, said))
    return ids


def _write_row(tx: Tx, turn: Turn, session: SessionRow, transcript_id: int) -> tuple[int, bool]:
    """Store the turn's own row; returns its id and whether the turn is new."""
    found = tx.row("SELECT id, entries FROM turn WHERE key = ?", (turn.key,))
    values = _turn_values(turn)
    known: set[str] = set()
    if found is None:
        turn_id = tx.insert(
            "INSERT INTO turn (stable_id, key, session_ref, project_id, transcript_id, opening, agent, cwd, branch, "
            "started_at_ms, ended_at_ms, start_offset, end_offset, is_closed, is_interrupted, message_count, actions, "
            "extra, entries, updated_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                secrets.token_hex(8), turn.key, session.id, session.project_id, transcript_id, turn.opening.value,
                turn.agent, *values, tx.now_ms(),
            ),
        )  # fmt: skip
    else:
        turn_id = int(found[0])
        known = {entry.uuid for entry in unpack_entries(bytes(found[1]))}
        tx.run(
            "UPDATE turn SET cwd = ?, branch = ?, started_at_ms = ?, ended_at_ms = ?, start_offset = ?, end_offset = ?, "
            "is_closed = ?, is_interrupted = ?, message_count = ?, actions = ?, extra = ?, entries = ?, updated_at_ms = ?, "
            "revision = revision + 1 WHERE id = ?",
            (*values, tx.now_ms(), turn_id),
        )
    claim_entries(tx, turn_id, [entry for entry in turn.entries if entry.uuid not in known])
    return turn_id, found is None


def _turn_values(turn: Turn) -> tuple[Any, ...]:
    entries = in_order(turn.entries)
    places = {entry.uuid: place for place, entry in enumerate(entries)}
    actions = pack_text(json.dumps([_action_to_json(action, places) for action in turn.actions], ensure_ascii=False))
    return (
        turn.cwd, turn.branch, turn.started_at_ms, turn.ended_at_ms, turn.start_offset, turn.end_offset,
        int(turn.is_closed), int(turn.is_interrupted), turn.message_count, actions, json.dumps(turn.extra),
        pack_entries(entries),
    )  # fmt: skip


_ACTION_DEFAULTS = dataclasses.asdict(Action("", ""))
_ACTION_ITEMS = tuple(_ACTION_DEFAULTS.items())
#: Facts that name an entry; stored as its place among the turn's entries.
_ENTRY_FACTS = ("uuid", "result_uuid")


def _action_to_json(action: Action, places: Mapping[str, int]) -> dict[str, Any]:
    """Only what differs from the defaults: most calls have few facts. The id serves until the result is there."""
    facts = {name: value for name, default in _ACTION_ITEMS if (value := getattr(action, name)) != default}
    if action.result_uuid:
        facts.pop("tool_use_id", None)
    for name in _ENTRY_FACTS:
        if name in facts:
            facts[name] = places.get(facts[name], facts[name])
    return facts


def unpack_facts(stored: str | bytes) -> list[dict[str, Any]]:
    """The facts of tool calls out of their column; none where it is malformed. Raises BrokenDatabase."""
    try:
        facts = json.loads(unpack_text(stored))
    except (ValueError, RecursionError):
        return []
    return [fact for fact in facts if isinstance(fact, dict)] if isinstance(facts, list) else []


def _action_from_json(facts: dict[str, Any], entries: Sequence[EntryRef]) -> Action:
    known = {k: v for k, v in facts.items() if k in _ACTION_DEFAULTS}
    known["files"] = tuple(known.get("files", ()))
    for name in _ENTRY_FACTS:
        if isinstance(known.get(name), int):
            known[name] = entries[known[name]].uuid
    return Action(**({"tool_use_id": "", "tool": ""} | known))


def _write_said(tx: Tx, said: Sequence[tuple[int, int, TextBlock]]) -> list[tuple[int, int, TextBlock]]:
    """Store what was said (turn, place in it, text) in one go; returns turn, row id and text of each.

    The row ids are given out here: nobody else writes meanwhile.
    """
    first = int(tx.value("SELECT max(id) FROM said") or 0) + 1 if said else 0
    tx.run_many(
        "INSERT INTO said (id, turn_id, seq, uuid, role, text, message_id, offset, length, line, at_ms) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                said_id, turn_id, seq, pack_uuid(one.uuid) if one.uuid else None, one.role.value, one.text,
                one.message_id, one.offset, one.length, one.line, one.at_ms,
            )
            for said_id, (turn_id, seq, one) in enumerate(said, first)
        ],
    )  # fmt: skip
    return [(turn_id, said_id, one) for said_id, (turn_id, _, one) in enumerate(said, first)]


def close_turns(tx: Tx, session_ref: int) -> int:
    """Close a session's open turns; returns how many there were."""
    return tx.run("UPDATE turn SET is_closed = 1 WHERE session_ref = ? AND is_closed = 0", (session_ref,))


def close_turn(tx: Tx, key: str) -> None:
    """Close one turn that did not grow, so that its revision stays."""
    tx.run("UPDATE turn SET is_closed = 1 WHERE key = ?", (key,))


def withdraw_turn(tx: Tx, key: str) -> None:
    """Remove a turn that proved to be none (its entries may come again in another)."""
    turn_id = tx.value("SELECT id FROM turn WHERE key = ?", (key,))
    if turn_id is None:
        return
    drop_passages(tx, int(turn_id))
    _delete_rows(tx, int(turn_id))


def load_turn(store: Reader, key: str) -> StoredTurn | None:
    """A turn by its key."""
    found = store.row(f"{_TURN} WHERE t.key = ?", (key,))
    return None if found is None else _stored(store, found)


def load_turn_row(store: Reader, turn_id: int) -> StoredTurn | None:
    """A turn by its row id."""
    found = store.row(f"{_TURN} WHERE t.id = ?", (turn_id,))
    return None if found is None else _stored(store, found)


def turns_of_session(
    store: Reader, session_ref: int, *, only_due: bool = False, limit: int = 1_000_000
) -> list[StoredTurn]:
    """Turns of a session in the order of its transcript; ``only_due`` takes those that grew since their extraction.

    Row ids do not tell that order: a prompt may wait in the queue before the prompt that is answered first.
    """
    condition = "AND t.extracted_revision < t.revision" if only_due else ""
    rows = store.rows(
        f"{_TURN} WHERE t.session_ref = ? {condition} ORDER BY f.path, t.start_offset, t.id LIMIT ?",
        (session_ref, limit),
    )
    return [_stored(store, row) for row in rows]


def mark_extracted(tx: Tx, turn_id: int, revision: int) -> None:
    """Compare and set: this revision of the turn has been extracted.

    Raises:
        Moved: the turn has grown, was extracted or was forgotten meanwhile; roll back and read again.
    """
    changed = tx.run(
        "UPDATE turn SET extracted_revision = ? WHERE id = ? AND revision = ? AND extracted_revision < ?",
        (revision, turn_id, revision, revision),
    )
    if changed != 1:
        raise Moved()


def check_unmoved(tx: Tx, turn_id: int, revision: int) -> None:
    """Compare: the turn is still at this revision.

    Raises:
        Moved: the turn has grown or was forgotten meanwhile; roll back and read again.
    """
    if tx.row("SELECT 1 FROM turn WHERE id = ? AND revision = ?", (turn_id, revision)) is None:
        raise Moved()


def _stored(store: Reader, row: tuple[Any, ...]) -> StoredTurn:
    said = store.rows(
        "SELECT uuid, role, text, message_id, offset, length, line, at_ms FROM said WHERE turn_id = ? ORDER BY seq",
        (row[0],),
    )
    entries = unpack_entries(bytes(row[21]))
    turn = Turn(
        key=row[1], session_id=row[2], opening=Opening(row[3]), cwd=row[4], branch=row[5], started_at_ms=row[6],
        ended_at_ms=row[7], start_offset=row[8], end_offset=row[9], is_closed=bool(row[10]), message_count=row[11],
        is_interrupted=bool(row[12]), agent=row[13], extra=json.loads(row[15]),
        actions=tuple(_action_from_json(facts, entries) for facts in unpack_facts(row[14])),
        said=tuple(TextBlock(unpack_uuid(s[0]), Role(s[1]), *s[2:]) for s in said),
        entries=entries,
    )  # fmt: skip
    return StoredTurn(row[0], turn, row[16], row[17], row[18], row[19], Path(os.fsdecode(bytes(row[20]))))


def places_of(store: Reader, uuids: Iterable[str]) -> list[EvidencePlace]:
    """Session, file and line of entries, in the order asked; unknown ones have no file."""
    places = []
    for uuid in uuids:
        turn_id = turn_of_entry(store, uuid)
        found = None if turn_id is None else store.row(
            "SELECT s.session_id, f.path, t.entries FROM turn t JOIN session s ON s.id = t.session_ref "
            "JOIN transcript f ON f.id = t.transcript_id WHERE t.id = ?",
            (turn_id,),
        )  # fmt: skip
        lines = {} if found is None else {entry.uuid: entry.line for entry in unpack_entries(bytes(found[2]))}
        if found is None or uuid not in lines:
            places.append(EvidencePlace("", uuid, "", 0))
        else:
            places.append(EvidencePlace(found[0], uuid, os.fsdecode(bytes(found[1])), lines[uuid]))
    return places


def delete_turn(tx: Tx, turn_id: int) -> list[str]:
    """Forget a turn for good: texts, passages, index, vectors; its entries leave tombstones.

    Returns the uuids of its entries.
    """
    uuids = [entry.uuid for entry in entries_of_turn(tx, turn_id)]
    key = tx.value("SELECT key FROM turn WHERE id = ?", (turn_id,))
    drop_passages(tx, turn_id)
    add_tombstones(tx, TombstoneKind.ENTRY, map(pack_uuid, uuids))
    if key is not None:
        add_tombstones(tx, TombstoneKind.TURN, [str(key).encode()])
    _delete_rows(tx, turn_id)
    return uuids


def _delete_rows(tx: Tx, turn_id: int) -> None:
    """A turn's own rows; its passages are gone already."""
    free_entries(tx, turn_id)
    tx.run("DELETE FROM said WHERE turn_id = ?", (turn_id,))
    tx.run("DELETE FROM turn WHERE id = ?", (turn_id,))


def is_forgotten(store: Reader, key: str) -> bool:
    """True where the turn of this key was forgotten."""
    return store.row("SELECT 1 FROM tombstone WHERE kind = 'turn' AND key = ?", (key.encode(),)) is not None
