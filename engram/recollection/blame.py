"""``engram blame`` and ``engram how``: which memories and sessions concern a file, and how a tool was run."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any

from engram.enums import BranchState
from engram.models.engine.transaction import Store
from engram.models.memories.branches import branches_of_project, open_branches
from engram.models.memories.memory_records import Memory
from engram.models.projects.projects import ProjectRow, identities_of_project, project_by_id
from engram.models.search.memory_lists import current_memories
from engram.models.sessions.recent_work import prompts_until, turns_naming, turns_with_calls
from engram.recollection.branch_state import resume_of_id
from engram.recollection.briefing_lines import is_about, is_in_force
from engram.recollection.past_fixes import find_fixes
from engram.system.clock import iso_or_none
from engram.system.lazy_regex import lazy_regex
from engram.text.shell import count_runs, part_with_known_status, runs_program, telling_lines, told_runs
from engram.transcripts.project import find_repository
from engram.transcripts.turns import Action

#: Number of prompts, latest first, that are searched for the reason why a turn changed a file.
MAX_PROMPTS = 20
#: A prompt that only tells Claude to continue, and its maximum length, in characters.
MAX_CONTINUING_CHARACTERS = 100
_ONLY_CONTINUES = lazy_regex(
    r"\W*(?:(?:yes|yeah|yep|ok(?:ay)?|sure|please|good|great|perfect|thanks|now|and|then|just|you can)\b\W*)*"
    r"(?:(?:continue|go on|go ahead|proceed|carry on|keep going|do (?:it|that|so)|resume|try again|next|"
    r"(?:mach )?weiter)\b\W*)*(?:with (?:it|this|that|the (?:rest|next|remaining)\b.{0,30})|"
    r"until (?:it|all|everything|they)\b.{0,30}|please|now)?\W*",
    re.IGNORECASE,
)

#: Maximum number of a tool's distinct errors for which a fix is sought, newest first.
MAX_TRIED_ERRORS = 10


@dataclass(frozen=True, slots=True)
class Touch:
    """A memory about a file, or a turn that changed the file."""

    at_ms: int
    #: The memory's id; "" for a turn.
    id: str
    #: A memory's kind; "change" for a turn.
    kind: str
    #: The memory's summary, or the prompt that led to the turn.
    text: str
    session_id: str
    #: The command that resumes the session; "" if its transcript is gone.
    resume: str
    #: The turn's branch, or the unmerged branch that the memory was learned on; "" for none.
    branch: str = ""
    #: True if the branch was not merged when the repository was last read.
    is_unmerged: bool = False
    #: "sha subject" of each of the turn's commits.
    commits: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "at": iso_or_none(self.at_ms),
            "id": self.id or None,
            "kind": self.kind,
            "text": self.text,
            "session": self.session_id or None,
            "resume": self.resume or None,
            "branch": self.branch or None,
            "is_unmerged": self.is_unmerged,
            "commits": list(self.commits),
        }


def blame_file(store: Store, project_id: int, path: str, root: str, *, anywhere: bool = False) -> list[Touch]:
    """Return the memories about a file and the turns that changed it, newest first.

    Args:
        path: the file's path, relative to ``root``, with forward slashes.
        anywhere: True if ``path`` is only the end of a path, such as a file name, which may be in any folder.
    """
    name = PurePosixPath(path).name.lower()
    memories = [
        memory
        for memory in current_memories(store, project_id)
        if is_in_force(memory) and memory.project_id == project_id and _names(memory, name)
    ]
    unmerged = open_branches(store, [memory.id for memory in memories])
    touches = [_of_memory(store, memory, unmerged.get(memory.id, "")) for memory in memories]
    touches += _changes(store, project_id, path, None if anywhere else root)
    return sorted(touches, key=lambda touch: -touch.at_ms)


def _names(memory: Memory, name: str) -> bool:
    words = {word.strip("`'\"().,:;").lower() for word in memory.summary.split()}
    return is_about(memory, {name}) or any(word.rpartition("/")[2] == name for word in words)


def _changes(store: Store, project_id: int, path: str, root: str | None) -> list[Touch]:
    unmerged = {row.name for row in branches_of_project(store, project_id) if row.state is BranchState.OPEN}
    touches = []

    @cache
    def is_of_project(file: str) -> bool:
        return root is None or not is_of_another_folder(store, project_id, file, path, root)

    for turn in turns_naming(store, project_id, PurePosixPath(path).name):
        changed = {file for call in turn.calls if call.is_edit and not call.is_error for file in call.files}
        if not any(is_same_file(file, path, root) and is_of_project(file) for file in changed):
            continue
        touches.append(
            Touch(
                at_ms=turn.started_at_ms,
                id="",
                kind="change",
                text=" ".join(_reason_of(store, turn.id).split()),
                session_id=turn.session_id,
                resume=resume_of_id(store, turn.session_id),
                branch=turn.branch,
                is_unmerged=turn.branch in unmerged,
                commits=tuple(call.commit for call in turn.calls if call.commit),
            )
        )
    return touches


def _reason_of(store: Store, turn_id: int) -> str:
    """Return the latest prompt up to a turn that doesn't just tell Claude to continue; else the turn's own."""
    prompts = prompts_until(store, turn_id, MAX_PROMPTS)
    return next((prompt for prompt in prompts if not _only_continues(prompt)), next(iter(prompts), ""))


def _only_continues(prompt: str) -> bool:
    return len(prompt) <= MAX_CONTINUING_CHARACTERS and _ONLY_CONTINUES.fullmatch(prompt) is not None


def is_same_file(named: str, path: str, root: str | None) -> bool:
    """Return True if a file that a tool call named is this project file, or the same file in a worktree.

    If ``root`` is None, the file may be in any folder.
    """
    plain = PurePosixPath(named.replace("\\", "/"))
    if root is None:
        return f"/{plain}".endswith(f"/{path}")
    if plain == PurePosixPath(root) / path or str(plain) == path:
        return True
    return plain.is_absolute() and not plain.is_relative_to(root) and plain.as_posix().endswith(f"/{path}")


def is_of_another_folder(store: Store, project_id: int, named: str, path: str, root: str) -> bool:
    """Return True if a file certainly is in a folder that is neither the project's nor a worktree of its repository.

    A folder that is gone may have been a worktree.

    Args:
        named: the file as a tool call named it; ``is_same_file`` is True for it.
        path, root: as for ``is_same_file``.
    """
    folder = named.replace("\\", "/").removesuffix(f"/{path}")
    if folder in ("", named) or folder == root or not os.path.isdir(folder):
        return False
    project = project_by_id(store, project_id)
    own = set() if project is None else {os.path.realpath(known) for known in identities_of_project(store, project)}
    own.add(os.path.realpath(root))
    return own.isdisjoint((os.path.realpath(folder), str(find_repository(Path(folder)))))


def _of_memory(store: Store, memory: Memory, branch: str) -> Touch:
    return Touch(
        at_ms=memory.created_at_ms,
        id=memory.episode_id,
        kind=memory.kind.value,
        text=memory.summary,
        session_id=memory.session_id,
        resume=resume_of_id(store, memory.session_id),
        branch=branch,
        is_unmerged=bool(branch),
    )


# -- Find how a tool was run: commands in earlier sessions that ran it and passed.


@dataclass(frozen=True, slots=True)
class ToolRun:
    """A command that ran a tool and passed; the details are from its last run."""

    command: str
    #: When it was last run, in milliseconds since 1970; if that is unknown, when the turn began.
    at_ms: int
    exit_code: int
    session_id: str
    #: The command that resumes the session of that run; "" if its transcript is gone.
    resume: str
    #: Display name of the project in which it ran.
    project: str
    #: Number of times that it passed.
    times: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "at": iso_or_none(self.at_ms),
            "exit": self.exit_code,
            "times": self.times,
            "session": self.session_id,
            "resume": self.resume or None,
            "project": self.project or None,
        }


@dataclass(frozen=True, slots=True)
class ToolHistory:
    #: The commands that ran the tool and passed, newest first; of those that ``told_runs`` shows alike, the newest.
    passed: list[ToolRun]
    #: The calls of the tool that failed, newest first.
    failed: list[Action]
    #: Number of calls with an unknown outcome, because they ran in the background or in front of a pipe
    #: (``part_with_known_status``).
    unknown: int


def find_runs(store: Store, projects: Sequence[ProjectRow], tool: str) -> ToolHistory:
    """Return how a tool was run, not counting calls that the user refused.

    Args:
        tool: a program, with or without a subcommand (``git rebase``).
    """
    runs: dict[str, ToolRun] = {}
    failed: list[Action] = []
    unknown = 0
    turns = [(turn, row.name) for row in projects for turn in turns_with_calls(store, row.id)]
    for turn, project in sorted(turns, key=lambda pair: -pair[0].started_at_ms) if len(projects) > 1 else turns:
        for call in reversed(turn.calls):
            if not runs_program(call.command, tool) or call.is_refused:
                continue
            told = count_runs(part_with_known_status(call.command, has_failed=bool(call.is_error)), tool)
            if told and call.is_error:
                failed.append(call)
            elif told == count_runs(call.command, tool) and call.exit_code == 0:
                shown = told_runs(call.command, tool)
                known = runs.get(shown)
                runs[shown] = (
                    replace(known, times=known.times + 1)
                    if known
                    else ToolRun(
                        command=call.command,
                        at_ms=call.at_ms or turn.started_at_ms,
                        exit_code=call.exit_code,
                        session_id=turn.session_id,
                        resume="",
                        project=project,
                    )
                )
            else:
                unknown += 1
    passed = sorted(runs.values(), key=lambda run: -run.at_ms)
    passed = [replace(run, resume=resume_of_id(store, run.session_id)) for run in passed]
    return ToolHistory(passed, failed=failed, unknown=unknown)


def fixed_error(store: Store, failed: Iterable[Action], project_ids: Collection[int], branches: Collection[str]) -> str:
    """Return the newest error among failed calls for which ``find_fixes`` finds a fix; "" if there is none.

    If an error has many lines, its most informative line is returned if that is enough to find the fix.
    """
    errors = dict.fromkeys(call.error_line for call in failed if telling_lines(call.error_line))
    forms = (form for error in islice(errors, MAX_TRIED_ERRORS) for form in (telling_lines(error)[0], error))
    return next((form for form in forms if find_fixes(store, form, project_ids, branches=branches)), "")
