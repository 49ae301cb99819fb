"""The checks of ``engram doctor`` on Claude Code's settings: the hooks, the MCP server and its permission."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from engram.paths import user_home
from engram.reports.engram_checks import Check, State
from engram.settings import Settings
from engram.system.atomic import read_regular
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.project import find_repository

#: Maximum number of projects in Claude Code's user file whose servers are checked.
_MAX_PROJECTS = 500
#: Size, in bytes, above which a Claude Code file is not read. The user file keeps what was typed in every project.
MAX_FILE_BYTES = 200_000_000
#: Word in the command of every Engram hook.
HOOK_MARK = "engram_hooks"
#: Word in the arguments of Engram's MCP server.
SERVER_MARK = "engram_mcp"
#: Name of Engram's MCP server and plugin, and the name to use if another program already uses that one.
NAME, OTHER_NAME = "engram", "engram-recall"
_OUR_MODULE = lazy_regex(rf"(?<![\w/.-]){SERVER_MARK}(?![\w-])")
_ADVICE = "run: engram install (or merge by hand what `engram setup hooks` prints into Claude Code's settings)"
_COMMAND = "engram install"


def names() -> Iterator[str]:
    """Yield the names that Engram's MCP server or plugin may have, best first, endlessly."""
    yield NAME
    yield OTHER_NAME
    yield from (f"{OTHER_NAME}-{number}" for number in itertools.count(2))


def has_mark(text: str, mark: str) -> bool:
    """Return True if the text contains the mark as a whole word; ``engram_hooks_of_others`` is another program's."""
    return mark in text and re.search(rf"(?<![\w.-]){re.escape(mark)}(?![\w-])", text) is not None


def is_our_hook(handler: object) -> bool:
    """Return True for a hook (``{"type", "command"}``) of any version of Engram."""
    return isinstance(handler, Mapping) and has_mark(str(handler.get("command", "")), HOOK_MARK)


def is_our_server(server: object) -> bool:
    """Return True for the MCP server entry of any version of Engram, in any agent's settings."""
    parts = [server.get("command"), server.get("args")] if isinstance(server, Mapping) else []
    words = [word for part in parts for word in (part if isinstance(part, list) else [part])]
    return any(isinstance(word, str) and _OUR_MODULE.search(word) for word in words)


def our_server_names(servers: object) -> list[str]:
    """Return the names of Engram's server among the servers of a settings file."""
    entries = servers.items() if isinstance(servers, Mapping) else ()
    return [str(name) for name, server in entries if is_our_server(server)]


def free_server_name(servers: object, taken: Collection[str] = ()) -> str:
    """Return the name for Engram's server: its current one, or else the first that no other program uses.

    Args:
        taken: names of other programs' servers elsewhere.
    """
    present = servers if isinstance(servers, Mapping) else {}
    ours = our_server_names(present)
    known = [name for name in ours if name not in taken]
    return known[0] if known else next(name for name in names() if name not in taken and name not in present)


def other_servers(document: Mapping[str, Any], folder: Path | None = None) -> dict[str, str]:
    """Return the names of other programs' MCP servers in Claude Code's user file and in the projects that it lists.

    A project's server hides the user's server of the same name.

    Args:
        document: the content of the user file (``.claude.json``).
        folder: a project to include even if the file does not list it.

    Returns:
        name → where the server is configured.
    """
    projects = document.get("projects")
    listed = list(projects.items())[:_MAX_PROJECTS] if isinstance(projects, dict) else []
    places: list[tuple[str, object]] = [("the user's servers", document.get("mcpServers"))]
    places += [(f"the servers of {path}", entry.get("mcpServers")) for path, entry in listed if isinstance(entry, dict)]
    folders = [Path(path) for path, _ in listed] + ([folder] if folder is not None else [])
    places += [(str(path / ".mcp.json"), _read(path / ".mcp.json").get("mcpServers")) for path in folders]
    found: dict[str, str] = {}
    for place, servers in places:
        for name, server in servers.items() if isinstance(servers, dict) else ():
            if not is_our_server(server):
                found.setdefault(str(name), place)
    return found


def check_claude(
    settings: Settings, block: Mapping[str, Any], folder: Path, *, rule: str, has_plugin: bool
) -> Iterator[Check]:
    """Check the hooks, the MCP server and the permission to use it.

    Args:
        block: the hooks and the server as ``engram setup hooks`` prints them.
        folder: the working folder, whose project may have its own settings.
        rule: the permission rule that lets Claude use every tool of the server.
        has_plugin: a plugin provides the hooks and the server, so the settings need not contain them.
    """
    settings_path, servers_path = settings.claude_folder / "settings.json", claude_json(settings)
    not_loaded = {path: why for path in (settings_path, servers_path) if (why := why_not_loaded(path))}
    for path, why in not_loaded.items():
        yield Check("settings file", State.BAD, why, f"correct {path}")
    if not has_plugin and settings_path not in not_loaded:
        yield from _check_hooks(settings, block)
    if not has_plugin and servers_path not in not_loaded:
        yield from _check_server(settings, folder)
    if settings_path not in not_loaded:
        yield _check_permission(settings, folder, rule)


def _check_hooks(settings: Settings, block: Mapping[str, Any]) -> Iterator[Check]:
    path = settings.claude_folder / "settings.json"
    settings_file = _read(path)
    ours = _our_commands(settings_file)
    wanted = _our_commands(block)
    missing = [event for event in wanted if not _scripts(wanted[event]) <= _scripts(ours.get(event, []))]
    obsolete = [event for event in ours if event not in wanted] + _asynchronous(settings_file)
    if settings_file.get("disableAllHooks") is True:
        yield Check("hooks", State.BAD, f"{path} disables all hooks (disableAllHooks)", "remove that line")
    elif missing:
        yield _mended_by_install("hooks", State.BAD, f"missing or outdated in {path}: {', '.join(missing)}")
    else:
        yield from _check_scripts(ours)
    if obsolete:
        detail = f"hooks of an earlier version in {path}: {', '.join(obsolete)}"
        yield _mended_by_install("obsolete hooks", State.WARN, detail)


def _check_permission(settings: Settings, folder: Path, rule: str) -> Check:
    """Check that the user's or the project's settings let Claude use the tools without asking."""
    project = find_repository(folder) or folder
    files = [
        settings.claude_folder / "settings.json",
        project / ".claude" / "settings.json",
        project / ".claude" / "settings.local.json",
    ]
    rules = {path: _rules(_read(path)) for path in files}
    for path, (_, denied) in rules.items():
        if any(entry.startswith(rule) for entry in denied):
            return Check(
                "permission", State.WARN, f"{path} denies memory tools", "remove that rule from permissions.deny"
            )
    for path, (allowed, _) in rules.items():
        if allowed & {rule, f"{rule}__*"}:
            return Check("permission", State.OK, f"{rule} in {path}")
    allowed_tools = sorted(entry for allowed, _ in rules.values() for entry in allowed if entry.startswith(f"{rule}__"))
    detail = (
        f"only {', '.join(allowed_tools)} may be used without asking"
        if allowed_tools
        else "Claude must ask for the memory tools"
    )
    return Check(
        "permission",
        State.WARN,
        f"{detail}: print mode (claude -p) refuses them",
        f'run: engram install (or add "{rule}" to permissions.allow in {files[0]})',
        command=_COMMAND,
    )


def _mended_by_install(name: str, state: State, detail: str) -> Check:
    """Return a finding that ``engram install`` fixes."""
    return Check(name, state, detail, _ADVICE, command=_COMMAND)


def _rules(settings_file: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the rules of ``permissions.allow`` and of ``permissions.deny``."""
    permissions = settings_file.get("permissions")
    kept = []
    for name in ("allow", "deny"):
        rules = permissions.get(name) if isinstance(permissions, dict) else None
        kept.append({rule for rule in rules if isinstance(rule, str)} if isinstance(rules, list) else set())
    return kept[0], kept[1]


def _check_scripts(ours: dict[str, list[str]]) -> Iterator[Check]:
    gone = sorted(
        {
            part
            for commands in ours.values()
            for command in commands
            for part in _paths(command)
            if not os.path.exists(part)
        }
    )
    if gone:
        yield _mended_by_install("hooks", State.BAD, f"they refer to files that do not exist: {', '.join(gone[:3])}")
    else:
        yield Check("hooks", State.OK, f"{len(ours)} events")


def _paths(command: str) -> list[str]:
    """Return the absolute paths of Engram's scripts in a hook's command."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    # A script may be assigned to a variable first.
    paths = [word.rpartition("=")[2].rstrip(";") for word in words]
    return [path for path in paths if path.startswith("/") and has_mark(path, HOOK_MARK)]


def server_command(settings: Settings) -> str:
    """Return the command of the MCP server in the user's file; "" if it is not registered there."""
    _, server = _our_server(_read(claude_json(settings)))
    return str(server.get("command", ""))


def server_name(settings: Settings) -> str:
    """Return the name under which Engram's MCP server is registered in the user's file, or would be."""
    document = _read(claude_json(settings))
    return _our_server(document)[0] or free_server_name(document.get("mcpServers"), other_servers(document))


def _our_server(document: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """Return the name and entry of Engram's server; ("", {}) if it is not registered."""
    servers = document.get("mcpServers")
    for name in our_server_names(servers)[:1]:
        return name, servers[name] if isinstance(servers, dict) else {}
    return "", {}


def _check_server(settings: Settings, folder: Path) -> Iterator[Check]:
    path = claude_json(settings)
    document = _read(path)
    name, server = _our_server(document)
    hidden_by = other_servers(document, find_repository(folder) or folder).get(name)
    if not name:
        place = other_servers(document).get(NAME)
        other = f"; “{NAME}” there belongs to another program" if place else ""
        yield _mended_by_install("MCP server", State.WARN, f"not in {path}: Claude can't search memory itself{other}")
    elif hidden_by is not None:
        detail = f"another program's server called “{name}” ({hidden_by}) hides it"
        yield _mended_by_install("MCP server", State.WARN, detail)
    elif not os.path.exists(str(server.get("command", ""))):
        yield _mended_by_install("MCP server", State.BAD, f"its command {server.get('command')!r} does not exist")
    else:
        yield Check("MCP server", State.OK, str(server["command"]))


def _our_commands(settings_file: Mapping[str, Any]) -> dict[str, list[str]]:
    commands: dict[str, list[str]] = {}
    for event, handler in our_hooks(settings_file):
        commands.setdefault(event, []).append(str(handler["command"]))
    return commands


def _scripts(commands: list[str]) -> set[str]:
    """Return the file names of the scripts that the commands run."""
    return {Path(part).name for command in commands for part in _paths(command)}


def _asynchronous(settings_file: dict[str, Any]) -> list[str]:
    """Return the events with asynchronous Engram hooks, which Claude Code would wait for on exit."""
    events = [event for event, handler in our_hooks(settings_file) if handler.get("async") is True]
    return [f"{event} (async)" for event in dict.fromkeys(events) if event != "PreCompact"]


def hook_groups(settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the event and group (``{"matcher", "hooks"}``) of every group with an Engram hook."""
    hooks = settings.get("hooks")
    for event, groups in (hooks if isinstance(hooks, dict) else {}).items():
        for group in groups if isinstance(groups, list) else []:
            if isinstance(group, dict) and any(map(is_our_hook, _handlers(group))):
                yield str(event), group


def our_hooks(settings: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the event and handler (``{"type", "command"}``) of every Engram hook."""
    for event, group in hook_groups(settings):
        yield from ((event, handler) for handler in _handlers(group) if is_our_hook(handler))


def _handlers(group: Mapping[str, Any]) -> list[Any]:
    handlers = group.get("hooks")
    return handlers if isinstance(handlers, list) else []


def read_object(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a Claude Code file; None if there is none or it can't be read."""
    try:
        value = json.loads(read_regular(path, MAX_FILE_BYTES) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def why_not_loaded(path: Path) -> str:
    """Return why Claude Code does not load one of its files, which must be a JSON object; "" if it does load it.

    As observed in 2.1.197 and 2.1.332, a comment or a trailing comma prevents loading; a byte order mark does not.
    """
    data = read_regular(path, MAX_FILE_BYTES) or b""
    if not data.strip():
        return ""
    try:
        found = json.loads(data)
        where = "" if isinstance(found, dict) else "it contains no object in braces"
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno} is not JSON, which allows no comments and no trailing comma"
    except (ValueError, RecursionError):
        where = "it is not JSON"
    return f"Claude Code does not load {path}, so nothing in it is in effect: {where}" if where else ""


def _read(path: Path) -> dict[str, Any]:
    return read_object(path) or {}


def claude_json(settings: Settings) -> Path:
    """Return the path of Claude Code's user file, which lists MCP servers."""
    default = user_home() / ".claude"
    return (
        user_home() / ".claude.json" if settings.claude_folder == default else settings.claude_folder / ".claude.json"
    )
