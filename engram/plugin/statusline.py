"""Plans Claude Code's status line, which never takes the place of another tool's without consent."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from engram.install.changes import FileChange, JsonEdit, JsonEntry, Step
from engram.paths import Home
from engram_hooks.block import FOLDER, stamped, with_home

#: Name of the script, which tells Engram's status line from another one.
SCRIPT = "statusline.sh"


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
    return StatusLineOwner.ENGRAM if f"{FOLDER.name}/{SCRIPT}" in command else StatusLineOwner.ANOTHER


def plan_statusline(
    claude_folder: Path, settings: Mapping[str, Any], home: Home | None = None, *, may_replace: bool = False
) -> Step:
    """Plan the status line in ``settings.json``. The step is empty, with a note, if another tool has it.

    Args:
        claude_folder: Claude Code's configuration folder.
        settings: what ``settings.json`` in ``claude_folder`` holds; {} if it does not exist.
        home: a memory folder other than the default; None leaves it to the environment.
        may_replace: the user agreed to replace another tool's status line; uninstall puts it back.
    """
    path = claude_folder / "settings.json"
    summary = f"Show in Claude Code's status line what Engram does ({path})"
    if owner_of(settings) is StatusLineOwner.ANOTHER and not may_replace:
        return Step("statusline", summary, notes=("The status line is another tool's and stays as it is.",))
    entry = JsonEntry(("statusLine",), statusline_entry(home))
    if settings.get("statusLine") == entry.value:
        return Step("statusline", summary)
    return Step("statusline", summary, changes=(FileChange(path, edit=JsonEdit(add=(entry,))),))
