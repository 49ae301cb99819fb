"""Choose memories about a tool call: only those that name its file, its command or its error. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from engram.enums import Kind, Verdict
from engram.recollection.choose import Bite, InjectionRequest, RatedHit, bites_of, deduplicate, why_barred
from engram.search.hits import Hit
from engram.text.recollection_stems import stems
from engram.text.topic_words import topic_words

#: Maximum number of bites for a tool call.
MAX_BITES = 1
#: Kinds of memories that a tool call may bring up.
KINDS = (Kind.DECISION, Kind.PREFERENCE, Kind.FIX, Kind.DEAD_END, Kind.FACT)
#: Share of an error's words that a memory about a failed command must contain.
MIN_ERROR_SHARE = 0.5
#: File names that every project has; they identify a file only together with its folder.
_COMMON = re.compile(
    r"(?:__init__|index|main|mod|lib|app|utils?|types?|setup|conftest|readme|claude)(?:\.\w+)*", re.IGNORECASE
)
_SUBCOMMAND = re.compile(r"[a-z][\w.-]*(?:\s+[a-z][\w:-]*)?")
#: Programs that only look around and need no reminder.
_READ_ONLY_PROGRAMS = frozenset(
    [
        "cat",
        "cd",
        "cp",
        "echo",
        "find",
        "grep",
        "head",
        "ls",
        "mkdir",
        "mv",
        "pwd",
        "rg",
        "rm",
        "sed",
        "sleep",
        "tail",
        "test",
        "touch",
        "wc",
        "which",
    ]
)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The files, command and error of a tool call."""

    #: File names as written.
    files: tuple[str, ...] = ()
    command: str = ""
    #: First line of its error; "" if it has not failed.
    error: str = ""

    @property
    def text(self) -> str:
        """The text that is searched for; "" for a call that needs no reminder."""
        names = [PurePosixPath(name.replace("\\", "/")).name for name in self.files]
        return " ".join([*names, program_of(self.command) and self.command, self.error]).strip()


def program_of(command: str) -> str:
    """Return program and subcommand, such as ``go test``; "" for commands that only look around."""
    match = _SUBCOMMAND.match(command.strip())
    program = match[0] if match else ""
    return "" if program.split(" ")[0] in _READ_ONLY_PROGRAMS else program


def choose_for_tool_call(hits: Sequence[Hit], request: InjectionRequest, call: ToolCall) -> list[Bite]:
    """Return the bite for a tool call: a memory that names its file, command or error; mostly none."""
    return bites_of(rate_for_tool_call(hits, request, call))


def rate_for_tool_call(hits: Sequence[Hit], request: InjectionRequest, call: ToolCall) -> list[RatedHit]:
    """Say of every memory whether it becomes the bite for a tool call, and why not; the best first."""
    in_context = request.in_context() if hits else ()
    rated = [
        RatedHit(
            hit=hit, place=place, score=1.0 / (1 + place), floor=0.0, verdict=_verdict(hit, request, call, in_context)
        )
        for place, hit in enumerate(hits)
        if hit.episode is not None
    ]
    return deduplicate(rated, min(request.bites, MAX_BITES), 0.0)


def _verdict(hit: Hit, request: InjectionRequest, call: ToolCall, in_context: Collection[str]) -> Verdict:
    assert hit.episode is not None
    if hit.kind not in KINDS or not is_about(hit, call):
        return Verdict.NOT_NAMED
    return why_barred(hit.id, hit.episode, request, in_context) or Verdict.SHOWN


def is_about(hit: Hit, call: ToolCall) -> bool:
    """Return True if a memory names a file of the call, its command, or most of its error."""
    entities = hit.episode.entities if hit.episode is not None else ()
    told = f" {hit.text} {' '.join(entities)} ".lower().replace("\\", "/")
    if any(_names_file(told, name) for name in call.files):
        return True
    program = program_of(call.command).lower()
    if " " in program and re.search(rf"(?<![\w-]){re.escape(program)}(?![\w-])", told):
        return True
    wanted = stems(topic_words(call.error))
    return len(wanted) > 2 and len(wanted & stems(topic_words(told))) >= MIN_ERROR_SHARE * len(wanted)


def _names_file(told: str, name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/").lower())
    wanted = "/".join(path.parts[-2:]) if _COMMON.fullmatch(path.name) else path.name
    return len(wanted) > 3 and re.search(rf"(?<![\w.-]){re.escape(wanted)}(?![\w-])", told) is not None
