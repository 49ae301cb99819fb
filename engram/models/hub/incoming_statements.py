"""Store statements from other machines. They are never sent on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import Query

from engram.enums import Actor, Importance, Kind, Scope, Source, Status, Voice
from engram.hub.protocol.frames import Row
from engram.hub.protocol.statements import EXTRACTED, TEXT, Register, Stamp, Statement, join, stamp_of, time_of
from engram.models import tables
from engram.models.engine.statement import grouped, in_json_list, pack_uuid, prepared, without_index
from engram.models.engine.transaction import Reader, Tx, Value, writes
from engram.models.hub.memory_statements import (
    SYNC,
    SaidMemory,
    change_said,
    drop_said,
    fields_of_text,
    find_said,
    id_of_stable,
    registers_of,
    said_in_space,
    said_privately,
)
from engram.models.hub.outgoing_statements import place_of
from engram.models.hub.shares import link_shares
from engram.models.hub.spaces import Member, Space, change_space, list_spaces, server_of, set_muted
from engram.models.memories.memory_changes import add_memories, change_memory, differing, remove_memory
from engram.models.memories.memory_records import (
    Evidence,
    Memory,
    find_memory,
    is_memory_id,
    memories_superseded_by,
    memory_by_slot,
    new_memory_id,
)
from engram.models.memories.tombstones import is_memory_gone, named_by_any
from engram.models.memories.watermarks import keep_undone
from engram.models.projects.projects import PLACEHOLDER, find_project_of_identity
from engram.models.rescue.clean_copies import is_named_by_tombstone

REASON = "said on another machine"


@dataclass(frozen=True, slots=True)
class Incoming:
    """A statement that has arrived, after it was parsed, redacted and checked."""

    row: Row
    statement: Statement
    #: The text without secrets; None if the statement has none.
    text: Mapping[str, Any] | None
    #: Why it is never injected; "" if it may be injected.
    suspect: str
    #: The owner of the memory, if it isn't the user's own: "teammate NAME" or "pack NAME".
    origin: str = ""


def take_statement(tx: Tx, space: Space, incoming: Incoming) -> Memory | None:
    """Store the content of a statement; return the memory that it created or changed, or None if nothing was new."""
    row = incoming.row
    mine = find_said(tx, space.id, row.author, row.memory_id) or _kept_from_team(tx, space, incoming)
    if mine is None:
        return _make(tx, space, incoming)
    if mine.is_forgotten:
        return None
    newer = join(registers_of(mine), incoming.statement.fields)
    if newer:
        said = {**mine.said, **{name: _without_text(name, register) for name, register in newer.items()}}
        if TEXT in said:
            said.pop(EXTRACTED, None)
        change_said(tx, mine, said=json.dumps(said))
    _note_known(tx, mine, incoming.statement)
    birth = incoming.statement.birth
    former = "" if incoming.origin else str(birth.get("pf") or "")
    if former and find_project_of_identity(tx, PLACEHOLDER + former) is not None:
        place_of(tx, birth["p"], former)
    memory = find_memory(tx, mine.episode_id)
    if memory is None:
        return None
    if memory.project_id is None and (project := birth.get("p")):
        memory = _change(tx, memory, project_id=place_of(tx, project).id)
    if not newer:
        return None
    return apply_newer(tx, space, mine, memory, newer, incoming)


def note_rows(tx: Tx, space: Space, rows: Iterable[tuple[int, bytes]]) -> None:
    """Record statements of a muted member without their content, so that a keeper can still erase them."""
    values: list[dict[str, Value]] = [
        {"space_id": space.id, "author": author, "memory_id": memory_id, "episode_id": ""} for author, memory_id in rows
    ]
    tx.insert_many(tables.HubMemory, values, or_ignore=True)


def mute_member(tx: Tx, member: Member) -> int:
    """Mute a teammate, and delete their memories from this machine; return how many were deleted."""
    gone = 0
    set_muted(tx, member, True)
    for space in _teams_of(tx, member):
        theirs = [said for said in said_in_space(tx, space.id) if said.author == member.member_id]
        gone += remove_received(tx, [said for said in theirs if not said.is_forgotten])
        note_rows(tx, space, [(said.author, said.memory_id) for said in theirs])
    return gone


def unmute_member(tx: Tx, member: Member) -> None:
    """Unmute a teammate, so that the next round pulls their memories again."""
    set_muted(tx, member, False)
    for space in _teams_of(tx, member):
        for said in said_in_space(tx, space.id):
            if said.author == member.member_id and not said.is_forgotten:
                drop_said(tx, said)
        change_space(tx, space.id, cursor=0)


def remove_received(tx: Tx, said: Iterable[SaidMemory]) -> int:
    """Delete memories that others shared from this machine without a trace; return how many were deleted."""
    gone = 0
    for shared in said:
        if (memory := find_memory(tx, shared.episode_id)) is not None:
            remove_memory(tx, memory, actor=Actor.USER, is_purge=True)
            gone += 1
    return gone


def _teams_of(tx: Tx, member: Member) -> list[Space]:
    return [space for space in list_spaces(tx, member.server_id) if space.is_team]


def _note_known(tx: Tx, mine: SaidMemory, theirs: Statement) -> None:
    """Remove a statement that this machine sends for another one from the queue, if the hub has all of it."""
    has_all = all(
        name in theirs.fields and stamp_of(theirs.fields[name]) >= Stamp(register[0], register[1])
        for name, register in mine.said.items()
    )
    if mine.version == 0 and mine.pushed < 0 and has_all:
        change_said(tx, mine, pushed=mine.version)


def _make(tx: Tx, space: Space, incoming: Incoming) -> Memory | None:
    """Create the memory of a statement, unless it was forgotten or purged on this machine."""
    row, birth = incoming.row, incoming.statement.birth
    if incoming.text is None:
        return None
    slot, episode_id = _slot_of(incoming), _id_of(space, incoming)
    if not incoming.origin:
        uuids, source = [str(uuid) for uuid in birth.get("e", ())], Source.from_stored(birth.get("s"))
        stored = _row_of(space, incoming, episode_id)
        if is_named_by_tombstone(tx, episode_id, slot, uuids, source):
            if is_named_by_tombstone(tx, episode_id, slot, uuids, source, with_purged=False):
                # It was forgotten on this machine, perhaps before that joined the hub, so it is forgotten everywhere.
                stored |= {"said": "{}", "is_forgotten": 1, "version": 1}
            tx.insert_many(tables.HubMemory, [stored])
            return None
        if (known := id_of_stable(tx, row.memory_id.hex())) is not None:
            tx.insert_many(tables.HubMemory, [stored | {"episode_id": known}])
            return None
    if not is_memory_id(episode_id) or find_memory(tx, episode_id) is not None:
        episode_id = new_memory_id()
    twin = memory_by_slot(tx, slot) if slot else None
    (made,) = _make_all(tx, space, [(incoming, episode_id, None if twin else slot)])
    if twin is not None:
        _archive_twin(tx, twin, made, is_by_hand=TEXT in incoming.statement.fields)
    return made


def _kept_from_team(tx: Tx, space: Space, incoming: Incoming) -> SaidMemory | None:
    """Return the statement about a memory that is left over from before this machine left a team and joined it again.

    If the user has forgotten the memory, it remains forgotten here.
    """
    if not space.is_team:
        return None
    row, episode_id = incoming.row, _id_of(space, incoming)
    here = find_memory(tx, episode_id)
    is_forgotten = here is None and is_memory_gone(tx, episode_id, with_purged=False)
    if not is_forgotten and (here is None or here.origin != incoming.origin):
        return None
    stored = _row_of(space, incoming, episode_id) | {"said": "{}", "is_forgotten": int(is_forgotten)}
    tx.insert_many(tables.HubMemory, [stored])
    return find_said(tx, space.id, row.author, row.memory_id)


def _id_of(space: Space, incoming: Incoming) -> str:
    """Return the local id of a statement's memory, as proposed by the statement if it is the user's own."""
    if not incoming.origin:
        return str(incoming.statement.birth.get("id") or "")
    return _id_of_teammates(incoming.row) if space.is_team else new_memory_id()


def _id_of_teammates(row: Row) -> str:
    """Return the local id of a teammate's memory, which never changes.

    So the memory is recognised if it was kept, or forgotten, earlier.
    """
    key = f"{row.author} {row.memory_id.hex()}"
    return f"ep_{hashlib.blake2b(key.encode(), digest_size=6, person=b'engram teammate').hexdigest()}"


def _slot_of(incoming: Incoming) -> str | None:
    slot = incoming.statement.birth.get("sl")
    return str(slot) if slot and not incoming.origin else None


def _row_of(space: Space, incoming: Incoming, episode_id: str) -> dict[str, Value]:
    return {
        "space_id": space.id,
        "author": incoming.row.author,
        "memory_id": incoming.row.memory_id,
        "episode_id": episode_id,
        "said": json.dumps(_said(incoming)),
    }


def memory_of(incoming: Incoming, episode_id: str, slot: str | None, project_id: int | None, latest_ms: int) -> Memory:
    """Return the memory for a statement. Another person's statement can't determine its voice, scope or importance."""
    birth, fields = incoming.statement.birth, incoming.statement.fields
    is_own = not incoming.origin
    # Another person's memory can't be newer than its arrival.
    created_ms, kept_ms = int(birth.get("c") or 0), int(birth.get("t") or 0) if is_own else latest_ms
    scope = Scope.GLOBAL if birth.get("g") else Scope.PROJECT
    importance = Importance.HIGH if birth.get("im") else Importance.NORMAL
    if "scope" in fields:
        scope = Scope.from_stored(fields["scope"][2])
    if "importance" in fields:
        importance = Importance.from_stored(fields["importance"][2])
    assert incoming.text is not None
    return Memory(
        episode_id=episode_id,
        kind=Kind.from_stored(birth.get("k")),
        **fields_of_text(incoming.text),
        project_id=project_id,
        scope=scope if is_own else Scope.PROJECT,
        importance=importance if is_own else Importance.NORMAL,
        source=Source.from_stored(birth.get("s")) if is_own else Source.AUTO,
        voice=Voice.from_stored(birth.get("v")) if is_own else Voice.ASSISTANT,
        status=Status.PROVISIONAL if birth.get("pr") else Status.ACTIVE,
        confidence=min(1.0, max(0.0, float(birth.get("cf", 0.5)))) if is_own else 0.5,
        quality=float(birth.get("q", 0.0)) if is_own else 0.0,
        suspect=incoming.suspect,
        valid_from_ms=birth["vf"] if is_own and isinstance(birth.get("vf"), int) else None,
        extractor=str(birth.get("x") or "hub")[:40] if is_own else "hub",
        created_at_ms=created_ms if is_own else max(0, min(created_ms, latest_ms)),
        kept_at_ms=kept_ms,
        slot=slot,
        stable_id=incoming.row.memory_id.hex() if is_own else "",
        origin=incoming.origin,
    )


def apply_newer(
    tx: Tx, space: Space, mine: SaidMemory, memory: Memory, newer: Mapping[str, Register], incoming: Incoming
) -> Memory:
    """Apply newer fields to a memory. For another person's memory, only its text and its end are applied."""
    changes: dict[str, Any] = {}
    values = {name: register[2] for name, register in newer.items()}
    if {TEXT, EXTRACTED} & set(newer) and incoming.text is not None:
        changes |= fields_of_text(incoming.text) | {"suspect": incoming.suspect}
        _release_merged(tx, memory)
        if mine.own_text is not None:
            change_said(tx, mine, own_text=None)
    if not incoming.origin:
        if "importance" in values:
            changes["importance"] = Importance.from_stored(values["importance"])
        if "scope" in values:
            scope = Scope.from_stored(values["scope"])
            changes["scope"] = scope if scope == Scope.GLOBAL or memory.project_id is not None else memory.scope
        changes |= {
            field: bool(values[name])
            for name, field in (("pinned", "is_pinned"), ("lowered", "is_lowered"))
            if name in values
        }
        if values.get("confirmed") and memory.status == Status.PROVISIONAL:
            changes["status"] = Status.ACTIVE
        if "vetoes" in values:
            keep_undone(tx, [(str(action), memory.episode_id) for action in values["vetoes"]])
    if "ends" in values or "next" in values:
        said = {**{name: register[2] for name, register in mine.said.items() if len(register) > 2}, **values}
        changes |= _force(tx, space, mine, memory, said)
    # A pack has no hub, and its changes are made when it is installed.
    server = None if space.server_id is None else server_of(tx, space)
    for hlc, fields in sorted(_by_time(differing(memory, changes), newer).items()):
        at_ms = None if server is None else max(0, min(time_of(hlc) - server.clock_error_ms, tx.now_ms()))
        memory = _change(tx, memory, at_ms=at_ms, **fields)
    return memory


#: Field of a memory → the names in statements by which it is decided; for fields that are not listed, the text's.
_NAMES: dict[str, tuple[str, ...]] = {
    **{"importance": ("importance",), "scope": ("scope",), "is_pinned": ("pinned",), "is_lowered": ("lowered",)},
    **dict.fromkeys(("status", "superseded_by", "valid_to_ms"), ("ends", "next", "confirmed")),
}


def _by_time(changes: Mapping[str, Any], newer: Mapping[str, Register]) -> dict[int, dict[str, Any]]:
    """Return changed fields by the clock value with which another machine decided them.

    The history records these times, because a decision that this machine has not seen yet may be newer than them.
    """
    decided: dict[int, dict[str, Any]] = {}
    for field, value in changes.items():
        names = _NAMES.get(field, (TEXT, EXTRACTED))
        decided.setdefault(max(newer[name][0] for name in names if name in newer), {})[field] = value
    return decided


def _force(tx: Tx, space: Space, mine: SaidMemory, memory: Memory, said: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a memory that determine whether it is current, and what replaced it."""
    follower_id = bytes.fromhex(str(said["next"])) if said.get("next") else None
    follower = find_said(tx, space.id, mine.author, follower_id) if follower_id else None
    is_waiting = follower_id is not None and follower is None
    change_said(tx, mine, waits_for=follower_id if is_waiting else None)
    if follower is not None and not follower.is_forgotten:
        return _superseded_by(tx, follower.episode_id)
    if said.get("ends") is not None:
        return {"status": Status.ARCHIVED, "superseded_by": "", "valid_to_ms": int(said["ends"]) or None}
    status = memory.status if memory.status.is_current else Status.ACTIVE
    return {"status": status, "superseded_by": "", "valid_to_ms": None}


def _superseded_by(tx: Tx, episode_id: str) -> dict[str, Any]:
    follower = find_memory(tx, episode_id)
    at_ms = None if follower is None else follower.holds_from_ms
    return {"status": Status.SUPERSEDED, "superseded_by": episode_id, "valid_to_ms": at_ms}


def follow(tx: Tx, episode_id: str, follower_id: str) -> None:
    """Supersede a memory when the memory that replaced it has arrived."""
    memory = find_memory(tx, episode_id)
    if memory is not None:
        _change(tx, memory, **_superseded_by(tx, follower_id))


def _release_merged(tx: Tx, memory: Memory) -> None:
    """Restore the memories that were merged into one whose text another machine changed, so no words are lost."""
    for merged in memories_superseded_by(tx, memory.episode_id):
        if merged.status == Status.ARCHIVED:
            _change(tx, merged, status=Status.ACTIVE, superseded_by="")


def _archive_twin(tx: Tx, twin: Memory, made: Memory, *, is_by_hand: bool) -> None:
    """Archive one of two memories that come from the same proposal of the same turn; keep the one written by hand."""
    kept, archived = (made, twin) if is_by_hand else (twin, made)
    if kept.is_current and archived.is_current:
        reason = f"says the same as {kept.episode_id}"
        change_memory(
            tx, archived, "archive", reason, status=Status.ARCHIVED, superseded_by=kept.episode_id, actor=Actor.TIDYING
        )


def stand_alone(tx: Tx, episode_ids: Sequence[str]) -> None:
    """Undo merges on this machine that involve memories that were forgotten on another one.

    Whoever forgot them did not know about these merges. Memories that were merged into a forgotten one become current
    again, and a memory into which a forgotten one was merged gets back its original text. Consolidation may merge the
    others again.
    """
    for episode_id in episode_ids:
        memory = find_memory(tx, episode_id)
        if memory is None:
            continue
        host = find_memory(tx, memory.superseded_by) if memory.superseded_by else None
        if host is not None and memory.status == Status.ARCHIVED:
            mine = said_privately(tx, host.episode_id)
            if mine is not None and mine.own_text is not None:
                _release_merged(tx, host)
                _change(tx, host, **fields_of_text(mine.own_text))
                change_said(tx, mine, own_text=None)
        _release_merged(tx, memory)


def known_memories(store: Reader, space: Space, rows: Sequence[Row]) -> list[str]:
    """Return the ids of the existing local memories that the rows are about."""
    ids = []
    for row in rows:
        mine = find_said(store, space.id, row.author, row.memory_id)
        if mine is not None and not mine.is_forgotten and find_memory(store, mine.episode_id) is not None:
            ids.append(mine.episode_id)
        elif mine is None and space.is_team:
            # It may have been kept when this machine left the team.
            kept = find_memory(store, _id_of_teammates(row))
            ids += [kept.episode_id] if kept is not None and kept.origin else []
    return ids


def _change(tx: Tx, memory: Memory, at_ms: int | None = None, **changes: Any) -> Memory:
    return change_memory(tx, memory, SYNC, REASON, actor=Actor.TIDYING, at_ms=at_ms, **changes)


def _said(incoming: Incoming) -> dict[str, list[Any]]:
    """Return the fields of a statement without its text, in the form of ``SaidMemory``."""
    return {name: _without_text(name, register) for name, register in join({}, incoming.statement.fields).items()}


def _without_text(name: str, register: Register) -> list[Any]:
    return list(register[:2] if name in (TEXT, EXTRACTED) else register)


@prepared
def _stop_waiting(space_id: int, memory_id: bytes) -> Query:
    memory = tables.HubMemory
    return memory.update(waits_for=None).where(
        (without_index(memory.space) == space_id) & (memory.waits_for == memory_id)
    )


@writes
def take_forgotten(space_id: int, author: int, memory_id: bytes) -> Query:
    """Record that a memory was forgotten on another machine; ``forget_together`` has deleted it on this one."""
    memory = tables.HubMemory
    return memory.insert(space=space_id, author=author, memory_id=memory_id, episode_id="", is_forgotten=1).on_conflict(
        conflict_target=(memory.space, memory.author, memory.memory_id),
        update={
            memory.is_forgotten: 1,
            memory.said: "{}",
            memory.own_text: None,
            memory.waits_for: None,
            memory.pushed: memory.version,
        },
    )


# -- Store a page of statements from other machines, those about new memories in bulk.


def take_statements(tx: Tx, space: Space, statements: Sequence[Incoming]) -> list[Memory]:
    """Store the content of statements, in any order; return the memories that were created or changed.

    Statements about new memories are stored in bulk. Those that concern something that exists, or was forgotten or
    purged, are passed to ``take_statement``.
    """
    new = _only_new(tx, space, statements)
    made = _make_all(tx, space, [(incoming, _id_of(space, incoming), _slot_of(incoming)) for incoming in new])
    stored = set(map(id, new))
    taken = [take_statement(tx, space, incoming) for incoming in statements if id(incoming) not in stored]
    return [*made, *(memory for memory in taken if memory is not None)]


def _only_new(store: Reader, space: Space, statements: Sequence[Incoming]) -> list[Incoming]:
    """Return the statements that concern nothing that is stored, and no earlier statement in the list."""
    known = _known_ids(store, space, statements)
    new = []
    for incoming in statements:
        names = _names_of(space, incoming)
        is_plain = bool(incoming.origin) or is_memory_id(str(incoming.statement.birth.get("id")))
        if incoming.text is not None and is_plain and not names & known:
            new.append(incoming)
        known |= names
    return new


def _names_of(space: Space, incoming: Incoming) -> set[tuple[str, Any]]:
    """Return every name by which a statement's memory may already be known."""
    row = incoming.row
    names: set[tuple[str, Any]] = {("memory", (row.author, row.memory_id)), ("episode", _id_of(space, incoming))}
    if incoming.origin:
        return names
    slot = _slot_of(incoming)
    return names | {("stable", row.memory_id.hex())} | ({("slot", slot)} if slot else set())


def _known_ids(store: Reader, space: Space, statements: Sequence[Incoming]) -> set[tuple[str, Any]]:
    """Return the names that are already in use, and all names of statements that a tombstone lists.

    This uses raw SQL, because the ids are bytes, which a JSON list can't contain.
    """
    by_author = grouped((incoming.row.author, incoming.row.memory_id) for incoming in statements)
    sql = "SELECT author, memory_id FROM hub_memory WHERE space_id = ? AND author = ? AND memory_id IN"
    known: set[tuple[str, Any]] = {
        ("memory", (author, bytes(memory_id)))
        for wanted, ids in by_author.items()
        for author, memory_id in store.rows_among(sql, ids, [space.id, wanted])
    }
    memory = tables.Memory
    every = [_names_of(space, incoming) for incoming in statements]
    for kind, column in (("episode", memory.episode_id), ("stable", memory.stable_id), ("slot", memory.slot)):
        values = [value for names in every for name, value in names if name == kind]
        known |= {
            (kind, value) for value in store.fetch_values(memory.select(column).where(in_json_list(column, values)))
        }
    keys = {key for incoming in statements for key in _tombstone_keys(space, incoming)}
    if gone := named_by_any(store, keys):
        for incoming, names in zip(statements, every, strict=True):
            known |= names if gone & set(_tombstone_keys(space, incoming)) else set()
    return known


def _tombstone_keys(space: Space, incoming: Incoming) -> list[bytes]:
    episode_id = _id_of(space, incoming).encode()
    if incoming.origin:
        return [episode_id]
    uuids = incoming.statement.birth.get("e", ())
    return [episode_id, (_slot_of(incoming) or "").encode(), *(pack_uuid(str(uuid)) for uuid in uuids)]


def _make_all(tx: Tx, space: Space, new: Sequence[tuple[Incoming, str, str | None]]) -> list[Memory]:
    """Store new memories, each with its id and slot, and then the decisions about them.

    This order is necessary because a memory may be replaced by another one on the page.
    """
    statements = [incoming for incoming, _, _ in new]
    places: dict[tuple[str, ...], int] = {}
    memories = []
    for incoming in statements:
        birth = incoming.statement.birth
        if birth.get("p") and birth.get("pf") and not incoming.origin:
            # This comes first, because it may merge a placeholder that another statement on the page refers to.
            place_of(tx, birth["p"], str(birth["pf"]))
    for incoming, episode_id, slot in new:
        birth = incoming.statement.birth
        project_id = None
        if birth.get("p"):
            shared = tuple(map(str, birth["p"]))
            if shared not in places:
                places[shared] = place_of(tx, shared).id
            project_id = places[shared]
        evidence = [Evidence(str(uuid)) for uuid in birth.get("e", ())] if not incoming.origin else []
        memories.append((memory_of(incoming, episode_id, slot, project_id, tx.now_ms()), evidence))
    waiting = _found_waiting(tx, space, [incoming.row.memory_id for incoming in statements])
    reasons = [incoming.origin or REASON for incoming in statements]
    made = add_memories(tx, memories, actor=Actor.TIDYING, action=SYNC, reasons=reasons)
    tx.insert_many(tables.HubMemory, [_row_of(space, incoming, episode_id) for incoming, episode_id, _ in new])
    made = [_decide(tx, space, incoming, memory) for incoming, memory in zip(statements, made, strict=True)]
    by_memory = {incoming.row.memory_id: memory for incoming, memory in zip(statements, made, strict=True)}
    for waiting_id, memory_id in waiting:
        follow(tx, waiting_id, by_memory[memory_id].episode_id)
    for memory_id in {memory_id for _, memory_id in waiting}:
        tx.run(_stop_waiting(space.id, memory_id))
    link_shares(tx, [(memory.stable_id, memory.episode_id) for memory in made if not memory.origin])
    return made


def _decide(tx: Tx, space: Space, incoming: Incoming, memory: Memory) -> Memory:
    """Apply decisions to a new memory that were made after its creation."""
    fields = join({}, incoming.statement.fields)
    decisions = {name: register for name, register in fields.items() if name not in (TEXT, EXTRACTED)}
    if not decisions:
        return memory
    mine = find_said(tx, space.id, incoming.row.author, incoming.row.memory_id)
    assert mine is not None
    return apply_newer(tx, space, mine, memory, decisions, incoming)


def _found_waiting(store: Reader, space: Space, memory_ids: Sequence[bytes]) -> list[tuple[str, bytes]]:
    """Return the memories that wait for one of these memories, each with the memory that it waits for."""
    memory, wanted = tables.HubMemory, set(memory_ids)
    waits = (without_index(memory.space) == space.id) & memory.waits_for.is_null(False)
    rows = store.fetch(memory.select(memory.episode_id, memory.waits_for).where(waits))
    return [(row.episode_id, bytes(row.waits_for)) for row in rows if bytes(row.waits_for) in wanted]
