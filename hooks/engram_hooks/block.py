"""Generate the block for Claude Code's settings: every hook and the MCP server, with absolute paths."""

from __future__ import annotations

import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from engram.errors import HomeError
from engram.paths import Home
from engram.system.atomic import make_private_folder
from engram.version import VERSION

#: The folder of the hooks.
FOLDER = Path(__file__).resolve().parent
#: Seconds after which Claude Code stops a hook for which it is waiting; Engram's hooks exit long before that.
TIMEOUT_SECONDS = 2
#: Comment at the end of every command, followed by the version of Engram that wrote it.
STAMP = "# Engram "
#: Flags for an interpreter that runs Engram's packages in a session: it ignores the session's folder and PYTHON…
#: variables, which may lead to a project's modules. ``-I`` would also hide packages from ``pip install --user``.
APART = ("-E", "-P")
#: The tool whose failures may have been fixed before.
_FAILING_TOOL = "Bash"
_HOME = "${ENGRAM_HOME:-$HOME/.claude-memory}"


def settings_block(home: Home | None = None, interpreter: str = sys.executable) -> dict[str, Any]:
    """Return ``{"hooks": …, "mcpServers": …}`` for Claude Code's settings.

    Args:
        home: a memory folder other than the default, to write into every command; None to use the environment's.
        interpreter: absolute path of the interpreter with Engram's packages.
    """
    place = with_home(home)
    relays = {event: place + relay_command(FOLDER / file) for event, file in _RELAYS.items()}
    enqueue = FOLDER / "enqueue.py"
    flush = place + detached_command(enqueue, interpreter, "flush")
    return {
        "hooks": {
            "UserPromptSubmit": [_entry(relays["UserPromptSubmit"])],
            "SessionStart": [
                _entry(relays["SessionStart"]),
                _entry(flush, matcher="compact"),
                _entry(place + start_command(FOLDER / "start.py", interpreter), matcher="startup|resume"),
            ],
            "PreToolUse": [
                _entry(place + tool_command(FOLDER / "pretooluse.sh", waits_for="pending")),
                _entry(place + detached_relay_command(FOLDER / "prompt.py"), matcher=AGENT_TOOLS),
            ],
            "PostToolUseFailure": [
                _entry(place + tool_command(FOLDER / "failure.sh", waits_for="failures"), matcher=_FAILING_TOOL)
            ],
            "SubagentStart": [_entry(relays["SubagentStart"])],
            "Stop": [_entry(place + detached_command(enqueue, interpreter, "ingest"))],
            "SessionEnd": [_entry(flush)],
        },
        "mcpServers": _mcp_servers(home, interpreter),
    }


_RELAYS = {"UserPromptSubmit": "prompt.py", "SessionStart": "briefing.py", "SubagentStart": "prompt.py"}
#: Matcher for the tools that start a subagent.
AGENT_TOOLS = "Agent|Task"


def relay_command(script: Path) -> str:
    """Return the command that runs a relay with the memory folder's interpreter, if there is one.

    It does not use ``exec``: if the interpreter couldn't start or the script were missing, the exit status would be 2,
    which blocks the prompt.
    """
    return f'P="{_HOME}/python"; [ -x "$P" ] && "$P" -I -S {shlex.quote(str(script))} 2>/dev/null; exit 0'


def detached_command(script: Path, interpreter: str, *arguments: str) -> str:
    """Return the command that runs a hook in the background, with Engram's packages and the payload as its input.

    It is silent if there is no interpreter, and exits within seconds, whatever is broken. It does not use ``async``,
    because Claude Code, before it exits, waits 1.5 s for a running asynchronous hook and then cancels it.
    """
    return _in_background(shlex.quote(interpreter), shlex.join([*APART, str(script), *arguments]))


def start_command(script: Path, interpreter: str) -> str:
    """Return the command that starts the worker and the watcher in the background if config.toml enables this.

    The shell only looks for the setting, with a value other than ``false``; the script reads it.
    """
    # Opening a pipe would wait for whoever writes to it.
    config = f'"{_HOME}/config.toml"'
    chosen = f"[ -f {config} ] && grep -qsE '^[^#=]*start_with_session[^=]*=[[:space:]]*[^[:space:]f]' {config}"
    return f"{chosen} || exit 0; {detached_command(script, interpreter)}"


def tool_command(script: Path, *, waits_for: str) -> str:
    """Return the command of a tool call's hook, which runs the script only if the session has a certain file.

    Args:
        script: the shell script; it is sourced, which saves a process, and finds its own path in ``$S``.
        waits_for: suffix of the file without which there is nothing to do. It is in ``recollections`` of the memory
            folder, or of the vault of the session's project.
    """
    name = f'recollections/"$CLAUDE_CODE_SESSION_ID".{waits_for}'
    # Without ``command``, a shell that sources an incomplete file exits with status 2, which blocks the call.
    source = f'[ -e "$F" ] && S={shlex.quote(str(script))} && command . "$S" 2>/dev/null'
    return f'for F in "{_HOME}"/{name} "{_HOME}"/vaults/*/{name}; do {source}; done; exit 0'


def detached_relay_command(script: Path) -> str:
    """Return the command that passes a payload to the worker in the background and prints nothing."""
    return _in_background(f'"{_HOME}/python"', f"-I -S {shlex.quote(str(script))}")


def _in_background(interpreter: str, arguments: str) -> str:
    """Return the command that runs an interpreter in the background; both parts are already quoted."""
    run = f'"$P" {arguments} <&3 3<&-'
    # If ``exec 3<&0`` fails because standard input is closed, the shell exits with status 2, which blocks Claude.
    given = "{ true 3<&0 || exec </dev/null; } 2>/dev/null"
    return f'P={interpreter}; [ -x "$P" ] && {{ {given}; exec 3<&0; ( {run} & ) >/dev/null 2>&1; }}; exit 0'


def link_interpreter(home: Home) -> None:
    """Point ``python`` in the memory folder to the real interpreter, outside any environment. Raises HomeError."""
    target = os.path.realpath(sys.executable)
    temporary = home.root / f".python.{os.getpid()}.tmp"
    try:
        make_private_folder(home.root, with_parents=True)
        if home.python_link.is_symlink() and os.readlink(home.python_link) == target:
            return
        temporary.unlink(missing_ok=True)
        temporary.symlink_to(target)
        temporary.replace(home.python_link)
    except OSError as error:
        raise HomeError(f"can't create the link {home.python_link}: {error.strerror or error}") from error


def with_home(home: Home | None) -> str:
    """Return the prefix that makes a command use a memory folder; "" to leave the choice to the environment."""
    if home is None:
        return ""
    return f"ENGRAM_HOME=${{ENGRAM_HOME:-{shlex.quote(str(home.root))}}}; export ENGRAM_HOME; "


def stamped(command: str) -> str:
    """Return a command with a comment that gives the version that wrote it."""
    return f"{command} {STAMP}{VERSION}"


def _entry(command: str, *, matcher: str = "") -> dict[str, Any]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": stamped(command), "timeout": TIMEOUT_SECONDS}]}


def _mcp_servers(home: Home | None, interpreter: str) -> dict[str, Any]:
    """Return the MCP server's entry; {} if the server is not installed."""
    try:
        if importlib.util.find_spec("engram_mcp.server") is None:
            return {}
    except ImportError:
        return {}
    environment = {} if home is None else {"ENGRAM_HOME": str(home.root)}
    arguments = [*APART, "-m", "engram_mcp.server"]
    return {"engram": {"type": "stdio", "command": interpreter, "args": arguments, "env": environment}}
