"""Plans Claude Code's status line, which never takes the place of another tool's."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from engram.install.changes import FileChange, JsonEdit, JsonEntry, Step
from engram.paths import Home
from engram_hooks.block import FOLDER, stamped, with_home

#: Name of the script.
SCRIPT = "statusline.sh"
#: What the command of Engram's status line contains.
MARK = f"{FOLDER.name}/{SCRIPT}"


class StatusLineOwner(StrEnum):
    """Whose the status line is that settings name."""

    NOBODY = "nobody"
    ENGRAM = "engram"
    ANOTHER = "another tool"


def statusline_entry(home: Home | None = None) -> dict[str, Any]:
    """Return the value of ``statusLine`` in Claude Code's settings.

    Args:
        home: a memory folder other than the default; None leaves it to the environment.
    """
    script = shlex.quote(str(FOLDER / SCRIPT))
    return {"type": "command", "command": stamped(with_home(home) + f"command . {script} 2>/dev/null; exit 0")}


def owner_of(settings: Mapping[str, Any]) -> StatusLineOwner:
    """Return whose the status line in settings is."""
    entry = settings.get("statusLine")
    if entry is None:
        return StatusLineOwner.NOBODY
    command = str(entry.get("command", "")) if isinstance(entry, dict) else ""
    return StatusLineOwner.ENGRAM if MARK in command else StatusLineOwner.ANOTHER


def plan_statusline(claude_folder: Path, settings: Mapping[str, Any], home: Home | None = None) -> Step:
    """Plan the status line in ``settings.json``. The step is empty, with a note, if another tool has it.

    Args:
        claude_folder: Claude Code's configuration folder.
        settings: what ``settings.json`` in ``claude_folder`` holds; {} if it does not exist.
        home: a memory folder other than the default; None leaves it to the environment.
    """
    path = claude_folder / "settings.json"
    summary = f"Show in Claude Code's status line what Engram does ({path})"
    if owner_of(settings) is StatusLineOwner.ANOTHER:
        note = (
            "The status line is another tool's and stays as it is. To get Engram's, remove statusLine from "
            f"{path}, then run: engram install --statusline"
        )
        return Step("statusline", summary, notes=(note,))
    edit = JsonEdit(
        add=(JsonEntry(("statusLine",), statusline_entry(home), marker=MARK),), drop=without_our_statusline(settings)
    )
    return Step("statusline", summary, changes=(FileChange(path, edit=edit),))


def without_our_statusline(settings: Mapping[str, Any]) -> tuple[JsonEntry, ...]:
    """Return what to drop from settings so that Engram's status line is gone: of any version, also a changed one."""
    if owner_of(settings) is not StatusLineOwner.ENGRAM:
        return ()
    return (JsonEntry(("statusLine",), settings["statusLine"]),)
