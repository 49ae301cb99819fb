"""Recreate the repository in which a task's earlier sessions took place, next to the memory."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath

from bench.tasks.task import Task

#: Maximum time for a git command, in seconds.
_GIT_SECONDS = 30
_AUTHOR = {
    "GIT_AUTHOR_NAME": "dev",
    "GIT_AUTHOR_EMAIL": "dev@example.org",
    "GIT_COMMITTER_NAME": "dev",
    "GIT_COMMITTER_EMAIL": "dev@example.org",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
}
#: Time of the first commit.
_BEGAN_AT = "2026-01-01T00:00:00Z"
#: Time between the last session and the removal of files.
_REMOVED_AFTER = timedelta(hours=1)
_TIME = re.compile(r'"timestamp": ?"([^"]+)"')


def make_place(task: Task, folder: Path) -> tuple[Path, Path]:
    """Make the working folder of the earlier sessions, and a copy of their transcripts that refers to it.

    The folder contains the task's workspace in a git repository with the branches that were never merged. Files that
    were removed after the last session are in its history. Without git, the folder contains only the workspace.

    Returns:
        The working folder, and the Claude configuration folder.
    """
    place = folder / "place" / PurePosixPath(task.cwd).name
    shutil.copytree(task.workspace, place)
    if shutil.which("git"):
        _make_repository(place, task)
    history = folder / "history"
    for path in sorted(task.history.rglob("*.jsonl")):
        copy = history / path.relative_to(task.history)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(path.read_text(encoding="utf-8").replace(task.cwd, str(place)), encoding="utf-8")
        shutil.copystat(path, copy)
    return place, history


def _make_repository(place: Path, task: Task) -> None:
    for name in task.removed:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text("\n", encoding="utf-8")
    _git(place, "init", "-q", "-b", "main")
    _git(place, "add", "-A")
    _git(place, "commit", "-q", "--allow-empty", "-m", "Begin")
    for branch in task.unmerged:
        _git(place, "checkout", "-q", "-b", branch)
        # A commit without changes would look like a squash-merged one.
        (place / "WORK").write_text(f"{branch}\n", encoding="utf-8")
        _git(place, "add", "-A")
        _git(place, "commit", "-q", "-m", f"Work on {branch}")
        _git(place, "checkout", "-q", "main")
    if task.removed:
        _git(place, "rm", "-q", "--", *task.removed)
        _git(place, "commit", "-q", "-m", "Remove what is no longer used", at=_after_sessions(task.history))


def _after_sessions(history: Path) -> str:
    """Return when files are removed: ``_REMOVED_AFTER`` past the last entry of the transcripts, in ISO format."""
    texts = [path.read_text(encoding="utf-8") for path in history.rglob("*.jsonl")]
    last = max(datetime.fromisoformat(time) for text in texts for time in _TIME.findall(text))
    return (last + _REMOVED_AFTER).isoformat()


def _git(place: Path, *arguments: str, at: str = _BEGAN_AT) -> None:
    dates = {"GIT_AUTHOR_DATE": at, "GIT_COMMITTER_DATE": at}
    subprocess.run(
        ["git", *arguments],
        cwd=place,
        env={"PATH": os.environ.get("PATH", os.defpath), **_AUTHOR, **dates},
        check=True,
        capture_output=True,
        timeout=_GIT_SECONDS,
    )
