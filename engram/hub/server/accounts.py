"""Members, devices, one-time codes, spaces and seats of a hub, in raw SQL for PostgreSQL."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from engram.errors import BadRequest, NotFound
from engram.hub.protocol.requests import ROLES, HelloAnswer, HelloRequest, Membership, SpaceFacts, code_hash, hash_token
from engram.hub.server.hub_database import Database
from engram.hub.server.statement_pages import KEEPER
from engram.trust.display import as_arguments

#: Names of the roles by number; "" for a member who is no longer in the space.
ROLE_NAMES = ("", *ROLES)
#: Lifetime of a one-time code, in seconds: of a member's first code, and of a code for another machine.
INVITATION_SECONDS, CODE_SECONDS = 604_800, 1_800
#: Minimum interval between updates of a device's last-seen time, in seconds, so that an idle round writes nothing.
SEEN_SECONDS = 60.0
#: Maximum size of the keys that a code carries, in bytes.
MAX_BUNDLE_BYTES = 100_000
#: Maximum number of a member's unused codes, including invitations, and of a member's devices; each takes up space on
#: the hub.
MAX_CODES, MAX_DEVICES = 50, 100
#: Maximum number of devices that one member may create in a day, including those removed since.
MAX_NEW_DEVICES = 200
#: Maximum length of the name of a member, a device or a space, in characters.
MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class Asker:
    """The device that makes a request, and the member to whom it belongs."""

    device_id: int
    member_id: int
    token_hash: bytes


class Unknown(Exception):
    """Unknown token or invalid code; the error deliberately doesn't say which."""


def find_asker(database: Database, token: str) -> Asker:
    """Return the device with a token. Raises Unknown."""
    token_hash = hash_token(token)
    with database.service() as connection:
        row = connection.execute(
            "SELECT d.device_id, d.member_id FROM hub.device d JOIN hub.member m USING (member_id) "
            "WHERE d.token_hash = %s AND d.gone_at IS NULL AND m.gone_at IS NULL",
            (token_hash,),
        ).fetchone()
    if row is None:
        raise Unknown
    return Asker(row.device_id, row.member_id, token_hash)


# -- by the operator


def add_member(database: Database, name: str, hub_half: str) -> int:
    """Add a member with a sealed private space, and a code for the first machine; return the member's id.

    An existing member gets another code, in case they have lost all their machines.
    """
    name = checked_name(name)
    with database.service() as connection:
        row = connection.execute(
            "SELECT member_id FROM hub.member WHERE name = %s AND gone_at IS NULL", (name,)
        ).fetchone()
        member_id = _add_member(connection, name) if row is None else int(row.member_id)
        _add_code(connection, member_id, code_hash(hub_half), b"", INVITATION_SECONDS)
    return member_id


def _add_member(connection: psycopg.Connection[Any], name: str) -> int:
    member_id, ns_id = new_id(), new_id()
    try:
        connection.execute("INSERT INTO hub.member (member_id, name) VALUES (%s, %s)", (member_id, name))
    except psycopg.errors.UniqueViolation as error:
        raise BadRequest(f"a member called {name!r} has left; choose another name") from error
    connection.execute(
        "INSERT INTO hub.namespace (ns_id, name, kind, is_sealed) VALUES (%s, %s, 'private', true)", (ns_id, "private")
    )
    connection.execute("INSERT INTO hub.seat VALUES (%s, %s, 3)", (ns_id, member_id))
    return member_id


# -- joining, devices


def join(database: Database, hub_half: str, device_name: str, token_hash: bytes) -> Membership:
    """Create a device for the member to whom a code belongs, and use up the code.

    If the request is repeated with the hash of the same token, because no response arrived, it returns the same device.

    Raises:
        Unknown: the code is wrong, expired, or used up by another machine.
    """
    with database.service() as connection:
        row = connection.execute(
            "UPDATE hub.code c SET used_at = now() FROM hub.member m WHERE c.code_hash = %s AND c.used_at IS NULL "
            "AND c.expires_at > now() AND c.ns_id IS NULL AND m.member_id = c.member_id AND m.gone_at IS NULL "
            "RETURNING c.member_id, c.bundle, m.name",
            (code_hash(hub_half),),
        ).fetchone()
        if row is None:
            row = connection.execute(
                "SELECT m.member_id, m.name, ''::bytea AS bundle FROM hub.code c JOIN hub.member m USING (member_id) "
                "JOIN hub.device d USING (member_id) WHERE c.code_hash = %s AND c.expires_at > now() "
                "AND c.ns_id IS NULL AND m.gone_at IS NULL AND d.token_hash = %s AND d.gone_at IS NULL",
                (code_hash(hub_half), token_hash),
            ).fetchone()
        if row is None:
            raise Unknown
        connection.execute("UPDATE hub.code SET bundle = '' WHERE code_hash = %s", (code_hash(hub_half),))
        device_id = _device(connection, row.member_id, device_name, token_hash)
        return Membership(
            member_id=row.member_id,
            member_name=row.name,
            device_id=device_id,
            spaces=tuple(_spaces(connection, row.member_id, {})),
            bundle=bytes(row.bundle),
        )


def renew(database: Database, asker: Asker, token_hash: bytes) -> Membership:
    """Create another device for a member, because the requesting one is a copy or was restored from an older state.

    If the request is repeated with the hash of the same token, it returns the same device.
    """
    with database.service() as connection:
        row = connection.execute(
            "SELECT d.name AS device_name, m.name FROM hub.device d JOIN hub.member m USING (member_id) "
            "WHERE d.device_id = %s",
            (asker.device_id,),
        ).fetchone()
        assert row is not None
        device_id = _device(connection, asker.member_id, row.device_name, token_hash)
        return Membership(
            member_id=asker.member_id,
            member_name=row.name,
            device_id=device_id,
            spaces=tuple(_spaces(connection, asker.member_id, {})),
        )


def _device(connection: psycopg.Connection[Any], member_id: int, name: str, token_hash: bytes) -> int:
    """Return the device with the token that its machine chose; create it if it is new."""
    if len(token_hash) != 32:
        raise BadRequest("this is not the hash of a token")
    # Lock: two concurrent requests must not both find room.
    connection.execute("SELECT 1 FROM hub.member WHERE member_id = %s FOR UPDATE", (member_id,))
    known = connection.execute(
        "SELECT device_id FROM hub.device WHERE token_hash = %s AND member_id = %s AND gone_at IS NULL",
        (token_hash, member_id),
    ).fetchone()
    if known is not None:
        return int(known.device_id)
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE gone_at IS NULL) AS now_here, "
        "count(*) FILTER (WHERE made_at > now() - interval '1 day') AS new_ones FROM hub.device WHERE member_id = %s",
        (member_id,),
    ).fetchone()
    if row is not None and row.now_here >= MAX_DEVICES:
        raise BadRequest(f"you already have {MAX_DEVICES} devices: remove one first")
    if row is not None and row.new_ones >= MAX_NEW_DEVICES:
        raise BadRequest(f"you have added {MAX_NEW_DEVICES} devices within a day: wait until tomorrow")
    device_id = new_id()
    connection.execute(
        "INSERT INTO hub.device (device_id, member_id, name, token_hash) VALUES (%s, %s, %s, %s)",
        (device_id, member_id, checked_name(name or "a machine"), token_hash),
    )
    return device_id


def add_code(database: Database, asker: Asker, digest: bytes, bundle: bytes) -> None:
    """Store a code for another machine of the same member, with the keys that the second half of the code unlocks."""
    if len(digest) != 32 or len(bundle) > MAX_BUNDLE_BYTES:
        raise BadRequest("this is not a code")
    with database.service() as connection:
        _check_codes(connection, asker)
        _add_code(connection, asker.member_id, digest, bundle, CODE_SECONDS)


def check_codes(database: Database, asker: Asker) -> None:
    """Raise BadRequest if the member already has as many unused codes as allowed."""
    with database.service() as connection:
        _check_codes(connection, asker)


def _check_codes(connection: psycopg.Connection[Any], asker: Asker) -> None:
    # Lock: two concurrent requests must not both find room.
    connection.execute("SELECT 1 FROM hub.member WHERE member_id = %s FOR UPDATE", (asker.member_id,))
    row = connection.execute(
        "SELECT count(*) AS number FROM hub.code WHERE member_id = %s AND used_at IS NULL AND expires_at > now()",
        (asker.member_id,),
    ).fetchone()
    if row is not None and row.number >= MAX_CODES:
        raise BadRequest(f"{MAX_CODES} of your codes are still unused: wait until one is used or expires")


def _add_code(
    connection: psycopg.Connection[Any], member_id: int, digest: bytes, bundle: bytes, seconds: float
) -> None:
    connection.execute(
        "INSERT INTO hub.code (code_hash, member_id, expires_at, bundle) "
        "VALUES (%s, %s, now() + make_interval(secs => %s), %s)",
        (digest, member_id, seconds, bundle),
    )


def list_devices(database: Database, asker: Asker) -> list[dict[str, Any]]:
    with database.service() as connection:
        rows = connection.execute(
            "SELECT device_id, name, made_at, seen_at FROM hub.device WHERE member_id = %s AND gone_at IS NULL "
            "ORDER BY made_at",
            (asker.member_id,),
        ).fetchall()
    return [
        {
            "device": row.device_id,
            "name": row.name,
            "joined_ms": int(row.made_at.timestamp() * 1000),
            "seen_ms": int(row.seen_at.timestamp() * 1000),
            "self": row.device_id == asker.device_id,
        }
        for row in rows
    ]


def remove_device(database: Database, asker: Asker, device_id: int) -> None:
    """Shut out a device of the same member; its statements are kept. Raises NotFound."""
    with database.service() as connection:
        done = connection.execute(
            "UPDATE hub.device SET gone_at = now() WHERE device_id = %s AND member_id = %s AND gone_at IS NULL",
            (device_id, asker.member_id),
        )
        if done.rowcount == 0:
            raise NotFound("there is no such device")


# -- rounds


def hello(database: Database, asker: Asker, request: HelloRequest, now_ms: int) -> HelloAnswer:
    """Return whether the machine is the one that last pushed as this device, and the state of its spaces."""
    with database.service() as connection:
        row = connection.execute(
            "SELECT push_id, seen_at < now() - make_interval(secs => %s) AS is_due FROM hub.device "
            "WHERE device_id = %s",
            (SEEN_SECONDS, asker.device_id),
        ).fetchone()
        assert row is not None
        if row.is_due:
            connection.execute("UPDATE hub.device SET seen_at = now() WHERE device_id = %s", (asker.device_id,))
        push_id = bytes(row.push_id or b"")
        spaces = _spaces(connection, asker.member_id, request.marks)
    is_same = push_id in request.push_ids or not push_id
    return HelloAnswer(
        time_ms=now_ms, device_id=asker.device_id, is_same=is_same, push_id=push_id, spaces=tuple(spaces)
    )


def _spaces(
    connection: psycopg.Connection[Any], member_id: int, marks: Mapping[int, tuple[int, bytes]]
) -> list[SpaceFacts]:
    rows = connection.execute(
        "SELECT n.ns_id, n.name, n.kind, n.is_sealed, n.key_id, n.head, s.role, k.mark AS kept, "
        "p.seq AS asked_seq, p.mark AS asked, "
        "CASE WHEN n.kind = 'team' AND s.role = 3 THEN (SELECT count(*) FROM hub.report r WHERE r.ns_id = n.ns_id "
        "AND NOT hub.is_gone(r.ns_id, r.author, r.memory_id)) ELSE 0 END AS reports "
        "FROM hub.seat s JOIN hub.namespace n USING (ns_id) "
        "LEFT JOIN unnest(%s::bigint[], %s::bigint[], %s::bytea[]) AS p(ns_id, seq, mark) ON p.ns_id = n.ns_id "
        "LEFT JOIN hub.mark k ON k.ns_id = n.ns_id AND k.seq = p.seq "
        "WHERE s.member_id = %s ORDER BY n.made_at, n.ns_id",
        (list(marks), [seq for seq, _ in marks.values()], [mark for _, mark in marks.values()], member_id),
    )
    return [
        SpaceFacts(
            ns_id=row.ns_id,
            name=row.name,
            kind=row.kind,
            role=ROLE_NAMES[row.role],
            is_sealed=row.is_sealed,
            key_id=bytes(row.key_id),
            head=row.head,
            is_known=_is_known(row),
            reports=row.reports,
        )
        for row in rows
    ]


def _is_known(row: Any) -> bool:
    """Return True if the hub has the mark that a machine last saw.

    A mark that was dropped because of its age counts as unknown, so the machine sends everything again, and the hub
    stores the rows that it lacks.
    """
    return not row.asked_seq or (row.kept is not None and bytes(row.kept) == bytes(row.asked))


def set_key(database: Database, asker: Asker, ns_id: int, before: bytes, after: bytes) -> bool:
    """Record that a space is sealed with another key, if its current key is the expected one.

    Return False if it is not.
    """
    if len(after) != 8:
        raise BadRequest("this is not the id of a key")
    with database.service() as connection:
        done = connection.execute(
            "UPDATE hub.namespace n SET key_id = %s FROM hub.seat s WHERE n.ns_id = %s AND n.key_id = %s "
            "AND n.is_sealed AND s.ns_id = n.ns_id AND s.member_id = %s AND s.role = 3",
            (after, ns_id, before, asker.member_id),
        )
        return done.rowcount == 1


def heads_beyond(database: Database, asker: Asker, places: Sequence[tuple[int, int]]) -> bool:
    """Return True if one of the member's spaces has rows beyond the given position."""
    with database.service() as connection:
        row = connection.execute(
            "SELECT 1 AS one FROM unnest(%s::bigint[], %s::bigint[]) AS p(ns_id, after) "
            "JOIN hub.namespace n USING (ns_id) JOIN hub.seat s USING (ns_id) "
            "JOIN hub.device d ON d.member_id = s.member_id JOIN hub.member m ON m.member_id = d.member_id "
            "WHERE d.device_id = %s AND d.gone_at IS NULL AND m.gone_at IS NULL AND n.head > p.after LIMIT 1",
            ([ns_id for ns_id, _ in places], [after for _, after in places], asker.device_id),
        ).fetchone()
    return row is not None


def checked_name(name: str) -> str:
    clean = " ".join("".join(char for char in name if char.isprintable()).split())
    if not clean or len(clean) > MAX_NAME:
        raise BadRequest(f"a name must have 1 to {MAX_NAME} characters")
    return clean


def new_id() -> int:
    """Return a random id, which doesn't reveal how many ids there are."""
    return secrets.randbits(52) | 1


# -- Operations on members and teams for the hub's operator, in raw SQL for PostgreSQL.


def list_members(database: Database) -> list[Any]:
    """Return every member with the number of their devices."""
    with database.service() as connection:
        return connection.execute(
            "SELECT m.name, m.made_at, m.gone_at, (SELECT count(*) FROM hub.device d "
            "WHERE d.member_id = m.member_id AND d.gone_at IS NULL) AS devices FROM hub.member m ORDER BY m.made_at"
        ).fetchall()


def check_member(database: Database, name: str, *, or_gone: bool) -> None:
    """Raise NotFound if the hub has no member with this name; with ``or_gone``, a removed member also counts."""
    if not any(row.name == name and (or_gone or row.gone_at is None) for row in list_members(database)):
        raise _no_member(name)


def _no_member(name: str) -> NotFound:
    return NotFound(f"the hub has no member called {name[:MAX_NAME]!r}; `engram hub members` lists them")


def remove_member(database: Database, name: str, *, is_erased: bool) -> int:
    """Remove a member, so that none of their devices is let in again; return how many of their rows were erased.

    In an open team, every machine forgets the erased memories at its next round. The hub can't do that in a sealed
    team, where it only erases its own copy; a keeper's ``engram team expel NAME --erase`` reaches the machines.
    """
    with database.service() as connection:
        row = connection.execute(
            "UPDATE hub.member SET gone_at = now() WHERE name = %s AND gone_at IS NULL RETURNING member_id", (name,)
        ).fetchone()
        if row is None and is_erased:
            # The rows of a member who was removed earlier can still be erased.
            row = connection.execute("SELECT member_id FROM hub.member WHERE name = %s", (name,)).fetchone()
        if row is None:
            raise _no_member(name)
        if not is_erased:
            return 0
        # The locks wait for a push by the member that is in progress; a later push finds no device.
        spaces = connection.execute(
            "SELECT ns_id, head, kind = 'team' AND NOT is_sealed AS is_open FROM hub.namespace WHERE ns_id IN "
            "(SELECT ns_id FROM hub.seat WHERE member_id = %s UNION SELECT ns_id FROM hub.statement WHERE author = %s) "
            "ORDER BY ns_id FOR UPDATE",
            (row.member_id, row.member_id),
        ).fetchall()
        return sum(_erase(connection, space, row.member_id) for space in spaces)


def _erase(connection: psycopg.Connection[Any], space: Any, member_id: int) -> int:
    """Erase everything that a member wrote in a space; return how many rows had content."""
    place = {"ns": space.ns_id, "author": member_id, "head": space.head, "is_open": space.is_open}
    reached = space.head
    # In an open team, one row of each memory is kept to record that the memory is forgotten.
    erased = connection.execute(
        "DELETE FROM hub.statement s WHERE ns_id = %(ns)s AND author = %(author)s AND NOT is_forgotten AND NOT "
        "(%(is_open)s AND device_id = (SELECT min(t.device_id) FROM hub.statement t WHERE t.ns_id = s.ns_id "
        "AND t.author = s.author AND t.memory_id = s.memory_id))",
        place,
    ).rowcount
    if space.is_open:
        emptied = connection.execute(
            "UPDATE hub.statement s SET is_forgotten = true, body = '', version = s.version + 1, "
            "seq = %(head)s + p.place FROM (SELECT memory_id, device_id, row_number() OVER (ORDER BY seq) AS place "
            "FROM hub.statement WHERE ns_id = %(ns)s AND author = %(author)s AND NOT is_forgotten) p "
            "WHERE s.ns_id = %(ns)s AND s.author = %(author)s AND s.memory_id = p.memory_id "
            "AND s.device_id = p.device_id",
            place,
        ).rowcount
        erased, reached = erased + emptied, reached + emptied
    connection.execute(
        "UPDATE hub.namespace SET head = %s, "
        "row_count = (SELECT count(*) FROM hub.statement WHERE ns_id = %s) WHERE ns_id = %s",
        (reached, space.ns_id, space.ns_id),
    )
    if reached > space.head:
        connection.execute("INSERT INTO hub.mark VALUES (%s, %s, %s)", (space.ns_id, reached, secrets.token_bytes(16)))
        connection.execute("SELECT pg_notify('hub_changed', %s)", (str(space.ns_id),))
    return erased


def list_teams(database: Database) -> list[Any]:
    """Return every team: id, name, whether it is sealed, number of members, and names of its current keepers."""
    with database.service() as connection:
        return connection.execute(
            "SELECT n.ns_id, n.name, n.is_sealed, count(m.member_id) AS members, "
            "coalesce(array_agg(m.name ORDER BY m.name) FILTER (WHERE s.role = 3 AND m.name IS NOT NULL), '{}') "
            "AS keepers "
            "FROM hub.namespace n LEFT JOIN hub.seat s USING (ns_id) "
            "LEFT JOIN hub.member m ON m.member_id = s.member_id AND m.gone_at IS NULL "
            "WHERE n.kind = 'team' GROUP BY n.ns_id, n.name, n.is_sealed ORDER BY n.name, n.ns_id"
        ).fetchall()


def make_keeper(database: Database, ns_id: int, name: str) -> None:
    """Make a member of a team its keeper if the team has no keeper left. This does not give the member a key.

    Raises:
        NotFound: there is no such team, or no member of it has that name.
        BadRequest: the team still has a keeper, who can do this.
    """
    with database.service() as connection:
        connection.execute("SELECT ns_id FROM hub.namespace WHERE ns_id = %s AND kind = 'team' FOR UPDATE", (ns_id,))
        check_keeper(connection, ns_id, name)
        connection.execute(
            "UPDATE hub.seat s SET role = %s FROM hub.member m WHERE s.ns_id = %s AND m.member_id = s.member_id "
            "AND m.name = %s AND m.gone_at IS NULL",
            (KEEPER, ns_id, name),
        )


def check_keeper(connection: Any, ns_id: int, name: str) -> None:
    """Raise the same errors as ``make_keeper`` if a member can't become a team's keeper."""
    team = "SELECT ns_id FROM hub.namespace WHERE ns_id = %s AND kind = 'team'"
    if connection.execute(team, (ns_id,)).fetchone() is None:
        raise NotFound(f"there is no team {ns_id}; `engram hub teams` lists them")
    seats = connection.execute(
        "SELECT m.name, s.role FROM hub.seat s JOIN hub.member m USING (member_id) "
        "WHERE s.ns_id = %s AND m.gone_at IS NULL",
        (ns_id,),
    ).fetchall()
    keeper = next((seat.name for seat in seats if seat.role == KEEPER), None)
    if keeper is not None:
        command = f"engram team role {as_arguments(name[:MAX_NAME])} keeper"
        raise BadRequest(f"{keeper} is one of its keepers: they can run `{command}`")
    if name not in [seat.name for seat in seats]:
        raise NotFound(f"nobody called {name[:MAX_NAME]!r} is in that team")
