"""Git repositories for tests: real ones, and folders laid out as git does."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Repository:
    """A git repository whose commits are made by hand."""

    root: Path

    @classmethod
    def make(cls, root: Path, branch: str = "main") -> Repository:
        """Make a repository with one commit."""
        root.mkdir(parents=True)
        repository = cls(root)
        repository.git("init", "-q", "-b", branch)
        repository.commit("begin", README="hello\n")
        return repository

    def git(self, *arguments: str, at: str = "") -> str:
        """Run git and return what it prints; ``at`` is when a commit is said to be made."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        identity = {f"GIT_{who}_{what}": "x@y" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        environment |= identity | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        environment |= {"GIT_COMMITTER_DATE": at} if at else {}
        done = subprocess.run(
            ["git", "-C", str(self.root), *arguments], capture_output=True, text=True, check=True, env=environment
        )
        return done.stdout.strip()

    def write(self, name: str, text: str) -> None:
        """Write a file of the working tree."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def commit(self, subject: str, **files: str) -> str:
        """Write files, commit everything and return the commit's hash."""
        for name, text in files.items():
            self.write(name, text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", subject)
        return self.git("rev-parse", "HEAD")


def repository(folder: Path) -> Path:
    """Lay out a git repository without commits."""
    (folder / ".git").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    return folder


def worktree(repo: Path, folder: Path) -> Path:
    """Lay out a worktree of a repository."""
    inner = repo / ".git" / "worktrees" / folder.name
    inner.mkdir(parents=True)
    (inner / "commondir").write_text("../..\n")
    (inner / "gitdir").write_text(f"{folder}/.git\n")
    folder.mkdir(parents=True)
    (folder / ".git").write_text(f"gitdir: {inner}\n")
    return folder
