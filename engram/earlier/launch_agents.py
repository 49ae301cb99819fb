"""LaunchAgents of the earlier Engram, by what their files say: the label and the file may have any name."""

from __future__ import annotations

import plistlib
import xml.parsers.expat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.atomic import read_regular
from engram.earlier.signs import is_earlier_command, is_earlier_script

#: Bytes of a LaunchAgent's file that are read.
MAX_PLIST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class LaunchAgent:
    """A LaunchAgent that starts the earlier Engram."""

    path: Path
    label: str
    #: What it runs, on one line.
    command: str
    #: launchd starts it again when it ends.
    is_kept_alive: bool


def find_launch_agents(user_home: Path) -> list[LaunchAgent]:
    """Return the user's LaunchAgents that start the earlier Engram, by file name."""
    folder = user_home / "Library" / "LaunchAgents"
    agents = []
    for path in sorted(folder.glob("*.plist")) if folder.is_dir() else ():
        agent = _read_agent(path, user_home)
        if agent is not None:
            agents.append(agent)
    return agents


def _read_agent(path: Path, user_home: Path) -> LaunchAgent | None:
    try:
        # A link is followed: some users keep such files in a repository.
        values = plistlib.loads(read_regular(path.resolve(), MAX_PLIST_BYTES) or b"")
    except (OSError, ValueError, plistlib.InvalidFileException, xml.parsers.expat.ExpatError):
        return None
    if not isinstance(values, Mapping):
        return None
    arguments = values.get("ProgramArguments")
    words = [str(word) for word in arguments] if isinstance(arguments, list) else []
    program = [values["Program"]] if isinstance(values.get("Program"), str) else []
    command = " ".join([*program, *words])
    is_its = is_earlier_command(command, user_home) or any(
        is_earlier_script(Path(word)) for word in [*program, *words] if word.startswith("/")
    )
    if not is_its and not any(is_earlier_command(text, user_home) for text in _logs(values)):
        return None
    return LaunchAgent(
        path=path,
        label=str(values.get("Label") or path.stem),
        command=command,
        is_kept_alive=bool(values.get("KeepAlive")),
    )


def _logs(values: Mapping[str, Any]) -> Iterator[str]:
    for key in ("StandardOutPath", "StandardErrorPath"):
        if isinstance(values.get(key), str):
            yield values[key]
