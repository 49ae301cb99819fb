"""Plan how Claude Code is connected: by a plugin in its folder, or by hooks and an MCP server in its settings.

The two are never combined. Nothing is written here: the installer applies the steps, and uninstalling reverts them.

- ``plan_plugin`` for Claude Code ``MIN_PLUGIN_VERSION`` or later, together with ``without_our_hooks`` for settings that
  contain Engram's hooks;
- ``plan_settings`` for an older version, or if the user does not want a plugin;
- ``permission_rule`` returns the matching entry of ``permissions.allow`` for either.

``home`` is a memory folder other than the default; None leaves the choice to the environment.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.paths import Home, current_folder
from engram.reports.claude_checks import (
    HOOK_MARK,
    NAME,
    SERVER_MARK,
    free_server_name,
    hook_groups,
    is_our_server,
    other_servers,
    our_server_names,
)
from engram.reports.engram_checks import Check, State
from engram.setup.agents.registered import (
    MIN_MOD_VERSION,
    MOD,
    Registration,
    Way,
    find_double,
    loaded_instead,
    plugin_files,
    read_documents,
    skills_folder,
)
from engram.setup.edits.install_steps import FileChange, JsonEdit, JsonEntry, Step
from engram.system.atomic import read_regular
from engram.version import VERSION
from engram_hooks.block import FOLDER, settings_block, stamped, with_home

#: The first version of Claude Code that loads a plugin from the ``skills`` folder.
MIN_PLUGIN_VERSION = (2, 1, 157)
#: The first version that supports ``network.hosts`` in a plugin's manifest, and reports its absence.
MIN_HOSTS_VERSION = (2, 1, 330)
#: Mode of the plugin's files.
FILE_MODE = 0o644


def server_values(home: Home | None) -> dict[str, Any]:
    """Return ``command``, ``args`` and, if any, ``env`` of Engram's MCP server, for another agent's settings.

    Raises:
        InstallError: the MCP server is not installed.
    """
    server = settings_block(home)["mcpServers"].get(NAME)
    if server is None:
        raise InstallError("Engram's MCP server is not installed with Engram. Install engram-recall again")
    return {key: server[key] for key in ("command", "args", "env") if key != "env" or server["env"]}


def is_at_least(version: str, minimum: tuple[int, ...]) -> bool:
    """Return True if a Claude Code is known to be of a version or later.

    Args:
        version: the output of ``claude --version``, such as ``2.1.330 (Claude Code)``; "" if unknown.
    """
    numbers = version.split()[0].split(".") if version.strip() else [""]
    return all(number.isdecimal() for number in numbers) and tuple(map(int, numbers)) >= minimum


def permission_rule(name: str = NAME, *, is_plugin: bool) -> str:
    """Return the rule for ``permissions.allow`` that lets Claude use the memory tools without asking.

    Args:
        name: the name of the plugin, or of the server in Claude Code's own files.
        is_plugin: True if the server is part of a plugin.
    """
    return f"mcp__plugin_{name}_{NAME}" if is_plugin else f"mcp__{name}"


def other_name_note(name: str, place: object, entry: object = None) -> str:
    """Return the plan's note that another program uses the name ``engram``, with the name that Engram uses instead."""
    command = entry.get("command", entry.get("url", "")) if isinstance(entry, Mapping) else ""
    what = f" ({command})" if command else ""
    return (
        f"{place} already has an entry named “{NAME}” from another program{what}, which is left unchanged. Engram's is "
        f"named “{name}”."
    )


def plan_plugin(
    claude_folder: Path, home: Home | None = None, *, version: str = "", mod: bool = False, is_found: bool = True
) -> Step:
    """Plan the plugin in ``skills/engram`` in Claude Code's configuration folder. Settings are not edited.

    If another program has a skill or plugin with that name, Engram's is called ``engram-recall``. Files that an earlier
    version of the plugin left in the folder are removed.

    Args:
        claude_folder: Claude Code's configuration folder (``CLAUDE_CONFIG_DIR``, or ``~/.claude``).
        version: the output of ``claude --version``; "" if unknown.
        is_found: Claude Code is on this machine, so that sessions of it may be running.
    """
    name = read_documents(claude_folder).plugin_name
    folder = skills_folder(claude_folder, name)
    files = plugin_files(home, name=name, declares_hosts=is_at_least(version, MIN_HOSTS_VERSION), mod=mod)
    obsolete = other_files(folder, files)
    first = ".".join(map(str, MIN_MOD_VERSION))
    too_old = f"This Claude Code ({version}) ignores the mod, which needs version {first} or later."
    is_too_old = mod and bool(version) and not is_at_least(version, MIN_MOD_VERSION)
    renamed = () if name == NAME else (other_name_note(name, f"Claude Code's folder {claude_folder}"),)
    return Step(
        name="plugin",
        summary=f"Connect Claude Code through the plugin {folder}",
        changes=(
            *[FileChange(folder / path) for path in obsolete],
            *[FileChange(folder / path, content=content, mode=FILE_MODE) for path, content in files.items()],
        ),
        notes=(
            *renamed,
            *[too_old] * is_too_old,
            *["Claude Code sessions that are already running load Engram after /reload-plugins or a restart."]
            * is_found,
            *["The mod is part of the plugin: type /engram in Claude Code to try it."] * (mod and not is_too_old),
        ),
    )


def plan_settings(
    claude_folder: Path,
    claude_json: Path,
    settings: Mapping[str, Any],
    home: Home | None = None,
    *,
    servers: Mapping[str, Any] | None = None,
) -> Step:
    """Plan the hooks and the MCP server in Claude Code's own files. Hooks of other versions are replaced.

    If another program has a server named ``engram``, it is kept, and Engram's gets another name.

    Args:
        claude_json: the user file that lists MCP servers (``~/.claude.json``).
        settings: the content of ``settings.json`` in ``claude_folder``; {} if it does not exist.
        servers: the content of ``claude_json``; {} if it does not exist.
    """
    document = servers or {}
    block = settings_block(home)
    name, renamed = settings_server(claude_json, document)
    hooks = without_our_hooks(settings)
    wanted = [
        JsonEntry(("hooks", event), group, is_item=True, marker=HOOK_MARK)
        for event, groups in block["hooks"].items()
        for group in groups
    ]
    entries = tuple(
        JsonEntry(("mcpServers", name), server, marker=SERVER_MARK) for server in block["mcpServers"].values()
    )
    stale = without_our_server(document, but=name).drop
    return Step(
        name="settings",
        summary=f"Connect Claude Code through hooks in {claude_folder / 'settings.json'} and a server in {claude_json}",
        changes=(
            FileChange(claude_folder / "settings.json", edit=JsonEdit(add=tuple(wanted), drop=hooks.drop)),
            *([FileChange(claude_json, edit=JsonEdit(add=entries, drop=stale))] if entries else []),
        ),
        notes=(*renamed, "Sessions that are already running need a restart."),
    )


def settings_server(claude_json: Path, document: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """Return the name of Engram's server in Claude Code's own files, and the plan's notes about that name.

    Args:
        claude_json: the user file that lists MCP servers.
    """
    others = other_servers(document, Path(current_folder()))
    servers = document.get("mcpServers")
    name = free_server_name(servers, others)
    if name == NAME:
        return name, ()
    entry = servers.get(NAME) if isinstance(servers, Mapping) else None
    entry = None if is_our_server(entry) else entry
    place = claude_json if entry is not None else others.get(NAME, claude_json)
    return name, (other_name_note(name, place, entry),)


def without_our_hooks(settings: Mapping[str, Any]) -> JsonEdit:
    """Return the edit that removes Engram's hooks from settings; an empty edit if there are none.

    Other tools' hooks are kept, even in a group with one of Engram's. Uninstalling does not restore Engram's hooks.
    """
    return JsonEdit(
        drop=tuple(
            JsonEntry(("hooks", event), group, is_item=True, marker=HOOK_MARK) for event, group in hook_groups(settings)
        )
    )


def without_our_server(document: Mapping[str, Any], key: str = "mcpServers", *, but: str = "") -> JsonEdit:
    """Return the edit that removes Engram's MCP server from a settings file; an empty edit if it is not there.

    Args:
        key: the key of the object that contains all servers, in ``.claude.json`` or in another agent's file.
        but: the name of an entry to keep.
    """
    servers = document.get(key)
    known = servers if isinstance(servers, dict) else {}
    return JsonEdit(drop=tuple(JsonEntry((key, name), known[name]) for name in our_server_names(known) if name != but))


def other_files(folder: Path, files: Collection[str]) -> list[str]:
    """Return the relative paths of files in a folder that are not among ``files``; hidden files are ignored."""
    return sorted(
        path
        for root, _, names in os.walk(folder)
        for name in names
        if (path := str((Path(root) / name).relative_to(folder))) not in files and not name.startswith(".")
    )


# -- The plan for Claude Code's status line, which never replaces another tool's.

#: Name of the script.
SCRIPT = "statusline.sh"
#: A string that the command of Engram's status line contains.
STATUSLINE_MARK = f"{FOLDER.name}/{SCRIPT}"


def statusline_entry(home: Home | None = None) -> dict[str, Any]:
    """Return the value of ``statusLine`` in Claude Code's settings."""
    script = shlex.quote(str(FOLDER / SCRIPT))
    return {"type": "command", "command": stamped(with_home(home) + f"command . {script} 2>/dev/null; exit 0")}


def is_our_statusline(entry: object) -> bool:
    """Return True for the status line of any version of Engram, even if edited."""
    return isinstance(entry, Mapping) and STATUSLINE_MARK in str(entry.get("command", ""))


def plan_statusline(claude_folder: Path, settings: Mapping[str, Any], home: Home | None = None) -> Step:
    """Plan the status line in ``settings.json``. If it belongs to another tool, the step is empty except for a note.

    Args:
        settings: the content of ``settings.json`` in ``claude_folder``; {} if it does not exist.
    """
    path = claude_folder / "settings.json"
    summary = f"Show in Claude Code's status line what Engram is doing ({path})"
    if settings.get("statusLine") is not None and not is_our_statusline(settings["statusLine"]):
        note = (
            "The status line belongs to another tool and is left unchanged. To get Engram's, remove statusLine from "
            f"{path}, then run: engram install --statusline"
        )
        return Step("statusline", summary, notes=(note,))
    edit = JsonEdit(
        add=(JsonEntry(("statusLine",), statusline_entry(home), marker=STATUSLINE_MARK),),
        drop=without_our_statusline(settings),
    )
    return Step("statusline", summary, changes=(FileChange(path, edit=edit),))


def without_our_statusline(settings: Mapping[str, Any]) -> tuple[JsonEntry, ...]:
    """Return the entries to remove from settings to drop Engram's status line."""
    entry = settings.get("statusLine")
    return (JsonEntry(("statusLine",), entry),) if is_our_statusline(entry) else ()


# -- The checks of the plugin in ``engram doctor``: is it disabled, from another version, or registered twice?

#: Maximum size of a plugin file that is read, in bytes.
_MAX_FILE_BYTES = 1_000_000
_COMMAND = "engram install"


def check_registrations(registrations: list[Registration], home: Home | None = None) -> Iterator[Check]:
    """Check the plugin, and that no hook is registered twice. Yield nothing if nothing is registered.

    Args:
        registrations: Engram's registrations in Claude Code, from ``find_registrations``.
        home: the memory folder for which the plugin was created; None for the default.
    """
    for found in registrations:
        if (other := loaded_instead(found, registrations)) is not None:
            detail = f"{found.plugin_id} is not loaded, since {other.plugin_id} is installed"
            advice = f"nothing needs to be done; {found.path} can be deleted"
            yield Check("plugin", State.NOTE, detail, advice, public="two plugins, one loaded")
        elif found.way is not Way.SETTINGS:
            yield _check_plugin(found, home)
        elif found.version and found.version != VERSION:
            detail = f"the hooks in {found.path} are from version {found.version}, but Engram is {VERSION}"
            yield Check("hooks' version", State.WARN, detail, command=_COMMAND)
    if double := find_double(registrations):
        places = " and ".join(f"by the {found.way} {found.path}" for found in double)
        detail = f"registered twice, {places}: memories are shown once, but every hook runs twice"
        yield Check(
            "hooks",
            State.WARN,
            detail,
            "run: engram install, which keeps only the plugin",
            command=_COMMAND,
            public="registered twice",
        )


def has_plugin(registrations: list[Registration]) -> bool:
    """Return True if an enabled plugin provides the hooks and the MCP server."""
    return any(found.is_enabled and found.way is not Way.SETTINGS for found in registrations)


def is_switched_off(registrations: list[Registration]) -> bool:
    """Return True if Engram is connected only by a disabled plugin, so that nothing else counts as missing."""
    return bool(registrations) and not any(found.is_enabled or found.way is Way.SETTINGS for found in registrations)


def plugin_name(registrations: list[Registration]) -> str:
    plugins = [found for found in registrations if found.way is not Way.SETTINGS]
    plugins.sort(key=lambda found: not found.is_enabled)
    return plugins[0].plugin_id.partition("@")[0] if plugins else NAME


def _check_plugin(found: Registration, home: Home | None) -> Check:
    if not found.is_enabled:
        command = f"claude plugin enable {found.plugin_id}"
        detail = f"{found.plugin_id} is disabled"
        advice = f"run: {command}, unless you disabled it on purpose"
        return Check("plugin", State.WARN, detail, advice, command=command, public="disabled")
    if found.version != VERSION:
        detail = f"{found.path} has version {found.version or 'unknown'}, but Engram is {VERSION}"
        return Check("plugin", State.WARN, detail, command=_COMMAND)
    if found.way is Way.SKILLS_FOLDER:
        name = found.plugin_id.partition("@")[0]
        # Whether the plugin declares hosts depends on Claude Code's version at the time of installation.
        forms = [
            plugin_files(home, name=name, declares_hosts=is_declared, mod=has_mod(found.path))
            for is_declared in (False, True)
        ]
        differing = min((_differing(found.path, files) for files in forms), key=len)
        if differing:
            detail = f"{found.path} was changed, or made for another installation: {', '.join(differing[:3])}"
            return Check("plugin", State.WARN, detail, command=_COMMAND)
    return Check("plugin", State.OK, f"{found.plugin_id}, version {found.version}")


def has_mod(folder: Path) -> bool:
    """Return True if the plugin in a folder has the mod, or another file at the mod's path."""
    return os.path.lexists(folder / MOD)


def _differing(folder: Path, files: dict[str, bytes]) -> list[str]:
    """Return the paths of files that are missing or have different content."""
    return [path for path, content in files.items() if read_regular(folder / path, _MAX_FILE_BYTES) != content]
