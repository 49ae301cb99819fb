"""The command line of a call to Claude Code in print mode: which binary, which environment, which flags.

Flags were read off Claude Code 2.1.197 and 2.1.330.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from engram.extraction.provider import ModelRequest
from engram.settings import Settings

#: Prefixes of the variables that tell Claude Code how to log in and where its configuration is. Its other variables
#: belong to a session that may have started the worker, and are dropped.
_KEPT_PREFIXES = (
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_USE_FOUNDRY",
    "CLAUDE_CODE_SKIP_BEDROCK_AUTH",
    "CLAUDE_CODE_SKIP_VERTEX_AUTH",
    "CLAUDE_CODE_SKIP_FOUNDRY_AUTH",
    "CLAUDE_CODE_CLIENT_",
    "CLAUDE_CODE_API_KEY_",
    "CLAUDE_CODE_HTTP",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
)


def call_environment(command: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a call, without variables of Engram and of a session that may have started this
    process.
    """
    environ = os.environ if environ is None else environ
    kept = {name: value for name, value in drop_session(environ).items() if not name.startswith("ENGRAM_")}
    kept["ENGRAM_DISABLE"] = "1"
    # A service has a short PATH. If npm installed the command, its interpreter is in the same folder.
    kept["PATH"] = os.pathsep.join([*_absolute_folders(environ), str(Path(command).parent)])
    return kept


def drop_session(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without the variables of the Claude Code session that may have started this process."""
    return {
        name: value
        for name, value in environ.items()
        if name.startswith(_KEPT_PREFIXES) or not name.startswith("CLAUDE")
    }


def find_claude(settings: Settings, environ: Mapping[str, str] | None = None) -> str | None:
    """Return the absolute path of the command that the settings name, or None where it can't be run.

    The current folder is never searched, since it may be anybody's checkout.
    """
    command = os.path.expanduser(settings.claude_command)
    if os.path.dirname(command) and not os.path.isabs(command):
        return None
    folders = _absolute_folders(os.environ if environ is None else environ)
    return shutil.which(command, path=os.pathsep.join(folders) or os.devnull)


def _absolute_folders(environ: Mapping[str, str]) -> list[str]:
    """Return the absolute folders of PATH."""
    return [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]


def print_mode_arguments(settings: Settings, request: ModelRequest) -> list[str]:
    """Return the arguments of a call: no tools, no hooks, no MCP servers, no session file; the answer as JSON."""
    return [
        "-p",
        *("--model", settings.claude_model),
        "--safe-mode",
        *("--tools", ""),
        "--strict-mcp-config",
        "--no-session-persistence",
        *("--system-prompt", request.system),
        *("--output-format", "json"),
        *("--json-schema", json.dumps(request.schema, separators=(",", ":"))),
        *("--max-budget-usd", f"{settings.llm_dollars_per_call:g}"),
    ]
