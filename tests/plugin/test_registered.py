"""Where Engram's hooks are registered, which of these run, and which version wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engram.setup.agents.registered import Way, find_double, find_registrations, plugin_files, read_documents
from engram.version import VERSION
from engram_hooks.block import settings_block

INSTALLED = {"version": 2, "plugins": {"engram@engram-local": [{"scope": "user", "version": "0.0.9"}]}}


class Machine:
    """Claude Code's configuration folder and a project."""

    def __init__(self, root: Path) -> None:
        self.claude, self.project = root / "claude", root / "project"

    def write(self, path: Path, document: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(document if isinstance(document, str) else json.dumps(document))

    def settings(self, document: Any) -> None:
        self.write(self.claude / "settings.json", document)

    def plugin(self, **changed: Any) -> None:
        for name, content in plugin_files().items():
            self.write(self.claude / "skills" / "engram" / name, content.decode(errors="replace"))
        if changed:
            manifest = json.loads(plugin_files()[".claude-plugin/plugin.json"]) | changed
            self.write(self.claude / "skills" / "engram" / ".claude-plugin" / "plugin.json", manifest)

    def ways(self) -> list[tuple[Way, str, bool]]:
        found = find_registrations(read_documents(self.claude, self.project))
        return [(each.way, each.version, each.is_enabled) for each in found]

    def double(self) -> list[Way]:
        return [each.way for each in find_double(find_registrations(read_documents(self.claude, self.project)))]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_nothing_is_registered_where_there_is_nothing(machine: Machine) -> None:
    assert (machine.ways(), machine.double()) == ([], [])


@pytest.mark.parametrize("broken", ["[]", "{", "", '{"hooks": [], "enabledPlugins": 3}', '{"hooks": {"Stop": {}}}'])
def test_files_of_another_form_register_nothing(machine: Machine, broken: str) -> None:
    machine.settings(broken)
    machine.write(machine.claude / "plugins" / "installed_plugins.json", broken)
    machine.write(machine.claude / "skills" / "engram" / ".claude-plugin" / "plugin.json", broken)

    assert machine.ways() == []


def test_the_plugin_alone_is_registered_once(machine: Machine) -> None:
    machine.plugin(version="0.0.7")
    machine.settings({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}})

    assert machine.ways() == [(Way.SKILLS_FOLDER, "0.0.7", True)]
    assert machine.double() == []


def test_a_plugin_of_somebody_else_is_none_of_ours(machine: Machine) -> None:
    machine.plugin(author={"name": "Somebody"})

    assert machine.ways() == []


def test_plugin_and_settings_are_double_until_the_plugin_is_disabled(machine: Machine) -> None:
    machine.plugin()
    block = {"hooks": settings_block()["hooks"]}
    machine.settings(block)

    assert machine.double() == [Way.SKILLS_FOLDER, Way.SETTINGS]

    machine.settings(block | {"enabledPlugins": {"engram@skills-dir": False}})
    assert machine.ways() == [(Way.SKILLS_FOLDER, VERSION, False), (Way.SETTINGS, VERSION, True)]
    assert machine.double() == []


def test_equal_hooks_of_several_settings_files_run_once_and_others_twice(machine: Machine) -> None:
    machine.settings(settings_block())
    local = machine.project / ".claude" / "settings.local.json"
    machine.write(local, settings_block())
    assert machine.double() == []

    machine.write(local, settings_block(interpreter="/another/python"))
    assert machine.double() == [Way.SETTINGS, Way.SETTINGS]


def test_an_installed_plugin_goes_before_that_of_the_skills_folder(machine: Machine) -> None:
    machine.plugin()
    machine.write(machine.claude / "plugins" / "installed_plugins.json", INSTALLED)
    machine.settings({"enabledPlugins": {"engram@engram-local": True}})

    assert (Way.MARKETPLACE, "0.0.9", True) in machine.ways()
    assert machine.double() == []

    machine.settings({"enabledPlugins": {"engram@engram-local": True}, "hooks": settings_block()["hooks"]})
    assert machine.double() == [Way.MARKETPLACE, Way.SETTINGS]


def test_a_project_may_disable_an_installed_plugin(machine: Machine) -> None:
    machine.write(machine.claude / "plugins" / "installed_plugins.json", INSTALLED)
    machine.settings({"enabledPlugins": {"engram@engram-local": True}})
    machine.write(machine.project / ".claude" / "settings.json", {"enabledPlugins": {"engram@engram-local": False}})

    assert machine.ways() == [(Way.MARKETPLACE, "0.0.9", False)]


def test_hooks_say_which_version_wrote_them(machine: Machine) -> None:
    earlier = json.dumps(settings_block()).replace(f"# Engram {VERSION}", "# Engram 0.0.3")
    machine.settings(earlier)
    assert machine.ways() == [(Way.SETTINGS, "0.0.3", True)]

    mixed = json.loads(earlier)
    mixed["hooks"]["Stop"] = settings_block()["hooks"]["Stop"]
    machine.settings(mixed)
    assert machine.ways() == [(Way.SETTINGS, "", True)]
