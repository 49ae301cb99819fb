"""What stops the earlier Engram can be stored, repeated and undone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from engram.models.open_memory import open_store
from engram.settings import Settings
from engram.setup.installing.install_run import action_from_json, action_to_json
from engram.setup.old_engram.find import find_databases, find_earlier
from engram.setup.old_engram.retire import BootOut, SetDatabaseAside, plan_retirement
from tests.earlier_machine import LABEL, make_database, make_machine, memory_row

#: Knows one label as long as a file is there, and records what it is asked.
_LAUNCHCTL = """#!/bin/sh
echo "$@" >> "$0.log"
case "$1" in
  print) [ -e "$0.loaded" ] ;;
  bootout) rm -f "$0.loaded" ;;
  bootstrap) touch "$0.loaded" ;;
esac
"""


@pytest.fixture
def launchctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for launchctl that has the LaunchAgent loaded."""
    program = tmp_path / "bin" / "launchctl"
    program.parent.mkdir()
    program.write_text(_LAUNCHCTL)
    program.chmod(0o755)
    Path(f"{program}.loaded").touch()
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    return program


def test_a_launch_agent_is_unregistered_and_registered_again_at_undo(
    launchctl: Path, tmp_path: Path, settings: Settings
) -> None:
    machine = make_machine(tmp_path / "user", settings.home, settings.claude_folder, [memory_row(1)])
    found = find_earlier(settings, user_home=machine.user_home)
    (planned,) = [action for action in plan_retirement(found, settings).before if isinstance(action, BootOut)]
    action = action_from_json(action_to_json(planned))

    assert action == BootOut(LABEL, str(machine.plist), was_loaded=True)
    assert action.verify() == f"launchd is still running {LABEL}"
    action.apply()
    action.apply()
    assert action.verify() == ""
    action.undo()
    action.undo()

    domain = f"gui/{os.getuid()}"
    asked = [line for line in Path(f"{launchctl}.log").read_text().splitlines() if not line.startswith("print")]
    assert asked == [f"bootout {domain}/{LABEL}", f"bootstrap {domain} {machine.plist}"]


def test_its_database_goes_aside_and_comes_back_and_ours_survives_both(settings: Settings) -> None:
    folder, path = settings.home, settings.places.memory_db
    make_database(path, [memory_row(1)], [memory_row(2)])
    before = path.read_bytes(), path.with_name("memory.db-wal").read_bytes()
    action = SetDatabaseAside(str(folder))

    action.apply()
    with open_store(path) as store:
        machine = store.value("SELECT value FROM meta WHERE key = 'machine'")
    action.apply()
    action.undo()

    assert (path.read_bytes(), path.with_name("memory.db-wal").read_bytes()) == before
    assert [found.memories for found in find_databases(folder, folder)] == [2]
    action.apply()
    with open_store(path) as store:
        assert store.value("SELECT value FROM meta WHERE key = 'machine'") == machine
    assert sorted(name.name for name in folder.glob("memory*.db")) == ["memory.db", "memory.v2.db"]


def test_after_a_purge_its_database_comes_back_and_opening_the_memory_sets_it_aside_again(settings: Settings) -> None:
    path = settings.places.memory_db
    make_database(path, [memory_row(1)])
    action = SetDatabaseAside(str(settings.home))
    action.apply()
    action.undo()
    assert [found.path for found in find_databases(settings.home, settings.home)] == [path]
    with open_store(path) as store:
        machine = store.value("SELECT value FROM meta WHERE key = 'machine'")
    action.undo()

    with open_store(path) as store:
        assert store.value("SELECT value FROM meta WHERE key = 'machine'") == machine
