"""What identifies a repository beside its folder: the address of its remote and its first commit.

Both are hints, never a key: anybody can write a remote's address into a forged repository.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from engram.transcripts.git_command import run_git
from engram.transcripts.git_files import git_folder, has_commit, normal_address, read_first_commit, read_remote

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


def is_other_repository(root: Path, remote: str, first_commit: str) -> bool:
    """True if the repository at ``root`` is not the one that had this remote and first commit. Runs no git.

    The same remote, or the first commit somewhere in it, is enough to be the same. A shallow clone lacks its first
    commit, so that only another remote tells. A folder that holds no repository any more is another one, too.

    Args:
        root: main folder, which exists.
        remote: in its normal form; "" for none.
        first_commit: "" if it is not known; then only two remotes that differ tell.
    """
    if not (remote or first_commit):
        return False
    folder = git_folder(root)
    if folder is None:
        return not (root / ".jj").is_dir()
    present = read_remote(root)
    if remote and remote == present:
        return False
    if first_commit and not (folder / "shallow").exists():
        return has_commit(root, first_commit) is False
    return bool(remote and present)


def token_of(root: Path) -> str:
    """Return a short text that tells repositories apart that are at one path one after another. Runs no git."""
    told = f"{read_remote(root)}\n{read_first_commit(root)}"
    return hashlib.sha256(told.encode("utf-8", "surrogateescape")).hexdigest()[:8]


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints; "" if it fails or takes too long."""
    return (run_git(root, *arguments, seconds=GIT_SECONDS) or "").strip()
