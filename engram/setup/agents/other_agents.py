"""Plan the MCP server in the configuration of Codex, Gemini CLI and OpenCode, which get no hooks from Engram.

``home`` is a memory folder other than the default; None leaves the choice to the environment. All planners raise
InstallError if the MCP server is not installed.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.paths import Home, user_home
from engram.reports.claude_checks import NAME, SERVER_MARK, free_server_name, is_our_server
from engram.setup.agents.claude_code import read_document
from engram.setup.agents.plugin import other_name_note, server_values, without_our_server
from engram.setup.edits.apply_edit import decode, editing
from engram.setup.edits.file_state import StateKind, read_state, real_path
from engram.setup.edits.install_steps import FileChange, JsonEdit, JsonEntry, Step, TomlEdit

#: The table of all servers. ``codex mcp add engram`` also writes the table ``engram`` into it.
SERVERS = "mcp_servers"
#: How long Codex waits for the server to start, in seconds: its default of 10 is too short for a fresh boot.
STARTUP_TIMEOUT_SECONDS = 30


def plan_codex(codex_folder: Path, home: Home | None = None) -> Step:
    """Plan the MCP server's table in ``config.toml``; the rest of the file is kept byte for byte.

    If another program has a server named ``engram``, it is kept, and Engram's gets another name.
    """
    values = server_values(home)
    path = codex_folder / "config.toml"
    try:
        servers = codex_servers(path)
    except InstallError:
        servers = {}  # the edit rejects the file, and says why
    name, renamed = _name(servers, path)
    edit = TomlEdit((SERVERS, name), values | {"startup_timeout_sec": STARTUP_TIMEOUT_SECONDS}, marker=SERVER_MARK)
    return Step(
        name="codex",
        summary=f"Give Codex the memory tools through {path}",
        changes=(FileChange(path, edit=edit),),
        notes=(*renamed, "Codex sessions that are already running load the tools after a restart."),
    )


def _name(servers: Mapping[str, Any], path: Path) -> tuple[str, tuple[str, ...]]:
    """Return the name of Engram's server in a file, and the plan's notes about that name."""
    name = free_server_name(servers, {name for name in servers if not is_our_server(servers[name])})
    return name, () if name == NAME else (other_name_note(name, path, servers.get(NAME)),)


def codex_servers(path: Path) -> dict[str, Any]:
    """Return the servers of a ``config.toml``, by name. Raises InstallError if it can't be read."""
    state, data = read_state(real_path(path, is_link=False))
    if state.kind is not StateKind.FILE:
        return {}
    with editing(path):
        servers = tomllib.loads(decode(path, data)).get(SERVERS)
    return servers if isinstance(servers, dict) else {}


# -- Plan the MCP server in the configuration of Gemini CLI and of OpenCode, both of which keep it in a JSON file.
#
# Gemini CLI: ``mcpServers`` in ``settings.json`` (google-gemini/gemini-cli, ``docs/tools/mcp-server.md``). OpenCode:
# ``mcp`` in ``opencode.json`` or ``opencode.jsonc`` (https://opencode.ai/docs/mcp-servers/).

#: Names of OpenCode's configuration file; the first one that exists is used, or the first name if none does.
_OPENCODE_NAMES = ("opencode.json", "opencode.jsonc")
_NOTE = "{} sessions that are already running load the tools after a restart."


def plan_gemini(gemini_folder: Path, home: Home | None = None) -> Step:
    """Plan the MCP server in Gemini CLI's ``settings.json``; the rest of the file is kept byte for byte."""
    values = server_values(home)
    return _step("gemini", "Gemini CLI", gemini_folder / "settings.json", "mcpServers", values)


def plan_opencode(folder: Path, home: Home | None = None) -> Step:
    """Plan the MCP server in OpenCode's configuration; the rest of the file is kept byte for byte."""
    server = server_values(home)
    values = {"type": "local", "command": [server["command"], *server["args"]], "enabled": True}
    if "env" in server:
        values["environment"] = server["env"]
    return _step("opencode", "OpenCode", opencode_file(folder), "mcp", values)


def opencode_folder() -> Path:
    """Return OpenCode's configuration folder: ``opencode`` in ``XDG_CONFIG_HOME``, or in ``~/.config``."""
    named = os.environ.get("XDG_CONFIG_HOME", "")
    return (Path(named) if os.path.isabs(named) else user_home() / ".config") / "opencode"


def opencode_file(folder: Path) -> Path:
    paths = [folder / name for name in _OPENCODE_NAMES]
    return next((path for path in paths if os.path.lexists(path)), paths[0])


def _step(name: str, title: str, path: Path, key: str, values: dict[str, Any]) -> Step:
    document = read_document(path)
    servers = document.get(key)
    known = servers if isinstance(servers, dict) else {}
    chosen, renamed = _name(known, path)
    entry = JsonEntry((key, chosen), values, marker=SERVER_MARK)
    return Step(
        name=name,
        summary=f"Give {title} the memory tools through {path}",
        changes=(
            FileChange(path, edit=JsonEdit(add=(entry,), drop=without_our_server(document, key, but=chosen).drop)),
        ),
        notes=(*renamed, _NOTE.format(title)),
    )
