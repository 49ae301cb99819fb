"""What identifies a repository beside its folder: the address of its remote and its first commit.

Both are hints, never a key: anybody can write a remote's address into a forged repository.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from engram.transcripts.git_command import run_git
from engram.transcripts.git_files import git_folder, normal_address

#: How long each call of git may take, in seconds. A history that takes longer has no known first commit.
GIT_SECONDS = 5.0
_COMMIT = re.compile(r"[0-9a-f]{40,64}")


@dataclass(frozen=True, slots=True)
class GitHints:
    """Hints at the identity of a repository."""

    #: Normalised, without credentials; "" if there is none.
    remote: str = ""
    #: Hash of the oldest root commit; "" if it is not known, as in a shallow clone.
    first_commit: str = ""


def read_git_hints(root: Path) -> GitHints:
    """Return the hints of the repository at ``root``; empty outside a repository or without git. Bounded in time."""
    folder = git_folder(root)
    if folder is None:
        return GitHints()
    root = root if (root / ".git").exists() else folder
    remote = normal_address(_git(root, "config", "--local", "--get", "remote.origin.url"))
    is_whole = _git(root, "rev-parse", "--is-shallow-repository") == "false"
    grafts = _git(root, "rev-parse", "--git-path", "info/grafts")
    if not is_whole or (root / grafts).exists():
        return GitHints(remote)
    roots = _git(root, "rev-list", "--max-parents=0", "HEAD").split()
    return GitHints(remote, roots[-1] if roots and _COMMIT.fullmatch(roots[-1]) else "")


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints; "" if it fails or takes too long."""
    return (run_git(root, *arguments, seconds=GIT_SECONDS) or "").strip()
