"""The tasks of benchmarks/tasks: their checks decide both ways, and nothing that an agent gets tells the answer."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from bench.tasks.check import Outcome, check_workspace
from bench.tasks.task import Task, TaskKind, read_tasks

TASKS = {task.name: task for task in read_tasks(Path(__file__).resolve().parents[2] / "benchmarks" / "tasks")}
MISLEADING = [task.name for task in TASKS.values() if task.kind is TaskKind.MISLEADING]
#: How many tasks of a kind the fast tier tries; the full tier tries all. A change of the program changes none of them.
FAST = 2


def tiers(names: Iterable[str]) -> list[Any]:
    """All of them; but for the first ones in the full tier."""
    return [pytest.param(name, marks=[pytest.mark.soak] if at >= FAST else []) for at, name in enumerate(names)]


def outcome(task: Task, tmp_path: Path, overlay: str) -> tuple[Outcome, str]:
    workspace = tmp_path / "workspace"
    shutil.copytree(task.workspace, workspace)
    if overlay:
        shutil.copytree(task.folder / overlay, workspace, dirs_exist_ok=True)
    verdict = check_workspace(task, workspace)
    return verdict.outcome, verdict.reason


def test_there_are_twenty_tasks_of_history_and_ten_that_mislead() -> None:
    kinds = [task.kind for task in TASKS.values()]

    assert (kinds.count(TaskKind.HISTORY), kinds.count(TaskKind.MISLEADING)) == (20, 10)


@pytest.mark.parametrize("name", tiers(TASKS))
def test_the_reference_solution_solves_it_and_the_naive_one_does_not(name: str, tmp_path: Path) -> None:
    assert outcome(TASKS[name], tmp_path / "a", "solution")[0] is Outcome.SOLVED
    assert outcome(TASKS[name], tmp_path / "b", "naive")[0] is Outcome.UNSOLVED
    assert outcome(TASKS[name], tmp_path / "c", "")[0] is Outcome.UNSOLVED


@pytest.mark.parametrize("name", tiers(MISLEADING))
def test_who_follows_a_misleading_history_does_harm(name: str, tmp_path: Path) -> None:
    assert outcome(TASKS[name], tmp_path, "harmful")[0] is Outcome.HARMED


@pytest.mark.parametrize("name", tiers(TASKS))
def test_the_visible_tests_pass_before_and_after_the_reference_solution(name: str, tmp_path: Path) -> None:
    """But for a function that is to be written, which the visible tests of its task call."""
    workspace = tmp_path / "workspace"
    shutil.copytree(TASKS[name].workspace, workspace)
    is_to_be_written = any("NotImplementedError" in path.read_text() for path in workspace.rglob("*.py"))

    assert visible_tests_pass(workspace) is not is_to_be_written
    shutil.copytree(TASKS[name].folder / "solution", workspace, dirs_exist_ok=True)
    assert visible_tests_pass(workspace)


def visible_tests_pass(workspace: Path) -> bool:
    command = [sys.executable, "-B", "-m", "unittest", "discover", "-q"]
    return subprocess.run(command, cwd=workspace, capture_output=True, timeout=60).returncode == 0


#: Task → words that decide it; they stand in the history, and neither in the prompt nor in the workspace.
DECIDING = {
    "branch-encoding": ("mac_roman", "Mac Roman", "Macintosh"),
    "business-day": ("05:30", "half past five", "business day"),
    "catalogue-cache": ("digest", "mtime"),
    "contact-dedupe": ("+chor", "case before the @"),
    "dev-port": ("8473",),
    "error-codes": ("700", "104"),
    "feature-flag": ("SKIZZE_LABS",),
    "invoice-rounding": ("five Rappen", "goes down"),
    "ledger-batch": ("40 entries", "first 40"),
    "prune-attic": ("attic",),
    "public-names": ("`handle`", "`tier`", "`since`"),
    "retry-after": ("millisecond",),
    "bridge-clearance": ("14 cm", "staff gauge", "new bracket"),
    "due-day": ("Never later", "regional pool", "last open day before"),
    "retry-exit": ("comes back with 93", "every one of my programs"),
    "roll-order": ("telephone book", "written small", "chronik"),
    "rota-weeks": ("1 September", "New Year", "week 8"),
    "sign-width": ("bytes, in truth", "24 octets"),
    "tie-table": ("sat on the bench", "31:2"),
    "valve-byte": ("240 fully shut", "calibration run", "closers"),
}


@pytest.mark.parametrize("name", DECIDING)
def test_what_decides_stands_in_the_history_alone(name: str) -> None:
    task = TASKS[name]
    seen = task.prompt + "".join(path.read_text() for path in task.workspace.rglob("*") if path.is_file())
    history = "".join(path.read_text() for path in task.history.rglob("*.jsonl"))

    assert [word for word in DECIDING[name] if word not in history] == []
    assert [word for word in DECIDING[name] if word in seen] == []


def test_every_task_of_history_is_among_those() -> None:
    assert set(DECIDING) == {task.name for task in TASKS.values() if task.kind is TaskKind.HISTORY}
