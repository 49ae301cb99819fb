"""Plans the MCP server in Codex's configuration. Codex has no plugin folder and no hooks of Engram."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.paths import Home
from engram.reports.claude_checks import SERVER_MARK, free_server_name, is_our_server, our_server_names
from engram.setup.agents.claude_code import read_document
from engram.setup.agents.plugin import other_name_note, server_values, without_our_server
from engram.setup.agents.registered import NAME
from engram.setup.edits.changes import FileChange, JsonEdit, JsonEntry, Step, TomlEdit
from engram.setup.edits.edits import decode
from engram.setup.edits.file_state import StateKind, read_state, real_path

#: The table of all servers. ``codex mcp add engram`` writes the table ``engram`` in it, too.
SERVERS = "mcp_servers"
#: Seconds that Codex waits for the server. Its own limit of 10 is short for a machine that has just started.
STARTUP_TIMEOUT_SECONDS = 30


def plan_codex(
    codex_folder: Path, home: Home | None = None, interpreter: str = sys.executable, *, taken: Collection[str] = ()
) -> Step:
    """Plan the table of the MCP server in ``config.toml``; the rest of the file keeps its bytes.

    Another program's server of the name ``engram`` stays: Engram's gets another name.

    Args:
        codex_folder: Codex's folder (the setting ``codex_folder``).
        home: a memory folder other than the default; None leaves it to the environment.
        interpreter: absolute path of the interpreter that Engram is installed in.
        taken: names of servers that an earlier version of Engram replaced and that come back.

    Raises:
        InstallError: the MCP server is not installed.
    """
    values = server_values(home, interpreter)
    path = codex_folder / "config.toml"
    try:
        servers = _servers(path)
    except InstallError:
        servers = {}  # the edit refuses it, and says why
    name = free_server_name(servers, {*taken, *(name for name in servers if not is_our_server(servers[name]))})
    renamed = () if name == NAME else (other_name_note(name, path, servers.get(NAME)),)
    edit = TomlEdit((SERVERS, name), values | {"startup_timeout_sec": STARTUP_TIMEOUT_SECONDS}, marker=SERVER_MARK)
    return Step(
        name="codex",
        summary=f"Give Codex the memory tools by {path}",
        changes=(FileChange(path, edit=edit),),
        notes=(*renamed, "Sessions of Codex that run already load the tools when they start again."),
    )


def codex_tables(path: Path) -> list[tuple[str, str]]:
    """Return the tables of Engram's MCP server in Codex's ``config.toml`` at ``path``.

    Raises:
        InstallError: the file can't be read.
    """
    return [(SERVERS, name) for name in our_server_names(_servers(path))]


def _servers(path: Path) -> dict[str, Any]:
    """Return the servers of a ``config.toml``, by name. Raises InstallError if it can't be read."""
    state, data = read_state(real_path(path, is_link=False))
    if state.kind is not StateKind.FILE:
        return {}
    try:
        value = tomllib.loads(decode(path, data))
    except tomllib.TOMLDecodeError as error:
        raise InstallError(f"{path} can't be edited: {error}. Correct it; nothing was changed") from error
    servers = value.get(SERVERS)
    return servers if isinstance(servers, dict) else {}


# -- Plans the MCP server in the configuration of Gemini CLI and of OpenCode, which both keep it in a JSON file.
#
# Gemini CLI: ``mcpServers`` in ``settings.json`` (google-gemini/gemini-cli, ``docs/tools/mcp-server.md``). OpenCode:
# ``mcp`` in ``opencode.json`` or ``opencode.jsonc`` (https://opencode.ai/docs/mcp-servers/).

#: Names of OpenCode's configuration; one that exists counts, the first name if none does.
_OPENCODE_NAMES = ("opencode.json", "opencode.jsonc")
_NOTE = "Sessions of {} that run already load the tools when they start again."


def plan_gemini(
    gemini_folder: Path, home: Home | None = None, interpreter: str = sys.executable, *, taken: Collection[str] = ()
) -> Step:
    """Plan the MCP server in Gemini CLI's ``settings.json``; the rest of the file keeps its bytes.

    Args:
        gemini_folder: Gemini CLI's folder (the setting ``gemini_folder``).
        home: a memory folder other than the default; None leaves it to the environment.
        interpreter: absolute path of the interpreter that Engram is installed in.
        taken: names of servers that an earlier version of Engram replaced and that come back.

    Raises:
        InstallError: the MCP server is not installed.
    """
    values = server_values(home, interpreter)
    return _step("gemini", "Gemini CLI", gemini_folder / "settings.json", "mcpServers", values, taken)


def plan_opencode(
    folder: Path, home: Home | None = None, interpreter: str = sys.executable, *, taken: Collection[str] = ()
) -> Step:
    """Plan the MCP server in OpenCode's configuration; the rest of the file keeps its bytes.

    Args:
        folder: OpenCode's configuration folder.
        home: a memory folder other than the default; None leaves it to the environment.
        interpreter: absolute path of the interpreter that Engram is installed in.
        taken: names of servers that an earlier version of Engram replaced and that come back.

    Raises:
        InstallError: the MCP server is not installed.
    """
    server = server_values(home, interpreter)
    values = {"type": "local", "command": [server["command"], *server["args"]], "enabled": True}
    if "env" in server:
        values["environment"] = server["env"]
    return _step("opencode", "OpenCode", opencode_file(folder), "mcp", values, taken)


def opencode_folder() -> Path:
    """Return OpenCode's configuration folder: ``opencode`` in ``XDG_CONFIG_HOME``, or in ``~/.config``."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(named) if os.path.isabs(named) else Path.home() / ".config") / "opencode"


def opencode_file(folder: Path) -> Path:
    """Return OpenCode's configuration file in a folder."""
    paths = [folder / name for name in _OPENCODE_NAMES]
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def _step(name: str, title: str, path: Path, key: str, values: dict[str, Any], taken: Collection[str]) -> Step:
    document = read_document(path)
    servers = document.get(key)
    known = servers if isinstance(servers, dict) else {}
    chosen = free_server_name(known, {*taken, *(other for other in known if not is_our_server(known[other]))})
    renamed = () if chosen == NAME else (other_name_note(chosen, path, known.get(NAME)),)
    entry = JsonEntry((key, chosen), values, marker=SERVER_MARK)
    return Step(
        name=name,
        summary=f"Give {title} the memory tools by {path}",
        changes=(
            FileChange(path, edit=JsonEdit(add=(entry,), drop=without_our_server(document, key, but=chosen).drop)),
        ),
        notes=(
            *renamed,
            _NOTE.format(title),
        ),
    )
