"""Facts about tool calls, extracted in the same way by every agent's reader. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engram.system.lazy_regex import any_case, has_one, lazy_regex
from engram.text.shell import meant_programs, part_with_known_status, without_colours
from engram.transcripts.json_values import storable
from engram.transcripts.turns import MAX_COMMAND_CHARS, MAX_ERROR_CHARS, Action, TodoState

# -- Facts about a tool call, extracted in the same way by every agent's reader. Pure.

#: Text is read up to this many times its stored length and cut only after redaction, because half a secret matches no
#: pattern.
READ_AHEAD = 10
#: Maximum number of characters of a result that are searched for facts.
MAX_SEARCHED_CHARS = 20_000
#: Maximum length of a stored path.
MAX_PATH_CHARS = 4096
#: Tools that delegate work to another agent and return its report.
AGENT_TOOLS = frozenset({"Agent", "Task"})
#: Arguments that specify where a call operates, as named by Claude Code, Codex, Gemini CLI and file servers.
_PLACE_KEYS = ("workdir", "cwd", "path", "dir_path", "directory")

_COMMIT = lazy_regex(r"^\[(?:[^\]\n]* )?([0-9a-f]{7,40})\] (\S.*)$", re.MULTILINE)
_ENVIRONMENT_FILE = lazy_regex(
    r"(?:.*[\\/])?(?:\.env(?:rc)?\b[^\\/]*|[^\\/]*\.(?:env|tfvars)|\.dev\.vars[^\\/]*|credentials[^\\/]*)$",
    re.IGNORECASE | re.DOTALL,
)
_ENVIRONMENT_COMMAND = lazy_regex(
    r"\.env(?:rc)?\b|\.dev\.vars\b|\.tfvars\b|\bprintenv\b|\bos\.environ\b|/environ\b|\bheroku config\b|"
    r"\b(?:docker|podman) inspect\b|\b(?:export|declare|typeset) -p?x?(?=\s*(?:$|[|;&>]))|"
    r"(?:^|[;&|]\s*|\bexec\b[^;&|\n]{1,80}\s)env\s*(?:$|[|;&])",
    re.MULTILINE,
)
#: Every environment file has one of these in its name.
_ENVIRONMENT_NAMES = ("env", "vars", "credentials")
#: Every command that prints the environment contains one of these.
_ENVIRONMENT_MARKS = ("env", "vars", " -p", " -x", "inspect", "heroku")
#: Patterns of error lines, most informative first.
_TELLING = (
    lazy_regex(r"^(?:E   +)?[\w.]*(?:Error|Exception|Panic)\b.*:|^E   +\S"),
    any_case(r"\b(?:error|fatal|panic|FAIL|FAILED|failure)\b[\]:(]?"),
    any_case(r"cannot|can't|could not|not found|no such|denied|undefined|unexpected|invalid|refused|✗|✘|×"),
)
_NOISE = lazy_regex(r"^(?:[$>+] |Exit code|Traceback |[=\-_~*#━─.]{3,}|\[[\w-]+\] \$ |\s*$)")


def telling_line(text: str) -> str:
    """Return the most informative line of an error message, without colours; longer than the stored form."""
    text = without_colours(text).replace("<tool_use_error>", "").replace("</tool_use_error>", "")
    lines = [line.strip() for line in text.splitlines() if not _NOISE.match(line)]
    for pattern in _TELLING:
        for line in lines:
            if pattern.search(line):
                return line[: MAX_ERROR_CHARS * READ_AHEAD]
    return lines[0][: MAX_ERROR_CHARS * READ_AHEAD] if lines else ""


def shows_environment(action: Action) -> bool:
    """Return True if the result of a call may contain secrets in environment lines.

    Such a call names an environment file, prints the environment, or returns the report of an agent that may have done
    so.
    """
    if action.command and prints_environment(action.command):
        return True
    places = (*action.files, action.place)
    is_named = any(has_one(place.lower(), _ENVIRONMENT_NAMES) and _ENVIRONMENT_FILE.match(place) for place in places)
    return is_named or action.tool in AGENT_TOOLS


def prints_environment(code: str) -> bool:
    """Return True if a shell command or script names an environment file or prints the environment."""
    return has_one(code, _ENVIRONMENT_MARKS) and _ENVIRONMENT_COMMAND.search(code) is not None


def place_of(given: Mapping[str, Any]) -> str:
    """Return where a call operates, from its arguments: the folder of a command, or the path that a search covers."""
    for key in _PLACE_KEYS:
        path = given.get(key)
        if isinstance(path, str) and 0 < len(path) <= MAX_PATH_CHARS:
            return storable(path)
    return ""


def commit_of(action: Action, text: str) -> str:
    """Return "sha subject" of the commit that a command's output reports; "" if there is none."""
    if "git" not in action.command or "commit" not in action.command:
        return ""
    match = _COMMIT.search(text)
    return f"{match[1]} {match[2].strip()}"[: MAX_ERROR_CHARS * READ_AHEAD] if match else ""


# -- The message of a ``git commit`` command. Pure.

_GIT_COMMIT = r"git(?:\s+-[cC]\s+\S+)*\s+commit\b(?P<rest>.*)"
_COMMIT_COMMAND = lazy_regex(rf"(?:^|[;&|(\n])\s*{_GIT_COMMIT}", re.DOTALL)
#: The same, run through another program, which may shorten the output.
_COMMIT_BY_RUNNER = lazy_regex(rf"(?:^|[;&|(\n])\s*(?:(?:rtk|sudo|command|time|nice)\s+)?{_GIT_COMMIT}", re.DOTALL)
#: Options with which ``git commit`` commits nothing, outside quotations and before the next command.
_ONLY_SHOWS = lazy_regex(
    r"(?:[^\"'\n;&|<\\]|\\.|\"(?:[^\"\\]|\\.)*\"|'[^']*')*?\s--(?:dry-run|short|long|porcelain)(?![\w-])", re.DOTALL
)
_HEREDOC = lazy_regex(r"<<-?\s*(['\"]?)(?P<end>\w+)\1\n(?P<text>.*)", re.DOTALL)
_HERE_STRING = lazy_regex(r"@(?P<quote>['\"])\n(?P<text>.*)", re.DOTALL)
_MESSAGE = lazy_regex(
    r"(?:\s-[a-zA-Z]*m|\s--message)[= ]?\s*(?:\"(?P<double>(?:[^\"\\]|\\.)*)(?P<end2>\"|$)|"
    r"'(?P<single>[^']*)(?P<end1>'|$))",
    re.DOTALL,
)
#: Lines that tools and people add below a message.
_TRAILER = lazy_regex(r"^\s*(?:[A-Z][\w-]+-by|Co-authored-by|Change-Id|\W*Generated (?:with|by))\b.*$", re.I | re.M)
#: Where a truncated message may be cut: after a sentence, or before a bullet.
_SENTENCE_END = lazy_regex(r"(?<!\d)[.!?](?=\s|$)|(?=\n\s*(?:[-*•]|\d+[.)])\s)")


def read_message(command: str, *, by_runner: bool = False) -> tuple[str, str]:
    """Return the subject and body of a ``git commit`` command's message; ("", "") if there is none.

    A command that only shows what would be committed has none.

    Args:
        command: a shell command as stored, up to ``MAX_COMMAND_CHARS``; the last sentence of a truncated message is
            left out.
        by_runner: also recognise a commit run through another program, such as ``sudo``.
    """
    pattern = _COMMIT_BY_RUNNER if by_runner else _COMMIT_COMMAND
    match = pattern.search(command)
    while match is not None and _ONLY_SHOWS.match(match["rest"]):
        match = pattern.search(command, match.start("rest"))
    if match is None:
        return "", ""
    text, is_whole = _quoted(match["rest"])
    if not is_whole and len(command) >= MAX_COMMAND_CHARS:
        ends = [end.end() for end in _SENTENCE_END.finditer(text)]
        text = text[: ends[-1]] if ends else text.partition("\n")[0] if "\n" in text else ""
    subject, _, body = _TRAILER.sub("", text).strip().partition("\n")
    return subject.strip(), body.strip()


def _quoted(rest: str) -> tuple[str, bool]:
    """Return the message in the arguments of ``git commit``, and whether it is complete."""
    if heredoc := _HEREDOC.search(rest):
        text, end, _ = heredoc["text"].partition("\n" + heredoc["end"])
        return text, bool(end)
    if here := _HERE_STRING.search(rest):
        text, end, _ = here["text"].partition("\n" + here["quote"] + "@")
        return text, bool(end)
    parts = [
        (match["double"] if match["double"] is not None else match["single"], bool(match["end2"] or match["end1"]))
        for match in _MESSAGE.finditer(rest)
    ]
    return "\n\n".join(text for text, _ in parts), all(is_closed for _, is_closed in parts)


# -- Find the open entries of a session's todo list, from its tool calls in order.


def open_todos(actions: Iterable[Action]) -> list[str]:
    """Return the texts of the entries that no later call completed, in order."""
    whole: list[str] = []
    single: dict[str, str] = {}
    for action in actions:
        if action.is_todo_list:
            whole = [todo.text for todo in action.todos if todo.state is TodoState.OPEN]
            continue
        for todo in action.todos:
            if todo.state is TodoState.DONE:
                single.pop(todo.key, None)
            elif todo.text and (todo.state is TodoState.OPEN or todo.key in single):
                single[todo.key] = todo.text
    return list(dict.fromkeys([*whole, *single.values()]))


# -- Find the failing command that a session left open, from its tool calls in order.


def open_failure(actions: Sequence[Action]) -> Action | None:
    """Return the last failing command, unless one of its programs has passed or a commit was made since.

    Programs count as failed or passed only if the exit status reveals their outcome.
    """
    passed: set[str] = set()
    for action in reversed(actions):
        if action.commit:
            return None
        is_ended = action.is_error is not None and not action.is_refused
        programs = (
            meant_programs(part_with_known_status(action.command, has_failed=bool(action.is_error))) if is_ended else ()
        )
        if programs and not action.is_error:
            passed.update(programs)
        elif programs and not passed & set(programs):
            return action
    return None
