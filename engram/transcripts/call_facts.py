"""Facts of a tool call that every agent's reader takes out of it in the same way. Pure."""

from __future__ import annotations

import re

from engram.text.failures import without_colours
from engram.transcripts.record import MAX_ERROR_CHARS, Action

#: This many times the kept length is read, and cut only after redaction: half a secret matches no pattern.
READ_AHEAD = 10
#: Characters of a result that are searched for facts.
MAX_SEARCHED_CHARS = 20_000

_COMMIT = re.compile(r"^\[(?:[^\]\n]* )?([0-9a-f]{7,40})\] (\S.*)$", re.MULTILINE)
_ENVIRONMENT_FILE = re.compile(
    r"(?:.*[\\/])?(?:\.env\b[^\\/]*|[^\\/]*\.env|credentials[^\\/]*)$", re.IGNORECASE | re.DOTALL
)
_ENVIRONMENT_COMMAND = re.compile(r"\.env\b|\bprintenv\b|(?:^|[;&|]\s*)env\s*(?:$|[|;&])", re.MULTILINE)
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
    """True if the call names an environment file or prints the environment, so that its result holds secrets."""
    return any(_ENVIRONMENT_FILE.match(file) for file in action.files) or (
        "env" in action.command and _ENVIRONMENT_COMMAND.search(action.command) is not None
    )


def commit_of(action: Action, text: str) -> str:
    """Return "sha subject" of a commit that a command made, by what it printed; "" if it made none."""
    if "git" not in action.command or "commit" not in action.command:
        return ""
    match = _COMMIT.search(text)
    return f"{match[1]} {match[2].strip()}"[: MAX_ERROR_CHARS * READ_AHEAD] if match else ""
