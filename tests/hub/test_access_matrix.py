"""Every role, every request, every table: what each may, and that foreign and missing look alike."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from engram.errors import HubRefused
from engram.hub.client.connection import Connection
from engram.hub.protocol.frames import NO_PUSH, NOT_YOURS, TAKEN, Push, Row, pack_push, unpack_answers, unpack_page
from engram.hub.protocol.requests import Membership, code_hash, hash_token, split_code, to_bytes
from engram.hub.server import app
from tests.hub.machines import Hub
from tests.hub.postgres import Postgres

MISSING = 12_345
ROLES = ("keeper", "writer", "reader", "stranger", "expelled")
#: What an answer to somebody outside must not hold: contents, names, and the team's own name.
CANARIES = (b"canary", b"harbor-team", b"keeper-person", b"writer-person", b"reader-person")


@pytest.fixture(params=["postgres", "older_postgres"])
def hub(request: pytest.FixtureRequest) -> Iterator[Hub]:
    server: Postgres = request.getfixturevalue(request.param)
    with Hub.running(server.make_database()) as hub:
        yield hub


@dataclass
class Seat:
    """A device of somebody with a role in a team."""

    connection: Connection
    member: Membership
    last: bytes = NO_PUSH
    pushes: int = 0

    @classmethod
    def take(cls, hub: Hub, name: str) -> Seat:
        connection = Connection(hub.url)
        token = secrets.token_urlsafe(32)
        request = {"code": split_code(hub.invite(name))[0], "name": "a laptop", "token_hash": hash_token(token).hex()}
        member = Membership.from_json(connection.ask("join", request))
        connection.token = token
        return cls(connection, member)

    def send(self, what: str, body: bytes) -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        try:
            return 200, self.connection.send(what, body)
        except HubRefused as refusal:
            return refusal.status, str(refusal).encode()

    def ask(self, what: str, **value: Any) -> tuple[int, bytes]:
        return self.send(what, to_bytes(value))

    def row(self, memory: bytes, *, author: int | None = None, is_forgotten: bool = False, version: int = 1) -> Row:
        return Row(
            author=self.member.member_id if author is None else author,
            memory_id=memory.ljust(8, b"."),
            device=self.member.device_id,
            hlc=1 << 20,
            version=version,
            is_forgotten=is_forgotten,
            body=b"" if is_forgotten else b"\1canary of " + memory,
        )

    def push(self, ns_id: int, *rows: Row) -> tuple[int, Any]:
        self.pushes += 1
        push_id = self.pushes.to_bytes(8) + self.member.device_id.to_bytes(8)
        status, body = self.send("push", pack_push(Push(ns_id, push_id, self.last, rows)))
        if status == 200:
            self.last = push_id
            return status, unpack_answers(body).answers
        return status, body


@pytest.fixture
def people(hub: Hub) -> dict[str, Seat]:
    return {role: Seat.take(hub, f"{role}-person") for role in (*ROLES, "other")}


@pytest.fixture
def team(hub: Hub, people: dict[str, Seat]) -> int:
    """A team with a memory of its writer, and one that was expelled."""
    ns_id = make_team(people["keeper"], "harbor-team")
    for number, role in enumerate(("writer", "reader", "expelled"), 1):
        given = "writer" if role == "expelled" else role
        half = f"{number}ABCDEFGH{number}".replace("1", "X")
        request = {"role": given, "digest": code_hash(half).hex(), "bundle": ""}
        assert people["keeper"].ask("team-invite", ns=ns_id, **request)[0] == 200
        assert people[role].ask("team-join", code=half)[0] == 200
    assert people["writer"].push(ns_id, people["writer"].row(b"planted"))[1] == (TAKEN,)
    theirs, memory = people["writer"].member.member_id, b"planted.".hex()
    assert people["reader"].ask("team-report", ns=ns_id, author=theirs, memory=memory, reason="wrong")[0] == 200
    gone = people["expelled"].member.member_id
    assert people["keeper"].ask("team-role", ns=ns_id, member=gone, role="")[0] == 200
    return ns_id


def make_team(seat: Seat, name: str) -> int:
    status, body = seat.ask("team-make", name=name, sealed=False, key="")
    assert status == 200, body
    return int(json.loads(body)["ns"])


def requests_of(people: dict[str, Seat], seat: Seat) -> dict[str, Callable[[int], tuple[int, bytes]]]:
    """Every request that names a space → how it is made for one."""
    author = people["writer"].member.member_id
    memory = b"planted.".hex()
    nobody = people["other"].member.member_id
    return {
        "pull": lambda ns: seat.ask("pull", ns=ns, after=0, limit=10),
        "push": lambda ns: _push(seat, ns),
        "wait": lambda ns: seat.ask("wait", after=[[ns, 0]], seconds=0),
        "key": lambda ns: seat.ask("key", ns=ns, before="", after="00" * 8),
        "team-invite": lambda ns: seat.ask("team-invite", ns=ns, role="reader", digest="ab" * 32, bundle=""),
        "team-members": lambda ns: seat.ask("team-members", ns=ns),
        "team-role": lambda ns: seat.ask("team-role", ns=ns, member=nobody, role="writer"),
        "team-dissolve": lambda ns: seat.ask("team-dissolve", ns=ns),
        "team-report": lambda ns: seat.ask("team-report", ns=ns, author=author, memory=memory, reason="wrong"),
        "team-reports": lambda ns: seat.ask("team-reports", ns=ns),
    }


def _push(seat: Seat, ns_id: int) -> tuple[int, bytes]:
    status, answer = seat.push(ns_id, seat.row(f"{seat.pushes}".encode()))
    return status, bytes(answer)


#: Request → what keeper, writer and reader get for their own team. Nobody else gets anything but 404, or a plain no.
EXPECTED = {
    "pull": (200, 200, 200),
    "push": (200, 200, 200),
    "wait": (200, 200, 200),
    "key": (200, 200, 200),
    "team-invite": (200, 403, 403),
    "team-members": (200, 200, 200),
    "team-role": (404, 403, 403),
    "team-dissolve": (400, 400, 400),  # others are in it
    "team-report": (200, 200, 200),
    "team-reports": (200, 403, 403),
}
#: Requests that name no space, and those of everybody.
WITHOUT_SPACE = {"hello", "renew", "code", "devices", "team-make", "team-join"}


def test_every_role_gets_of_every_request_what_it_may(hub: Hub, people: dict[str, Seat], team: int) -> None:
    assert set(EXPECTED) | WITHOUT_SPACE == set(app._JSON) | {"pull", "push", "wait"}
    for number, role in enumerate(("keeper", "writer", "reader")):
        for what, make in requests_of(people, people[role]).items():
            status, body = make(team)
            assert status == EXPECTED[what][number], (role, what, body)
    # What a role may say: writers their own, keepers also forget what others said, readers nothing.
    writer, keeper, reader = people["writer"], people["keeper"], people["reader"]
    theirs = writer.member.member_id
    assert reader.push(team, reader.row(b"mine"))[1] == (NOT_YOURS,)
    assert writer.push(team, writer.row(b"forged", author=keeper.member.member_id))[1] == (NOT_YOURS,)
    assert keeper.push(team, keeper.row(b"planted", author=theirs))[1] == (NOT_YOURS,)
    for seat in (reader, people["writer"]):
        other = keeper.member.member_id
        assert seat.push(team, seat.row(b"0", author=other, is_forgotten=True))[1] == (NOT_YOURS,)
    assert json.loads(reader.ask("team-members", ns=team)[1])["members"]
    assert reader.ask("team-role", ns=team, member=theirs, role="")[0] == 403
    assert keeper.push(team, keeper.row(b"planted", author=theirs, is_forgotten=True, version=2))[1] == (TAKEN,)
    pulled = unpack_page(reader.ask("pull", ns=team, after=0, limit=100)[1])
    assert [bytes(row.body) for row in pulled.rows if row.memory_id == b"planted."] == [b""]
    # Anybody may leave, and nobody twice.
    assert reader.ask("team-role", ns=team, member=reader.member.member_id, role="")[0] == 200
    assert reader.ask("team-role", ns=team, member=reader.member.member_id, role="")[0] == 404


def test_foreign_and_missing_look_alike_to_everybody_outside(hub: Hub, people: dict[str, Seat], team: int) -> None:
    other = make_team(people["other"], "other-team")
    private = people["keeper"].member.spaces[0].ns_id
    for role in ROLES:
        foreign = [other] if role in ("keeper", "writer", "reader") else [team, other]
        foreign += [private] if role != "keeper" else []
        for what, make in requests_of(people, people[role]).items():
            missing = make(MISSING)
            answers = [make(ns_id) for ns_id in foreign]
            assert all(answer == missing for answer in answers), (role, what, missing, answers)
            assert missing[0] in (200, 404)
            assert not any(canary in body for _, body in answers for canary in CANARIES)
            if missing[0] == 200:
                assert json.loads(missing[1]) in ({"set": False}, {"changed": False})
    # What names no space tells those outside nothing of the team either, and a wrong code is a wrong code.
    for role in ("stranger", "expelled"):
        seat = people[role]
        for body in (
            seat.ask("hello", push_ids=[], marks=[[team, 1, "00" * 16], [MISSING, 1, "00" * 16]])[1],
            seat.ask("devices")[1],
            seat.ask("team-join", code="ABCDEFGHXX")[1],
        ):
            assert not any(canary in body.replace(f"{role}-person".encode(), b"") for canary in CANARIES)
            assert str(team).encode() not in body


def test_without_a_token_with_a_wrong_one_and_from_a_lost_laptop_nothing_is_answered(
    hub: Hub, people: dict[str, Seat], team: int
) -> None:
    lost = people["writer"]
    spare = Seat.take(hub, "writer-person")
    assert spare.ask("devices", remove=lost.member.device_id)[0] == 200
    answers = set()
    for token in ("", "wrong", lost.connection.token):
        seat = Seat(Connection(hub.url, token), lost.member)
        for what in [*app._JSON, "pull", "push", "wait", "nothing"]:
            answers.add(seat.send(what, to_bytes({"ns": team})))
    assert len(answers) == 1
    assert next(iter(answers))[0] == 401


TABLES = ("version", "member", "device", "code", "namespace", "seat", "mark", "report")


def test_the_database_lets_each_role_see_and_change_only_its_own(hub: Hub, people: dict[str, Seat], team: int) -> None:
    other = make_team(people["other"], "other-team")
    people["other"].push(other, people["other"].row(b"elsewhere"))
    everybody = {role: hash_token(people[role].connection.token) for role in ROLES} | {"nobody": b"nobody"}
    seen = {"keeper": 1, "writer": 1, "reader": 1, "stranger": 0, "expelled": 0, "nobody": 0}
    for role, token_hash in everybody.items():
        with hub.database.client(token_hash) as connection:
            for table in TABLES:
                for statement in (
                    f"SELECT count(*) FROM hub.{table}",
                    f"INSERT INTO hub.{table} SELECT * FROM hub.{table}",
                    f"UPDATE hub.{table} SET ctid = ctid",
                    f"DELETE FROM hub.{table}",
                    f"TRUNCATE hub.{table}",
                ):
                    with pytest.raises(psycopg.Error) as refusal, connection.transaction():
                        connection.execute(statement.encode())
                    assert refusal.value.sqlstate in ("42501", "0A000", "42701", "42703"), (role, statement)
            count = _one(connection, "SELECT count(*) FROM hub.statement")
            assert count == seen[role], role
            assert _one(connection, "SELECT count(*) FROM hub.statement WHERE ns_id = %s", other) == 0
            for foreign in (other, MISSING):
                assert _functions(connection, foreign, people) == _functions(connection, MISSING, people), role
            if role in ("stranger", "expelled", "nobody"):
                assert _functions(connection, team, people) == _functions(connection, MISSING, people), role
    # What a role may change: the writer deletes their own, the reader nothing, the keeper anything of the team.
    for role, deleted in (("reader", 0), ("stranger", 0), ("writer", 1), ("keeper", 0)):
        with hub.database.client(everybody[role]) as connection:
            for author in ("keeper", "writer"):
                with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                    connection.execute(
                        "INSERT INTO hub.statement VALUES (%s, %s, 'abcdefgh', %s, 99, 1, 1, false, 'x')",
                        (
                            other,
                            people[author].member.member_id,
                            people[role if role in people else author].member.device_id,
                        ),
                    )
            assert connection.execute("DELETE FROM hub.statement").rowcount == deleted, role
    assert [row.ns_id for row in hub.rows("SELECT ns_id FROM hub.statement")] == [other]


def _functions(connection: psycopg.Connection[Any], ns_id: int, people: dict[str, Seat]) -> list[Any]:
    """What every function of the client's role says about a space."""
    writer = people["writer"].member.member_id
    return [
        [tuple(row) for row in connection.execute(query.encode(), values).fetchall()]
        for query, values in (
            ("SELECT hub.head_of(%s)", (ns_id,)),
            ("SELECT * FROM hub.last_mark(%s, 99)", (ns_id,)),
            ("SELECT role FROM hub.begin_push(%s, NULL)", (ns_id,)),
            ("SELECT hub.end_push(%s, 0, 0, NULL, '')", (ns_id,)),
            ("SELECT hub.team_role(%s)", (ns_id,)),
            ("SELECT hub.add_invitation(%s, 3, 'x', '', 60)", (ns_id,)),
            ("SELECT * FROM hub.team_members(%s)", (ns_id,)),
            ("SELECT hub.set_role(%s, %s, 1)", (ns_id, writer)),
            ("SELECT hub.add_report(%s, %s, 'planted.', 'wrong')", (ns_id, writer)),
            ("SELECT hub.dissolve_team(%s)", (ns_id,)),
            ("SELECT * FROM hub.team_reports(%s)", (ns_id,)),
            ("SELECT hub.drop_reports(%s, %s, 'planted.')", (ns_id, writer)),
        )
    ]


def _one(connection: psycopg.Connection[Any], query: str, *values: Any) -> Any:
    row = connection.execute(query.encode(), values).fetchone()
    assert row is not None
    (value,) = row
    return value
