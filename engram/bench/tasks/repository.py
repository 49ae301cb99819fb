"""The repository in which a task's earlier sessions took place, made anew beside the memory."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from engram.bench.tasks.task import Task

#: Time for one git command, in seconds.
_GIT_SECONDS = 30
_AUTHOR = {
    "GIT_AUTHOR_NAME": "dev",
    "GIT_AUTHOR_EMAIL": "dev@example.org",
    "GIT_COMMITTER_NAME": "dev",
    "GIT_COMMITTER_EMAIL": "dev@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}


def make_place(task: Task, folder: Path) -> tuple[Path, Path]:
    """Make the working folder of the earlier sessions, and a copy of their transcripts that names it.

    The folder holds the task's workspace in a git repository with the branches that were never merged. Without git it
    holds the workspace alone.

    Returns:
        The working folder, and the Claude configuration folder.
    """
    place = folder / "place" / PurePosixPath(task.cwd).name
    shutil.copytree(task.workspace, place)
    if shutil.which("git"):
        _make_repository(place, task.unmerged)
    history = folder / "history"
    for path in sorted(task.history.rglob("*.jsonl")):
        copy = history / path.relative_to(task.history)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8").replace(task.cwd, str(place)), encoding="utf-8")
        shutil.copystat(path, copy)
    return place, history


def _make_repository(place: Path, unmerged: Sequence[str]) -> None:
    _git(place, "init", "-q", "-b", "main")
    _git(place, "add", "-A")
    _git(place, "commit", "-q", "--allow-empty", "-m", "Begin")
    for branch in unmerged:
        _git(place, "checkout", "-q", "-b", branch)
        # A commit without a change would look like one that was merged by squashing.
        (place / "WORK").write_text(f"{branch}\n", encoding="utf-8")
        _git(place, "add", "-A")
        _git(place, "commit", "-q", "-m", f"Work on {branch}")
        _git(place, "checkout", "-q", "main")


def _git(place: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", *arguments],
        cwd=place,
        env={"PATH": os.environ.get("PATH", os.defpath), **_AUTHOR},
        check=True,
        capture_output=True,
        timeout=_GIT_SECONDS,
    )
