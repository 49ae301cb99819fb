"""The service: who gets in, what a device sees, quotas, and a database that is no superuser's, on each PostgreSQL."""

from __future__ import annotations

import dataclasses
import http.client
import json
import logging
import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from engram.errors import BadRequest, HubError, HubRefused
from engram.hub.client.connection import Connection
from engram.hub.client.membership import Keyring
from engram.hub.protocol.frames import (
    BAD_CLOCK,
    FORGOTTEN,
    KNOWN,
    NO_PUSH,
    NO_ROOM,
    NOT_YOURS,
    TAKEN,
    TOO_LARGE,
    Push,
    Row,
    WrongKey,
)
from engram.hub.protocol.requests import HelloRequest, Membership, split_code
from engram.hub.server import accounts
from engram.hub.server.accounts import remove_member
from engram.hub.server.hub_database import STEPS, migrate
from engram.hub.server.serve import erase_dead_rows, find_due, make_queue, prune_tables
from engram.models.hub.spaces import list_set_aside
from tests.hub.machines import Hub, Machine
from tests.hub.postgres import Postgres

Make = Callable[..., Machine]


@pytest.fixture(params=["postgres", "older_postgres"])
def lane(request: pytest.FixtureRequest) -> Iterator[Hub]:
    """A hub on the newest PostgreSQL, and one on the oldest that is supported."""
    server: Postgres = request.getfixturevalue(request.param)
    with Hub.running(server.make_database()) as hub:
        yield hub


class Device:
    """A device that speaks to the service without a memory."""

    def __init__(self, hub: Hub, code: str) -> None:
        self.connection = Connection(hub.url)
        token = secrets.token_urlsafe(32)
        request = {"code": split_code(code)[0], "name": "test", "token_hash": accounts.hash_token(token).hex()}
        self.member = Membership.from_json(self.connection.ask("join", request))
        self.connection.token = token
        self.ns_id = self.member.spaces[0].ns_id
        self.last = NO_PUSH
        self._pushes = 0

    def renew(self) -> dict[str, Any]:
        return self.connection.ask("renew", {"token_hash": secrets.token_hex(32)})

    def row(self, memory: str, version: int = 1, **changes: object) -> Row:
        row = Row(
            author=self.member.member_id,
            memory_id=memory.encode().ljust(8, b"."),
            device=self.member.device_id,
            hlc=5 << 16,
            version=version,
            is_forgotten=False,
            body=b"canary " + memory.encode(),
        )
        return dataclasses.replace(row, **changes)  # type: ignore[arg-type]

    def push(self, *rows: Row, ns_id: int | None = None) -> tuple[int, ...]:
        self._pushes += 1
        push_id = self._pushes.to_bytes(8) + self.member.device_id.to_bytes(8)
        answers = self.connection.push(Push(ns_id or self.ns_id, push_id, self.last, rows))
        self.last = push_id
        return answers.answers

    def pull(self, ns_id: int | None = None) -> list[bytes]:
        return [row.body for row in self.connection.pull(ns_id or self.ns_id, 0, 100).rows]


def test_rows_travel_between_the_devices_of_one_member_and_to_nobody_else(lane: Hub) -> None:
    ada, eve = Device(lane, lane.invite("ada")), Device(lane, lane.invite("eve"))
    second = Device(lane, lane.invite("ada"))

    assert ada.push(ada.row("one"), ada.row("two")) == (TAKEN, TAKEN)
    assert second.pull() == [b"canary one", b"canary two"]
    assert ada.pull() == []
    for foreign in (ada.ns_id, 12345):
        for attempt in (
            lambda ns=foreign: eve.pull(ns),
            lambda ns=foreign: eve.push(eve.row("three"), ns_id=ns),
        ):
            with pytest.raises(HubRefused, match="there is no such space or member") as refusal:
                attempt()
            assert refusal.value.status == 404
    assert eve.connection.ask("key", {"ns": ada.ns_id, "before": "", "after": "00" * 8}) == {"set": False}
    assert not eve.connection.wait({ada.ns_id: 0}, seconds=0)


def test_a_row_is_checked_by_its_own_and_the_last_version_counts(lane: Hub) -> None:
    ada = Device(lane, lane.invite("ada"))
    far = ada.row("far", hlc=(1 << 62))
    large = ada.row("large", body=bytes(65_537))
    forged = ada.row("forged", author=77)
    moved = ada.row("moved", device=77)
    assert ada.push(ada.row("one", 2), far, large, forged, moved) == (TAKEN, BAD_CLOCK, TOO_LARGE, NOT_YOURS, NOT_YOURS)
    assert ada.push(ada.row("one", 2), ada.row("one", 1)) == (KNOWN, KNOWN)
    second = Device(lane, lane.invite("ada"))
    assert second.push(second.row("one", body=b"second")) == (TAKEN,)

    assert ada.push(ada.row("one", 3, is_forgotten=True, body=b"")) == (TAKEN,)
    assert second.push(second.row("one", 9)) == (FORGOTTEN,)
    assert [row.body for row in lane.rows("SELECT body FROM hub.statement")] == [b""]
    with lane.database.service() as connection:
        connection.execute("UPDATE hub.namespace SET most_rows = 2 WHERE ns_id = %s", (ada.ns_id,))
    assert ada.push(ada.row("four")) == (TAKEN,)
    assert ada.push(ada.row("four", 2), ada.row("five")) == (TAKEN, NO_ROOM)


def test_a_copy_that_pushes_is_refused_until_it_becomes_another_device(lane: Hub) -> None:
    ada = Device(lane, lane.invite("ada"))
    ada.push(ada.row("one"))
    ada.last = NO_PUSH
    with pytest.raises(HubRefused, match="another copy") as refusal:
        ada.push(ada.row("two"))
    assert refusal.value.status == 409
    answer = ada.connection.hello(HelloRequest((b"x" * 16,), {ada.ns_id: (1, b"m" * 16)}))
    assert (answer.is_same, answer.spaces[0].is_known) == (False, False)


def test_a_hub_that_was_put_back_is_known_by_a_mark_that_it_lacks(lane: Hub) -> None:
    ada, second = Device(lane, lane.invite("ada")), Device(lane, lane.invite("ada"))
    ada.push(ada.row("one"))
    mark = bytes(lane.rows("SELECT mark FROM hub.mark")[0].mark)
    assert ada.connection.hello(HelloRequest((ada.last,), {ada.ns_id: (1, mark)})).spaces[0].is_known
    with lane.database.service() as connection:
        connection.execute("TRUNCATE hub.statement, hub.mark")
        connection.execute("UPDATE hub.namespace SET head = 0, row_count = 0")
    # Another machine pushes more rows at once than were lost: no mark stands where the old one stood.
    second.push(*(second.row(f"m{number}") for number in range(3)))
    answer = ada.connection.hello(HelloRequest((ada.last,), {ada.ns_id: (1, mark)}))
    assert not answer.spaces[0].is_known


def test_row_level_security_holds_without_the_service(lane: Hub) -> None:
    ada, eve = Device(lane, lane.invite("ada")), Device(lane, lane.invite("eve"))
    ada.push(ada.row("one"))
    token_hash = accounts.hash_token(eve.connection.token)

    with lane.database.client(token_hash) as connection:
        assert connection.execute("SELECT count(*) AS n FROM hub.statement").fetchone() == (0,)
        for table in ("member", "device", "code", "namespace", "seat", "mark"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
                connection.execute(f"SELECT * FROM hub.{table}".encode())
        changed = connection.execute("UPDATE hub.statement SET body = 'x'").rowcount
        assert (changed, connection.execute("DELETE FROM hub.statement").rowcount) == (0, 0)
        with pytest.raises(psycopg.errors.InsufficientPrivilege), connection.transaction():
            connection.execute(
                "INSERT INTO hub.statement VALUES (%s, %s, 'abcdefgh', %s, 99, 1, 1, false, '')",
                (ada.ns_id, ada.member.member_id, ada.member.device_id),
            )
    with lane.database.client(b"nobody") as connection:
        assert connection.execute("SELECT count(*) AS n FROM hub.statement").fetchone() == (0,)


def test_codes_work_once_and_a_device_that_was_shut_out_stays_out(hub: Hub) -> None:
    code = hub.invite("ada")
    ada = Device(hub, code)
    with pytest.raises(HubRefused, match="wrong, used up or too old"):
        Device(hub, code)
    second = Device(hub, hub.invite("ada"))
    assert [item["self"] for item in second.connection.ask("devices", {})["devices"]] == [False, True]
    second.connection.ask("devices", {"remove": ada.member.device_id})
    with pytest.raises(HubRefused, match="the hub does not know"):
        ada.pull()
    second.push(second.row("one"))
    assert remove_member(hub.database, "ada", is_erased=True) == 1
    with pytest.raises(HubRefused, match="the hub does not know"):
        second.pull()
    eve, wrong = Connection(hub.url), {"code": "AAAAAAAAAA", "token_hash": "00" * 32}
    for _ in range(20):
        with pytest.raises(HubRefused):
            eve.ask("join", wrong)
    with pytest.raises(HubRefused, match="wait a minute"):
        eve.ask("join", wrong)


def test_a_member_has_only_so_many_open_codes_and_devices(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ada, bob = Device(hub, hub.invite("ada")), Device(hub, hub.invite("bob"))
    monkeypatch.setattr(accounts, "MAX_CODES", 2)
    monkeypatch.setattr(accounts, "MAX_DEVICES", 2)

    def ask_code(device: Device, number: int) -> None:
        device.connection.ask("code", {"digest": bytes([number] * 32).hex(), "bundle": ""})

    team = ada.connection.ask("team-make", {"name": "boat", "sealed": False, "key": ""})["ns"]
    ask_code(ada, 1)
    ada.connection.ask("team-invite", {"ns": team, "role": "reader", "digest": bytes([2] * 32).hex(), "bundle": ""})
    for what in ("code", "team-invite"):
        with pytest.raises(HubRefused, match="still unused") as refusal:
            ada.connection.ask(what, {"ns": team, "role": "reader", "digest": bytes([3] * 32).hex(), "bundle": ""})
        assert refusal.value.status == 400
    ask_code(bob, 4)
    second = ada.renew()
    with pytest.raises(HubRefused, match="already have 2 devices"):
        ada.renew()
    ada.connection.ask("devices", {"remove": second["device"]})
    ada.renew()


def test_a_request_that_is_nonsense_is_refused_in_one_line(hub: Hub, caplog: pytest.LogCaptureFixture) -> None:
    ada = Device(hub, hub.invite("ada"))
    with caplog.at_level(logging.INFO, "engram.hub"):
        for what, body in (("hello", b"[]"), ("hello", b"{}"), ("push", b"x"), ("pull", b"{"), ("key", b'{"ns":1}')):
            with pytest.raises(HubRefused) as refusal:
                ada.connection.send(what, body)
            assert refusal.value.status == 400
        with pytest.raises(HubRefused) as refusal:
            ada.connection.send("wait", bytes(1_000_001))
        assert refusal.value.status == 413
        ada.push(ada.row("one"))
    assert "canary" not in caplog.text
    requests = [json.loads(record.message) for record in caplog.records if record.name == "engram.hub.server.app"]
    assert {"request", "status", "ms", "bytes", "device"} <= set(requests[-1])


def test_health_and_metrics_tell_figures_alone(hub: Hub) -> None:
    ada = Device(hub, hub.invite("ada"))
    ada.push(ada.row("one"))
    connection = http.client.HTTPConnection(urlsplit(hub.url).netloc, timeout=10)
    answers = []
    for path in ("/health", "/metrics"):
        connection.request("GET", path)
        answers.append(connection.getresponse().read().decode())
    assert answers[0] == "ok\n"
    assert 'engram_hub_requests_total{request="push",status="200"} 1' in answers[1]
    assert "engram_hub_rows_pushed_total 1" in answers[1]
    assert "canary" not in answers[1]


def test_services_that_start_at_once_make_the_tables_once(postgres: Postgres) -> None:
    dsn = postgres.make_database()
    with psycopg.connect(dsn) as connection:
        assert [migrate(connection), migrate(connection)] == [len(STEPS), len(STEPS)]
        connection.execute("UPDATE hub.version SET number = 99")
        connection.commit()
        with pytest.raises(HubError, match="newer than this program"):
            migrate(connection)


def test_chores_are_derived_from_the_tables(hub: Hub) -> None:
    ada = Device(hub, hub.invite("ada"))
    ada.push(ada.row("one"))
    with hub.database.service() as connection:
        connection.execute("UPDATE hub.code SET expires_at = now() - interval '2 days'")
    assert find_due(hub.database.dsn)["old_codes"] == 1
    assert prune_tables(hub.database.dsn) == 1
    assert find_due(hub.database.dsn)["old_codes"] == 0
    erase_dead_rows(hub.database.dsn)
    queue = make_queue(hub.database.dsn)
    assert [task.name for task in queue.read_periodic(datetime.now())] == ["look"]
    queue.execute(queue.read_periodic(datetime.now())[0])
    queue.enqueue(queue.read_periodic(datetime.now())[0])
    task = queue.dequeue()
    assert task is not None
    queue.execute(task)


def test_a_wrong_key_is_refused_before_anything_is_kept_or_pushed(hub: Hub, make_machine: Make) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("ada"))
    laptop.sync()
    other = make_machine("other")
    other.join(hub, hub.invite("eve"))
    desktop.save("must not be pushed")
    for options in ({}, {"phrase": other.phrase}):
        with pytest.raises(WrongKey):
            desktop.join(hub, hub.invite("ada"), **options)
    with pytest.raises(BadRequest, match="mistyped"):
        desktop.join(hub, hub.invite("ada"), phrase="hello")

    assert Keyring(desktop.places.hub_keys).keys(hub.url, 1) == {}
    assert hub.rows("SELECT 1 FROM hub.statement") == []
    assert len(hub.rows("SELECT 1 FROM hub.device WHERE gone_at IS NULL")) == 2
    desktop.join(hub, hub.invite("ada"), phrase=laptop.phrase)
    desktop.sync()
    laptop.sync()
    assert laptop.texts() == desktop.texts()


def test_nothing_of_a_sealed_space_is_in_the_hubs_database(hub: Hub, make_machine: Make) -> None:
    laptop = make_machine("laptop")
    laptop.join(hub, hub.invite("ada"))
    laptop.save("quixotic canary sentence of a sealed space")
    assert laptop.sync().pushed == 1

    (row,) = hub.rows("SELECT s::text AS whole, body FROM hub.statement s")
    assert b"canary" not in row.body
    assert "canary" not in row.whole
    assert len(row.body) % 128 == (1 + 8 + 12 + 16) % 128


def test_a_row_that_is_refused_is_set_aside_and_the_others_go_on(hub: Hub, make_machine: Make) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("ada"))
    with hub.database.service() as connection:
        connection.execute("UPDATE hub.namespace SET most_body = 2000")
    laptop.save(" ".join(f"step {number} follows step {number * 7919 % 10_007}." for number in range(600)))
    small = laptop.save("a small one")
    done = laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()

    assert (done.pushed, done.refused) == (1, 1)
    assert [row.reason for row in list_set_aside(laptop.store)] == ["it is larger than the hub accepts"]
    assert desktop.texts() == {small.content}
