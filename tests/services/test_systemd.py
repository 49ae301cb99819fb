"""systemd by a stand-in that records: start, stop, restart, status, and what happens without a service manager."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engram.errors import ServiceError
from engram.settings import Settings
from engram.setup.services.service_definition import SystemName
from engram.setup.services.service_plan import best_system, installed_system, restart_if_running
from engram.setup.services.systemd import Systemd
from engram.system.process_lock import ProcessLock
from tests.services.conftest import StandIns


@pytest.fixture
def system(settings: Settings, stand_ins: StandIns, write_files: Callable[..., None]) -> Systemd:
    """The installed units of a memory folder."""
    system = Systemd(settings)
    write_files(system)
    return system


def units(system: Systemd) -> str:
    return " ".join(change.path.name for change in system.files() if change.content is not None)


def test_units_are_read_started_restarted_and_stopped(
    system: Systemd, stand_ins: StandIns, settings: Settings, working: None
) -> None:
    system.start()
    assert not settings.places.worker_coming.exists()
    assert restart_if_running(settings)
    assert settings.places.worker_coming.exists()
    system.stop()

    assert [call for call in stand_ins.calls() if " show " not in call] == [
        "systemctl --user daemon-reload",
        f"systemctl --user start --no-block {units(system)}",
        "systemctl --user daemon-reload",
        f"systemctl --user restart --no-block {units(system)}",
        f"systemctl --user stop {units(system)}",
    ]
    assert not restart_if_running(settings)


def test_the_status_is_what_systemd_says(system: Systemd, working: None) -> None:
    assert system.status().details["work"] == "inactive (dead), 2 restarts"

    system.start()

    status = system.status()
    assert (status.system, status.is_installed, status.is_running) == (SystemName.SYSTEMD, True, True)
    assert status.details["watch"] == "active (running), pid 4711, 2 restarts"
    assert system.is_lingering() is False


def test_a_process_that_does_not_start_is_told_with_what_the_journal_says(system: Systemd, settings: Settings) -> None:
    lock = ProcessLock(settings.places.worker_lock)

    with pytest.raises(
        ServiceError, match=r"the watcher did not start: .*no such folder\. For details, run: engram service logs"
    ):
        system.start()
    lock.release()


def test_without_its_files_or_a_service_manager_it_says_so(
    system: Systemd, stand_ins: StandIns, settings: Settings
) -> None:
    stand_ins.put("refused")
    for call in (system.start, system.stop, system.status):
        with pytest.raises(ServiceError, match="No medium found"):
            call()

    for change in system.files():
        change.path.unlink()
    with pytest.raises(ServiceError, match="Run: engram install"):
        system.start()
    assert installed_system(settings).name is SystemName.BACKGROUND


@pytest.mark.parametrize(
    ("state", "name"),
    [
        ("running", SystemName.SYSTEMD),
        ("degraded", SystemName.SYSTEMD),
        ("offline", SystemName.BACKGROUND),
        ("Failed to connect to bus: No medium found", SystemName.BACKGROUND),
    ],
)
def test_a_machine_without_a_user_manager_gets_a_supervisor(
    settings: Settings, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch, state: str, name: SystemName
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    stand_ins.put("state", state)

    assert best_system(settings).name is name


def test_on_a_mac_without_a_desktop_there_is_a_supervisor(
    settings: Settings, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "darwin")
    assert best_system(settings).name is SystemName.LAUNCHD

    stand_ins.put("no-desktop")
    assert best_system(settings).name is SystemName.BACKGROUND
