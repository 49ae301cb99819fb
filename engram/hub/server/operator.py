"""What the operator of a hub does with members and teams. Raw SQL: the dialect is PostgreSQL's."""

from __future__ import annotations

import secrets
from typing import Any

import psycopg

from engram.errors import BadRequest, NotFound
from engram.hub.server.accounts import MAX_NAME
from engram.hub.server.database import Database
from engram.hub.server.statements import KEEPER


def list_members(database: Database) -> list[Any]:
    """Return every member with the number of devices and rows."""
    with database.service() as connection:
        return connection.execute(
            "SELECT m.name, m.made_at, m.gone_at, (SELECT count(*) FROM hub.device d "
            "WHERE d.member_id = m.member_id AND d.gone_at IS NULL) AS devices FROM hub.member m ORDER BY m.made_at"
        ).fetchall()


def remove_member(database: Database, name: str, *, is_erased: bool) -> int:
    """Let a member go: no device of theirs gets in again. Returns how many rows were erased with them.

    In an open team an erased memory is forgotten on every machine at its next round. The hub cannot forge that for a
    sealed team: there it erases its own copy, and a keeper's ``engram team expel NAME --erase`` reaches the machines.
    """
    with database.service() as connection:
        row = connection.execute(
            "UPDATE hub.member SET gone_at = now() WHERE name = %s AND gone_at IS NULL RETURNING member_id", (name,)
        ).fetchone()
        if row is None and is_erased:
            # Who was let go before can still be erased.
            row = connection.execute("SELECT member_id FROM hub.member WHERE name = %s", (name,)).fetchone()
        if row is None:
            raise NotFound(f"the hub has no member called {name[:MAX_NAME]!r}")
        if not is_erased:
            return 0
        # The locks wait for a push of theirs that is under way; a later one finds no device.
        spaces = connection.execute(
            "SELECT ns_id, head, kind = 'team' AND NOT is_sealed AS is_open FROM hub.namespace WHERE ns_id IN "
            "(SELECT ns_id FROM hub.seat WHERE member_id = %s UNION SELECT ns_id FROM hub.statement WHERE author = %s) "
            "ORDER BY ns_id FOR UPDATE",
            (row.member_id, row.member_id),
        ).fetchall()
        return sum(_erase(connection, space, row.member_id) for space in spaces)


def _erase(connection: psycopg.Connection[Any], space: Any, member_id: int) -> int:
    """Erase what a member said in a space; returns how many rows held something."""
    place = {"ns": space.ns_id, "author": member_id, "head": space.head, "is_open": space.is_open}
    reached = space.head
    # Of an open team one row of each memory stays, to say that it is forgotten.
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
    """Return every team: id, name, whether it is sealed, its members, and the names of its keepers who are there."""
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
    """Make a member of a team its keeper, where every keeper is gone. It gives nobody a key.

    Raises:
        NotFound: there is no such team, or nobody of that name in it.
        BadRequest: the team has a keeper who can do it.
    """
    with database.service() as connection:
        team = connection.execute(
            "SELECT ns_id FROM hub.namespace WHERE ns_id = %s AND kind = 'team' FOR UPDATE", (ns_id,)
        ).fetchone()
        if team is None:
            raise NotFound(f"there is no team {ns_id}; `engram hub teams` lists them")
        keeper = connection.execute(
            "SELECT m.name FROM hub.seat s JOIN hub.member m USING (member_id) "
            "WHERE s.ns_id = %s AND s.role = %s AND m.gone_at IS NULL LIMIT 1",
            (ns_id, KEEPER),
        ).fetchone()
        if keeper is not None:
            raise BadRequest(
                f"{keeper.name} is a keeper of it: they can run `engram team role {name[:MAX_NAME]} keeper`"
            )
        done = connection.execute(
            "UPDATE hub.seat s SET role = %s FROM hub.member m WHERE s.ns_id = %s AND m.member_id = s.member_id "
            "AND m.name = %s AND m.gone_at IS NULL",
            (KEEPER, ns_id, name),
        )
        if done.rowcount == 0:
            raise NotFound(f"nobody called {name[:MAX_NAME]!r} is in that team")
