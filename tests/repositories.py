"""Git repositories and worktrees, as git lays them out."""

from __future__ import annotations

from pathlib import Path


def repository(folder: Path) -> Path:
    """A git repository without commits."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


def worktree(repo: Path, folder: Path) -> Path:
    """A worktree of a repository, as git lays it out."""
    inner = repo / ".git" / "worktrees" / folder.name
    inner.mkdir(parents=True)
    (inner / "commondir").write_text("../..\n")
    (inner / "gitdir").write_text(f"{folder}/.git\n")
    folder.mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {inner}\n")
    return folder
