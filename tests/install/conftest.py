"""A machine to install on: settings of Claude Code in many forms, and steps that change them."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from engram.paths import Home, default_claude_folder, default_home
from engram.setup.edits.install_steps import FileChange, JsonEdit, JsonEntry, Step, TomlEdit
from engram.setup.installing import install_run

#: A hook of another tool.
THEIRS = {"matcher": "Bash", "hooks": [{"type": "command", "command": "their-tool --check"}]}
HOOK = {"matcher": "", "hooks": [{"type": "command", "command": "python engram_hooks/prompt.py", "timeout": 2}]}


@dataclass(frozen=True)
class Switch:
    """An action that notes what it did in a file."""

    kind: ClassVar[str] = "switch"
    path: str
    fails: bool = False

    def describe(self) -> str:
        return f"switch {self.path} on"

    def apply(self) -> None:
        from engram.errors import InstallError

        if self.fails:
            raise InstallError("the switch is broken")
        Path(self.path).write_text("on")

    def verify(self) -> str:
        return "" if Path(self.path).read_text() == "on" else "the switch is off"

    def undo(self) -> None:
        Path(self.path).unlink(missing_ok=True)


def snapshot(*folders: Path) -> dict[str, Any]:
    """Every path below the folders with kind, mode, content, target and the number of its names."""
    seen: dict[str, Any] = {}
    for folder in folders:
        for path in sorted([folder, *folder.rglob("*")]):
            facts = path.lstat()
            mode = stat.S_IMODE(facts.st_mode)
            if path.is_symlink():
                seen[str(path)] = ("link", os.readlink(path))
            elif path.is_dir():
                seen[str(path)] = ("folder", mode)
            else:
                seen[str(path)] = ("file", mode, facts.st_nlink, path.read_bytes())
    return seen


@dataclass
class Machine:
    """One user's folders."""

    home: Home
    user: Path
    claude: Path

    @property
    def settings(self) -> Path:
        return self.claude / "settings.json"

    @property
    def switch(self) -> Path:
        return self.user / "switch"

    def snapshot(self) -> dict[str, Any]:
        """Everything but the memory folder."""
        return snapshot(self.user, *([] if self.claude.is_relative_to(self.user) else [self.claude]))

    def steps(self, *, with_plugin: bool = True, word: str = "one", fails: bool = False) -> list[Step]:
        """An installation: an old agent goes, a service starts, hooks and permissions are edited, a plugin is made."""
        agent = self.user / "Library" / "old.plist"
        plugin = self.claude / "skills" / "engram"
        hooks = JsonEdit(add=(JsonEntry(("hooks", "Stop"), HOOK, is_item=True, marker="engram_hooks"),))
        allow = JsonEdit(add=(JsonEntry(("permissions", "allow"), "mcp__engram", is_item=True),))
        steps = [
            Step("earlier", "Stop the old one", (FileChange(agent),)),
            Step(
                "service",
                "Start the service",
                (FileChange(self.user / "units" / "engram.service", word.encode(), mode=0o644),),
                after=(Switch(str(self.switch)),),
            ),
            Step("hooks", "Edit the settings", (FileChange(self.settings, edit=hooks),)),
            Step(
                "permissions",
                "Allow the tools",
                (
                    FileChange(self.settings, edit=allow),
                    FileChange(self.user / ".codex" / "config.toml", edit=TomlEdit(("tools", "e"), {"word": word})),
                ),
                after=(Switch(str(self.switch), fails),),
            ),
        ]
        if with_plugin:
            files = {"hooks.json": word.encode() * 9, "run": b"#!/bin/sh\n"}
            changes = [FileChange(plugin / name, data, mode=0o700) for name, data in files.items()]
            changes.append(FileChange(plugin / "link", link_target="hooks.json"))
            steps.insert(2, Step("plugin", "Make the plugin", tuple(changes)))
        return steps


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine with a user's folder, settings with a hook of another tool, and an old agent."""
    monkeypatch.setattr(install_run, "ACTIONS", (*install_run.ACTIONS, Switch))
    # A kill does not need it, and each journal is written a hundred times.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    made = Machine(Home(default_home()), tmp_path / "user", default_claude_folder())
    (made.user / "Library").mkdir(parents=True)
    (made.user / "Library" / "old.plist").write_bytes(b"<plist/>")
    (made.user / ".codex").mkdir()
    (made.user / ".codex" / "config.toml").write_text('model = "x"')
    made.claude.mkdir(parents=True)
    made.settings.write_text(json.dumps({"hooks": {"Stop": [THEIRS]}}, indent=2))
    made.settings.chmod(0o644)
    return made


def _link(settings: Path) -> None:
    target = settings.parent.parent / "dotfiles" / "claude.json"
    target.parent.mkdir()
    target.write_text('{"model": "opus"}\n')
    settings.symlink_to("../dotfiles/claude.json")


def _linked_folder(settings: Path) -> None:
    elsewhere = settings.parent.parent / "elsewhere"
    settings.parent.rename(elsewhere)
    settings.parent.symlink_to(elsewhere, target_is_directory=True)
    (elsewhere / "settings.json").write_text("{}")


def _two_names(settings: Path) -> None:
    settings.write_text('{\n\t"permissions": {"allow": ["Read"]}\n}\n')
    os.link(settings, settings.with_name("second-name.json"))


def _dangling(settings: Path) -> None:
    settings.symlink_to("not-made-yet.json")


def _writes(text: str, mode: int = 0o600) -> Callable[[Path], None]:
    def write(settings: Path) -> None:
        settings.write_bytes(text.encode())
        settings.chmod(mode)

    return write


#: Name → how a user's settings.json came to be.
SETTINGS: dict[str, Callable[[Path], None]] = {
    "absent": lambda settings: None,
    "empty": _writes(""),
    "blank": _writes("\n \n"),
    "braces": _writes("{}"),
    "hooks of other tools": _writes(json.dumps({"hooks": {"Stop": [THEIRS], "PreToolUse": [THEIRS]}}, indent=2), 0o644),
    "comments": _writes(
        '// mine\n{\n  "hooks": {\n    // nothing\n  }, /* x */\n  "model": "opus" // best\n}\n', 0o640
    ),
    "trailing commas": _writes('{\n  "permissions": {\n    "allow": ["Read",],\n  },\n}'),
    "BOM and CRLF": _writes('\ufeff{\r\n\t"hooks": {\r\n\t\t"Stop": []\r\n\t}\r\n}'),
    "minified": _writes('{"permissions":{"allow":["Bash(ls:*)"],"deny":[]},"env":{"A":"b"}}', 0o444 | 0o200),
    "odd order and formatting": _writes(' { "z":1\n,"hooks" :{"Stop":[ 1,\n 2]}, "a":[\n] }  \n\n\n'),
    "duplicate keys": _writes('{"hooks": {"Stop": []}, "hooks": {"Stop": [1]}, "hooks": {}}'),
    "has it already": _writes(json.dumps({"hooks": {"Stop": [HOOK]}, "permissions": {"allow": ["mcp__engram"]}})),
    "link": _link,
    "linked folder": _linked_folder,
    "hard link": _two_names,
    "dangling link": _dangling,
}
