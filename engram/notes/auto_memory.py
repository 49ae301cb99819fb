"""Where Claude Code keeps its auto memory of a project: its settings may name another folder, or switch it off."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engram.atomic import read_regular

#: Bytes of a settings file that are read.
MAX_SETTINGS_BYTES = 4_000_000
#: Names of the settings.
_FOLDER, _IS_ENABLED = "autoMemoryDirectory", "autoMemoryEnabled"


def auto_memory_folder(claude_folder: Path, root: Path | None) -> Path | None:
    """Return the folder of a project's auto memory, or of the one that all projects share.

    A project's own settings decide before the user's. Claude Code reads none of it where it is switched off.

    Args:
        claude_folder: Claude Code's configuration folder.
        root: the project's folder; None for what all projects share.

    Returns:
        None if there is none: it is switched off, or every project has its own.
    """
    user = _settings(claude_folder / "settings.json")
    if root is None:
        return _named(user, Path.home()) if user.get(_IS_ENABLED) is not False else None
    own = [_settings(root / ".claude" / name) for name in ("settings.local.json", "settings.json")]
    enabled = next((file[_IS_ENABLED] for file in (*own, user) if _IS_ENABLED in file), True)
    if enabled is False:
        return None
    for file in own:
        folder = _named(file, root)
        if folder is not None:
            return folder
    if _named(user, Path.home()) is not None:
        return None
    return claude_folder / "projects" / re.sub(r"[^A-Za-z0-9]", "-", str(root)) / "memory"


def _named(settings: dict[str, Any], base: Path) -> Path | None:
    named = settings.get(_FOLDER)
    if not isinstance(named, str) or not named.strip() or "\0" in named:
        return None
    return base / Path(named).expanduser()


def _settings(path: Path) -> dict[str, Any]:
    try:
        # A link is followed, as Claude Code does.
        value = json.loads(read_regular(path.resolve(), MAX_SETTINGS_BYTES) or b"{}")
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
