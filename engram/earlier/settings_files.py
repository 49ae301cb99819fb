"""Entries of the earlier Engram in the files of Claude Code: hooks, the status line and MCP servers."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.atomic import read_regular
from engram.earlier.signs import approves_tools, is_earlier_command
from engram.install.changes import Json, JsonEntry

#: Bytes of a settings file that are read. ``~/.claude.json`` of a long-time user has a few megabytes.
MAX_SETTINGS_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class SettingsEntry:
    """An entry that runs the earlier Engram."""

    #: The settings file.
    file: Path
    #: "hook", "status line" or "MCP server".
    kind: str
    #: The event of a hook, or the name of a server; "" for the status line.
    name: str
    #: What it runs, on one line.
    command: str
    #: What is to be removed from the file, and what to be put back of it: other programs' hooks in the same entry.
    removed: JsonEntry
    kept: JsonEntry | None = None
    #: Its answer approves every tool call.
    approves_tools: bool = False


def find_settings_entries(files: Iterable[Path], user_home: Path) -> list[SettingsEntry]:
    """Return the entries of the earlier Engram in some settings files; files that cannot be read have none."""
    entries = []
    for file in dict.fromkeys(files):
        document = _read_document(file)
        if document is not None:
            entries += [*_hooks(file, document, user_home), *_status_line(file, document, user_home)]
            entries += _servers(file, document, user_home)
    return entries


def _read_document(file: Path) -> Mapping[str, Any] | None:
    try:
        # A link is followed, as Claude Code does.
        data = read_regular(Path(os.path.realpath(file)), MAX_SETTINGS_BYTES)
        document = json.loads(without_comments((data or b"").decode("utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def without_comments(text: str) -> str:
    """Return JSON without comments and trailing commas; each becomes blanks, so that places stay what they were."""
    result: list[str] = []
    place, is_string = 0, False
    last_comma = -1
    while place < len(text):
        char = text[place]
        if is_string:
            result.append(char)
            if char == "\\" and place + 1 < len(text):
                result.append(text[place + 1])
                place += 1
            is_string = char != '"'
        elif text.startswith(("//", "/*"), place):
            end = text.find("\n" if text[place + 1] == "/" else "*/", place)
            end = len(text) if end < 0 else end + (2 if text[place + 1] == "*" else 0)
            result.append(" " * (end - place))
            place = end
            continue
        else:
            if char == ",":
                last_comma = len(result)
            elif char in "]}" and last_comma >= 0:
                result[last_comma] = " "
            if not char.isspace() and char != ",":
                last_comma = -1
            is_string = char == '"'
            result.append(char)
        place += 1
    return "".join(result)


def _hooks(file: Path, document: Mapping[str, Any], user_home: Path) -> Iterator[SettingsEntry]:
    hooks = document.get("hooks")
    for event, groups in hooks.items() if isinstance(hooks, dict) else ():
        for group in groups if isinstance(groups, list) else ():
            handlers = group.get("hooks") if isinstance(group, dict) else None
            if not isinstance(handlers, list):
                continue
            its = [handler for handler in handlers if _runs_earlier(handler, user_home)]
            if not its:
                continue
            others = [handler for handler in handlers if handler not in its]
            command = " && ".join(_command(handler) for handler in its)
            path = ("hooks", str(event))
            yield SettingsEntry(
                file=file,
                kind="hook",
                name=str(event),
                command=command,
                removed=JsonEntry(path, group, is_item=True),
                kept=JsonEntry(path, {**group, "hooks": others}, is_item=True) if others else None,
                approves_tools=str(event) in ("PreToolUse", "PermissionRequest") and approves_tools(command, user_home),
            )


def _status_line(file: Path, document: Mapping[str, Any], user_home: Path) -> Iterator[SettingsEntry]:
    line = document.get("statusLine")
    if isinstance(line, dict) and _runs_earlier(line, user_home):
        entry: Json = line
        yield SettingsEntry(file, "status line", "", _command(line), JsonEntry(("statusLine",), entry))


def _servers(file: Path, document: Mapping[str, Any], user_home: Path) -> Iterator[SettingsEntry]:
    """Yield the servers of a file: the user's, and in ``~/.claude.json`` those of each project."""
    places: list[tuple[tuple[str, ...], Any]] = [(("mcpServers",), document.get("mcpServers"))]
    projects = document.get("projects")
    for folder, facts in projects.items() if isinstance(projects, dict) else ():
        if isinstance(facts, dict):
            places.append((("projects", str(folder), "mcpServers"), facts.get("mcpServers")))
    for path, servers in places:
        for name, server in servers.items() if isinstance(servers, dict) else ():
            if isinstance(server, dict) and _runs_earlier(server, user_home):
                removed = JsonEntry((*path, str(name)), server)
                yield SettingsEntry(file, "MCP server", str(name), _command(server), removed)


def _runs_earlier(handler: object, user_home: Path) -> bool:
    return isinstance(handler, dict) and is_earlier_command(_command(handler), user_home)


def _command(handler: Mapping[str, Any]) -> str:
    """Return what a hook, a status line or a server runs, with its arguments."""
    arguments = handler.get("args")
    words = [str(word) for word in arguments] if isinstance(arguments, list) else []
    return " ".join([str(handler.get("command") or ""), *words])
