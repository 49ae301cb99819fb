"""Turns: what was said, the facts of tool calls, the entries they came from, and the passages that are searched."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peewee

from engram.errors import Moved
from engram.models.passages import add_passages, drop_passages
from engram.models.sessions import SessionRow
from engram.models.store import Store
from engram.models.uuids import pack_uuid, unpack_uuid
from engram.transcripts.record import Action, EntryRef, Opening, Role, Said, Turn


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
    "t.extracted_revision, t.project_id, t.session_ref, f.path "
    "FROM turn t JOIN session s ON s.id = t.session_ref JOIN transcript f ON f.id = t.transcript_id"
)


def write_turn(store: Store, turn: Turn, session: SessionRow, transcript_id: int) -> int:
    """Store a new turn or what a known one has grown by; returns its row id. Inside ``writing``.

    A turn grows only at its end: what was said before stays as it is. Every growth raises its revision.

    Raises:
        Moved: one of its entries went to another turn meanwhile; roll back and read again.
    """
    return write_turns(store, [turn], session, transcript_id)[0]


def write_turns(store: Store, turns: Sequence[Turn], session: SessionRow, transcript_id: int) -> list[int]:
    """Store several turns of one session like ``write_turn``; their passages are indexed together, which is faster."""
    ids: list[int] = []
    said: list[tuple[int, int, Said]] = []
    for turn in turns:
        turn_id, is_new = _write_row(store, turn, session, transcript_id)
        _write_entries(store, turn_id, turn.entries, is_new=is_new)
        have = 0 if is_new else int(store.value("SELECT count(*) FROM said WHERE turn_id = ?", (turn_id,)))
        said += [(turn_id, seq, one) for seq, one in enumerate(turn.said[have:], have)]
        ids.append(turn_id)
    add_passages(store, session, _write_said(store, said))
    return ids


def _write_row(store: Store, turn: Turn, session: SessionRow, transcript_id: int) -> tuple[int, bool]:
    """Store the turn's own row; returns its id and whether the turn is new."""
    found = store.row("SELECT id, revision FROM turn WHERE key = ?", (turn.key,))
    values = _turn_values(turn)
    if found is None:
        turn_id = store.insert(
            "INSERT INTO turn (stable_id, key, session_ref, project_id, transcript_id, opening, agent, cwd, branch, "
            "started_at_ms, ended_at_ms, start_offset, end_offset, is_closed, is_interrupted, message_count, actions, "
            "extra, updated_at_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                secrets.token_hex(8), turn.key, session.id, session.project_id, transcript_id, turn.opening.value,
                turn.agent, *values, store.now_ms(),
            ),
        )  # fmt: skip
    else:
        turn_id = int(found[0])
        store.run(
            "UPDATE turn SET cwd = ?, branch = ?, started_at_ms = ?, ended_at_ms = ?, start_offset = ?, end_offset = ?, "
            "is_closed = ?, is_interrupted = ?, message_count = ?, actions = ?, extra = ?, updated_at_ms = ?, "
            "revision = revision + 1 WHERE id = ?",
            (*values, store.now_ms(), turn_id),
        )
    return turn_id, found is None


def _turn_values(turn: Turn) -> tuple[Any, ...]:
    actions = pack_facts([_action_to_json(action) for action in turn.actions])
    return (
        turn.cwd, turn.branch, turn.started_at_ms, turn.ended_at_ms, turn.start_offset, turn.end_offset,
        int(turn.is_closed), int(turn.is_interrupted), turn.message_count, actions, json.dumps(turn.extra),
    )  # fmt: skip


#: Facts of fewer characters are not compressed.
_SHORT_FACTS = 200
_ACTION_DEFAULTS = dataclasses.asdict(Action("", ""))
_ACTION_ITEMS = tuple(_ACTION_DEFAULTS.items())


def _action_to_json(action: Action) -> dict[str, Any]:
    """Only what differs from the defaults: most calls have few facts."""
    return {name: value for name, default in _ACTION_ITEMS if (value := getattr(action, name)) != default}


def pack_facts(facts: list[dict[str, Any]]) -> str | bytes:
    """The facts of tool calls as they are stored: JSON, compressed where that saves something."""
    text = json.dumps(facts, ensure_ascii=False)
    if len(text) < _SHORT_FACTS:
        return text
    return zlib.compress(text.encode("utf-8", "replace"), 6)


def unpack_facts(stored: str | bytes) -> Any:
    """The facts of tool calls out of their column."""
    if isinstance(stored, str):
        return json.loads(stored)
    return json.loads(zlib.decompress(bytes(stored)))


def _action_from_json(facts: dict[str, Any]) -> Action:
    known = {k: v for k, v in facts.items() if k in _ACTION_DEFAULTS}
    known["files"] = tuple(known.get("files", ()))
    return Action(**({"tool_use_id": "", "tool": ""} | known))


def _write_entries(store: Store, turn_id: int, entries: Sequence[EntryRef], *, is_new: bool) -> None:
    known = (
        set() if is_new else {bytes(r[0]) for r in store.rows("SELECT uuid FROM entry WHERE turn_id = ?", (turn_id,))}
    )
    if len(known) >= len(entries):
        return
    new = [(pack_uuid(e.uuid), turn_id, e.offset, e.length, e.line) for e in entries]
    try:
        store.run_many("INSERT INTO entry VALUES (?, ?, ?, ?, ?)", [row for row in new if row[0] not in known])
    except peewee.IntegrityError as error:
        raise Moved() from error


def _write_said(store: Store, said: Sequence[tuple[int, int, Said]]) -> list[tuple[int, int, Said]]:
    """Store what was said (turn, place in it, text) in one go; returns turn, row id and text of each.

    The row ids are given out here: nobody else writes meanwhile.
    """
    first = int(store.value("SELECT max(id) FROM said") or 0) + 1 if said else 0
    store.run_many(
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


def close_turns(store: Store, session_ref: int) -> int:
    """Close a session's open turns; returns how many there were. Inside ``writing``."""
    return store.run("UPDATE turn SET is_closed = 1 WHERE session_ref = ? AND is_closed = 0", (session_ref,))


def close_turn(store: Store, key: str) -> None:
    """Close one turn that did not grow, so that its revision stays. Inside ``writing``."""
    store.run("UPDATE turn SET is_closed = 1 WHERE key = ?", (key,))


def withdraw_turn(store: Store, key: str) -> None:
    """Remove a turn that proved to be none (its entries may come again in another). Inside ``writing``."""
    turn_id = store.value("SELECT id FROM turn WHERE key = ?", (key,))
    if turn_id is None:
        return
    drop_passages(store, int(turn_id))
    for table in ("said", "entry"):
        store.run(f"DELETE FROM {table} WHERE turn_id = ?", (turn_id,))
    store.run("DELETE FROM turn WHERE id = ?", (turn_id,))


def load_turn(store: Store, key: str) -> StoredTurn | None:
    """A turn by its key."""
    found = store.row(f"{_TURN} WHERE t.key = ?", (key,))
    return None if found is None else _stored(store, found)


def load_turn_row(store: Store, turn_id: int) -> StoredTurn | None:
    """A turn by its row id."""
    found = store.row(f"{_TURN} WHERE t.id = ?", (turn_id,))
    return None if found is None else _stored(store, found)


def turns_of_session(
    store: Store, session_ref: int, *, only_due: bool = False, limit: int = 1_000_000
) -> list[StoredTurn]:
    """Turns of a session in order; ``only_due`` takes those that have grown since they were extracted."""
    condition = "AND t.extracted_revision < t.revision" if only_due else ""
    rows = store.rows(f"{_TURN} WHERE t.session_ref = ? {condition} ORDER BY t.id LIMIT ?", (session_ref, limit))
    return [_stored(store, row) for row in rows]


def mark_extracted(store: Store, turn_id: int, revision: int) -> None:
    """Compare and set: this revision of the turn has been extracted. Inside ``writing``.

    Raises:
        Moved: the turn has grown, was extracted or was forgotten meanwhile; roll back and read again.
    """
    changed = store.run(
        "UPDATE turn SET extracted_revision = ? WHERE id = ? AND revision = ? AND extracted_revision < ?",
        (revision, turn_id, revision, revision),
    )
    if changed != 1:
        raise Moved()


def _stored(store: Store, row: tuple[Any, ...]) -> StoredTurn:
    said = store.rows(
        "SELECT uuid, role, text, message_id, offset, length, line, at_ms FROM said WHERE turn_id = ? ORDER BY seq",
        (row[0],),
    )
    entries = store.rows(
        "SELECT uuid, offset, length, line FROM entry WHERE turn_id = ? ORDER BY offset, line", (row[0],)
    )
    turn = Turn(
        key=row[1], session_id=row[2], opening=Opening(row[3]), cwd=row[4], branch=row[5], started_at_ms=row[6],
        ended_at_ms=row[7], start_offset=row[8], end_offset=row[9], is_closed=bool(row[10]), message_count=row[11],
        is_interrupted=bool(row[12]), agent=row[13], extra=json.loads(row[15]),
        actions=tuple(_action_from_json(facts) for facts in unpack_facts(row[14])),
        said=tuple(Said(unpack_uuid(s[0]), Role(s[1]), *s[2:]) for s in said),
        entries=tuple(EntryRef(unpack_uuid(e[0]), e[1], e[2], e[3]) for e in entries),
    )  # fmt: skip
    return StoredTurn(row[0], turn, row[16], row[17], row[18], row[19], Path(os.fsdecode(bytes(row[20]))))


def places_of(store: Store, uuids: Iterable[str]) -> list[EvidencePlace]:
    """Session, file and line of entries, in the order asked; unknown ones have no file."""
    places = []
    for uuid in uuids:
        found = store.row(
            "SELECT s.session_id, f.path, e.line FROM entry e JOIN turn t ON t.id = e.turn_id "
            "JOIN session s ON s.id = t.session_ref JOIN transcript f ON f.id = t.transcript_id WHERE e.uuid = ?",
            (pack_uuid(uuid),),
        )
        if found is None:
            places.append(EvidencePlace("", uuid, "", 0))
        else:
            places.append(EvidencePlace(found[0], uuid, os.fsdecode(bytes(found[1])), found[2]))
    return places


def delete_turn(store: Store, turn_id: int) -> list[str]:
    """Forget a turn for good: texts, passages, index, vectors; its entries leave tombstones. Inside ``writing``.

    Returns the uuids of its entries.
    """
    now = store.now_ms()
    uuids = [bytes(row[0]) for row in store.rows("SELECT uuid FROM entry WHERE turn_id = ?", (turn_id,))]
    key = store.value("SELECT key FROM turn WHERE id = ?", (turn_id,))
    drop_passages(store, turn_id)
    store.run_many("INSERT OR IGNORE INTO tombstone VALUES ('entry', ?, ?)", [(one, now) for one in uuids])
    if key is not None:
        store.run("INSERT OR IGNORE INTO tombstone VALUES ('turn', ?, ?)", (str(key).encode(), now))
    store.run("DELETE FROM said WHERE turn_id = ?", (turn_id,))
    store.run("DELETE FROM entry WHERE turn_id = ?", (turn_id,))
    store.run("DELETE FROM turn WHERE id = ?", (turn_id,))
    return [unpack_uuid(one) for one in uuids]


def is_forgotten(store: Store, key: str) -> bool:
    """True where the turn of this key was forgotten."""
    return store.row("SELECT 1 FROM tombstone WHERE kind = 'turn' AND key = ?", (key.encode(),)) is not None
