"""The worker and a folder: a change here and a file that came enqueue a round, and changes are gathered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from engram.models.hub.spaces import change_server, list_servers
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK, FixedClock
from engram.tasks.runtime import BackgroundExecutor
from engram.tasks.upkeep_tasks import sync_under_lease
from engram.worker import housekeeping
from tests.hub.machines import Machine

Make = Callable[..., Machine]


def runtime_of(machine: Machine) -> Any:
    executor = BackgroundExecutor("hub")
    settings = Settings(home=machine.places.root)
    return SimpleNamespace(store=machine.store, settings=settings, redact=redact, hub_executor=executor)


def test_a_round_of_the_worker_pulls_and_pushes_through_the_folder(pair: tuple[Machine, Machine]) -> None:
    laptop, desktop = pair
    laptop.save("Said here.")
    assert sync_under_lease(runtime_of(laptop)) == ("0 pulled, 1 pushed", False)
    assert sync_under_lease(runtime_of(desktop)) == ("1 pulled, 0 pushed", True)
    assert sync_under_lease(runtime_of(desktop)) == ("", False)


def test_a_change_here_and_a_file_that_came_enqueue_a_round(
    make_machine: Make, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = (make_machine(name, clock=SYSTEM_CLOCK) for name in ("laptop", "desktop"))
    laptop.use_folder(tmp_path / "synced")
    laptop.sync()
    desktop.use_folder(tmp_path / "synced", laptop.phrase)
    desktop.sync()
    rung = threading.Event()
    monkeypatch.setattr(housekeeping, "sync", rung.set)
    monkeypatch.setattr(housekeeping, "FOLDER_SECONDS", 0.05)
    monkeypatch.setattr(housekeeping, "GATHER_SECONDS", 0.05)
    watch = housekeeping.HubWatch(runtime_of(desktop))
    try:
        watch.start_threads()
        desktop.save("Said here.")
        assert rung.wait(60)
        desktop.sync()
        rung.clear()
        laptop.save("Said elsewhere.")
        laptop.sync()
        assert rung.wait(60)
    finally:
        watch.close()


def test_changes_are_gathered_for_one_file_and_a_service_gets_each_at_once(
    pair: tuple[Machine, Machine], clock: FixedClock
) -> None:
    laptop, _ = pair
    with laptop.store.transaction() as tx:
        change_server(tx, list_servers(laptop.store)[0].id, synced_at_ms=laptop.store.now_ms())
    (server,) = list_servers(laptop.store)
    now_ms = laptop.store.now_ms()
    full = housekeeping.GATHER_SECONDS

    assert housekeeping._gathers_for(server, now_ms) == full
    assert 0 < housekeeping._gathers_for(server, now_ms + int(full * 999)) < 0.1
    assert housekeeping._gathers_for(server, now_ms + int(full * 1000)) == 0.0
    # A clock that was set back waits for nothing.
    assert housekeeping._gathers_for(server, now_ms - 60_000) == 0.0
    with laptop.store.transaction() as tx:
        change_server(tx, server.id, url="https://hub.example.org")
    assert housekeeping._gathers_for(list_servers(laptop.store)[0], now_ms) == 0.0
