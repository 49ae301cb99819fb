"""Facts of a tool call that every agent's reader takes out of it in the same way. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from engram.text.failures import without_colours
from engram.transcripts.record import MAX_ERROR_CHARS, Action
from engram.transcripts.text import storable

#: This many times the kept length is read, and cut only after redaction: half a secret matches no pattern.
READ_AHEAD = 10
#: Characters of a result that are searched for facts.
MAX_SEARCHED_CHARS = 20_000
#: Longest path that is kept.
MAX_PATH_CHARS = 4096
#: Tools that let another agent work and return its report.
AGENT_TOOLS = frozenset({"Agent", "Task"})
#: Arguments that say where a call works, as Claude Code, Codex, Gemini CLI and file servers call them.
_PLACE_KEYS = ("workdir", "cwd", "path", "dir_path", "directory")

_COMMIT = re.compile(r"^\[(?:[^\]\n]* )?([0-9a-f]{7,40})\] (\S.*)$", re.MULTILINE)
_ENVIRONMENT_FILE = re.compile(
    r"(?:.*[\\/])?(?:\.env\b[^\\/]*|[^\\/]*\.env|credentials[^\\/]*)$", re.IGNORECASE | re.DOTALL
)
_ENVIRONMENT_COMMAND = re.compile(r"\.env\b|\bprintenv\b|\bos\.environ\b|(?:^|[;&|]\s*)env\s*(?:$|[|;&])", re.MULTILINE)
#: Patterns of error lines, the most telling first.
_TELLING = (
    re.compile(r"^(?:E   +)?[\w.]*(?:Error|Exception|Panic)\b.*:|^E   +\S"),
    re.compile(r"\b(?:error|fatal|panic|FAIL|FAILED|failure)\b[\]:(]?", re.IGNORECASE),
    re.compile(
        r"cannot|can't|could not|not found|no such|denied|undefined|unexpected|invalid|refused|✗|✘|×", re.IGNORECASE
    ),
)
_NOISE = re.compile(r"^(?:[$>+] |Exit code|Traceback |[=\-_~*#━─.]{3,}|\[[\w-]+\] \$ |\s*$)")


def telling_line(text: str) -> str:
    """Return the most telling line of an error message, without colours; longer than what is kept."""
    text = without_colours(text).replace("<tool_use_error>", "").replace("</tool_use_error>", "")
    lines = [line.strip() for line in text.splitlines() if not _NOISE.match(line)]
    for pattern in _TELLING:
        for line in lines:
            if pattern.search(line):
                return line[: MAX_ERROR_CHARS * READ_AHEAD]
    return lines[0][: MAX_ERROR_CHARS * READ_AHEAD] if lines else ""


def shows_environment(action: Action) -> bool:
    """True if the result of the call may hold secrets in environment lines.

    It names an environment file, prints the environment, or is the report of an agent, which may have done either.
    """
    return (
        any(_ENVIRONMENT_FILE.match(file) for file in (*action.files, action.place))
        or prints_environment(action.command)
        or action.tool in AGENT_TOOLS
    )


def prints_environment(code: str) -> bool:
    """True if a shell command or script names an environment file or prints the environment."""
    return "env" in code and _ENVIRONMENT_COMMAND.search(code) is not None


def place_of(given: Mapping[str, Any]) -> str:
    """Return where a call works by its arguments: the folder that a command runs in, or what a search looks in."""
    paths = (given.get(key) for key in _PLACE_KEYS)
    return next((storable(path) for path in paths if isinstance(path, str) and 0 < len(path) <= MAX_PATH_CHARS), "")


def commit_of(action: Action, text: str) -> str:
    """Return "sha subject" of a commit that a command made, by what it printed; "" if it made none."""
    if "git" not in action.command or "commit" not in action.command:
        return ""
    match = _COMMIT.search(text)
    return f"{match[1]} {match[2].strip()}"[: MAX_ERROR_CHARS * READ_AHEAD] if match else ""
