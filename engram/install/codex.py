"""Plans the MCP server in Codex's configuration. Codex has no plugin folder and no hooks of Engram."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from engram.errors import InstallError
from engram.install.changes import FileChange, Step, TomlEdit
from engram.install.edits import decode
from engram.install.file_state import StateKind, read_state, real_path
from engram.paths import Home
from engram.plugin.plan import SERVER_MARK, server_values

#: The table that ``codex mcp add engram`` writes too.
TABLE = ("mcp_servers", "engram")
#: Seconds that Codex waits for the server. Its own limit of 10 is short for a machine that has just started.
STARTUP_TIMEOUT_SECONDS = 30


def plan_codex(codex_folder: Path, home: Home | None = None, interpreter: str = sys.executable) -> Step:
    """Plan the table of the MCP server in ``config.toml``; the rest of the file keeps its bytes.

    Args:
        codex_folder: Codex's folder (the setting ``codex_folder``).
        home: a memory folder other than the default; None leaves it to the environment.
        interpreter: absolute path of the interpreter that Engram is installed in.

    Raises:
        InstallError: the MCP server is not installed.
    """
    values = server_values(home, interpreter)
    path = codex_folder / "config.toml"
    return Step(
        name="codex",
        summary=f"Give Codex the memory tools by {path}",
        changes=(FileChange(path, edit=TomlEdit(TABLE, values | {"startup_timeout_sec": STARTUP_TIMEOUT_SECONDS})),),
        notes=("Sessions of Codex that run already load the tools when they start again.",),
    )


def has_codex_server(path: Path) -> bool:
    """Return True if Codex's ``config.toml`` at ``path`` names Engram's MCP server.

    Raises:
        InstallError: the file can't be read.
    """
    state, data = read_state(real_path(path, is_link=False))
    if state.kind is not StateKind.FILE:
        return False
    try:
        value = tomllib.loads(decode(path, data))
    except tomllib.TOMLDecodeError as error:
        raise InstallError(f"{path} can't be edited: {error}. Correct it; nothing was changed") from error
    for key in TABLE:
        value = value.get(key, {}) if isinstance(value, dict) else {}
    return SERVER_MARK in str(value)
