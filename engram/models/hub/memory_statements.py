"""Statements about memories for other machines. ``memory_changes`` reports each change in the same transaction.

Only what a person or an agent said or decided is sent to other machines: a new memory, a change by a person or an
agent, a turn that has grown. What consolidation does (merge, archive, supersede, age) is not sent; if it rewrites a
text, the original text is kept as well. Nothing is stored if this machine has not joined a hub.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import SQL, ColumnBase, Query, fn

from engram.enums import Actor, Importance, Scope, Status
from engram.hub.protocol.statements import EXTRACTED, TEXT, Register, clock_of, next_clock
from engram.models import tables
from engram.models.engine.statement import RecordReader, prepared
from engram.models.engine.transaction import Reader, Tx, Value, asks_record, asks_records, asks_rows
from engram.models.hub.spaces import Space, change_space, private_space, server_of, space_by_id
from engram.models.memories.memory_changes import ChangeListener
from engram.models.memories.memory_history import BY_HAND_ACTORS, ERASE, Change, history_of
from engram.models.memories.memory_records import Memory

#: Action recorded for a change from another machine, which is not sent on.
SYNC = "sync"
#: Action recorded for a memory that an extractor created, or changed because its turn grew.
EXTRACT = "extract"
#: Fields of a memory that make up its text in a statement.
TEXT_FIELDS = ("summary", "content", "facts", "entities", "questions")


@dataclass(frozen=True, slots=True)
class SaidMemory:
    space_id: int
    author: int
    memory_id: bytes
    #: Id of the local memory.
    episode_id: str
    #: The version of this machine's statement, and the version that the hub has.
    version: int
    pushed: int
    #: Field → [clock, device, value]; fields that contain the text have no value.
    said: Mapping[str, list[Any]]
    #: The original text, if a consolidation rewrote the memory.
    own_text: Mapping[str, Any] | None
    is_forgotten: bool
    #: The memory that replaced it but has not arrived yet.
    waits_for: bytes | None


SAID = RecordReader(
    SaidMemory,
    tables.HubMemory,
    readers={"memory_id": bytes, "said": json.loads, "own_text": lambda text: json.loads(text or "null")},
)


def memory_id_of(stable_id: str) -> bytes:
    """Return the eight bytes that identify a memory on every machine."""
    if len(stable_id) == 16 and all(letter in "0123456789abcdef" for letter in stable_id):
        return bytes.fromhex(stable_id)
    return hashlib.blake2b(stable_id.encode(), digest_size=8).digest()


def text_of(memory: Memory) -> dict[str, Any]:
    """Return the text of a memory in the form used in statements."""
    return text_of_fields({name: getattr(memory, name) for name in TEXT_FIELDS})


def text_of_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the text of a memory's fields in the form used in statements, which earlier versions can read."""
    text = {"s": fields["summary"], "c": fields["content"], "f": list(fields["facts"]), "e": list(fields["entities"])}
    return text | {"q": list(fields["questions"])} if fields["questions"] else text


def fields_of_text(text: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a memory for the text of a statement."""
    return {
        "summary": str(text["s"]),
        "content": str(text["c"]),
        "facts": tuple(map(str, text["f"])),
        "entities": tuple(map(str, text["e"])),
        "questions": tuple(map(str, text.get("q", ()))),
    }


@asks_records(SAID)
def said_in_space(space_id: int) -> Query:
    return SAID.select().where(tables.HubMemory.space == space_id)


def add_said(tx: Tx, space_id: int, author: int, memory_id: bytes, episode_id: str = "", **columns: Value) -> None:
    """Store the statement about a memory in a space, unless there is one."""
    row = {"space_id": space_id, "author": author, "memory_id": memory_id, "episode_id": episode_id, **columns}
    tx.insert_many(tables.HubMemory, [row], or_ignore=True)


def change_said(tx: Tx, memory: SaidMemory, **changes: Value) -> None:
    """Change columns of the statement about a memory, which must have been read in this transaction."""
    key: dict[str, Value] = {"space_id": memory.space_id, "author": memory.author, "memory_id": memory.memory_id}
    tx.update_row(tables.HubMemory, key, changes)


def registers_of(memory: SaidMemory, text: Mapping[str, Any] | None = None) -> dict[str, Register]:
    """Return the fields of a statement, with ``text`` as the value of those that contain the text."""
    return {name: (int(r[0]), int(r[1]), r[2] if len(r) > 2 else text) for name, r in memory.said.items()}


def drop_said(tx: Tx, memory: SaidMemory) -> None:
    """Delete the statement about a memory, so that the memory can be received again."""
    tx.run(tables.HubMemory.delete().where(is_said(memory.space_id, memory.author, memory.memory_id)))


def is_said(space_id: int, author: int, memory_id: bytes) -> ColumnBase:
    """Return the condition for the statement about a memory in a space."""
    memory = tables.HubMemory
    is_it: ColumnBase = (memory.space == space_id) & (memory.author == author) & (memory.memory_id == memory_id)
    return is_it


@asks_rows(lambda rows: str(rows[0].episode_id) if rows else None)
def id_of_stable(stable_id: str) -> Query:
    return tables.Memory.select(tables.Memory.episode_id).where(tables.Memory.stable_id == stable_id)


class Clock:
    """Issues stamps for a space, and stores how far the space's clock has advanced."""

    def __init__(self, tx: Tx, space: Space, at_ms: int | None = None) -> None:
        """Set up the clock. ``at_ms`` is when what it stamps was decided, if not now."""
        self.server = server_of(tx, space)
        # The caller may have read the space before this transaction.
        self.space = space_by_id(tx, space.id) or space
        self._tx = tx
        self._at_ms = at_ms
        self._hlc = self.space.clock

    def stamp(self, value: object = None, at_ms: int | None = None) -> list[Any]:
        """Return a value with a stamp of the current time, or of an earlier time if one is given."""
        at_ms = self._at_ms if at_ms is None else at_ms
        if at_ms is None:
            self._hlc = next_clock(self._hlc, self._tx.now_ms() + self.server.clock_error_ms)
            return [self._hlc, self.server.device_id, value]
        hlc = clock_of(at_ms + self.server.clock_error_ms)
        # Later stamps must be greater, even if the machine's clock was ahead at ``at_ms``.
        self._hlc = max(self._hlc, hlc)
        return [hlc, self.server.device_id, value]

    def store(self) -> None:
        """Store how far the clock has advanced."""
        if self._hlc != self.space.clock:
            change_space(self._tx, self.space.id, clock=self._hlc)


class SaidListener(ChangeListener):
    """Stores a statement about each change in the transaction of the change."""

    def made(self, tx: Tx, memory: Memory, action: str) -> None:
        """State that a memory was created."""
        if action == SYNC or memory.origin or (space := private_space(tx)) is None:
            return
        clock = Clock(tx, space)
        row = first_row(
            tx,
            clock,
            memory,
            history_of(tx, memory.episode_id),
            is_extracted=action == EXTRACT,
            made_at_ms=memory.kept_at_ms if memory.kept_at_ms < memory.updated_at_ms else None,
        )
        known = find_said(tx, space.id, clock.server.member_id, row["memory_id"])
        if known is not None and known.is_forgotten:
            # The memory was removed and imported again, so for other machines it is a different memory.
            row["memory_id"] = memory_id_of(f"{memory.stable_id} {tx.now_ms()} {memory.id}")
        tx.insert_many(tables.HubMemory, [row], or_ignore=True)
        clock.store()

    def changed(
        self, tx: Tx, before: Memory, after: Memory, action: str, actor: Actor, at_ms: int | None = None
    ) -> None:
        """State what a person or an agent changed in a memory. If consolidation rewrote it, keep the original text."""
        own = None if action == SYNC else _own(tx, before.episode_id)
        if own is None:
            return
        memory, space = own
        clock = Clock(tx, space, at_ms)
        said, own_text = dict(memory.said), memory.own_text
        if any(getattr(before, name) != getattr(after, name) for name in TEXT_FIELDS):
            is_grown = action == EXTRACT and TEXT not in said
            if actor not in BY_HAND_ACTORS and not is_grown:
                own_text = own_text or text_of(before)
            else:
                if text_of(after) != own_text:
                    said[TEXT if actor in BY_HAND_ACTORS else EXTRACTED] = clock.stamp()[:2]
                own_text = None
        if actor in BY_HAND_ACTORS:
            said |= _decided(tx, before, after, clock)
        if TEXT in said:
            said.pop(EXTRACTED, None)
        _store(tx, clock, memory, said, own_text)

    def erased(self, tx: Tx, before: Memory, after: Memory) -> None:
        """State the remaining text of a memory whose words were forgotten, so that the words are deleted everywhere.

        If a consolidation had merged the words into it, the statement is not changed.
        """
        own = _own(tx, before.episode_id)
        if own is None:
            return
        memory, space = own
        own_text, left = memory.own_text, text_of(after)
        if own_text is not None:
            own_text = {name: own_text[name] if left[name] else left[name] for name in own_text}
            if own_text == memory.own_text:
                return
        clock = Clock(tx, space)
        said = {name: value for name, value in memory.said.items() if name != EXTRACTED} | {TEXT: clock.stamp()[:2]}
        _store(tx, clock, memory, said, own_text)

    def moved(self, tx: Tx, episode_ids: Query) -> None:
        """Send the statements about memories that are moving to another project again."""
        memory = tables.HubMemory
        if private_space(tx) is not None:
            is_said = memory.episode_id.in_(episode_ids) & (memory.version > 0) & (memory.is_forgotten == 0)
            tx.run(memory.update(version=memory.version + 1).where(is_said))

    def deleted(self, tx: Tx, memory: Memory, *, is_purge: bool) -> None:
        """State that a memory was forgotten, in every space in which its text is the user's. A purge is local.

        Shares of a purged memory remain, with their ids, so that they can be withdrawn.
        """
        for said in said_of_memory(tx, memory.episode_id):
            if is_purge and _is_share(tx, said):
                change_said(tx, said, episode_id="", own_text=None)
            elif is_purge:
                drop_said(tx, said)
            else:
                tx.run(_forget(said.space_id, said.author, said.memory_id))

    def vetoed(self, tx: Tx, changes: Sequence[tuple[str, str]]) -> None:
        """State that changes were undone and must not be repeated. Each is given as an action and a memory's id."""
        by_memory: dict[str, set[str]] = {}
        for action, episode_id in changes:
            by_memory.setdefault(episode_id, set()).add(action)
        for episode_id, actions in by_memory.items():
            if (own := _own(tx, episode_id)) is None:
                continue
            memory, space = own
            clock = Clock(tx, space)
            known = memory.said.get("vetoes", [0, 0, []])[2]
            said = dict(memory.said) | {"vetoes": clock.stamp(sorted({*known, *actions}))}
            _store(tx, clock, memory, said, memory.own_text)


#: Name in a statement → field of a memory, and the value that needs no statement.
_DECIDED_FIELDS = (
    ("importance", "importance", Importance.NORMAL),
    ("scope", "scope", Scope.PROJECT),
    ("pinned", "is_pinned", False),
    ("lowered", "is_lowered", False),
)


def first_row(
    tx: Tx,
    clock: Clock,
    memory: Memory,
    history: Sequence[Change],
    *,
    is_extracted: bool,
    made_at_ms: int | None = None,
) -> dict[str, Any]:
    """Return the row for the first statement about a memory.

    Each field is stamped with the time at which it was last decided according to the memory's history, so that a
    memory that was restored, or that was kept while this machine was not joined, does not undo later changes by other
    machines.

    Args:
        history: the memory's history, oldest first.
        made_at_ms: the stamp of fields that the history does not contain; None for the current time.
    """
    steps = [step for step in history if step.before]

    def stamp(value: object, *names: str) -> list[Any]:
        # The history before forgotten words were erased was deleted.
        decided = [s.at_ms for s in history if s.action == ERASE or (_is_decided(s) and set(names) & s.after.keys())]
        return clock.stamp(value, max(decided, default=made_at_ms))

    own_text, is_written = _own_text(memory, steps)
    said = {EXTRACTED if is_extracted and not is_written else TEXT: stamp(None, *TEXT_FIELDS)[:2]}
    for name, field, usual in _DECIDED_FIELDS:
        value = getattr(memory, field)
        # Other machines create a new memory with its importance and scope, so these need no stamp.
        is_unusual = value != usual and (value is True or made_at_ms is not None)
        if is_unusual or any(_is_decided(step) and field in step.after for step in steps):
            said[name] = stamp(value if isinstance(value, bool) else str(value), field)
    ends = [step for step in steps if "status" in step.after]
    # Archiving by a consolidation is not sent to other machines.
    if _is_decided(ends[-1]) if ends else not is_extracted:
        if memory.status == Status.ARCHIVED:
            said["ends"] = stamp(memory.valid_to_ms or 0, "status")
        elif ends and memory.is_current:
            said["ends"] = stamp(None, "status")
        if memory.superseded_by and (follower := _stable_id(tx, memory.superseded_by)):
            said["next"] = stamp(memory_id_of(follower).hex(), "status")
    return {
        "space_id": clock.space.id,
        "author": clock.server.member_id,
        "memory_id": memory_id_of(memory.stable_id),
        "episode_id": memory.episode_id,
        "version": 1,
        "said": json.dumps(said),
        "own_text": None if own_text is None else json.dumps(own_text, ensure_ascii=False),
    }


def _is_decided(step: Change) -> bool:
    """Return True for a step that hubs are told: one made by hand, by an extractor or on another machine."""
    return step.actor in BY_HAND_ACTORS or step.action in (EXTRACT, SYNC)


def _own_text(memory: Memory, steps: Sequence[Change]) -> tuple[dict[str, Any] | None, bool]:
    """Return the original text if a consolidation has rewritten it, else None; and True if it was written by hand."""
    rewritten: dict[str, Any] | None = None
    is_by_hand = False
    for step in steps:
        changed = {name: step.before[name] for name in TEXT_FIELDS if name in step.before}
        if not changed:
            continue
        is_by_hand = is_by_hand or step.actor in BY_HAND_ACTORS
        if step.actor in BY_HAND_ACTORS or step.action == SYNC:
            rewritten = None
        elif step.action != EXTRACT:
            rewritten = changed | (rewritten or {})
    if rewritten is None:
        return None, is_by_hand
    now = {name: getattr(memory, name) for name in TEXT_FIELDS}
    return text_of_fields(now | rewritten), is_by_hand


@asks_rows(lambda rows: str(rows[0].stable_id) if rows else None)
def _stable_id(episode_id: str) -> Query:
    return tables.Memory.select(tables.Memory.stable_id).where(tables.Memory.episode_id == episode_id)


def _decided(tx: Tx, before: Memory, after: Memory, clock: Clock) -> dict[str, list[Any]]:
    """Return the fields that a person or an agent changed."""
    decided = {}
    for name in ("importance", "scope", "is_pinned", "is_lowered"):
        value = getattr(after, name)
        if getattr(before, name) != value:
            decided[name.removeprefix("is_")] = clock.stamp(value if isinstance(value, bool) else str(value))
    force = (before.status, before.superseded_by, before.valid_to_ms)
    if force != (after.status, after.superseded_by, after.valid_to_ms):
        successor = _own(tx, after.superseded_by) if after.superseded_by else None
        is_over = after.status == Status.ARCHIVED and successor is None
        decided["ends"] = clock.stamp((after.valid_to_ms or 0) if is_over else None)
        decided["next"] = clock.stamp(None if successor is None else successor[0].memory_id.hex())
    if before.status == Status.PROVISIONAL and after.status == Status.ACTIVE:
        decided["confirmed"] = clock.stamp(True)
    return decided


def _is_share(tx: Tx, memory: SaidMemory) -> bool:
    space = space_by_id(tx, memory.space_id)
    return space is not None and space.is_team and server_of(tx, space).member_id == memory.author


def said_privately(tx: Reader, episode_id: str) -> SaidMemory | None:
    """Return the private space's statement about the user's own memory; None if it is missing or forgotten."""
    own = _own(tx, episode_id)
    return None if own is None else own[0]


def _own(tx: Reader, episode_id: str) -> tuple[SaidMemory, Space] | None:
    """Return the private space and its statement about the user's own memory; None if one is missing."""
    space = private_space(tx)
    if space is None:
        return None
    known = (memory for memory in said_of_memory(tx, episode_id) if memory.space_id == space.id)
    return next(((memory, space) for memory in known if not memory.is_forgotten), None)


def _store(
    tx: Tx, clock: Clock, memory: SaidMemory, said: Mapping[str, Any], own_text: Mapping[str, Any] | None
) -> None:
    """Store a statement. If a stamp is new, it is queued for the next push."""
    if said == memory.said and own_text == memory.own_text:
        return
    clock.store()
    own = None if own_text is None else json.dumps(own_text, ensure_ascii=False)
    version = memory.version + int(said != memory.said)
    change_said(tx, memory, said=json.dumps(said), own_text=own, version=version)


@asks_records(SAID)
def said_of_memory(episode_id: str) -> Query:
    """Return the statements about a memory, one for each space that contains the memory."""
    return SAID.select().where(tables.HubMemory.episode_id == episode_id)


@asks_record(SAID)
def find_said(space_id: int, author: int, memory_id: bytes) -> Query:
    return SAID.select().where(is_said(space_id, author, memory_id))


@prepared
def _forget(space_id: int, author: int, memory_id: bytes) -> Query:
    """Mark a memory as forgotten: on this machine if it is another member's, everywhere if it is the user's own."""
    memory, space, server = tables.HubMemory, tables.HubSpace, tables.HubServer
    member = (
        server.select(server.member_id)
        .join(space, on=space.server == server.id)
        .where((space.id == space_id) & (space.kind != SQL("'pack'")))
    )
    is_own = fn.COALESCE(memory.author == member, SQL("0"))
    return memory.update(
        is_forgotten=SQL("1"),
        said=SQL("'{}'"),
        own_text=SQL("NULL"),
        waits_for=SQL("NULL"),
        version=memory.version + is_own,
    ).where(is_said(space_id, author, memory_id))


LISTENER = SaidListener()
