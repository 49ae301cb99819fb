"""Every role, every request, every table: what is not one's own tells nothing, not even that it exists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from engram.errors import HubRefused
from engram.hub.protocol.frames import NO_PUSH, NOT_YOURS, TAKEN, Push, pack_push, unpack_answers
from engram.hub.protocol.messages import from_bytes, to_bytes
from engram.hub.protocol.phrase import code_hash
from engram.hub.server import accounts
from engram.hub.server.app import _JSON
from tests.hub.machines import Hub
from tests.hub.postgres import Postgres
from tests.hub.test_service import Device

#: Neither a space nor a member of this id is there.
MISSING = 12_345
#: What must be in no answer to somebody who is not in the team.
CANARIES = (b"canary", b"heron-team", b"wanda")
#: Requests that name a space, each with what is asked of it.
OF_A_SPACE: dict[str, dict[str, Any]] = {
    "pull": {"after": 0, "limit": 100},
    "key": {"before": "", "after": "00" * 8},
    "team-invite": {"role": "reader", "digest": code_hash("ABCDEFGHJK").hex(), "bundle": ""},
    "team-members": {},
    "team-role": {"member": MISSING, "role": "keeper"},
    "team-report": {"author": MISSING, "memory": "00" * 8, "reason": "other"},
    "team-reports": {},
}
#: Requests that name none. They tell of the asker alone.
OF_THE_ASKER: dict[str, dict[str, Any]] = {
    "hello": {"push_ids": [], "marks": []},
    "code": {"digest": "11" * 32, "bundle": ""},
    "devices": {},
    "team-make": {"name": "of the asker", "sealed": False, "key": ""},
    "renew": {},
}
TABLES = ("code", "device", "mark", "member", "namespace", "report", "seat", "statement", "version")

#: What no client's role may do to any table; of a statement, row-level security decides about the last three.
DENIED = ("TRUNCATE hub.{}", "SELECT * FROM hub.{}", "DELETE FROM hub.{}", "INSERT INTO hub.{} DEFAULT VALUES")


class Team:
    """A hub with a team of a keeper, a writer and a reader; a stranger, and a device that was shut out."""

    def __init__(self, hub: Hub) -> None:
        self.hub = hub
        names = {"keeper": "kim", "writer": "wanda", "reader": "rob", "stranger": "sam"}
        self.devices = {role: Device(hub, hub.invite(name)) for role, name in names.items()}
        gone = Device(hub, hub.invite("wanda"))
        gone.connection.ask("devices", {"remove": gone.member.device_id})
        self.devices["gone"] = gone
        keeper = self.devices["keeper"].connection
        self.ns_id = int(keeper.ask("team-make", {"name": "heron-team", "sealed": False, "key": ""})["ns"])
        for number, role in enumerate(("writer", "reader")):
            code = f"ABCDEFGHJ{number + 2}"
            asked = {"ns": self.ns_id, "role": role, "digest": code_hash(code).hex(), "bundle": ""}
            keeper.ask("team-invite", asked)
            self.devices[role].connection.ask("team-join", {"code": code})
        writer = self.devices["writer"]
        assert writer.push(writer.row("one"), ns_id=self.ns_id) == (TAKEN,)

    def send(self, who: str, what: str, body: bytes) -> tuple[int, bytes]:
        try:
            return 200, self.devices[who].connection.send(what, body)
        except HubRefused as refusal:
            return refusal.status, str(refusal).encode()

    def ask(self, who: str, what: str, ns_id: int | None = None) -> tuple[int, bytes]:
        asked = OF_THE_ASKER[what] if ns_id is None else {"ns": ns_id} | OF_A_SPACE[what]
        return self.send(who, what, to_bytes(asked))

    def push(self, who: str, ns_id: int, **changes: object) -> tuple[int, bytes]:
        device = self.devices[who]
        row = device.row("two", **changes)
        return self.send(who, "push", pack_push(Push(ns_id, b"push of sixteen.", device.last or NO_PUSH, (row,))))

    def wait(self, who: str, ns_id: int) -> tuple[int, bytes]:
        return self.send(who, "wait", to_bytes({"after": [[ns_id, 0]], "seconds": 0}))


@pytest.fixture(params=["postgres", "older_postgres"])
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    server: Postgres = request.getfixturevalue(request.param)
    with Hub.running(server.make_database()) as hub:
        yield Team(hub)


def test_every_request_of_every_role_tells_what_is_its_own_alone(team: Team) -> None:
    assert {*OF_A_SPACE, *OF_THE_ASKER, "team-join"} == {*_JSON, "pull"}, "a request is in no column of this matrix"
    for what in OF_A_SPACE:
        assert team.ask("gone", what, team.ns_id) == team.ask("gone", what, MISSING)
        assert team.ask("gone", what, team.ns_id)[0] == 401
        foreign, missing = team.ask("stranger", what, team.ns_id), team.ask("stranger", what, MISSING)
        assert foreign == missing, what
        assert not any(canary in foreign[1] for canary in CANARIES)
    for who, status in (("stranger", 404), ("gone", 401)):
        assert team.push(who, team.ns_id) == team.push(who, MISSING)
        assert team.push(who, team.ns_id)[0] == status
        assert team.wait(who, team.ns_id) == team.wait(who, MISSING)
    assert from_bytes(team.wait("stranger", team.ns_id)[1]) == {"changed": False}
    for what in OF_THE_ASKER:
        status, body = team.ask("stranger", what)
        assert (status, team.ask("gone", what)[0]) == (200, 401)
        assert not any(canary in body for canary in CANARIES), what
    wrong = [team.send(who, "team-join", to_bytes({"code": "ZZZZZZZZZZ"})) for who in ("stranger", "keeper")]
    assert wrong[0] == wrong[1]
    assert wrong[0][0] == 403

    allowed = {
        "pull": ("keeper", "writer", "reader"),
        "team-members": ("keeper", "writer", "reader"),
        "team-report": (),
        "team-invite": ("keeper",),
        "team-reports": ("keeper",),
        "team-role": (),
    }
    for what, roles in allowed.items():
        for who in ("keeper", "writer", "reader"):
            assert (team.ask(who, what, team.ns_id)[0] == 200) == (who in roles), (what, who)
    for who in ("keeper", "writer", "reader"):
        assert from_bytes(team.ask(who, "key", team.ns_id)[1]) == {"set": False}
    answers = [unpack_answers(team.push(who, team.ns_id)[1]).answers for who in ("reader", "writer", "keeper")]
    assert answers == [(NOT_YOURS,), (TAKEN,), (TAKEN,)]
    assert len(team.hub.rows("SELECT 1 FROM hub.statement")) == 3
    author = team.devices["writer"].member.member_id
    forget = {"author": author, "is_forgotten": True, "body": b"", "memory_id": b"one....."}
    for who in ("reader", "writer", "keeper"):
        team.devices[who].last = b"push of sixteen."
    others = [unpack_answers(team.push(who, team.ns_id, **forget)[1]).answers for who in ("reader", "keeper")]
    assert others == [(NOT_YOURS,), (TAKEN,)]


def test_every_table_shows_and_changes_to_every_role_what_is_its_own_alone(team: Team) -> None:
    tables = {
        row.name
        for row in team.hub.rows("SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'hub'")
    }
    assert tables == set(TABLES), "a table is in no column of this matrix"
    rows = {"keeper": (1, 0, 1), "writer": (1, 1, 1), "reader": (1, 0, 0), "stranger": (0, 0, 0), "gone": (0, 0, 0)}
    for who, expected in {**rows, "nobody": (0, 0, 0)}.items():
        device = team.devices.get(who)
        token = accounts.hash_token(device.member.token if device else "of nobody")
        with team.hub.database.client(token) as connection:
            for table in TABLES:
                for statement in DENIED[:1] if table == "statement" else DENIED:
                    with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                        connection.execute(statement.format(table).encode())
            count = connection.execute("SELECT count(*) AS n FROM hub.statement").fetchone()
            assert count is not None
            changed = _count_changes(connection, "UPDATE hub.statement SET hlc = hlc")
            deleted = _count_changes(connection, "DELETE FROM hub.statement")
            assert (count.n, changed, deleted) == expected, who
            forged = "INSERT INTO hub.statement VALUES (%s, %s, 'abcdefgh', %s, 99, 1, 1, false, '')"
            writer = team.devices["writer"].member
            if who != "writer":
                with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(forged, (team.ns_id, writer.member_id, writer.device_id))
            if who in ("stranger", "gone", "nobody"):
                for ns_id in (team.ns_id, MISSING):
                    told = connection.execute(
                        "SELECT hub.head_of(%(ns)s) AS head, (hub.last_mark(%(ns)s, 99)).seq AS mark, "
                        "hub.team_role(%(ns)s) AS role, (hub.begin_push(%(ns)s, '')).head AS pushed, "
                        "hub.end_push(%(ns)s, 1, 1, '', '') AS moved, "
                        "(SELECT count(*) FROM hub.team_members(%(ns)s)) AS members, "
                        "(SELECT count(*) FROM hub.team_reports(%(ns)s)) AS reports",
                        {"ns": ns_id},
                    ).fetchone()
                    assert told == (None, None, None, None, None, 0, 0), who


def _count_changes(connection: psycopg.Connection[Any], statement: str) -> int:
    """How many rows a statement changes; nothing stays changed."""
    with connection.transaction(force_rollback=True):
        return connection.execute(statement.encode()).rowcount
