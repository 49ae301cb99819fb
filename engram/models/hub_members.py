"""The other members of a hub, as teams tell of them: their names, and who is muted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engram.models import tables
from engram.models.records import RecordReader
from engram.models.transaction import Reader, Tx

#: Longest name that is kept, in characters.
MAX_NAME_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Member:
    """Somebody who is, or was, in a team with this person."""

    server_id: int
    #: The hub's id.
    member_id: int
    name: str
    #: Nothing of theirs is kept here.
    is_muted: bool


_MEMBERS = RecordReader(Member, tables.HubMember)


def keep_members(tx: Tx, server_id: int, names: Mapping[int, str]) -> None:
    """Keep the names of members, by id; who was muted stays so."""
    table = tables.HubMember
    for member_id, name in names.items():
        plain = plain_name(name)
        row = table.insert(server=server_id, member_id=member_id, name=plain)
        tx.run(row.on_conflict(conflict_target=(table.server, table.member_id), update={table.name: plain}))


def list_members(store: Reader, server_id: int) -> list[Member]:
    """Return the members of a hub that are known here, by name."""
    query = _MEMBERS.select().where(tables.HubMember.server == server_id).order_by(tables.HubMember.name)
    return store.fetch_records(_MEMBERS, query)


def set_muted(tx: Tx, member: Member, is_muted: bool) -> None:
    """Mute a member, or hear them again."""
    table = tables.HubMember
    of_member = (table.server == member.server_id) & (table.member_id == member.member_id)
    tx.run(table.update(is_muted=is_muted).where(of_member))


def plain_name(name: str) -> str:
    """Return a name as it stands beside a memory: letters, digits and few marks, so that it can't pose as more."""
    plain = "".join(char if char.isalnum() or char in " ._-@'" else " " for char in name)
    return " ".join(plain.split())[:MAX_NAME_CHARACTERS] or "unknown"
