"""Handle requests about teams: make, invite, join, roles, reports. Each calls one of the schema's SQL functions.

The service checks the role first; the function then checks it again, based only on the device's token.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engram.errors import BadRequest, NotFound
from engram.hub.protocol.requests import code_hash
from engram.hub.server.accounts import MAX_BUNDLE_BYTES, ROLE_NAMES, Asker, Unknown, check_codes, checked_name, new_id
from engram.hub.server.hub_database import Database
from engram.hub.server.statement_pages import KEEPER, NoSpace, NotAllowed

#: Maximum number of teams that one member may be a keeper of.
MAX_TEAMS = 100
#: Lifetime of an invitation, in seconds.
INVITATION_SECONDS = 86_400
#: Reasons for which a memory can be reported. The set is closed, so that the hub gets no text from members.
REASONS = ("secret", "wrong", "instruction", "other")
READER = 1


def make_team(database: Database, asker: Asker, value: Mapping[str, Any]) -> dict[str, Any]:
    """Create a team's space, with the requesting member as its keeper.

    For a sealed team, the request contains the key's id.
    """
    name, is_sealed, key_id = checked_name(str(value["name"])), bool(value["sealed"]), bytes.fromhex(value["key"])
    if name == "private" or len(key_id) != (8 if is_sealed else 0):
        raise BadRequest("choose another name" if name == "private" else "this is not the id of a key")
    ns_id = new_id()
    with database.client(asker.token_hash) as connection:
        made = connection.execute(
            "SELECT hub.make_team(%s, %s, %s, %s, %s) AS is_made", (ns_id, name, is_sealed, key_id, MAX_TEAMS)
        ).fetchone()
    if made is None or not made.is_made:
        raise BadRequest(f"you are already a keeper of {MAX_TEAMS} teams, which is the maximum")
    return {"ns": ns_id, "name": name}


def invite(database: Database, asker: Asker, value: Mapping[str, Any]) -> dict[str, Any]:
    """Store the code of an invitation, with the key that the second half of the code unlocks."""
    digest, bundle = bytes.fromhex(value["digest"]), bytes.fromhex(value["bundle"])
    if len(digest) != 32 or len(bundle) > MAX_BUNDLE_BYTES:
        raise BadRequest("this is not a code")
    ns_id, role = int(value["ns"]), _role_number(value["role"])
    check_codes(database, asker)
    with database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, KEEPER)
        connection.execute(
            "SELECT hub.add_invitation(%s, %s, %s, %s, %s)", (ns_id, role, digest, bundle, INVITATION_SECONDS)
        )
    return {"seconds": INVITATION_SECONDS}


def join_team(database: Database, asker: Asker, value: Mapping[str, Any]) -> dict[str, Any]:
    """Use up a code to take a seat in a team, and return the space and the sealed key. Raises Unknown."""
    with database.client(asker.token_hash) as connection:
        row = connection.execute("SELECT * FROM hub.redeem(%s)", (code_hash(str(value["code"])),)).fetchone()
        if row is None or row.ns is None:
            raise Unknown
        return {"ns": row.ns, "bundle": bytes(row.bundle).hex()}


def list_members(database: Database, asker: Asker, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a team, and former members who shared something in it."""
    ns_id = int(value["ns"])
    with database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, READER)
        rows = connection.execute("SELECT * FROM hub.team_members(%s)", (ns_id,)).fetchall()
    return {
        "members": [
            {"member": row.member_id, "name": row.name, "role": "" if row.has_left else ROLE_NAMES[row.role]}
            for row in rows
        ]
    }


def set_role(database: Database, asker: Asker, value: Mapping[str, Any]) -> dict[str, Any]:
    """Give a member another role; "" removes the seat. Anyone may leave, except the last keeper."""
    ns_id, member = int(value["ns"]), int(value["member"])
    role = _role_number(value["role"]) if value["role"] else 0
    with database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, READER if member == asker.member_id and not role else KEEPER)
        row = connection.execute("SELECT hub.set_role(%s, %s, %s) AS outcome", (ns_id, member, role)).fetchone()
    if row is None or row.outcome == "missing":
        raise NotFound("there is no such space or member")
    if row.outcome == "last":
        raise BadRequest("a team needs a keeper: make someone else a keeper first")
    if row.outcome != "done":
        raise NotAllowed
    return {"set": True}


def report(database: Database, asker: Asker, value: Mapping[str, Any]) -> dict[str, Any]:
    """Report a memory of a team to its keepers."""
    ns_id, author, memory_id, reason = int(value["ns"]), int(value["author"]), _memory_id(value), str(value["reason"])
    if reason not in REASONS:
        raise BadRequest(f"the reason must be one of {', '.join(REASONS)}")
    with database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, READER)
        row = connection.execute(
            "SELECT hub.add_report(%s, %s, %s, %s) AS is_added", (ns_id, author, memory_id, reason)
        ).fetchone()
    if row is None or not row.is_added:
        raise NotFound("there is no such space or member")
    return {"reported": True}


def list_reports(database: Database, asker: Asker, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the memories reported to the keepers of a team; with ``drop``, settle the reports of one memory first."""
    ns_id = int(value["ns"])
    with database.client(asker.token_hash) as connection:
        _require_role(connection, ns_id, KEEPER)
        if "drop" in value:
            author, memory_id = int(value["drop"]["author"]), _memory_id(value["drop"])
            connection.execute("SELECT hub.drop_reports(%s, %s, %s)", (ns_id, author, memory_id))
        rows = connection.execute("SELECT * FROM hub.team_reports(%s)", (ns_id,)).fetchall()
    return {
        "reports": [
            {
                "author": row.author,
                "memory": bytes(row.memory_id).hex(),
                "by": row.reporter,
                "reason": row.reason,
                "at_ms": int(row.made_at.timestamp() * 1000),
            }
            for row in rows
        ]
    }


#: Requests with JSON in both directions. ``team-join`` is handled in the service, because it counts wrong codes.
REQUESTS: Mapping[str, Callable[[Database, Asker, Mapping[str, Any]], dict[str, Any]]] = {
    "team-make": make_team,
    "team-invite": invite,
    "team-members": list_members,
    "team-role": set_role,
    "team-report": report,
    "team-reports": list_reports,
}


def _require_role(connection: Any, ns_id: int, least: int) -> None:
    """Raise NotAllowed if a member's role in a team is too low, and NoSpace if there is no such team or seat."""
    row = connection.execute("SELECT hub.team_role(%s) AS role", (ns_id,)).fetchone()
    if row is None or row.role is None:
        raise NoSpace
    if row.role < least:
        raise NotAllowed


def _role_number(role: object) -> int:
    if role not in ROLE_NAMES[1:]:
        raise BadRequest("the role must be reader, writer or keeper")
    return ROLE_NAMES.index(str(role))


def _memory_id(value: Mapping[str, Any]) -> bytes:
    memory_id = bytes.fromhex(value["memory"])
    if len(memory_id) != 8:
        raise BadRequest("this is not a memory")
    return memory_id
