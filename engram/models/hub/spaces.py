"""The hubs that this machine has joined, their spaces and their members."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import SQL, Query, fn

from engram.hub.protocol.requests import SpaceFacts
from engram.models import tables
from engram.models.engine.meta import drop_meta, get_meta, put_meta
from engram.models.engine.statement import RecordReader, without_index
from engram.models.engine.transaction import Reader, Store, Tx, Value, asks_number, asks_record, asks_records

#: Key in ``meta`` of the teams that a hub lists, and the maximum number of teams that are stored.
_OFFERS, MAX_OFFERS = "hub_offers", 20
#: Key in ``meta`` of the record of what this machine has written to a folder and read from it.
_FOLDER = "hub_folder"
#: Reason for setting aside a row with fields that this version doesn't know.
NEWER_FIELDS = "has fields of a newer version"
#: Maximum number of this machine's pushes that are stored, to tell a restored hub from a copy of this machine.
MAX_PUSHES = 128
#: Key in ``meta`` of the capabilities of the version that pulled last.
_UNDERSTOOD = "hub_understood"


@dataclass(frozen=True, slots=True)
class Server:
    """A hub that this machine has joined."""

    id: int
    url: str
    #: The hub's ids for the user and for this machine.
    member_id: int
    member_name: str
    device_id: int
    #: Id of the last push that the hub has, as far as this machine knows; b"" if there is none.
    last_push: bytes
    #: Ids of the pushes that were sent, answered or not, the newest last: sixteen bytes each, at most ``MAX_PUSHES``.
    in_flight: bytes
    #: The hub's time minus this machine's, in milliseconds; 0 for a small difference.
    clock_error_ms: int
    joined_at_ms: int
    synced_at_ms: int
    #: When to contact the hub again after a failure.
    retry_at_ms: int
    failures: int
    last_error: str

    @property
    def pushes(self) -> tuple[bytes, ...]:
        """Ids of the pushes that are known to be this machine's own, the newest last."""
        sent = tuple(self.in_flight[start : start + 16] for start in range(0, len(self.in_flight), 16))
        return sent if not self.last_push or self.last_push in sent else (self.last_push, *sent)


@dataclass(frozen=True, slots=True)
class Space:
    """A space of a hub, or an installed pack."""

    id: int
    #: None for a pack.
    server_id: int | None
    #: The hub's id.
    ns_id: int
    name: str
    #: private, team or pack
    kind: str
    #: reader, writer or keeper.
    role: str
    is_sealed: bool
    cursor: int
    mark_seq: int
    mark: bytes
    #: The hybrid logical clock, and the greatest value that the hub has seen.
    clock: int
    published: int
    is_muted: bool
    last_error: str
    #: Number of memories that members have reported to the user as keeper.
    reports: int = 0

    @property
    def is_private(self) -> bool:
        """True for the space with the user's own memories."""
        return self.kind == "private"

    @property
    def is_team(self) -> bool:
        """True for a space that several people share."""
        return self.kind == "team"


_SERVERS = RecordReader(Server, tables.HubServer, readers={"last_push": bytes, "in_flight": bytes})
_SPACES = RecordReader(Space, tables.HubSpace, readers={"mark": bytes})


def find_server(store: Reader, url: str) -> Server | None:
    return store.fetch_record(_SERVERS, _SERVERS.select().where(tables.HubServer.url == url))


def server_of(store: Reader, space: Space) -> Server:
    """Return the hub of a space. Packs have none."""
    server = None if space.server_id is None else server_by_id(store, space.server_id)
    assert server is not None, "only a pack has no hub"
    return server


def list_spaces(store: Reader, server_id: int | None = None) -> list[Space]:
    """Return every space, or those of one hub, oldest first."""
    space = tables.HubSpace
    query = _SPACES.select().order_by(space.id)
    return store.fetch_records(_SPACES, query if server_id is None else query.where(space.server == server_id))


def find_space(store: Reader, name: str) -> Space | None:
    """Return the space with a name, the oldest if there are several."""
    space = tables.HubSpace
    return store.fetch_record(_SPACES, _SPACES.select().where(space.name == name).order_by(space.id))


def add_server(tx: Tx, url: str, member_id: int, member_name: str, device_id: int) -> Server:
    """Store a hub that this machine has just joined."""
    facts: dict[str, Value] = {"url": url, "member_id": member_id, "member_name": member_name, "device_id": device_id}
    row_id = tx.insert_row(tables.HubServer, facts | {"joined_at_ms": tx.now_ms()})
    server = server_by_id(tx, row_id)
    assert server is not None
    return server


def change_server(tx: Tx, server_id: int, **changes: Any) -> None:
    tx.run(tables.HubServer.update(**changes).where(tables.HubServer.id == server_id))


def note_push(tx: Tx, server_id: int, push_id: bytes) -> None:
    """Store the id of a push before it is sent, because it may arrive, even much later, without a response."""
    server = server_by_id(tx, server_id)
    assert server is not None
    change_server(tx, server_id, in_flight=b"".join([*server.pushes, push_id][-MAX_PUSHES:]))


def drop_server(tx: Tx, server_id: int) -> None:
    """Delete a hub that this machine leaves, with its spaces and their statements. Memories are kept."""
    tx.run(tables.HubServer.delete().where(tables.HubServer.id == server_id))
    drop_meta(tx, f"{_FOLDER} {server_id}")


def read_folder_state(store: Reader, server_id: int) -> str:
    """Return what this machine has written to a folder and read from it, as JSON; "" if nothing yet."""
    return get_meta(store, f"{_FOLDER} {server_id}") or ""


def put_folder_state(tx: Tx, server_id: int, state: str) -> None:
    """Store what this machine has written to a folder and read from it."""
    put_meta(tx, f"{_FOLDER} {server_id}", state)


def folder_notes(store: Reader, server_id: int) -> tuple[str, ...]:
    """Return remarks for the user about a folder: missing and unreadable files, other spaces."""
    return tuple(map(str, json.loads(read_folder_state(store, server_id) or "{}").get("notes", ())))


def add_space(
    tx: Tx, server_id: int | None, ns_id: int, name: str, *, kind: str, role: str = "reader", is_sealed: bool = False
) -> Space:
    """Store a space that this machine has joined."""
    row_id = tx.insert(
        tables.HubSpace.insert(server=server_id, ns_id=ns_id, name=name, kind=kind, role=role, is_sealed=is_sealed)
    )
    space = space_by_id(tx, row_id)
    assert space is not None
    return space


def add_hub_space(tx: Tx, server: Server, facts: SpaceFacts) -> Space:
    return add_space(
        tx, server.id, facts.ns_id, facts.name, kind=facts.kind, role=facts.role, is_sealed=facts.is_sealed
    )


def change_space(tx: Tx, space_id: int, **changes: Any) -> None:
    tx.run(tables.HubSpace.update(**changes).where(tables.HubSpace.id == space_id))


def raise_clock(tx: Tx, space_id: int, hlc: int) -> None:
    """Advance a space's clock, and the value that its hub has seen, to at least ``hlc``."""
    space = tables.HubSpace
    raised = space.update(clock=fn.MAX(space.clock, hlc), published=fn.MAX(space.published, hlc))
    tx.run(raised.where(space.id == space_id))


def drop_space(tx: Tx, space_id: int) -> None:
    """Delete a space that this machine leaves, with its statements. Memories are kept."""
    tx.run(tables.HubSpace.delete().where(tables.HubSpace.id == space_id))


# -- Teams that a hub lists.


def note_offers(store: Store, server_id: int, offers: Mapping[int, str]) -> None:
    """Store the teams that a hub lists and that this machine has not joined, by id, so that the user can join them."""
    kept = json.dumps({str(ns_id): name[:60] for ns_id, name in list(offers.items())[:MAX_OFFERS]}, sort_keys=True)
    if (get_meta(store, f"{_OFFERS} {server_id}") or "{}") != kept:
        with store.transaction() as tx:
            put_meta(tx, f"{_OFFERS} {server_id}", kept)


def list_offers(store: Reader, server_id: int) -> dict[int, str]:
    """Return id → name, for the teams that a hub lists and that this machine has not joined."""
    offers = json.loads(get_meta(store, f"{_OFFERS} {server_id}") or "{}")
    known = {space.ns_id for space in list_spaces(store, server_id)}
    return {int(ns_id): str(name) for ns_id, name in offers.items() if int(ns_id) not in known}


# -- Rows that were set aside.


@dataclass(frozen=True, slots=True)
class SetAside:
    """A row that could not be stored on this machine, or that the hub refused."""

    space_id: int
    #: pull or push
    direction: str
    author: int
    memory_id: bytes
    #: Position in the hub's order; 0 for a push.
    seq: int
    reason: str
    at_ms: int


_SET_ASIDE = RecordReader(SetAside, tables.HubSetAside, readers={"memory_id": bytes})


def set_aside(
    tx: Tx, space_id: int, direction: str, author: int, memory_id: bytes, *, seq: int = 0, reason: str = ""
) -> None:
    """Set a row aside, so that it doesn't delay the others."""
    row = {"space": space_id, "direction": direction, "author": author, "memory_id": memory_id}
    row |= {"seq": seq, "reason": reason[:300], "at_ms": tx.now_ms()}
    tx.run(tables.HubSetAside.insert(**row).on_conflict_replace())


def drop_set_aside(tx: Tx, space_id: int, direction: str, rows: Sequence[tuple[int, bytes]]) -> None:
    """Delete the records of rows, given by author and memory, that were set aside and have since succeeded."""
    table = tables.HubSetAside
    if not tx.has_any(table.select(table.seq).where(table.space == space_id).limit(1)):
        return
    for author, memory_id in rows:
        of_row = (table.author == author) & (table.memory_id == memory_id)
        tx.run(table.delete().where((table.space == space_id) & (table.direction == direction) & of_row))


def read_anew_after_update(store: Store, program: str) -> int:
    """Pull again the rows that an older version set aside; return how many spaces that affects.

    Args:
        program: the capabilities of this version, as a string that differs between versions.
    """
    if get_meta(store, _UNDERSTOOD) == program:
        return 0
    table, space = tables.HubSetAside, tables.HubSpace
    first = table.select(fn.MIN(table.seq) - 1).where((table.space == space.id) & (table.direction == "pull"))
    with store.transaction() as tx:
        put_meta(tx, _UNDERSTOOD, program)
        return tx.run(
            space.update(cursor=fn.MIN(space.cursor, first)).where(
                space.id.in_(table.select(table.space).where(table.direction == "pull"))
            )
        )


def read_set_aside_again(tx: Tx, space_id: int, before_ms: int) -> None:
    """Pull again the rows that were set aside before a time.

    Rows from a newer version are left until this one is updated.
    """
    table, space = tables.HubSetAside, tables.HubSpace
    is_newer = table.reason.startswith(NEWER_FIELDS)
    of_space = (table.space == space_id) & (table.direction == "pull") & (table.at_ms <= before_ms) & ~is_newer
    first = tx.fetch_value(table.select(fn.MIN(table.seq)).where(of_space))
    if first is not None:
        tx.run(space.update(cursor=fn.MIN(space.cursor, max(0, int(first) - 1))).where(space.id == space_id))


def list_set_aside(store: Reader, space_id: int | None = None) -> list[SetAside]:
    """Return every row that was set aside, in one space or in all, oldest first."""
    query = _SET_ASIDE.select().order_by(tables.HubSetAside.at_ms)
    return store.fetch_records(
        _SET_ASIDE, query if space_id is None else query.where(tables.HubSetAside.space == space_id)
    )


@asks_records(_SERVERS)
def list_servers() -> Query:
    """Return every hub that this machine has joined, oldest first."""
    return _SERVERS.select().order_by(tables.HubServer.id)


@asks_record(_SERVERS)
def server_by_id(server_id: int) -> Query:
    return _SERVERS.select().where(tables.HubServer.id == server_id)


@asks_record(_SPACES)
def space_by_id(space_id: int) -> Query:
    return _SPACES.select().where(tables.HubSpace.id == space_id)


@asks_record(_SPACES)
def private_space() -> Query:
    """Return the space to which all of the user's own memories belong; None if no hub has been joined. Fast."""
    return _SPACES.select().where(tables.HubSpace.kind == SQL("'private'")).order_by(tables.HubSpace.id).limit(SQL("1"))


@asks_number
def count_outgoing(space_id: int) -> Query:
    """Return how many statements of a space have not been pushed yet."""
    memory = tables.HubMemory
    # Statements to push have a partial index; with the primary key, SQLite would visit every memory in the space.
    in_space = without_index(memory.space) == space_id
    return memory.select(fn.COUNT(SQL("*"))).where(in_space & (memory.version > memory.pushed))


# -- The other members of a hub's teams: their names, and whether they are muted.

#: Maximum length of a stored name, in characters.
MAX_NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Member:
    """A person who is or was in a team with the user."""

    server_id: int
    #: The hub's id.
    member_id: int
    name: str
    #: True if the user has muted this member, so nothing from them is stored.
    is_muted: bool


_MEMBERS = RecordReader(Member, tables.HubMember)


def keep_members(tx: Tx, server_id: int, names: Mapping[int, str]) -> None:
    """Store the names of members, by id; muted members remain muted."""
    table = tables.HubMember
    for member_id, name in names.items():
        plain = plain_name(name)
        row = table.insert(server=server_id, member_id=member_id, name=plain)
        tx.run(row.on_conflict(conflict_target=(table.server, table.member_id), update={table.name: plain}))


def list_members(store: Reader, server_id: int) -> list[Member]:
    """Return the known members of a hub, by name."""
    query = _MEMBERS.select().where(tables.HubMember.server == server_id).order_by(tables.HubMember.name)
    return store.fetch_records(_MEMBERS, query)


def set_muted(tx: Tx, member: Member, is_muted: bool) -> None:
    table = tables.HubMember
    of_member = (table.server == member.server_id) & (table.member_id == member.member_id)
    tx.run(table.update(is_muted=is_muted).where(of_member))


def plain_name(name: str) -> str:
    """Return a name for display next to a memory: letters, digits and a few marks, so that it can't mislead."""
    plain = "".join(char if char.isalnum() or char in " ._-@'" else " " for char in name)
    return " ".join(plain.split())[:MAX_NAME_CHARACTERS] or "unknown"
