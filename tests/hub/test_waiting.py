"""Long poll: a change wakes those who wait for its space, and nobody else; a deaf service looks by itself."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from engram.hub.client.connection import Connection
from engram.hub.client.membership import Keyring
from engram.hub.server import accounts
from engram.hub.server.app import DEAF_LOOK_SECONDS, LOOK_SECONDS, Doorbell
from engram.models.hub.spaces import list_spaces
from tests.hub.machines import Hub, Machine

Make = Callable[..., Machine]


def test_a_change_wakes_those_who_wait_for_its_space_alone(
    hub: Hub, make_machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, eve = make_machine("ada"), make_machine("eve")
    for name, machine in (("ada", ada), ("eve", eve)):
        machine.join(hub, hub.invite(name))
        machine.sync()
    looks: list[int] = []
    real, both_wait = accounts.heads_beyond, threading.Event()

    def counted(database: object, asker: accounts.Asker, places: object) -> bool:
        looks.append(asker.member_id)
        if len(set(looks)) == 2:
            both_wait.set()
        return real(database, asker, places)  # type: ignore[arg-type]

    monkeypatch.setattr(accounts, "heads_beyond", counted)
    answers: dict[str, bool] = {}

    def wait(name: str, machine: Machine, seconds: float) -> None:
        (space,) = list_spaces(machine.store)
        with Connection(hub.url, Keyring(machine.places.hub_keys).token(hub.url)) as connection:
            answers[name] = connection.wait({space.ns_id: 0}, seconds)

    threads = [threading.Thread(target=wait, args=args) for args in (("ada", ada, 50.0), ("eve", eve, 3.0))]
    for thread in threads:
        thread.start()
    assert both_wait.wait(60)
    ada.save("Use tabs.")
    ada.sync()
    for thread in threads:
        thread.join(60)

    assert answers == {"ada": True, "eve": False}
    assert hub.service.doorbell.waiting == 0


def test_a_service_that_hears_nothing_looks_more_often() -> None:
    assert DEAF_LOOK_SECONDS < LOOK_SECONDS

    async def rings() -> list[bool]:
        doorbell = Doorbell("")
        with doorbell.listening({1, 2}) as first, doorbell.listening({2}) as second:
            doorbell._ring(1)
            told = [first.is_set(), second.is_set()]
            doorbell._ring(3)
            doorbell._ring_all(True)
            told.append(second.is_set())
            await doorbell.wait(first, 60)
        return [*told, bool(doorbell._bells)]

    assert asyncio.run(rings()) == [True, False, True, False]
