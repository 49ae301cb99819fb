"""Memories about the file or command of a tool call: only those that name it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from engram.enums import Kind
from engram.recollection.choose import Asking, Bite, may_inject, spread_out
from engram.recollection.prompt_filter import telling_words
from engram.search.hits import Hit
from engram.text.stems import stems

#: Bites for one tool call at most.
BITES = 1
#: Kinds that are worth a line for a file or command alone.
KINDS = (Kind.DECISION, Kind.PREFERENCE, Kind.FIX, Kind.DEAD_END, Kind.FACT)
#: Share of an error's words that must stand in a memory about a failed command.
ERROR_SHARE = 0.5
#: File names that every project has: only with their folder do they tell anything.
_COMMON = re.compile(
    r"(?:__init__|index|main|mod|lib|app|utils?|types?|setup|conftest|readme|claude)(?:\.\w+)*", re.IGNORECASE
)
_SUBCOMMAND = re.compile(r"[a-z][\w.-]*(?:\s+[a-z][\w:-]*)?")
#: Programs that only look around; nobody needs a reminder for them.
_LOOKING = frozenset(
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
    """What a tool call is about."""

    #: As written.
    files: tuple[str, ...] = ()
    command: str = ""
    #: First line of its error; "" where it did not fail, or has not ended.
    error: str = ""

    @property
    def text(self) -> str:
        """What is searched for; "" for a call that needs no reminder."""
        names = [PurePosixPath(name.replace("\\", "/")).name for name in self.files]
        return " ".join([*names, program_of(self.command) and self.command, self.error]).strip()


def program_of(command: str) -> str:
    """Program and subcommand, such as ``go test``; "" for commands that only look around."""
    found = _SUBCOMMAND.match(command.strip())
    program = found[0] if found else ""
    return "" if program.split(" ")[0] in _LOOKING else program


def choose_at_hand(hits: Sequence[Hit], asking: Asking, call: ToolCall) -> list[Bite]:
    """The bite for a tool call: a memory that names its file, or its command, or what went wrong; mostly none."""
    named = [
        (1.0 / (1 + rank), hit)
        for rank, hit in enumerate(hits)
        if hit.episode is not None
        and hit.id not in asking.shown
        and hit.kind in KINDS
        and may_inject(hit.episode, asking)
        and is_about(hit, call)
    ]
    return spread_out(named, min(asking.bites, BITES), 0.0)


def is_about(hit: Hit, call: ToolCall) -> bool:
    """True where a memory names a file of the call, its command, or most of its error."""
    entities = hit.episode.entities if hit.episode is not None else ()
    told = f" {hit.text} {' '.join(entities)} ".lower().replace("\\", "/")
    if any(_names_file(told, name) for name in call.files):
        return True
    program = program_of(call.command).lower()
    if " " in program and re.search(rf"(?<![\w-]){re.escape(program)}(?![\w-])", told):
        return True
    wanted = stems(telling_words(call.error))
    return len(wanted) > 2 and len(wanted & stems(telling_words(told))) >= ERROR_SHARE * len(wanted)


def _names_file(told: str, name: str) -> bool:
    path = PurePosixPath(name.replace("\\", "/").lower())
    wanted = "/".join(path.parts[-2:]) if _COMMON.fullmatch(path.name) else path.name
    return len(wanted) > 3 and re.search(rf"(?<![\w.-]){re.escape(wanted)}(?![\w-])", told) is not None
