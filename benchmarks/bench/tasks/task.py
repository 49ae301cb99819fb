"""A task: earlier sessions, a prompt, a workspace, and a check that the agent never sees."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from engram.errors import BadRequest

#: Name of a task's description file; a folder without it is not a task.
_DESCRIPTION = "task.json"


class TaskKind(StrEnum):
    """The kind of test that a task is."""

    #: The answer is only in the history.
    HISTORY = "history"
    #: The history is misleading or about something else: following it does harm.
    MISLEADING = "misleading"


@dataclass(frozen=True, slots=True)
class Task:
    """A task and its folder."""

    name: str
    folder: Path
    kind: TaskKind
    #: Working folder of the sessions, as the history names it.
    cwd: str
    #: The agent's prompt.
    prompt: str
    #: Branches of the history that were never merged.
    unmerged: tuple[str, ...] = ()
    #: Files of the working folder that were removed after the last session.
    removed: tuple[str, ...] = ()

    @property
    def workspace(self) -> Path:
        """The folder that the agent gets a copy of to work in."""
        return self.folder / "workspace"

    @property
    def history(self) -> Path:
        """A Claude configuration folder with the transcripts of the earlier sessions."""
        return self.folder / "history"

    @property
    def check(self) -> Path:
        """The hidden check: a Python script that is run with a workspace as its argument."""
        return self.folder / "check.py"

    @property
    def gold(self) -> Path:
        """The memories that a person would have kept, as JSON lines."""
        return self.folder / "gold.jsonl"

    @property
    def auto_memory(self) -> Path:
        """The folder with what Claude Code's own memory would contain; need not exist."""
        return self.folder / "auto_memory"

    @property
    def answers(self) -> Path:
        """The folder with a language model's recorded answers to the extraction requests."""
        return self.folder / "answers"


def read_task(folder: Path) -> Task:
    """Read a task. Raises BadRequest if a part of it is missing."""
    try:
        about = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
        task = Task(
            name=folder.name,
            folder=folder,
            kind=TaskKind(about["kind"]),
            cwd=str(about["cwd"]),
            prompt=(folder / "prompt.md").read_text(encoding="utf-8").strip(),
            unmerged=tuple(map(str, about.get("unmerged", ()))),
            removed=tuple(map(str, about.get("removed", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{folder} is not a task: {error!r}") from error
    missing = [path.name for path in (task.workspace, task.history, task.check, task.gold) if not path.exists()]
    if missing:
        raise BadRequest(f"task {task.name} lacks {', '.join(missing)}")
    return task


def read_tasks(folder: Path, names: Collection[str] = ()) -> list[Task]:
    """Read every task in a folder, or only the named ones, sorted by name.

    Raises:
        BadRequest: there is no task, or a name is unknown.
    """
    folders = sorted(path.parent for path in folder.glob(f"*/{_DESCRIPTION}"))
    if unknown := set(names) - {path.name for path in folders}:
        raise BadRequest(f"there is no task {sorted(unknown)[0]!r} in {folder}")
    tasks = [read_task(path.absolute()) for path in folders if not names or path.name in names]
    if not tasks:
        raise BadRequest(f"{folder} contains no task: a task is a folder with {_DESCRIPTION}")
    return tasks
