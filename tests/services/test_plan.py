"""The service as a step of an installation: planned purely, stored in a journal, done and undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engram.reports.processes import OtherProcess
from engram.settings import Settings
from engram.setup.edits.install_steps import Step
from engram.setup.installing.install_run import action_from_json, action_to_json
from engram.setup.services import service_plan
from engram.setup.services.service_plan import StartServices, StopServices, plan_service
from engram.setup.services.systemd import Systemd
from tests.services.conftest import StandIns


@pytest.fixture
def step(settings: Settings, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch) -> Step:
    """The plan on Linux with systemd."""
    monkeypatch.setattr("sys.platform", "linux")
    return plan_service(settings)


def test_a_plan_writes_nothing_and_names_files_actions_and_what_the_user_should_know(
    step: Step, settings: Settings
) -> None:
    assert (step.name, step.summary) == ("service", "Start the worker and the watcher at login (systemd user units)")
    assert len(step.changes) == 4
    assert not any(change.path.exists() for change in step.changes)
    assert [action.describe() for action in (*step.before, *step.after)] == [
        "stop the worker and the watcher (background), if they are running",
        "stop the worker and the watcher (systemd), if they are running",
        "start the worker and the watcher (systemd)",
    ]
    assert step.notes == (
        "The worker and the watcher stop when you log out. To keep them running, run: loginctl enable-linger",
    )
    for action in (*step.before, *step.after):
        assert action_from_json(json.loads(json.dumps(action_to_json(action)))) == action


def test_an_installation_and_its_undo(
    step: Step, settings: Settings, stand_ins: StandIns, working: None, write_files: Callable[..., None]
) -> None:
    for action in step.before:
        action.apply()
        assert action.verify() == ""
    write_files(Systemd(settings))
    (start,) = step.after
    start.apply()
    assert start.verify() == ""
    assert Systemd(settings).status().is_running

    start.undo()
    for change in step.changes:
        change.path.unlink()
    for action in reversed(step.before):
        action.undo()

    assert not Systemd(settings).status().is_running
    assert stand_ins.calls("show")[-2:] == [
        f"systemctl --user stop {' '.join(c.path.name for c in step.changes if c.content)}",
        "systemctl --user daemon-reload",
    ]


def test_an_upgrade_that_is_undone_starts_again_what_ran_before(
    settings: Settings,
    stand_ins: StandIns,
    working: None,
    write_files: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    write_files(Systemd(settings))
    Systemd(settings).start()

    step = plan_service(settings)
    (stop,) = step.before
    assert isinstance(stop, StopServices)
    assert stop.was_running
    stop.apply()
    assert not Systemd(settings).status().is_running
    stop.undo()
    assert Systemd(settings).status().is_running

    for change in step.changes:
        change.path.unlink()
    stop.apply()
    stop.undo()
    assert not Systemd(settings).status().is_running


def test_without_a_service_manager_the_plan_says_what_a_supervisor_does_not_do(
    settings: Settings, stand_ins: StandIns, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    stand_ins.put("state", "offline")

    step = plan_service(settings)

    assert step.changes == ()
    assert "start_with_session true" in step.notes[0]
    (agreed,) = plan_service(replace(settings, start_with_session=True)).notes
    assert "the next Claude Code session starts" in agreed
    assert "start_with_session" not in agreed
    (start,) = step.after
    assert isinstance(start, StartServices)
    assert start.verify() == "the worker or the watcher is not running. For details, run: engram service logs"


def test_files_of_the_plan_lie_below_the_users_home(step: Step) -> None:
    assert all(change.path.is_relative_to(Path.home()) for change in step.changes)


@pytest.mark.parametrize(("others", "notes"), [([], 1), ([OtherProcess("worker", Path("worker.lock"), 5, "old")], 0)])
def test_an_up_of_another_version_ends_and_is_not_said_to_run(
    settings: Settings,
    stand_ins: StandIns,
    monkeypatch: pytest.MonkeyPatch,
    others: list[OtherProcess],
    notes: int,
) -> None:
    monkeypatch.setattr(service_plan, "terminal_run", lambda places: 77)
    monkeypatch.setattr(service_plan, "processes_of_other_code", lambda places: others)

    assert sum("(pid 77) already runs them" in note for note in plan_service(settings).notes) == notes
