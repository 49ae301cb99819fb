"""Pull and push statements, in raw SQL for PostgreSQL; whole pages are passed as arrays."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, LiteralString

import psycopg

from engram.hub.protocol.frames import (
    BAD_CLOCK,
    FORGOTTEN,
    KNOWN,
    MAX_ROWS,
    NO_ROOM,
    NOT_YOURS,
    TAKEN,
    TOO_LARGE,
    Answers,
    Page,
    Push,
    Row,
)
from engram.hub.protocol.statements import MAX_ACCEPTED_AHEAD_MS, MAX_AHEAD_MS, clock_of
from engram.hub.server.hub_database import Database

#: Maximum total size of the bodies in a page, in bytes; the last row may exceed it.
MAX_BODY_BYTES = 8_000_000
WRITER, KEEPER = 2, 3


class NoSpace(Exception):
    """The space doesn't exist or isn't open to this member; the error deliberately doesn't say which."""


class IsCopy(Exception):
    """A copy of this machine has pushed."""


class NotAllowed(Exception):
    """The member's role does not allow that."""


def pull_page(database: Database, token_hash: bytes, left_out: int, ns_id: int, after: int, limit: int) -> Page:
    """Return the next rows in a space, in order, except those of the device ``left_out``. Raises NoSpace."""
    limit = max(1, min(limit, MAX_ROWS))
    with database.client(token_hash, is_snapshot=True) as connection:
        head = _first(connection.execute("SELECT hub.head_of(%s) AS head", (ns_id,))).head
        if head is None:
            raise NoSpace
        rows, is_cut = _select_page(connection, ns_id, after, left_out, limit)
        upto = rows[-1].seq if is_cut or len(rows) == limit else head
        mark = _first(connection.execute("SELECT seq, mark FROM hub.last_mark(%s, %s)", (ns_id, upto)))
    return Page(tuple(rows), upto, mark.seq or 0, bytes(mark.mark or bytes(16)))


def _select_page(
    connection: psycopg.Connection[Any], ns_id: int, after: int, left_out: int, limit: int
) -> tuple[list[Row], bool]:
    """Return the rows of a page, and whether it was cut at the size limit."""
    cursor = connection.cursor(binary=True)
    cursor.execute(
        "SELECT seq, author, memory_id, device_id, hlc, version, is_forgotten, body, so_far FROM (SELECT *, "
        "sum(length(body)) OVER (ORDER BY seq) AS so_far FROM (SELECT * FROM hub.statement "
        "WHERE ns_id = %s AND seq > %s AND device_id <> %s ORDER BY seq LIMIT %s) first) page "
        "WHERE so_far - length(body) < %s ORDER BY seq",
        (ns_id, after, left_out, limit, MAX_BODY_BYTES),
    )
    found = cursor.fetchall()
    rows = [
        Row(
            author=row.author,
            memory_id=bytes(row.memory_id),
            device=row.device_id,
            hlc=row.hlc,
            version=row.version,
            is_forgotten=row.is_forgotten,
            body=bytes(row.body),
            seq=row.seq,
        )
        for row in found
    ]
    return rows, bool(found) and found[-1].so_far >= MAX_BODY_BYTES


def push_page(
    database: Database, token_hash: bytes, device_id: int, member_id: int, push: Push, now_ms: int
) -> Answers:
    """Store a page in one transaction, and report the outcome of each row.

    A row about a forgotten memory is not stored. A row that forgets a memory erases all devices' statements about it.

    Raises:
        NoSpace: the member has no such space.
        IsCopy: a copy of this machine has pushed since.
    """
    with database.client(token_hash) as connection:
        place = _first(connection.execute("SELECT * FROM hub.begin_push(%s, %s)", (push.ns_id, push.last_push_id)))
        if place.role is None:
            raise NoSpace
        if place.is_copy:
            raise IsCopy
        rows = push.rows
        latest = _latest_clock(connection, push, member_id, now_ms)
        answers = [_check(row, place, device_id, member_id, latest) for row in rows]
        gone = _stored(connection, push.ns_id, rows, "s.is_forgotten")
        for number, row in enumerate(rows):
            if answers[number] == TAKEN and (row.author, row.memory_id) in gone:
                answers[number] = FORGOTTEN
        if place.row_count + len(rows) > place.most_rows:
            # In a full space, existing rows may change, and forgetting is always possible.
            known = _stored(connection, push.ns_id, rows, "s.device_id = %b", device_id)
            for number, row in enumerate(rows):
                if answers[number] == TAKEN and not row.is_forgotten and (row.author, row.memory_id) not in known:
                    answers[number] = NO_ROOM
        good = [(number, row) for number, row in enumerate(rows) if answers[number] == TAKEN]
        taken, new = _upsert(connection, push.ns_id, device_id, place.head, [row for _, row in good])
        for number, row in good:
            if (row.author, row.memory_id) not in taken:
                answers[number] = KNOWN
        erased = _erase_others(connection, push.ns_id, device_id, [row for _, row in good if row.is_forgotten])
        mark = secrets.token_bytes(16)
        head = _first(
            connection.execute(
                "SELECT hub.end_push(%s, %s, %s, %s, %s) AS head",
                (push.ns_id, len(good), new - erased, push.push_id, mark),
            )
        ).head
    return Answers(tuple(answers), head, mark)


def _latest_clock(connection: psycopg.Connection[Any], push: Push, member_id: int, now_ms: int) -> int:
    """Return the greatest clock value that is accepted.

    If the hub's own clock was ahead, its members' machines followed it, and their clocks never go back. Therefore a
    member's rows may be as far ahead as the rows that the hub has already accepted from that member.
    """
    latest = clock_of(now_ms + MAX_ACCEPTED_AHEAD_MS)
    if all(row.hlc <= latest for row in push.rows):
        return latest
    newest = _first(
        connection.execute(
            "SELECT max(hlc) AS hlc FROM hub.statement WHERE ns_id = %s AND author = %s", (push.ns_id, member_id)
        )
    ).hlc
    return max(latest, (newest or 0) + clock_of(MAX_AHEAD_MS))


def _check(row: Row, place: Any, device_id: int, member_id: int, latest: int) -> int:
    """Return the reason why a row is refused, or ``TAKEN`` if it may be stored."""
    is_allowed = row.author == member_id and place.role >= WRITER
    if row.device != device_id or not (is_allowed or (row.is_forgotten and place.role >= KEEPER)):
        return NOT_YOURS
    if len(row.body) > place.most_body:
        return TOO_LARGE
    if row.hlc > latest:
        return BAD_CLOCK
    return TAKEN


def _stored(
    connection: psycopg.Connection[Any], ns_id: int, rows: Sequence[Row], condition: LiteralString, *values: int
) -> set[tuple[int, bytes]]:
    """Return the author and id of each of these rows' memories that has a stored statement matching the condition."""
    cursor = connection.execute(
        "SELECT s.author, s.memory_id FROM hub.statement s "
        "JOIN unnest(%b::bigint[], %b::bytea[]) AS p(author, memory_id) USING (author, memory_id) "
        "WHERE s.ns_id = %b AND " + condition,
        ([row.author for row in rows], [row.memory_id for row in rows], ns_id, *values),
    )
    return {(found.author, bytes(found.memory_id)) for found in cursor}


def _upsert(
    connection: psycopg.Connection[Any], ns_id: int, device_id: int, head: int, rows: Sequence[Row]
) -> tuple[set[tuple[int, bytes]], int]:
    """Store the rows that are newer than the hub's; return which they are, and how many the hub did not have at all."""
    if not rows:
        return set(), 0
    cursor = connection.execute(
        "INSERT INTO hub.statement (ns_id, author, memory_id, device_id, seq, hlc, version, is_forgotten, body) "
        "SELECT %b, p.author, p.memory_id, %b, %b + p.place, p.hlc, p.version, p.is_forgotten, p.body "
        "FROM unnest(%b::bigint[], %b::bytea[], %b::bigint[], %b::bigint[], %b::boolean[], %b::bytea[]) "
        "WITH ORDINALITY AS p(author, memory_id, hlc, version, is_forgotten, body, place) "
        "ON CONFLICT (ns_id, author, memory_id, device_id) DO UPDATE SET seq = excluded.seq, hlc = excluded.hlc, "
        "version = excluded.version, is_forgotten = excluded.is_forgotten, body = excluded.body "
        "WHERE hub.statement.version < excluded.version "
        "RETURNING author, memory_id, xmax = 0 AS is_new",
        (
            ns_id,
            device_id,
            head,
            [row.author for row in rows],
            [row.memory_id for row in rows],
            [row.hlc for row in rows],
            [row.version for row in rows],
            [row.is_forgotten for row in rows],
            [row.body for row in rows],
        ),
    )
    stored = cursor.fetchall()
    return {(row.author, bytes(row.memory_id)) for row in stored}, sum(row.is_new for row in stored)


def _erase_others(connection: psycopg.Connection[Any], ns_id: int, device_id: int, rows: Sequence[Row]) -> int:
    """Erase other devices' statements about memories that are now forgotten, and return how many rows were deleted."""
    if not rows:
        return 0
    cursor = connection.execute(
        "DELETE FROM hub.statement s USING unnest(%b::bigint[], %b::bytea[]) AS p(author, memory_id) "
        "WHERE s.ns_id = %b AND s.author = p.author AND s.memory_id = p.memory_id AND s.device_id <> %b",
        ([row.author for row in rows], [row.memory_id for row in rows], ns_id, device_id),
    )
    return cursor.rowcount


def _first(cursor: psycopg.Cursor[Any]) -> Any:
    row = cursor.fetchone()
    assert row is not None
    return row
