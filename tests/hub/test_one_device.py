"""A machine stays one device, its keys and teams are its own, whatever a hub or the line to it answers."""

from __future__ import annotations

import secrets
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from engram.errors import EngramError, HubError, HubRefused, NotFound
from engram.hub.client import connection as hub_connection
from engram.hub.client import team_sharing
from engram.hub.client.connection import Connection, Limits
from engram.hub.client.membership import Keyring, give_key, rotate_key
from engram.hub.client.rounds import sync_all
from engram.hub.protocol.frames import WrongKey, key_id_of
from engram.hub.protocol.requests import key_of
from engram.hub.server import accounts
from engram.models.hub.spaces import list_offers, list_servers, private_space
from engram.redaction import redact
from engram.reports.hub_report import report_hubs
from engram.tasks.upkeep_tasks import sync_under_lease
from tests.hub.machines import Hub, Machine
from tests.hub.proxy import IMPATIENT, LIES, Proxy
from tests.hub.test_service import Device
from tests.hub.test_sync_task import runtime_of

Make = Callable[..., Machine]


@pytest.fixture
def laptop(hub: Hub, proxy: Proxy, make_machine: Make) -> Machine:
    laptop = make_machine("laptop")
    laptop.join(hub, hub.invite("Ada"), url=proxy.url)
    laptop.save("Said at first.")
    laptop.sync()
    return laptop


def devices(hub: Hub) -> int:
    """How many devices the hub ever made."""
    return int(hub.rows("SELECT count(*) AS n FROM hub.device")[0].n)


def error_of(machine: Machine, limits: Limits | None = IMPATIENT) -> str:
    (done,) = sync_all(machine.store, machine.places, redact, is_forced=True, limits=limits)
    return done.error


def always(fault: str, *whats: str) -> Callable[[str], str]:
    return lambda what: fault if not whats or what in whats else ""


@pytest.mark.parametrize("fault", ["lose_answer", "cut_answer", "drip", "late_request"])
def test_a_machine_whose_answers_get_lost_stays_one_device(hub: Hub, proxy: Proxy, laptop: Machine, fault: str) -> None:
    for number in range(4):
        laptop.save(f"Said in round {number}.")
        proxy.fault = always(fault, "push")
        assert error_of(laptop)
        proxy.fault = always("")
        laptop.sync()
    assert devices(hub) == 1
    assert not laptop.sync().did_something


def test_a_push_that_arrives_after_the_next_hello_is_the_machines_own(
    hub: Hub, proxy: Proxy, laptop: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line holds a push back until the machine has begun its next round."""
    held: list[Callable[[], object]] = []
    is_holding = True
    ask_hub = Proxy._ask_hub

    def holding(self: Proxy, path: str, headers: dict[str, str], body: bytes) -> object:
        if path.endswith("/push") and is_holding:
            held.append(lambda: ask_hub(self, path, headers, body))
            raise OSError("held back")
        answer = ask_hub(self, path, headers, body)
        if path.endswith("/hello") and held:
            held.pop(0)()
            held.clear()
        return answer

    monkeypatch.setattr(Proxy, "_ask_hub", holding)
    laptop.save("Said once.")
    assert error_of(laptop)
    assert held
    is_holding = False
    laptop.save("Said later.")
    laptop.sync()
    assert devices(hub) == 1
    assert len(hub.rows("SELECT 1 FROM hub.statement")) == 3


def test_a_push_whose_answer_got_lost_is_known_although_the_hub_names_another_device_meanwhile(
    hub: Hub, proxy: Proxy, make_machine: Make
) -> None:
    laptop = make_machine("laptop")
    laptop.join(hub, hub.invite("Ada"), url=proxy.url)
    laptop.save("Said at first.")
    proxy.fault = always("drip", "push")
    assert error_of(laptop)
    proxy.lie, proxy.fault = "another device", always("lie", "hello")
    sync_all(laptop.store, laptop.places, redact, is_forced=True)
    proxy.fault = always("")
    laptop.sync()
    laptop.save("Said later.")
    laptop.sync()
    assert devices(hub) == 1
    assert {row.device_id for row in hub.rows("SELECT device_id FROM hub.statement")} == {
        row.device_id for row in hub.rows("SELECT device_id FROM hub.device")
    }


def test_a_strange_push_that_a_hub_names_before_the_first_one_makes_no_device(
    hub: Hub, proxy: Proxy, make_machine: Make
) -> None:
    laptop = make_machine("laptop")
    laptop.join(hub, hub.invite("Ada"), url=proxy.url)
    proxy.lie, proxy.fault = "a strange push", always("lie")
    assert "neither this machine nor a copy" in error_of(laptop, None)
    proxy.fault = always("")
    laptop.sync()
    assert devices(hub) == 1


def test_a_lie_makes_no_device_loses_nothing_and_lets_nobody_in(
    hub: Hub, proxy: Proxy, laptop: Machine, make_machine: Make
) -> None:
    desktop = make_machine("desktop")
    desktop.join(hub, laptop.code())
    desktop.sync()
    for count, name in enumerate(sorted(LIES), 1):
        proxy.lie = name
        for number in range(3):
            laptop.save(f"Said to the liar of {name}, {number}.")
            desktop.save(f"Said on the desktop during {name}, {number}.")
            desktop.sync()
            proxy.fault = always("lie")
            sync_all(laptop.store, laptop.places, redact, is_forced=True)
        proxy.fault = always("")

        for _ in range(2):
            laptop.sync()
            desktop.sync()

        assert laptop.said() == desktop.said(), name
        assert len(laptop.texts()) == 1 + 6 * count, name
        assert devices(hub) == 2, name
        space = private_space(laptop.store)
        assert space is not None
        assert (space.role, space.is_sealed, space.last_error) == ("keeper", True, ""), name
        assert not [one for one in report_hubs(laptop.store)[0].spaces if one.kind == "team"], name
        bodies = hub.rows("SELECT body FROM hub.statement")
        assert all(row.body[0] != 0 or len(row.body) > 30 for row in bodies), name


@pytest.mark.parametrize("fault", ["lose_answer", "cut_answer", "drip"])
def test_joining_again_after_answers_that_got_lost_is_the_same_device(
    hub: Hub, proxy: Proxy, make_machine: Make, fault: str
) -> None:
    laptop, code = make_machine("laptop"), hub.invite("Ada")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_connection, "LIMITS", IMPATIENT)
        for _ in range(3):
            proxy.fault = always(fault, "join")
            with pytest.raises(HubError):
                laptop.join(hub, code, url=proxy.url)
    proxy.fault = always("")
    laptop.join(hub, code, url=proxy.url)
    laptop.save("Said at first.")
    laptop.sync()
    assert devices(hub) == 1
    with pytest.raises(HubRefused, match="used up"):
        make_machine("thief").join(hub, code)


def test_a_copy_becomes_one_device_however_often_its_answers_get_lost(
    hub: Hub, proxy: Proxy, laptop: Machine, make_machine: Make, tmp_path: Path
) -> None:
    laptop.store.checkpoint("TRUNCATE")
    shutil.copytree(laptop.places.root, tmp_path / "copy")
    copy = make_machine("copy")
    laptop.save("Said after the copy.")
    laptop.sync()
    own = copy.save("Said on the copy.")
    for fault in ("lose_answer", "cut_answer", "lose_request", "garbage", "drip"):
        proxy.fault = always(fault, "renew")
        assert error_of(copy)
    seen: list[str] = []

    def at_the_second_hello(what: str) -> str:
        seen.append(what)
        return "drip" if seen == ["hello", "renew", "hello"] else ""

    proxy.fault = at_the_second_hello
    assert error_of(copy)
    proxy.fault = always("")
    copy.sync()
    laptop.sync()
    copy.sync()

    assert devices(hub) == 2
    assert laptop.find(own.episode_id)
    assert laptop.said() == copy.said()


def test_rounds_of_several_threads_are_one_round_of_one_device(hub: Hub, proxy: Proxy, laptop: Machine) -> None:
    runtime = runtime_of(laptop)
    gate = threading.Barrier(4)

    def round_of_a_thread(number: int) -> None:
        gate.wait(60)
        for step in range(3):
            laptop.save(f"Said by thread {number}, {step}.")
            sync_under_lease(runtime, is_forced=True)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(round_of_a_thread, range(4)))
    laptop.sync()
    assert devices(hub) == 1
    assert len(hub.rows("SELECT 1 FROM hub.statement")) == 13


# -- keys


def test_an_older_key_that_a_hub_names_seals_nothing_until_a_person_settles_it(
    hub: Hub, laptop: Machine, make_machine: Make
) -> None:
    (before,) = hub.rows("SELECT key_id FROM hub.namespace")
    rotate_key(laptop.store, laptop.places, "private")
    laptop.sync()
    with hub.database.service() as connection:
        connection.execute("UPDATE hub.namespace SET key_id = %s", (before.key_id,))
    laptop.save("Must not be sealed with the key of the thief.")
    bodies = hub.rows("SELECT body FROM hub.statement ORDER BY seq")

    assert laptop.sync().pushed == 0
    space = private_space(laptop.store)
    assert space is not None
    assert "older key" in space.last_error
    assert "`engram hub key --rotate private`" in space.last_error
    assert hub.rows("SELECT body FROM hub.statement ORDER BY seq") == bodies

    phrase = rotate_key(laptop.store, laptop.places, "private")
    assert laptop.sync().pushed == 2
    desktop = make_machine("desktop")
    desktop.join(hub, hub.invite("Ada"), phrase=phrase)
    desktop.sync()
    assert desktop.said() == laptop.said()


def test_the_phrase_of_a_former_key_is_not_kept(hub: Hub, proxy: Proxy, laptop: Machine, make_machine: Make) -> None:
    former = laptop.phrase
    desktop = make_machine("desktop")
    desktop.join(hub, laptop.code())
    phrase = rotate_key(laptop.store, laptop.places, "private")
    for wrong in (former, make_machine("other").join(hub, hub.invite("Eve")).phrase):
        with pytest.raises(WrongKey, match="not stored"):
            give_key(desktop.store, desktop.places, "private", wrong)
    space = private_space(desktop.store)
    assert space is not None
    kept = Keyring(desktop.places.hub_keys).keys(hub.url, space.ns_id)
    assert list(kept) == [key_id_of(key_of(former))]
    laptop.sync()
    desktop.sync()
    give_key(desktop.store, desktop.places, "private", phrase)
    desktop.sync()
    assert desktop.said() == laptop.said()


@pytest.mark.parametrize("fault", ["lose_answer", "lose_request", "cut_answer"])
def test_a_rotation_that_got_no_answer_holds_nothing_up(
    hub: Hub, proxy: Proxy, laptop: Machine, make_machine: Make, fault: str
) -> None:
    proxy.fault = always(fault, "key")
    with pytest.raises(HubError):
        rotate_key(laptop.store, laptop.places, "private")
    proxy.fault = always("")
    laptop.save("Said after the rotation.")
    assert laptop.sync().pushed
    space = private_space(laptop.store)
    assert space is not None
    assert space.last_error == ""
    desktop = make_machine("desktop")
    desktop.join(hub, laptop.code())
    desktop.sync()
    assert desktop.said() == laptop.said()


def test_a_code_of_before_a_rotation_brings_back_no_older_key(laptop: Machine) -> None:
    keyring = Keyring(laptop.places.hub_keys)
    old, middle, new = (bytes([number]) * 32 for number in (1, 2, 3))
    for key in (middle, new):
        keyring.add_key("https://hub.example", 7, key)
    keyring.add_keys("https://hub.example", 7, [old, middle])
    assert list(keyring.keys("https://hub.example", 7).values()) == [old, middle, new]
    keyring.add_keys("https://hub.example", 7, [bytes([4]) * 32])
    assert list(keyring.keys("https://hub.example", 7).values())[-1] == bytes([4]) * 32


def test_a_hub_that_would_be_told_memories_openly_is_not_joined(hub: Hub, proxy: Proxy, make_machine: Make) -> None:
    laptop = make_machine("laptop")
    proxy.lie, proxy.fault = "not sealed", always("lie")
    with pytest.raises(HubRefused, match="not sealed"):
        laptop.join(hub, hub.invite("Ada"), url=proxy.url)
    assert list_servers(laptop.store) == []
    proxy.fault = always("")
    laptop.join(hub, hub.invite("Ada"), url=proxy.url)
    assert len(hub.rows("SELECT 1 FROM hub.device WHERE gone_at IS NULL")) == 1


# -- teams


def test_a_team_that_this_machine_did_not_join_is_asked_about_first(
    hub: Hub, proxy: Proxy, laptop: Machine, make_machine: Make
) -> None:
    desktop = make_machine("desktop")
    desktop.join(hub, laptop.code())
    team_sharing.make_team(laptop.store, laptop.places, list_servers(laptop.store)[0], "shop", is_sealed=False)
    desktop.sync()
    (report,) = report_hubs(desktop.store)
    assert [space.kind for space in report.spaces] == ["private"]
    assert report.offers == ("shop",)
    assert "engram team accept shop" in report.line()

    with pytest.raises(NotFound, match="for you to accept"):
        team_sharing.accept_team(desktop.store, desktop.places, "strangers")
    team_sharing.accept_team(desktop.store, desktop.places, "shop")
    desktop.sync()
    (report,) = report_hubs(desktop.store)
    assert [space.name for space in report.spaces] == ["private", "shop"]
    assert report.offers == ()


def test_a_team_that_is_not_named_once_is_not_lost(hub: Hub, proxy: Proxy, laptop: Machine) -> None:
    team_sharing.make_team(laptop.store, laptop.places, list_servers(laptop.store)[0], "shop", is_sealed=False)
    proxy.lie = "no spaces"
    proxy.fault = always("lie", "hello")
    laptop.sync()
    assert [space.name for space in report_hubs(laptop.store)[0].spaces] == ["private", "shop"]
    assert list_offers(laptop.store, list_servers(laptop.store)[0].id) == {}


# -- limits


def test_requests_at_once_find_no_more_room_than_one_after_the_other(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = Device(hub, hub.invite("ada"))
    monkeypatch.setattr(accounts, "MAX_CODES", 3)
    monkeypatch.setattr(accounts, "MAX_DEVICES", 4)

    def ask(number: int) -> int:
        done = 0
        with Connection(hub.url, ada.connection.token) as connection:
            code = {"digest": bytes([number] * 32).hex(), "bundle": ""}
            for what, value in (("code", code), ("renew", {"token_hash": secrets.token_hex(32)})):
                try:
                    connection.ask(what, value)
                    done += 1
                except EngramError:
                    pass
        return done

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(8))) == 3 + 3
    assert devices(hub) == 4


def test_devices_that_come_and_go_have_a_limit_a_day(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = Device(hub, hub.invite("ada"))
    monkeypatch.setattr(accounts, "MAX_NEW_DEVICES", 4)
    for _ in range(3):
        made = ada.renew()
        ada.connection.ask("devices", {"remove": made["device"]})
    with pytest.raises(HubRefused, match="within a day"):
        ada.renew()
