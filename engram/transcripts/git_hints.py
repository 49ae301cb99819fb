"""What identifies a repository beside its folder: the address of its remote and its first commit.

Both are hints, never a key: anybody can write a remote's address into a forged repository.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from engram.transcripts.git_command import run_git

#: How long each call of git may take, in seconds. A history that takes longer has no known first commit.
GIT_SECONDS = 5.0
#: Longest accepted address, in characters.
MAX_ADDRESS_CHARS = 500
_SCP_FORM = re.compile(r"(?:[^@/\s]+@)?([\w.-]+):(?!//)(\S+)")
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
    if not (root / ".git").exists():
        return GitHints()
    remote = normal_address(_git(root, "config", "--local", "--get", "remote.origin.url"))
    is_whole = _git(root, "rev-parse", "--is-shallow-repository") == "false"
    grafts = _git(root, "rev-parse", "--git-path", "info/grafts")
    if not is_whole or (root / grafts).exists():
        return GitHints(remote)
    roots = _git(root, "rev-list", "--max-parents=0", "HEAD").split()
    return GitHints(remote, roots[-1] if roots and _COMMIT.fullmatch(roots[-1]) else "")


def normal_address(address: str) -> str:
    """Return one form for all ways to write a remote: ``host/path``, host in lower case, without credentials and
    ``.git``.

    A local path stays a path. Returns "" for anything that is no address.
    """
    address = address.strip()
    if not address or len(address) > MAX_ADDRESS_CHARS or any(ord(char) < 32 for char in address):
        return ""
    if "://" in address:
        try:
            parts = urlsplit(address)
            host, port = (parts.hostname or "").lower(), parts.port
        except ValueError:
            return ""
        is_usual = port in (None, 22, 80, 443, 9418)
        normal = f"{host}{'' if is_usual else f':{port}'}/{parts.path.strip('/')}" if host else parts.path
    elif match := _SCP_FORM.fullmatch(address):
        normal = f"{match[1].lower()}/{match[2].strip('/')}"
    else:
        normal = address
    return normal.rstrip("/").removesuffix(".git")


def _git(root: Path, *arguments: str) -> str:
    """Return what git prints; "" if it fails or takes too long."""
    return (run_git(root, *arguments, seconds=GIT_SECONDS) or "").strip()
