"""Faults that a review of the code found: copies, answers that never came, a hub that lies, a member who goes."""

from __future__ import annotations

import dataclasses
import json
import shutil
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engram.errors import BadRequest, HubError, HubRefused, HubUnreachable, NotFound
from engram.hub.client import membership, team_sharing
from engram.hub.client.connection import Connection
from engram.hub.client.membership import Keyring
from engram.hub.client.rounds import sync_all
from engram.hub.protocol.frames import NO_PUSH, TAKEN, Answers, Page, Push, Row, open_body
from engram.hub.protocol.statements import decode
from engram.hub.server.accounts import list_teams, make_keeper, remove_member
from engram.hub.server.statement_pages import MAX_BODY_BYTES
from engram.models.hub.spaces import list_servers, list_set_aside, private_space
from engram.redaction import redact
from engram.system.clock import DAY_MS, SYSTEM_CLOCK, FixedClock
from tests.hub.machines import Hub, Machine
from tests.hub.postgres import Postgres
from tests.hub.test_service import Device
from tests.hub.test_teams import Person, make_person, make_team, team

Make = Callable[..., Machine]
Pair = tuple[Machine, Machine]
__all__ = ["make_person", "team"]


def error_of(machine: Machine) -> str:
    """Make a round, and return why it did not succeed."""
    (done,) = sync_all(machine.store, machine.places, redact, is_forced=True)
    return done.error


def test_a_copy_that_pulled_while_the_other_pushed_sees_what_that_said(
    pair: Pair, make_machine: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = pair
    laptop.save("Said before the disk was copied.")
    laptop.sync()
    laptop.store.checkpoint("TRUNCATE")
    shutil.copytree(laptop.places.root, tmp_path / "copy")
    copy = make_machine("copy")
    made = desktop.save("Said on the desktop meanwhile.")
    desktop.sync()
    late = laptop.save("Pushed between the hello and the pull of the copy.")
    pull = Connection.pull

    def racing(self: Connection, ns_id: int, after: int, limit: int, **options: bool) -> Page:
        monkeypatch.setattr(Connection, "pull", pull)
        laptop.sync()
        return pull(self, ns_id, after, limit, **options)

    monkeypatch.setattr(Connection, "pull", racing)
    copy.sync()
    assert copy.find(made.episode_id)
    assert late.content not in copy.texts()
    copy.sync()

    assert copy.find(late.episode_id).content == late.content
    laptop.sync()
    assert copy.said() == laptop.said()


#: What a teammate may have put into a statement: numbers, characters and shapes that nothing can store.
UNSTORABLE: tuple[dict[str, Any], ...] = (
    {"b": {"c": 1 << 70}},
    {"b": {"cf": float("nan")}},
    {"b": {"cf": float("inf")}},
    {"b": {"p": ["\ud800", "", "shop"]}},
    {"f": {"text": [5, 1, {"s": "\ud800 alone", "c": "", "f": [], "e": []}]}},
    {"f": {"text": [5, 1, {"s": 1, "c": [], "f": 7, "e": {}}]}},
    {"f": {"ends": [5, 1, 1 << 64]}},
    {"f": {"next": [5, 1, "../.."]}},
    {"f": {"text": [1 << 63, 1, {}]}},
    {"f": []},
    {"b": "no object"},
)


def test_rows_of_a_teammate_that_nothing_can_store_are_set_aside_and_the_next_one_is_taken(
    team: tuple[Person, Person, Person], hub: Hub
) -> None:
    ada, bob, _ = team
    good: dict[str, Any] = {
        "v": 1,
        "b": {"k": "fact", "c": 1_000},
        "f": {"text": [5, 1, {"s": "A summary.", "c": "A content.", "f": [], "e": []}]},
    }
    values = []
    for change in UNSTORABLE:
        ((part, value),) = change.items()
        values.append({**good, part: {**good[part], **value} if isinstance(value, dict) else value})
    server = list_servers(bob.store)[0]
    rows = tuple(
        Row(
            author=server.member_id,
            memory_id=bytes([number]) * 8,
            device=server.device_id,
            hlc=5,
            version=1,
            is_forgotten=False,
            body=open_body(zlib.compress(json.dumps(value).encode())),
        )
        for number, value in enumerate((*values, good))
    )
    with Connection(hub.url, Keyring(bob.places.hub_keys).token(hub.url)) as connection:
        assert set(connection.push(Push(bob.team.ns_id, b"p" * 16, NO_PUSH, rows)).answers) == {TAKEN}

    ada.machine.sync()

    assert [memory.summary for memory in ada.theirs()] == ["A summary."]
    assert {row.memory_id for row in list_set_aside(ada.store)} == {row.memory_id for row in rows[:-1]}
    assert ada.team.last_error == ""


def test_invalid_numbers_are_not_a_statement() -> None:
    with pytest.raises(BadRequest, match="NaN"):
        decode(zlib.compress(b'{"v":1,"b":{"cf":NaN},"f":{}}'))


def test_a_hub_that_answers_something_else_ends_the_round(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    laptop, desktop = pair
    laptop.save("Said on the laptop.")
    with monkeypatch.context() as patch:
        patch.setattr(Connection, "push", lambda self, push: Answers((), 9, bytes(16)))
        assert "a different number of rows" in error_of(laptop)
    laptop.sync()
    pull = Connection.pull
    with monkeypatch.context() as patch:
        patch.setattr(
            Connection,
            "pull",
            lambda self, *place, **options: dataclasses.replace(pull(self, *place, **options), upto=0),
        )
        assert "before the requested one" in error_of(desktop)
    desktop.sync()
    assert desktop.said() == laptop.said()


def test_a_key_whose_noting_got_no_answer_is_neither_lost_nor_unseen(
    hub: Hub, make_machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Connection.send

    def cut(self: Connection, what: str, body: bytes, **options: Any) -> bytes:
        answer = send(self, what, body, **options)
        if what == "key":
            raise HubUnreachable("the answer was cut")
        return answer

    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    memory = laptop.save("Said before.")
    monkeypatch.setattr(Connection, "send", cut)
    with pytest.raises(HubUnreachable):
        laptop.join(hub, hub.invite("Ada"))
    monkeypatch.setattr(Connection, "send", send)
    assert len(laptop.join(hub, hub.invite("Ada")).phrase.split()) == 17
    laptop.sync()

    monkeypatch.setattr(Connection, "send", cut)
    with pytest.raises(HubUnreachable):
        membership.rotate_key(laptop.store, laptop.places, "private")
    monkeypatch.setattr(Connection, "send", send)
    # Neither a rotation that the hub noted nor one of which it never heard is in the way of the next.
    space = private_space(laptop.store)
    assert space is not None
    Keyring(laptop.places.hub_keys).add_key(hub.url, space.ns_id, bytes(32))
    phrase = membership.rotate_key(laptop.store, laptop.places, "private")
    laptop.sync()
    desktop.join(hub, hub.invite("Ada"), phrase=phrase)
    desktop.sync()
    assert desktop.find(memory.episode_id).content == memory.content


def test_a_round_and_a_command_that_change_the_keys_at_once_lose_none(tmp_path: Path) -> None:
    path = tmp_path / "hub-keys.json"
    in_round, in_command = Keyring(path), Keyring(path)
    in_command.add_key("https://hub.example", 7, bytes(32))
    in_round.become_device("https://hub.example", "renewed")
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: Keyring(path).add_key("https://hub.example", number, bytes(32)), range(20)))

    kept = Keyring(path)
    assert kept.token("https://hub.example") == "renewed"
    assert all(kept.keys("https://hub.example", number) for number in range(20))
    path.write_text("[]")
    with pytest.raises(HubError, match="move it elsewhere"):
        Keyring(path)
    # A file that can't be read is never replaced.
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HubError, match="a link"):
        Keyring(path).add_key("https://hub.example", 7, bytes(32))


def test_who_is_expelled_while_their_push_waits_pushes_nothing(team: tuple[Person, Person, Person], hub: Hub) -> None:
    _, bob, _ = team
    ns_id = bob.team.ns_id
    server = list_servers(bob.store)[0]
    row = Row(
        author=server.member_id,
        memory_id=b"m" * 8,
        device=server.device_id,
        hlc=5,
        version=1,
        is_forgotten=False,
        body=open_body(zlib.compress(b"{}")),
    )
    outcome: list[object] = []

    def push() -> None:
        with Connection(hub.url, Keyring(bob.places.hub_keys).token(hub.url)) as connection:
            try:
                outcome.append(connection.push(Push(ns_id, b"p" * 16, NO_PUSH, (row,))))
            except HubRefused as refusal:
                outcome.append(refusal.status)

    with psycopg.connect(hub.database.dsn) as held:
        held.execute("SELECT 1 FROM hub.namespace WHERE ns_id = %s FOR UPDATE", (ns_id,))
        waiting = threading.Thread(target=push)
        waiting.start()
        blocked = (
            "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%%begin_push%%'"
        )
        while not hub.rows(blocked)[0].n:
            assert waiting.is_alive()
        held.execute("DELETE FROM hub.seat WHERE ns_id = %s AND member_id = %s", (ns_id, server.member_id))
    waiting.join()

    assert outcome == [404]
    assert hub.rows("SELECT 1 FROM hub.statement WHERE ns_id = %s", ns_id) == []


def test_a_page_has_a_bounded_size_and_the_whole_space_arrives(hub: Hub) -> None:
    ada, second = Device(hub, hub.invite("ada")), Device(hub, hub.invite("ada"))
    rows = [ada.row(f"{number:03}", body=bytes([number]) * 65_000) for number in range(150)]
    for start in range(0, 150, 50):
        assert set(ada.push(*rows[start : start + 50])) == {TAKEN}
    after, pages = 0, []
    while not pages or pages[-1].rows:
        pages.append(second.connection.pull(second.ns_id, after, 1_000))
        after = pages[-1].upto

    assert [len(page.rows) for page in pages] == [124, 26, 0]
    assert sum(len(row.body) for row in pages[0].rows) < MAX_BODY_BYTES + 65_536
    assert [row.body for page in pages for row in page.rows] == [row.body for row in rows]
    with pytest.raises(HubRefused, match="a time limit"):
        second.connection.ask("wait", {"after": [[second.ns_id, 0]], "seconds": float("nan")})


def test_a_member_whom_the_operator_erases_is_forgotten_on_every_machine_and_the_team_gets_a_keeper(
    hub: Hub, team: tuple[Person, Person, Person]
) -> None:
    ada, bob, cyd = team
    ada.share(ada.save("Ada said this about the shop."))
    bob.share(bob.save("Bob said this about the shop."), bob.save("Bob said that about the shop."))
    for person in (ada, cyd):
        person.machine.sync()
    assert len(cyd.theirs()) == 3
    ns_id = ada.team.ns_id
    with pytest.raises(BadRequest, match="ada is one of its keepers"):
        make_keeper(hub.database, ns_id, "cyd")

    # Bob's private rows go too, and nobody else's.
    assert remove_member(hub.database, "bob", is_erased=True) == 4
    assert "the hub does not know" in error_of(bob.machine)
    for person in (ada, cyd):
        person.machine.sync()
        assert [e.summary for e in person.theirs() if "Bob" in e.summary] == []
    assert len(cyd.theirs()) == 1
    assert cyd.machine.sync().pulled == 0
    (counts,) = hub.rows(
        "SELECT n.row_count, (SELECT count(*) FROM hub.statement s WHERE s.ns_id = n.ns_id) AS rows "
        "FROM hub.namespace n WHERE n.ns_id = %s",
        ns_id,
    )
    assert counts.row_count == counts.rows == 3

    assert remove_member(hub.database, "ada", is_erased=False) == 0
    assert [(row.name, row.members, row.keepers) for row in list_teams(hub.database)] == [("shop", 1, [])]
    with pytest.raises(NotFound):
        make_keeper(hub.database, ns_id, "bob")
    make_keeper(hub.database, ns_id, "cyd")
    cyd.machine.sync()
    assert cyd.team.role == "keeper"
    assert team_sharing.invite(cyd.store, cyd.places, cyd.team, "writer")


def test_what_an_erased_member_said_in_a_sealed_team_stays_until_a_keeper_erases_it(
    hub: Hub, make_person: Callable[..., Person]
) -> None:
    ada, bob = make_person("ada"), make_person("bob")
    make_team(ada, (bob, "writer"), is_sealed=True)
    bob.share(bob.save("Bob said this about the shop."))
    ada.machine.sync()
    assert remove_member(hub.database, "bob", is_erased=True) == 2
    ada.machine.sync()

    assert len(ada.theirs()) == 1
    assert hub.rows("SELECT 1 FROM hub.statement WHERE author = %s", list_servers(bob.store)[0].member_id) == []


def test_machines_that_followed_a_hub_whose_clock_was_ahead_go_on_when_it_is_right_again(
    postgres: Postgres, make_machine: Make
) -> None:
    clock = FixedClock(SYSTEM_CLOCK.now_ms())
    with Hub.running(postgres.make_database(), clock) as hub:
        laptop, desktop = make_machine("laptop"), make_machine("desktop")
        laptop.join(hub, hub.invite("Ada"))
        laptop.sync()
        clock.at_ms += 40 * DAY_MS
        for text in ("One.", "Two."):
            laptop.save(text)
            laptop.sync()
        clock.at_ms -= 40 * DAY_MS
        laptop.save("Three.")
        laptop.sync()
        desktop.join(hub, laptop.code())
        desktop.sync()
        desktop.save("Four.")
        desktop.sync()
        laptop.sync()

        assert laptop.texts() == desktop.texts() == {"One.", "Two.", "Three.", "Four."}


def test_an_answer_of_no_known_kind_ends_the_round(
    hub: Hub, make_machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop = make_machine("laptop")
    laptop.join(hub, hub.invite("Ada"))
    laptop.save("One.")
    sent, send = [], Connection.send

    def lie(connection: Connection, what: str, body: bytes, **options: Any) -> bytes:
        data = send(connection, what, body, **options)
        if what != "push":
            return data
        sent.append(what)
        assert len(sent) < 5, "the machine pushes the same rows again and again"
        return data[:-1] + bytes([99])

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "send", lie)
        assert "unknown answer" in error_of(laptop)
    assert error_of(laptop) == ""
