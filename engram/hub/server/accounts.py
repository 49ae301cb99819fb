"""Members, devices, one-time codes, spaces and seats of a hub. Raw SQL: the dialect is PostgreSQL's."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from engram.errors import BadRequest, NotFound
from engram.hub.protocol.messages import ROLES, HelloAnswer, HelloRequest, Membership, SpaceFacts, hash_token
from engram.hub.protocol.phrase import code_hash
from engram.hub.server.database import Database

#: Names of the roles by their number; "" for one who is out.
ROLE_NAMES = ("", *ROLES)
#: How long a one-time code can be used: a member's first one, and one for another machine, in seconds.
INVITATION_SECONDS, CODE_SECONDS = 604_800, 1_800
#: When a device was seen is noted at most so often, in seconds: a round with nothing to do writes nothing.
SEEN_SECONDS = 60.0
#: Largest bundle of keys that a code carries, in bytes.
MAX_BUNDLE_BYTES = 100_000
#: Most codes of one member that wait to be used, invitations included, and most devices: each takes room of the hub's.
MAX_CODES, MAX_DEVICES = 50, 100
#: Most devices of one member that are made within a day, also those that are gone again.
MAX_NEW_DEVICES = 200
#: Longest name of a member, a device or a space, in characters.
MAX_NAME = 60


@dataclass(frozen=True, slots=True)
class Asker:
    """The device that asks, and its member."""

    device_id: int
    member_id: int
    token_hash: bytes


class Unknown(Exception):
    """No device has that token, or no code is valid: nobody is told which."""


def find_asker(database: Database, token: str) -> Asker:
    """Return the device of a token. Raises Unknown."""
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
    """Add a member with a sealed private space, and a code for the first machine; returns the member's id.

    A member who is there already gets another code: every machine was lost.
    """
    name = checked_name(name)
    with database.service() as connection:
        row = connection.execute(
            "SELECT member_id FROM hub.member WHERE name = %s AND gone_at IS NULL", (name,)
        ).fetchone()
        member_id = _add_member(connection, name) if row is None else int(row.member_id)
        _add_code(connection, member_id, hub_half, b"", INVITATION_SECONDS)
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


def join(database: Database, hub_half: str, device_name: str, token_hash: bytes = b"") -> Membership:
    """Make a device of the member that a code belongs to; the code is used up.

    Args:
        database: the hub's.
        hub_half: the code.
        device_name: what the machine is called.
        token_hash: of the token that the machine chose. One that asks again, since no answer came, is the same device;
            b"" for an earlier program, which gets a token and may become two.

    Raises:
        Unknown: the code is wrong, over, or used up by another machine.
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
        device_id, token = _device(connection, row.member_id, device_name, token_hash)
        return Membership(
            member_id=row.member_id,
            member_name=row.name,
            device_id=device_id,
            token=token,
            spaces=tuple(_spaces(connection, row.member_id, {})),
            bundle=bytes(row.bundle),
        )


def renew(database: Database, asker: Asker, token_hash: bytes = b"") -> Membership:
    """Make another device of the same member: the one that asks is a copy, or was put back to an older state.

    Asked again with the hash of the same token, it is the same device.
    """
    with database.service() as connection:
        row = connection.execute(
            "SELECT d.name AS device_name, m.name FROM hub.device d JOIN hub.member m USING (member_id) "
            "WHERE d.device_id = %s",
            (asker.device_id,),
        ).fetchone()
        assert row is not None
        device_id, token = _device(connection, asker.member_id, row.device_name, token_hash)
        return Membership(
            member_id=asker.member_id,
            member_name=row.name,
            device_id=device_id,
            token=token,
            spaces=tuple(_spaces(connection, asker.member_id, {})),
        )


def _device(connection: psycopg.Connection[Any], member_id: int, name: str, token_hash: bytes) -> tuple[int, str]:
    """Return the device whose machine chose a token, new or not, and the token where the hub chooses it."""
    if token_hash and len(token_hash) != 32:
        raise BadRequest("this is no hash of a token")
    # One at a time: two requests at once must not both find room.
    connection.execute("SELECT 1 FROM hub.member WHERE member_id = %s FOR UPDATE", (member_id,))
    known = connection.execute(
        "SELECT device_id FROM hub.device WHERE token_hash = %s AND member_id = %s AND gone_at IS NULL",
        (token_hash, member_id),
    ).fetchone()
    if known is not None:
        return int(known.device_id), ""
    row = connection.execute(
        "SELECT count(*) FILTER (WHERE gone_at IS NULL) AS now_here, "
        "count(*) FILTER (WHERE made_at > now() - interval '1 day') AS new_ones FROM hub.device WHERE member_id = %s",
        (member_id,),
    ).fetchone()
    if row is not None and row.now_here >= MAX_DEVICES:
        raise BadRequest(f"you have {MAX_DEVICES} devices already: shut one out first")
    if row is not None and row.new_ones >= MAX_NEW_DEVICES:
        raise BadRequest(f"{MAX_NEW_DEVICES} devices of yours were made within a day: wait until tomorrow")
    device_id, token = new_id(), "" if token_hash else secrets.token_urlsafe(32)
    connection.execute(
        "INSERT INTO hub.device (device_id, member_id, name, token_hash) VALUES (%s, %s, %s, %s)",
        (device_id, member_id, checked_name(name or "a machine"), token_hash or hash_token(token)),
    )
    return device_id, token


def add_code(database: Database, asker: Asker, digest: bytes, bundle: bytes) -> None:
    """Keep a code for another machine of the same member, with the keys that its second half opens."""
    if len(digest) != 32 or len(bundle) > MAX_BUNDLE_BYTES:
        raise BadRequest("this is no code")
    with database.service() as connection:
        _check_codes(connection, asker)
        connection.execute(
            "INSERT INTO hub.code (code_hash, member_id, expires_at, bundle) "
            "VALUES (%s, %s, now() + make_interval(secs => %s), %s)",
            (digest, asker.member_id, CODE_SECONDS, bundle),
        )


def check_codes(database: Database, asker: Asker) -> None:
    """Raise BadRequest where the member has as many unused codes as one may have."""
    with database.service() as connection:
        _check_codes(connection, asker)


def _check_codes(connection: psycopg.Connection[Any], asker: Asker) -> None:
    # One at a time: two requests at once must not both find room.
    connection.execute("SELECT 1 FROM hub.member WHERE member_id = %s FOR UPDATE", (asker.member_id,))
    row = connection.execute(
        "SELECT count(*) AS number FROM hub.code WHERE member_id = %s AND used_at IS NULL AND expires_at > now()",
        (asker.member_id,),
    ).fetchone()
    if row is not None and row.number >= MAX_CODES:
        raise BadRequest(f"{MAX_CODES} of your codes wait to be used: wait until one is used or over")


def _add_code(
    connection: psycopg.Connection[Any], member_id: int, hub_half: str, bundle: bytes, seconds: float
) -> None:
    connection.execute(
        "INSERT INTO hub.code (code_hash, member_id, expires_at, bundle) "
        "VALUES (%s, %s, now() + make_interval(secs => %s), %s)",
        (code_hash(hub_half), member_id, seconds, bundle),
    )


def list_devices(database: Database, asker: Asker) -> list[dict[str, Any]]:
    """Return the devices of the member who asks."""
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
    """Shut a device of the same member out; what it said stays. Raises NotFound."""
    with database.service() as connection:
        done = connection.execute(
            "UPDATE hub.device SET gone_at = now() WHERE device_id = %s AND member_id = %s AND gone_at IS NULL",
            (device_id, asker.member_id),
        )
        if done.rowcount == 0:
            raise NotFound("there is no such device")


# -- rounds


def hello(database: Database, asker: Asker, request: HelloRequest, now_ms: int) -> HelloAnswer:
    """Say whether the machine is the one that pushed last, and how its spaces stand."""
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


def _spaces(connection: psycopg.Connection[Any], member_id: int, marks: Any) -> list[SpaceFacts]:
    asked = list(marks.items())
    rows = connection.execute(
        "SELECT n.ns_id, n.name, n.kind, n.is_sealed, n.key_id, n.head, s.role, k.mark AS kept, "
        "p.seq AS asked_seq, p.mark AS asked, "
        "CASE WHEN n.kind = 'team' AND s.role = 3 THEN (SELECT count(*) FROM hub.report r WHERE r.ns_id = n.ns_id "
        "AND NOT hub.is_gone(r.ns_id, r.author, r.memory_id)) ELSE 0 END AS reports "
        "FROM hub.seat s JOIN hub.namespace n USING (ns_id) "
        "LEFT JOIN unnest(%s::bigint[], %s::bigint[], %s::bytea[]) AS p(ns_id, seq, mark) ON p.ns_id = n.ns_id "
        "LEFT JOIN hub.mark k ON k.ns_id = n.ns_id AND k.seq = p.seq "
        "WHERE s.member_id = %s ORDER BY n.made_at, n.ns_id",
        (
            [ns_id for ns_id, _ in asked],
            [mark[0] for _, mark in asked],
            [mark[1] for _, mark in asked],
            member_id,
        ),
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
    """True where the hub has the mark that a machine saw last. One that was dropped for its age counts as unknown:
    the machine says everything again, of which the hub takes what it lacks.
    """
    return not row.asked_seq or (row.kept is not None and bytes(row.kept) == bytes(row.asked))


def set_key(database: Database, asker: Asker, ns_id: int, before: bytes, after: bytes) -> bool:
    """Let a space be sealed with another key, provided that it was sealed with the one before; False if not."""
    if len(after) != 8:
        raise BadRequest("this is no id of a key")
    with database.service() as connection:
        done = connection.execute(
            "UPDATE hub.namespace n SET key_id = %s FROM hub.seat s WHERE n.ns_id = %s AND n.key_id = %s "
            "AND n.is_sealed AND s.ns_id = n.ns_id AND s.member_id = %s AND s.role = 3",
            (after, ns_id, before, asker.member_id),
        )
        return done.rowcount == 1


def heads_beyond(database: Database, asker: Asker, places: Sequence[tuple[int, int]]) -> bool:
    """True where one of the member's spaces has something beyond a place."""
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
        raise BadRequest(f"a name has 1 to {MAX_NAME} characters")
    return clean


def new_id() -> int:
    """Return a random id: it tells nobody how many there are."""
    return secrets.randbits(52) | 1
