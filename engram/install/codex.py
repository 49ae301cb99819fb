"""Plans the MCP server in Codex's configuration. Codex has no plugin folder and no hooks of Engram."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from engram.errors import InstallError
from engram.install.changes import FileChange, Step, TomlEdit
from engram.install.edits import decode
from engram.install.file_state import StateKind, read_state, real_path
from engram.paths import Home
from engram.plugin.files import NAME
from engram.plugin.plan import other_name_note, server_values
from engram.reports.claude_checks import SERVER_MARK, free_server_name, is_our_server, our_server_names

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
