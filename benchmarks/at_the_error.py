"""Does a failing command show how the same failure was fixed before, and is nothing shown for new failures?

    python benchmarks/at_the_error.py CORPUS [--show] [--json]

CORPUS contains one Claude configuration folder for each project (``<project>/projects/<slug>/<session>.jsonl``). For
each failing command, in chronological order, the payload of PostToolUseFailure is sent after the transcripts have been
read up to just before the command's result. Targets: a line for at least 60 % of the repeated failures whose fix is in
the history, and at most 5 % false lines for 300 first-time failures.

Failures are classified from the raw transcripts, independently of the product's code:

- A failing command is a call of a shell whose result is marked as an error, was not refused, blocked or interrupted,
  and says more than its exit status.
- The statements of an error are its lines that contain a word of failure, except log lines, as sets of words of three
  or more letters. Words from the command itself, from paths and from mere statuses ("FAIL ./store", "task failed") do
  not count. Two errors have the same cause if a pair of such lines with at least two words each has a Jaccard index of
  at least 0.7. From 0.5, they may have the same cause.
- Two commands are the same if their words (without folder changes, redirections, quoted texts and what follows a pipe)
  have a Jaccard index of at least 0.5, or one has all words of the other.
- A repeated failure is the first with its cause in its session, after the same command failed for the same cause in an
  earlier session. The fix is in the history if, in that earlier session and before the repetition, the same command
  passed in another form, after an edit, or after another command that changes something.
- The error names the fix itself if four fifths of the words of that form or other command are in the new error, and
  nothing was edited. A line would add nothing; such failures are counted separately.
- Any other failure, such as the second with the same cause in a session, is also sent, and counted separately.
- A first-time failure has a cause that no earlier failure of the project may have had, in any session. If a corpus has
  fewer than 300, failures of other projects with causes that are new to this project are added, drawn with a seed.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock

#: Number of first-time failures that are sent.
FIRST_TIME = 300
SAME_CAUSE, MAYBE_SAME_CAUSE, SAME_COMMAND = 0.7, 0.5, 0.5
#: Minimum number of words in a statement of an error.
MIN_STATEMENT_WORDS = 2

_SHELLS = ("Bash", "PowerShell")
_NOT_RUN = re.compile(
    r"doesn't want to proceed|requires approval|<tool_use_error>|was blocked|haven't granted|Request interrupted|"
    r"cannot determine the safety"
)
_FAILURE_WORD = re.compile(
    r"error|fail|fatal|panic|exception|\bnot?\b|cannot|can't|denied|unrecogni[sz]ed|unexpected|invalid|undefined|"
    r"missing|"
    r"ignored|conflict|would have|×|✗",
    re.IGNORECASE,
)
_LOG_WORD = re.compile(r"\b(?:INFO|DEBUG|WARN|WARNING|PASS)\b|^\s*[\d\s]*[│|]")
_PATH = re.compile(r"\S*[/\\\\]\S*|\S+\.\w{1,4}:\d+\S*")
_STATUS_WORDS = frozenset(
    "assertion build code command error errors exit exited fail failed failing failure failures fatal file files for "
    "problem problems process run script status step task test tests the was were with".split()
)
_LETTERS = re.compile(r"[^\W\d_]{3,}")
_QUOTED = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'[^']*'")
_CHANGING = re.compile(
    r"fix|format|fmt|install|add|commit|init|creat|mkdir|checkout|fetch|pull|sync|generat|build|reset"
)


@dataclass
class Call:
    """A tool call in a raw transcript."""

    project: str
    path: Path
    session: str
    #: Number of its result's line in the file, from 0.
    line: int
    at: str
    cwd: str
    tool: str
    command: str
    is_error: bool
    text: str
    #: The words of each line that states a failure.
    statements: list[frozenset[str]] = field(default_factory=list)

    @property
    def is_failure(self) -> bool:
        """True for a failing command whose error states something."""
        return self.tool in _SHELLS and self.is_error and not _NOT_RUN.search(self.text) and bool(self.statements)


@dataclass
class Asked:
    """A failure that was sent, and the answer."""

    call: Call
    #: repeated with a fix; repeated, fix named; repeated; other; first; foreign.
    kind: str
    answer: str = ""


def main() -> None:
    """Send the failures and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--show", action="store_true", help="print every line that is shown or missing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    calls = {folder.name: read_calls(folder) for folder in sorted(options.corpus.iterdir()) if folder.is_dir()}
    asked: list[Asked] = []
    wanted = FIRST_TIME - sum(item.kind == "first" for name in calls for item in classify(calls[name]))
    foreign = draw_foreign(calls, max(0, wanted))
    for name in calls:
        with tempfile.TemporaryDirectory() as folder:
            asked += Replay(Path(folder), calls[name]).run(classify(calls[name]), foreign[name])
    report(asked, is_json=options.json, is_shown=options.show)


# -- the raw transcripts


def read_calls(folder: Path) -> list[Call]:
    """Return the calls in a project's main sessions with their results, by time. A fork's copies are left out."""
    paths = [
        path
        for path in sorted(folder.glob("projects/**/*.jsonl"))
        if "subagents" not in path.parts and not path.name.startswith("agent-")
    ]
    calls: dict[str, Call] = {}
    for path in sorted(paths, key=first_time):
        uses: dict[str, dict[str, Any]] = {}
        for number, entry in enumerate(entries(path)):
            for block in blocks(entry):
                if block.get("type") == "tool_use":
                    uses[block["id"]] = block
                elif block.get("type") == "tool_result" and block.get("tool_use_id") not in calls:
                    use = uses.get(str(block.get("tool_use_id")))
                    if use is not None:
                        calls[use["id"]] = make_call(folder.name, path, number, entry, use, block)
    return sorted(calls.values(), key=lambda call: call.at)


def make_call(
    project: str, path: Path, line: int, entry: dict[str, Any], use: dict[str, Any], block: dict[str, Any]
) -> Call:
    """Return a call with the statements of its error."""
    content = block.get("content")
    if isinstance(content, list):
        content = "\n".join(part.get("text", "") for part in content if isinstance(part, dict))
    text = content if isinstance(content, str) else ""
    given = use.get("input") or {}
    return Call(
        project=project,
        path=path,
        session=path.stem,
        line=line,
        at=str(entry.get("timestamp")),
        cwd=str(entry.get("cwd") or ""),
        tool=str(use.get("name")),
        command=str(given.get("command") or ""),
        is_error=block.get("is_error") is True,
        text=text,
        statements=statements_of(text, str(given.get("command") or "")) if block.get("is_error") is True else [],
    )


def first_time(path: Path) -> str:
    """Return when a session began."""
    return min((str(entry["timestamp"]) for entry in entries(path) if entry.get("timestamp")), default="")


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every line of a transcript as an object; {} for a line that is not one."""
    for line in path.read_text(encoding="utf-8", errors="replace").split("\n"):
        try:
            entry = json.loads(line)
        except ValueError:
            entry = {}
        yield entry if isinstance(entry, dict) else {}


def blocks(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the blocks of an entry in the main conversation."""
    message = entry.get("message")
    content = message.get("content") if isinstance(message, dict) and not entry.get("isSidechain") else None
    yield from (block for block in content if isinstance(block, dict)) if isinstance(content, list) else ()


def statements_of(text: str, command: str) -> list[frozenset[str]]:
    """Return the words of each line that states a failure, except lines that any failure of the command may have."""
    general = _STATUS_WORDS | {word.lower() for word in _LETTERS.findall(command)}
    lines = [line for line in text.replace("\\n", "\n").splitlines() if not line.startswith("Exit code")]
    words = [
        frozenset(word.lower() for word in _LETTERS.findall(_PATH.sub(" ", line))) - general
        for line in lines
        if _FAILURE_WORD.search(line) and not _LOG_WORD.search(line)
    ]
    return [statement for statement in dict.fromkeys(words) if len(statement) >= MIN_STATEMENT_WORDS]


# -- the definitions


def jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    """Return the share of words that two sets have in common."""
    return len(first & second) / len(first | second) if first | second else 0.0


def likeness(first: Call, second: Call) -> float:
    """Return how similar the causes of two failures are, from 0 to 1."""
    return max((jaccard(one, other) for one in first.statements for other in second.statements), default=0.0)


def command_words(command: str) -> frozenset[str]:
    """Return the words that distinguish a command from others."""
    line = _QUOTED.sub(" ", command.strip().split("\n")[0])
    line = re.sub(r"\d?>&\d|\d?>\s*/dev/null", " ", line)
    parts = [part.split("|")[0] for part in re.split(r"&&|;", line)]
    return frozenset(word for part in parts if not part.strip().startswith("cd ") for word in part.split())


def is_same_command(first: Call, second: Call) -> bool:
    """Return True for two forms of the same command."""
    words, others = command_words(first.command), command_words(second.command)
    if not words or not others:
        return False
    return jaccard(words, others) >= SAME_COMMAND or words <= others or others <= words


def find_fix(failure: Call, calls: list[Call], until: str) -> str | None:
    """Return what made the command pass later in its session: "edits", or a command; None if it was only run again."""
    after = [call for call in calls if call.session == failure.session and failure.at < call.at < until]
    fix = None
    for call in after:
        if call.tool in ("Edit", "Write", "MultiEdit") and not call.is_error:
            fix = "edits"
        if call.tool not in _SHELLS or call.is_error:
            continue
        if is_same_command(call, failure):
            has_other_form = command_words(call.command) != command_words(failure.command)
            return fix or (call.command if has_other_form else None)
        if fix != "edits" and _CHANGING.search(call.command):
            fix = call.command
    return None


def is_named(fix: str, error: str) -> bool:
    """Return True if an error names the command that fixes it."""
    words = command_words(fix)
    return fix != "edits" and sum(word in error for word in words) >= 0.8 * len(words)


def classify(calls: list[Call]) -> list[Asked]:
    """Return the failures of a project, by time: repeated ones, and those with a new cause."""
    failures = [call for call in calls if call.is_failure]
    asked = []
    for number, call in enumerate(failures):
        before = failures[:number]
        if not any(likeness(call, other) >= MAYBE_SAME_CAUSE for other in before):
            asked.append(Asked(call, "first"))
            continue
        same = [other for other in before if likeness(call, other) >= SAME_CAUSE and is_same_command(call, other)]
        if not same or any(other.session == call.session for other in same):
            asked.append(Asked(call, "other"))
            continue
        fixes = [fix for other in same if (fix := find_fix(other, calls, call.at)) is not None]
        if any(not is_named(fix, call.text) for fix in fixes):
            asked.append(Asked(call, "repeated with a fix"))
        else:
            asked.append(Asked(call, "repeated, fix named" if fixes else "repeated"))
    return asked


def draw_foreign(calls: dict[str, list[Call]], count: int) -> dict[str, list[Asked]]:
    """Return, for each project, failures of others with causes that are new to it: ``count`` in all, by a seed."""
    failures = {name: [call for call in calls[name] if call.is_failure] for name in calls}
    pairs = [
        (name, call)
        for name in calls
        if failures[name]
        for other in calls
        if other != name
        for call in failures[other]
        if not any(likeness(call, own) >= MAYBE_SAME_CAUSE for own in failures[name])
    ]
    drawn = random.Random(14).sample(pairs, min(count, len(pairs)))
    return {name: [Asked(call, "foreign") for project, call in drawn if project == name] for name in calls}


# -- the replay


class Replay:
    """A project whose transcripts grow as they did originally, and the service to which each failure is sent."""

    def __init__(self, folder: Path, calls: list[Call]) -> None:
        self._settings = Settings(
            home=folder / "home", claude_folder=folder / "claude", embedding_model="hashed", join_worktrees=True
        )
        self._settings.places.prepare()
        self._clock = FixedClock()
        self._store: Store = open_store(self._settings.places.memory_db, clock=self._clock)
        self._service = RecollectionService(self._store, Searcher(self._store, self._settings), self._settings)
        self._lines = {path: path.read_text(encoding="utf-8", errors="replace").split("\n") for path in paths_of(calls)}
        self._times = {path: times_of(lines) for path, lines in self._lines.items()}
        self._written = dict.fromkeys(self._lines, 0)
        self._cwd = calls[-1].cwd if calls else "/"

    def run(self, own: list[Asked], foreign: list[Asked]) -> list[Asked]:
        """Send the project's own failures in order, then those of other projects in separate sessions."""
        for item in own:
            self._read_until(item.call)
            item.answer = self._ask(item.call, item.call.session, item.call.cwd)
        if foreign:
            for path in self._lines:
                self._read(path, len(self._lines[path]))
            for number, item in enumerate(foreign):
                item.answer = self._ask(item.call, f"foreign-{number}", self._cwd)
        self._store.close()
        return own + foreign

    def _read_until(self, call: Call) -> None:
        """Read what the transcripts contained just before a call's result."""
        for path, times in self._times.items():
            until = call.line if path == call.path else next((n for n, at in times if at > call.at), len(times))
            self._read(path, max(until, self._written[path]))

    def _read(self, path: Path, until: int) -> None:
        if until <= self._written[path]:
            return
        copy = self._settings.claude_folder / "projects" / path.parent.name / path.name
        copy.parent.mkdir(parents=True, exist_ok=True)
        with copy.open("a", encoding="utf-8") as file:
            file.writelines(f"{line}\n" for line in self._lines[path][self._written[path] : until])
        self._written[path] = until
        ingest_path(self._store, copy, settings=self._settings, redact=lambda text, _: redact(text))

    def _ask(self, call: Call, session: str, cwd: str) -> str:
        if call.at and call.at != "None":
            self._clock.at_ms = int(datetime.fromisoformat(call.at.replace("Z", "+00:00")).timestamp() * 1000)
        output = self._service.answer_hook(
            {
                "hook_event_name": "PostToolUseFailure",
                "session_id": session,
                "cwd": cwd,
                "tool_name": call.tool,
                "tool_input": {"command": call.command},
                "error": call.text,
            }
        )
        self._service.write_down()
        return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""


def paths_of(calls: list[Call]) -> list[Path]:
    """Return the transcripts of calls, each once."""
    return list(dict.fromkeys(call.path for call in calls))


def times_of(lines: list[str]) -> list[tuple[int, str]]:
    """Return the number and time of each line; a line without a time has that of the line before."""
    times, latest = [], ""
    for number, line in enumerate(lines):
        match = re.search(r'"timestamp":"([^"]+)"', line)
        latest = max(latest, match[1]) if match else latest
        times.append((number, latest))
    return times


# -- the report


def report(asked: list[Asked], *, is_json: bool, is_shown: bool) -> None:
    """Print the figures, for all projects and for each."""
    if is_shown:
        for item in asked:
            if item.kind.startswith("repeated") or item.answer:
                line = next((line for line in item.answer.splitlines() if line.startswith("- ")), "(silence)")
                command = " ".join(item.call.command.split())[:90]
                print(f"{item.kind} | {item.call.project} {item.call.session[:8]} | {command}\n    {line}")
    names = sorted({item.call.project for item in asked})
    figures = {"all": figures_of(asked)}
    figures |= {name: figures_of([item for item in asked if item.call.project == name]) for name in names}
    if is_json:
        print(json.dumps(figures))
        return
    kinds = {
        "fix known": "fixable",
        "fix in the error": "named",
        "no fix": "unfixed",
        "other": "other",
        "first-time": "first",
    }
    for name, figure in figures.items():
        counts = (f"{title} {figure[f'{kind}_shown']}/{figure[kind]}" for title, kind in kinds.items())
        print(f"{name:<34} {'   '.join(counts)}")
    total = figures["all"]
    print(f"shown {100 * total['fixable_shown'] / max(1, total['fixable']):.1f} %   (goal: 60)")
    print(f"false lines {100 * total['first_shown'] / max(1, total['first']):.1f} % of {total['first']}   (goal: 5)")


def figures_of(asked: list[Asked]) -> dict[str, int]:
    """Return how many failures of each kind there are, and for how many a line was shown."""

    def count(*kinds: str, shown: bool = False) -> int:
        return sum(item.kind in kinds and (not shown or bool(item.answer)) for item in asked)

    kinds = {
        "fixable": ("repeated with a fix",),
        "named": ("repeated, fix named",),
        "unfixed": ("repeated",),
        "other": ("other",),
        "first": ("first", "foreign"),
    }
    numbers = {name: count(*some) for name, some in kinds.items()}
    return numbers | {f"{name}_shown": count(*some, shown=True) for name, some in kinds.items()}


if __name__ == "__main__":
    main()
