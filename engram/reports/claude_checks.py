"""The checks of ``engram doctor`` on Claude Code's settings: the hooks, the MCP server and its permission."""

from __future__ import annotations

import fnmatch
import itertools
import json
import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from engram.paths import claude_user_file
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
_ADVICE = "run: engram install (or merge the output of `engram setup hooks` into Claude Code's settings by hand)"
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
    server = f"plugin:{rule.removeprefix('mcp__plugin_').removesuffix(f'_{NAME}')}:{NAME}" if has_plugin else rule[5:]
    obstacles = list(_check_obstacles(settings, folder, server, has_plugin=has_plugin))
    yield from obstacles
    not_loaded = {path: why for path in (settings_path, servers_path) if (why := why_not_loaded(path))}
    for path, why in not_loaded.items():
        yield Check("settings file", State.BAD, why, f"correct {path}")
    about_hooks = [check.state for check in obstacles if "hooks" in check.name]
    if not has_plugin and State.BAD not in about_hooks and settings_path not in not_loaded:
        found = _check_hooks(settings, block)
        yield from (check for check in found if check.state is not State.OK or not about_hooks)
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
    if missing:
        yield _mended_by_install("hooks", State.BAD, f"missing or outdated in {path}: {', '.join(missing)}")
    else:
        yield from _check_scripts(ours)
    if obsolete:
        detail = f"hooks of an earlier version in {path}: {', '.join(obsolete)}"
        yield _mended_by_install("obsolete hooks", State.WARN, detail)


def _check_permission(settings: Settings, folder: Path, rule: str) -> Check:
    """Check that the user's or the project's settings let Claude use the tools without asking."""
    files = settings_files(settings.claude_folder, folder)
    rules = {path: _rules(found) for path, found in {**files, **managed_files()}.items()}
    for place, effect in (("deny", "denies"), ("ask", "makes Claude ask before using")):
        for path, listed in rules.items():
            if entry := next((entry for entry in sorted(listed[place]) if _concerns(entry, rule)), None):
                detail = f"{path} {effect} memory tools ({entry})"
                return Check("permission", State.WARN, detail, f"remove that rule from permissions.{place}")
    for path, listed in rules.items():
        allowed = listed["allow"]
        if allowed & {rule, f"{rule}__*"}:
            return Check("permission", State.OK, f"{rule} in {path}")
    allowed_tools = sorted(
        entry for listed in rules.values() for entry in listed["allow"] if entry.startswith(f"{rule}__")
    )
    detail = (
        f"only {', '.join(allowed_tools)} may be used without asking"
        if allowed_tools
        else "Claude must ask before using the memory tools"
    )
    return Check(
        "permission",
        State.WARN,
        f"{detail}: print mode (claude -p) refuses them",
        f'run: engram install (or add "{rule}" to permissions.allow in {next(iter(files))})',
        command=_COMMAND,
    )


def _mended_by_install(name: str, state: State, detail: str) -> Check:
    """Return a finding that ``engram install`` fixes."""
    return Check(name, state, detail, _ADVICE, command=_COMMAND)


def _rules(settings_file: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the rules of ``permissions``: allow, ask and deny."""
    permissions = settings_file.get("permissions")
    kept: dict[str, set[str]] = {}
    for name in ("allow", "ask", "deny"):
        rules = permissions.get(name) if isinstance(permissions, dict) else None
        kept[name] = {rule for rule in rules if isinstance(rule, str)} if isinstance(rules, list) else set()
    return kept


def _concerns(entry: str, rule: str) -> bool:
    """Return True if an entry of a permission list covers a tool of the server named by ``rule``."""
    return entry == rule or entry.startswith(f"{rule}__") or fnmatch.fnmatchcase(f"{rule}__memory_recall", entry)


# -- What keeps Claude Code from running Engram although it is connected.

#: Where an organization's settings are, on Linux and on macOS.
MANAGED = (Path("/etc/claude-code"), Path("/Library/Application Support/ClaudeCode"))
#: Settings with which an organization keeps hooks, mods and plugins from running, if they have any value but false, as
#: observed in Claude Code 2.1.332.
NO_HOOKS = ("disableAllHooks", "allowManagedHooksOnly")
NO_MODS = ("allowManagedModsOnly",)
_NO_PLUGIN = ("strictKnownMarketplaces", "strictPluginOnlyCustomization")
ASK_THEM = "ask the organization; there is nothing else to do"


def managed_files() -> dict[Path, Mapping[str, Any]]:
    """Return an organization's settings files, those of highest priority first."""
    paths = [
        path for folder in MANAGED for path in sorted((folder / "managed-settings.d").glob("*.json"), reverse=True)
    ]
    paths += [folder / "managed-settings.json" for folder in MANAGED]
    return {path: found for path in paths if (found := read_object(path)) is not None}


def find_policies(names: Collection[str]) -> dict[str, Path]:
    """Return which of the settings an organization has made, each with the file of highest priority that has it."""
    managed = managed_files()
    places = {name: [path for path, found in managed.items() if found.get(name) not in (None, False)] for name in names}
    return {name: paths[0] for name, paths in places.items() if paths}


def settings_files(claude_folder: Path, folder: Path) -> dict[Path, Mapping[str, Any]]:
    """Return the user's settings, then those of the folder's project, in order of increasing priority."""
    own = (find_repository(folder) or folder) / ".claude"
    paths = (claude_folder / "settings.json", own / "settings.json", own / "settings.local.json")
    return {path: _read(path) for path in dict.fromkeys(paths)}


def _check_obstacles(settings: Settings, folder: Path, server: str, *, has_plugin: bool) -> Iterator[Check]:
    """Check for settings of the organization, the user or the project that keep Engram from running."""
    managed, own = managed_files(), settings_files(settings.claude_folder, folder)
    for name, path in find_policies((*NO_HOOKS, *_NO_PLUGIN)).items():
        what = "hooks" if name in NO_HOOKS else "plugin" if has_plugin else "hooks and MCP server"
        detail = f"an organization's settings keep them from running ({name} in {path})"
        yield Check(what, State.BAD, detail, ASK_THEM, public=f"kept out by {name}")
    values = [(path, found["disableAllHooks"]) for path, found in own.items() if "disableAllHooks" in found]
    if values and values[-1][1] is True:
        detail = f"{values[-1][0]} disables all hooks (disableAllHooks)"
        yield Check("hooks", State.BAD, detail, "remove that line")
    yield from _check_variables(settings, own)
    yield from _check_server_lists(settings, folder, server, {**own, **managed})
    for path, found in own.items():
        if found.get("cleanupPeriodDays") == 0:
            detail = f"cleanupPeriodDays is 0 in {path}: Claude Code writes no transcripts, or ignores that file"
            yield Check("transcripts", State.BAD, detail, "write the number of days for which to keep them")


def _check_variables(settings: Settings, own: Mapping[Path, Mapping[str, Any]]) -> Iterator[Check]:
    """Check the environment variables that Claude Code sets for its hooks."""
    for path, found in own.items():
        given = found.get("env")
        variables = given if isinstance(given, Mapping) else {}
        if str(variables.get("ENGRAM_DISABLE", "0")) not in ("", "0"):
            yield Check("hooks", State.BAD, f"{path} switches them off (ENGRAM_DISABLE)", "remove that variable")
        home = variables.get("ENGRAM_HOME")
        if (
            isinstance(home, str)
            and home
            and os.path.realpath(os.path.expanduser(home)) != os.path.realpath(settings.home)
        ):
            detail = f"{path} makes hooks and tools use another memory folder ({home})"
            yield Check("hooks", State.WARN, detail, "remove ENGRAM_HOME there, or set it for your shell, too")


def _check_server_lists(
    settings: Settings, folder: Path, server: str, files: Mapping[Path, Mapping[str, Any]]
) -> Iterator[Check]:
    """Check the lists of MCP servers that are denied, exclusively allowed, or switched off in a project."""

    def is_named(entry: object) -> bool:
        command = entry.get("serverCommand") if isinstance(entry, Mapping) else None
        is_ours = isinstance(command, list) and is_our_server({"args": command})
        return is_ours or (isinstance(entry, Mapping) and entry.get("serverName") == server)

    refused = ""
    for path, found in files.items():
        denied, allowed = found.get("deniedMcpServers"), found.get("allowedMcpServers")
        if isinstance(denied, list) and any(map(is_named, denied)):
            refused = f"{path} refuses it (deniedMcpServers)"
        elif isinstance(allowed, list) and not any(map(is_named, allowed)):
            refused = f"{path} allows only others (allowedMcpServers)"
    for path in (place / "managed-mcp.json" for place in MANAGED):
        if read_object(path) is not None:
            refused = f"an organization allows only the servers in {path}"
    if refused:
        yield Check("MCP server", State.WARN, refused, f"allow {server!r} there, or do without the memory tools")
    projects = _read(claude_json(settings)).get("projects")
    entry = projects.get(str(find_repository(folder) or folder)) if isinstance(projects, Mapping) else None
    switched_off = entry.get("disabledMcpServers") if isinstance(entry, Mapping) else None
    if isinstance(switched_off, list) and server in switched_off:
        yield Check(
            "MCP server", State.WARN, "it is switched off in this project", "type /mcp in Claude Code and enable it"
        )


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
        value = json.loads(_content(path))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _content(path: Path) -> bytes:
    """Return the content of a file, which many people keep elsewhere, behind a link; b"" if it can't be read."""
    return read_regular(Path(os.path.realpath(path)), MAX_FILE_BYTES) or b""


def why_not_loaded(path: Path) -> str:
    """Return why Claude Code does not load one of its files, which must be a JSON object; "" if it does load it.

    In Claude Code 2.1.197 and 2.1.332, a comment or a trailing comma prevents loading; a byte order mark does not.
    """
    data = _content(path)
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
    return claude_user_file(settings.claude_folder)
