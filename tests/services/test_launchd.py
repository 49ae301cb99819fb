"""launchd by a stand-in that records: load with retries, unload that takes a while, status. Not run on macOS."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.errors import ServiceError
from engram.settings import Settings
from engram.setup.services import launchd
from engram.setup.services.launchd import Launchd
from engram.setup.services.service_definition import SystemName
from engram.setup.services.service_plan import installed_system
from tests.services.conftest import StandIns

DOMAIN = f"gui/{os.getuid()}"


@pytest.fixture
def system(settings: Settings, stand_ins: StandIns, working: None, write_files: Callable[..., None]) -> Launchd:
    """The installed agents of a memory folder whose processes run."""
    system = Launchd(settings)
    write_files(system)
    return system


def labels(system: Launchd) -> list[str]:
    return [change.path.stem for change in system.files()]


def test_a_start_loads_both_agents_and_tries_again_while_launchd_is_busy(system: Launchd, stand_ins: StandIns) -> None:
    stand_ins.put("busy", "2")

    system.start()

    work, watch = labels(system)
    folder = Path.home() / "Library" / "LaunchAgents"
    load_work = f"launchctl bootstrap {DOMAIN} {folder / work}.plist"
    assert stand_ins.calls("print") == [
        f"launchctl enable {DOMAIN}/{work}",
        load_work,
        load_work,
        load_work,
        f"launchctl enable {DOMAIN}/{watch}",
        f"launchctl bootstrap {DOMAIN} {folder / watch}.plist",
    ]
    status = system.status()
    assert (status.system, status.is_installed, status.is_running) == (SystemName.LAUNCHD, True, True)
    assert status.details == {"work": "running, pid 4711", "watch": "running, pid 4711"}
    system.start()
    assert not any("bootstrap" in call or "kickstart" in call for call in stand_ins.calls())


def test_a_stop_unloads_and_waits_until_launchd_has_ended_both(system: Launchd, stand_ins: StandIns) -> None:
    system.start()
    stand_ins.calls()

    system.stop()

    assert stand_ins.calls("print") == [f"launchctl bootout {DOMAIN}/{label}" for label in labels(system)]
    status = system.status()
    assert (status.is_installed, status.is_running) == (True, False)
    assert set(status.details.values()) == {"not loaded"}
    system.stop()


def test_a_restart_ends_and_starts_what_is_loaded_and_an_ended_agent_is_started(
    system: Launchd, stand_ins: StandIns
) -> None:
    system.start()
    stand_ins.calls()
    system.restart()
    assert [call for call in stand_ins.calls() if "kickstart" in call] == [
        f"launchctl kickstart -k {DOMAIN}/{label}" for label in labels(system)
    ]

    stand_ins.put(f"loaded.{labels(system)[0]}", "not running")
    assert system.status().details["work"] == "loaded, not running, last exit code 1"
    system.start()
    assert f"launchctl kickstart {DOMAIN}/{labels(system)[0]}" in stand_ins.calls()


def test_what_launchd_refuses_is_said_with_its_reason(
    system: Launchd, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_ins.put("refused")
    with pytest.raises(ServiceError, match="78: Function not implemented"):
        system.start()

    (stand_ins.folder / "refused").unlink()
    stand_ins.put("busy", "1000")
    monkeypatch.setattr(launchd, "BOOTSTRAP_SECONDS", 0.1)
    with pytest.raises(ServiceError, match="5: Input/output error"):
        system.start()

    system.files()[0].path.unlink()
    with pytest.raises(ServiceError, match="Run: engram install"):
        system.start()


def test_agents_run_on_a_desktop_only_and_belong_to_one_memory_folder(
    system: Launchd, stand_ins: StandIns, settings: Settings, tmp_path: Path
) -> None:
    assert system.is_available()
    stand_ins.put("no-desktop")
    assert not system.is_available()

    assert installed_system(settings).name is SystemName.LAUNCHD
    other = Settings(home=tmp_path / "another home", claude_folder=settings.claude_folder)
    assert installed_system(other).name is SystemName.BACKGROUND
