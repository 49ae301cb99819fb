"""What distinguishes the earlier Engram from any other program: the commands it runs, and the text of its scripts.

It was a checkout of TypeScript files, run by Bun or Node, under any name and path. So a command is recognised by the
script that it runs, and a script by its text. This module never writes or runs anything.
"""

from __future__ import annotations

import os
import plistlib
import xml.parsers.expat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.errors import BadRequest
from engram.setup.edits.install_steps import Json, JsonEntry
from engram.setup.edits.json_document import value_of
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex

#: Maximum number of bytes of a script that are read.
MAX_SCRIPT_BYTES = 1_000_000

#: Names that only the earlier program uses.
_ITS_NAMES = lazy_regex(r"pretooluse-recollection|engram-start\.sh|engram\.std(?:out|err)\.log")
#: Strings in this program's own commands.
_OUR_NAMES = lazy_regex(r"engram_hooks|engram_mcp|engram\.cli|\bhuey_consumer\b|-m\s+engram\b")
_SCRIPT = lazy_regex(r"""(?:"([^"]+)"|'([^']+)'|([^\s"';&|()]+))""")
_SUFFIXES = (".ts", ".tsx", ".js", ".mjs", ".cjs", ".mts")
#: Folders of its checkout that contain scripts, and where a build puts them.
_FOLDERS = ("hooks", "processor", "mcp", "scripts", "statusline")
_BUILDS = ("dist", "build", "src", "out")
_STARTS = ("processor/index", "hooks/pretooluse-recollection", "mcp/server")
#: The folder and the socket that its scripts mention.
_ITS_FOLDER = ".claude-memory"
_ITS_SOCKET = "engram.sock"
#: The key that grants a tool call, spelled so that no source file of this program contains the word.
_GRANT = "permission" + "Decision"
_RUNS_SCRIPT = lazy_regex(r"\b(?:bun|node|deno|tsx|npx)\b")


def is_own_command(command: str) -> bool:
    """Return True if a command line runs this program."""
    return _OUR_NAMES.search(command) is not None


def is_earlier_command(command: str, user_home: Path) -> bool:
    """Return True if a command line runs a script of the earlier Engram."""
    if is_own_command(command):
        return False
    if _ITS_NAMES.search(command):
        return True
    roots = [root for script in _scripts_in(command, user_home) if (root := _checkout_of(script)) is not None]
    if _ITS_FOLDER in command and roots and _RUNS_SCRIPT.search(command):
        return True
    return any(map(_is_checkout, roots))


def is_earlier_process(words: Sequence[str], user_home: Path) -> bool:
    """Return True if a process, judging by its command line, runs a script of the earlier Engram.

    The first argument that is not an option decides: an editor that shows such a script, or an agent asked about
    one, is not such a process.
    """
    if not words:
        return False
    program = Path(words[0]).name
    arguments = [word for word in words[1:] if not word.startswith("-") and word != "run"]
    if not arguments:
        return False
    if program in ("bash", "sh", "zsh"):
        return "-c" not in words and Path(arguments[0]).name == "engram-start.sh"
    return program in ("bun", "node", "deno", "tsx") and is_earlier_command(arguments[0], user_home)


def _is_earlier_script(path: Path) -> bool:
    """Return True if a shell script starts the earlier Engram."""
    text = _text_of(path)
    if not text or _OUR_NAMES.search(text):
        return False
    is_start = "processor/index" in text or _ITS_NAMES.search(text) is not None
    return is_start and (_ITS_FOLDER in text or _RUNS_SCRIPT.search(text) is not None)


def _scripts_in(command: str, user_home: Path) -> list[Path]:
    """Return the scripts (TypeScript or JavaScript) in a command line that have an absolute path."""
    paths = []
    for groups in _SCRIPT.findall(command):
        word = next(part for part in groups if part)
        for variable in ("${HOME}", "$HOME", "~"):
            if word.startswith(f"{variable}/"):
                word = str(user_home) + word[len(variable) :]
        if word.endswith(_SUFFIXES) and os.path.isabs(word):
            paths.append(Path(os.path.normpath(word)))
    return paths


def _checkout_of(script: Path) -> Path | None:
    """Return the checkout to which a script belongs by its location; None if that is not the earlier Engram's."""
    for folder in script.parents:
        if folder.name in _FOLDERS:
            return folder.parent.parent if folder.parent.name in _BUILDS else folder.parent
    return None


def _is_checkout(root: Path) -> bool:
    """Return True if a folder is a checkout of the earlier Engram: by its scripts, or by its name if it was deleted."""
    if not root.is_dir():
        return "claude-memory" in root.name
    for build in ("", *_BUILDS):
        for start in _STARTS:
            for suffix in (".ts", ".js", ".mjs"):
                text = _text_of(root / build / f"{start}{suffix}")
                if _ITS_FOLDER in text or _ITS_SOCKET in text:
                    return True
    return "claude-memory" in root.name and any((root / folder).is_dir() for folder in _FOLDERS)


def approves_tools(command: str, user_home: Path) -> bool:
    """Return True if a hook's script grants permission in its output, which approves every tool call."""
    if "pretooluse-recollection" in command:
        return True
    texts = [_text_of(script) for script in _scripts_in(command, user_home)]
    return any(_GRANT in text and "allow" in text for text in texts)


def _text_of(path: Path) -> str:
    return (read_regular(path, MAX_SCRIPT_BYTES) or b"").decode("utf-8", "replace")


# -- LaunchAgents of the earlier Engram, recognised by the contents of their files, because labels and files may have
# any name.

#: Maximum number of bytes of a LaunchAgent's file that are read.
MAX_PLIST_BYTES = 1_000_000


@dataclass(frozen=True, slots=True)
class LaunchAgent:
    """A LaunchAgent that starts the earlier Engram."""

    path: Path
    label: str
    #: What it runs, on one line.
    command: str


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
        values = plistlib.loads(read_regular(Path(os.path.realpath(path)), MAX_PLIST_BYTES) or b"")
    except (ValueError, LookupError, AttributeError, TypeError, xml.parsers.expat.ExpatError):
        return None  # another program's damaged file, for which plistlib may raise any of these
    if not isinstance(values, Mapping):
        return None
    arguments = values.get("ProgramArguments")
    words = [str(word) for word in arguments] if isinstance(arguments, list) else []
    program = [values["Program"]] if isinstance(values.get("Program"), str) else []
    command = " ".join([*program, *words])
    is_its = is_earlier_command(command, user_home) or any(
        _is_earlier_script(Path(word)) for word in [*program, *words] if word.startswith("/")
    )
    if not is_its and not any(is_earlier_command(text, user_home) for text in _logs(values)):
        return None
    return LaunchAgent(path=path, label=str(values.get("Label") or path.stem), command=command)


def _logs(values: Mapping[str, Any]) -> Iterator[str]:
    for key in ("StandardOutPath", "StandardErrorPath"):
        if isinstance(values.get(key), str):
            yield values[key]


# -- Entries of the earlier Engram in Claude Code's files: hooks, the status line and MCP servers.

#: Maximum number of bytes of a settings file that are read. An old ``~/.claude.json`` may have a few million.
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
    #: What to remove from the file, and what to put back: other programs' hooks in the same entry.
    removed: JsonEntry
    kept: JsonEntry | None = None
    #: True if its output approves every tool call.
    approves_tools: bool = False


def find_settings_entries(files: Iterable[Path], user_home: Path) -> list[SettingsEntry]:
    """Return the entries of the earlier Engram in settings files; files that cannot be read count as empty."""
    entries = []
    for file in dict.fromkeys(files):
        document = _read_document(file)
        if document is not None:
            entries += [*_hooks(file, document, user_home), *_status_line(file, document, user_home)]
            entries += _servers(file, document, user_home)
    return entries


def _read_document(file: Path) -> Mapping[str, Any] | None:
    try:
        # Follow links, as Claude Code does.
        data = read_regular(Path(os.path.realpath(file)), MAX_SETTINGS_BYTES)
        document = value_of((data or b"").decode("utf-8-sig"))
    except (OSError, ValueError, BadRequest):
        return None
    return document if isinstance(document, dict) else None


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
    """Yield the servers in a file: the user's and, in ``~/.claude.json``, those of each project."""
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
    """Return the command of a hook, a status line or a server, with its arguments."""
    arguments = handler.get("args")
    words = [str(word) for word in arguments] if isinstance(arguments, list) else []
    return " ".join([str(handler.get("command") or ""), *words])
