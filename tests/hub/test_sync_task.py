"""The task ``sync`` and what enqueues it: one round at a time, after a change here and after one elsewhere."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from engram.models.work.task_runs import list_stages
from engram.models.work.work import release_lease, take_lease
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.runtime import BackgroundExecutor
from engram.tasks.upkeep_tasks import sync_under_lease
from engram.worker import housekeeping
from tests.hub.machines import Hub, Machine

Make = Callable[..., Machine]


def runtime_of(machine: Machine) -> Any:
    settings = Settings(home=machine.places.root)
    executor = BackgroundExecutor("hub")
    return SimpleNamespace(store=machine.store, settings=settings, redact=redact, hub_executor=executor)


def test_one_process_makes_a_round_at_a_time_and_a_hub_that_is_down_is_named(hub: Hub, make_machine: Make) -> None:
    laptop = make_machine("laptop")
    runtime = runtime_of(laptop)
    assert sync_under_lease(runtime) == ("", False)
    laptop.join(hub, hub.invite("Ada"))
    laptop.save("Use tabs.")

    assert take_lease(laptop.store, "sync", "another", 60)
    assert sync_under_lease(runtime) == ("", False)
    release_lease(laptop.store, "sync", "another")
    assert sync_under_lease(runtime) == ("0 pulled, 1 pushed", False)

    with hub.database.service() as connection:
        connection.execute("UPDATE hub.device SET gone_at = now()")
    outcome, has_changed = sync_under_lease(runtime, is_forced=True)
    assert "run `engram hub leave`, then join the hub again" in outcome
    assert not has_changed
    assert any("join the hub again" in stage.last_error for stage in list_stages(laptop.store) if stage.name == "hub")

    with hub.database.service() as connection:
        connection.execute("UPDATE hub.device SET gone_at = NULL")
    assert sync_under_lease(runtime, is_forced=True) == ("", False)
    assert not any(stage.last_error for stage in list_stages(laptop.store) if stage.name == "hub")


def test_a_change_here_and_one_elsewhere_enqueue_a_round(
    hub: Hub, make_machine: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    laptop, desktop = make_machine("laptop"), make_machine("desktop")
    laptop.join(hub, hub.invite("Ada"))
    laptop.sync()
    desktop.join(hub, laptop.code())
    desktop.sync()
    rung = threading.Event()
    monkeypatch.setattr(housekeeping, "sync", rung.set)
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
