"""The folders of runs: a fresh workspace, home and memory for each, and the key with the task and arm of each run.

An agent gets only its run's folder. Nothing in it names the arm or contains the check.
"""

from __future__ import annotations

import json
import random
import shutil
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from bench.tasks.arms import Arm, ArmMemories, give_own_memory
from bench.tasks.task import Task
from engram.errors import BadRequest
from engram.system.atomic import write_atomic

#: Name of the key file in the folder of all runs.
_KEY = "key.json"


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a task in an arm."""

    folder: Path
    task: str
    arm: Arm
    #: 1 for the first run of this task and arm.
    number: int

    @property
    def workspace(self) -> Path:
        """The agent's working folder."""
        return self.folder / "workspace"

    @property
    def home(self) -> Path:
        """The agent's HOME."""
        return self.folder / "home"

    @property
    def memory(self) -> Path:
        """The run's ENGRAM_HOME."""
        return self.folder / "memory"

    @property
    def commands(self) -> Path:
        """The folder that comes first in PATH."""
        return self.folder / "bin"

    @property
    def prompt(self) -> Path:
        """The file with the agent's prompt, preceded by the context from earlier sessions."""
        return self.folder / "PROMPT.md"

    @property
    def usage(self) -> Path:
        """The file in which an agent, or whoever runs it, can record its usage: ``{"tokens", "seconds"}``."""
        return self.folder / "usage.json"


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The runs in a folder, in the order in which they are carried out."""

    folder: Path
    runs: Sequence[Run]

    @classmethod
    def make(cls, folder: Path, tasks: Sequence[Task], arms: Sequence[Arm], count: int, seed: int) -> Self:
        """Plan ``count`` runs of each task in each arm; their order and names do not reveal the arm.

        Raises:
            BadRequest: the folder already contains runs.
        """
        if (folder / _KEY).exists():
            raise BadRequest(f"{folder} already contains runs: specify another folder, or remove this one first")
        planned = [(task.name, arm, number) for task in tasks for arm in arms for number in range(1, count + 1)]
        random.Random(seed).shuffle(planned)
        width = len(str(len(planned)))
        runs = [
            Run(folder.absolute() / f"run-{place:0{width}}", task, arm, number)
            for place, (task, arm, number) in enumerate(planned, 1)
        ]
        return cls(folder, runs)

    def write_key(self) -> None:
        """Write the key."""
        lines = [
            {"run": run.folder.name, "task": run.task, "arm": str(run.arm), "number": run.number} for run in self.runs
        ]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomic(self.folder / _KEY, json.dumps({"runs": lines}, indent=1).encode())

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read the key of prepared runs. Raises BadRequest."""
        try:
            lines = json.loads((folder / _KEY).read_text(encoding="utf-8"))["runs"]
            runs = [
                Run(folder.absolute() / line["run"], line["task"], Arm(line["arm"]), int(line["number"]))
                for line in lines
            ]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadRequest(f"{folder} has no runs made by `python -m bench tasks --prepare`: {error!r}") from error
        return cls(folder, runs)


#: The program that a run's command ``recall`` starts.
_RECALL_ARMS = Path(__file__).resolve().parents[1] / "recall_arms.py"


def prepare_run(run: Run, task: Task, memories: ArmMemories, *, with_model: bool) -> None:
    """Write a run's folder.

    Raises:
        Unanswered: a request of the arm has no recorded answer; it was written to the folder of answers.
        BadRequest: a request of the arm has no recorded answer.
    """
    memory, context, arguments = memories.get(task, run.arm)
    for folder in (run.home, run.commands):
        folder.mkdir(parents=True)
    shutil.copytree(task.workspace, run.workspace)
    if run.arm is Arm.OWN:
        context = give_own_memory(task, run.home)
    if arguments:
        shutil.copytree(memory, run.memory)
        _write_recall_command(run, [*arguments, "model" if with_model else "text"])
    run.prompt.write_text(_prompt(run, task, context, can_ask=bool(arguments)), encoding="utf-8")


def _prompt(run: Run, task: Task, context: str, *, can_ask: bool) -> str:
    parts = [context, task.prompt, f"Your working folder is {run.workspace}. Change nothing outside of it."]
    if can_ask:
        parts.append(
            f'The command `{run.commands / "recall"} "question"` answers a question about earlier sessions of this '
            "project, if you need more than what stands above."
        )
    return "\n\n".join(part for part in parts if part) + "\n"


def _write_recall_command(run: Run, arguments: Sequence[str]) -> None:
    """Write a command that queries the run's memory."""
    command = [sys.executable, "-I", str(_RECALL_ARMS), str(run.memory), *arguments]
    quoted = " ".join("'" + part.replace("'", "'\\''") + "'" for part in command)
    path = run.commands / "recall"
    path.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n', encoding="utf-8")
    path.chmod(stat.S_IRWXU)
