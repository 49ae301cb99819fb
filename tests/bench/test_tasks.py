"""The tasks of benchmarks/tasks: their checks decide both ways, and nothing that an agent gets tells the answer."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from engram.bench.tasks.check import Outcome, check_workspace
from engram.bench.tasks.task import Task, TaskKind, read_tasks

TASKS = {task.name: task for task in read_tasks(Path(__file__).resolve().parents[2] / "benchmarks" / "tasks")}


def outcome(task: Task, tmp_path: Path, overlay: str) -> tuple[Outcome, str]:
    workspace = tmp_path / "workspace"
    shutil.copytree(task.workspace, workspace)
    if overlay:
        shutil.copytree(task.folder / overlay, workspace, dirs_exist_ok=True)
    verdict = check_workspace(task, workspace)
    return verdict.outcome, verdict.reason


def test_there_are_twelve_tasks_of_history_and_six_that_mislead() -> None:
    kinds = [task.kind for task in TASKS.values()]

    assert (kinds.count(TaskKind.HISTORY), kinds.count(TaskKind.MISLEADING)) == (12, 6)


@pytest.mark.parametrize("name", TASKS)
def test_the_reference_solution_solves_it_and_the_naive_one_does_not(name: str, tmp_path: Path) -> None:
    assert outcome(TASKS[name], tmp_path / "a", "solution")[0] is Outcome.SOLVED
    assert outcome(TASKS[name], tmp_path / "b", "naive")[0] is Outcome.UNSOLVED
    assert outcome(TASKS[name], tmp_path / "c", "")[0] is Outcome.UNSOLVED


@pytest.mark.parametrize("name", [task.name for task in TASKS.values() if task.kind is TaskKind.MISLEADING])
def test_who_follows_a_misleading_history_does_harm(name: str, tmp_path: Path) -> None:
    assert outcome(TASKS[name], tmp_path, "harmful")[0] is Outcome.HARMED
