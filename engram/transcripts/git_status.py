"""Read what is not committed in a working tree. No program that the repository names is run, and time is bounded."""

from __future__ import annotations

import time
from dataclasses import dataclass

from engram.transcripts.git_command import filter_options, run_git
from engram.transcripts.git_files import DETACHED

#: Maximum duration for a person who waits, in seconds.
MAX_STATUS_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class WorkTree:
    """What git says of a working tree."""

    #: ``DETACHED`` for a detached head.
    branch: str
    #: Files with changes that are not committed, relative to the repository.
    changed: tuple[str, ...] = ()
    #: Files and folders that git does not know.
    untracked: tuple[str, ...] = ()
    #: Number of commits that the upstream branch does not have; 0 without one.
    unpushed: int = 0

    @property
    def is_clean(self) -> bool:
        """True if everything is committed."""
        return not (self.changed or self.untracked)


def read_work_tree(folder: str, *, seconds: float = MAX_STATUS_SECONDS) -> WorkTree | None:
    """Return the state of the working tree that holds a folder; None outside any, or if git is missing or slow."""
    until = time.monotonic() + seconds
    options = filter_options(folder, seconds=seconds)
    left = until - time.monotonic()
    if options is None or left <= 0:
        return None
    printed = run_git(
        folder,
        *options,
        "status",
        "--porcelain=v2",
        "--branch",
        "-z",
        "--untracked-files=normal",
        "--ignore-submodules=all",
        "--no-renames",
        seconds=left,
    )
    return None if printed is None else parse_status(printed)


def parse_status(printed: str) -> WorkTree:
    """Parse the output of ``git status --porcelain=v2 --branch -z --no-renames``."""
    branch, changed, untracked, unpushed = "", [], [], 0
    for record in printed.split("\0"):
        kind, _, rest = record.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            if name == "branch.head":
                branch = DETACHED if value == "(detached)" else value
            elif name == "branch.ab":
                unpushed = int(value.split(" ")[0].lstrip("+") or 0)
        elif kind in ("1", "u"):
            # "1 XY sub mH mI mW hH hI path", "u XY sub m1 m2 m3 mW h1 h2 h3 path"
            changed.append(rest.split(" ", 7 if kind == "1" else 9)[-1])
        elif kind == "?":
            untracked.append(rest)
    return WorkTree(branch=branch, changed=tuple(changed), untracked=tuple(untracked), unpushed=unpushed)
