"""The block for Claude Code's settings: every hook and the MCP server, by absolute paths."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from engram.atomic import make_private_folder
from engram.errors import HomeError
from engram.paths import Home

#: Where the hooks lie.
FOLDER = Path(__file__).resolve().parent
#: Seconds after which Claude Code ends a hook that it waits for; each is long gone by then.
TIMEOUT_SECONDS = 2
#: Seconds that a hook may take which nobody waits for.
ASYNC_TIMEOUT_SECONDS = 10
_HOME = "${ENGRAM_HOME:-$HOME/.claude-memory}"


def settings_block(home: Home | None = None, interpreter: str = sys.executable) -> dict[str, Any]:
    """``{"hooks": …, "mcpServers": …}``, ready for Claude Code's settings.

    Args:
        home: a memory folder other than the default, laid down in every command; None leaves it to the environment.
        interpreter: absolute path of the interpreter that Engram is installed in.
    """
    place = "" if home is None else f"ENGRAM_HOME=${{ENGRAM_HOME:-{shlex.quote(str(home.root))}}}; export ENGRAM_HOME; "
    relays = {event: place + relay_command(FOLDER / file) for event, file in _RELAYS.items()}
    bells = {event: place + bell_command(FOLDER / file, interpreter) for event, file in _BELLS.items()}
    return {
        "hooks": {
            "UserPromptSubmit": [_entry(relays["UserPromptSubmit"])],
            "SessionStart": [_entry(relays["SessionStart"])],
            "PreToolUse": [_entry(place + pending_command(FOLDER / "pretooluse.sh"))],
            "Stop": [_entry(bells["Stop"], is_async=True)],
            "PreCompact": [_entry(bells["PreCompact"], is_async=True)],
            "SessionEnd": [_entry(bells["SessionEnd"])],
        },
        "mcpServers": _mcp_servers(home, interpreter),
    }


_RELAYS = {"UserPromptSubmit": "prompt.py", "SessionStart": "briefing.py"}
_BELLS = {"Stop": "stop.py", "PreCompact": "flush.py", "SessionEnd": "flush.py"}


def relay_command(script: Path) -> str:
    """Run a relay by the memory folder's interpreter; silence where there is none.

    Not by ``exec``: an interpreter that cannot start or a script that is gone would end with status 2, and that
    status blocks the prompt.
    """
    return f'P="{_HOME}/python"; [ -x "$P" ] && "$P" -I -S {shlex.quote(str(script))} 2>/dev/null; exit 0'


def bell_command(script: Path, interpreter: str) -> str:
    """Run a flush hook by the interpreter that has Engram's packages; silence where there is none."""
    return f'P={shlex.quote(interpreter)}; [ -x "$P" ] && "$P" -I {shlex.quote(str(script))} 2>/dev/null; exit 0'


def pending_command(script: Path) -> str:
    """One file test when nothing is pending; the script only when something is."""
    pending = f'"{_HOME}/recollections/$CLAUDE_CODE_SESSION_ID.pending"'
    return f"[ -e {pending} ] && sh {shlex.quote(str(script))} 2>/dev/null; exit 0"


def link_interpreter(home: Home) -> None:
    """Make ``python`` in the memory folder a link to the real interpreter, which needs no environment of its own.

    Raises:
        HomeError: the link cannot be made.
    """
    target = os.path.realpath(sys.executable)
    temporary = home.root / f".python.{os.getpid()}.tmp"
    try:
        make_private_folder(home.root)
        if home.python_link.is_symlink() and os.readlink(home.python_link) == target:
            return
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(home.python_link)
    except OSError as error:
        raise HomeError(f"cannot make the link {home.python_link}: {error.strerror or error}") from error


def _entry(command: str, *, is_async: bool = False) -> dict[str, Any]:
    hook: dict[str, Any] = {"type": "command", "command": command}
    hook |= {"timeout": ASYNC_TIMEOUT_SECONDS, "async": True} if is_async else {"timeout": TIMEOUT_SECONDS}
    return {"matcher": "", "hooks": [hook]}


def _mcp_servers(home: Home | None, interpreter: str) -> dict[str, Any]:
    """The server over stdio; nothing where it is not installed."""
    try:
        if importlib.util.find_spec("engram_mcp.server") is None:
            return {}
    except ImportError:
        return {}
    environment = {} if home is None else {"ENGRAM_HOME": str(home.root)}
    return {
        "engram": {"type": "stdio", "command": interpreter, "args": ["-m", "engram_mcp.server"], "env": environment}
    }
