"""Read which branch a folder is on, from files alone: no git is run."""

from __future__ import annotations

import os
from pathlib import Path

from engram.atomic import read_regular
from engram.transcripts.project import MAX_DEPTH, read_link

#: What a transcript calls the branch of a detached head.
DETACHED = "HEAD"
#: Maximum size of HEAD that is read, in bytes.
_HEAD_BYTES = 4096
_REF = "ref: refs/heads/"


def read_branch(folder: str) -> str:
    """Return the branch that a folder is on, ``DETACHED`` for none; "" outside a repository."""
    if not os.path.isabs(folder) or "\0" in folder:
        return ""
    here = Path(os.path.realpath(folder))
    for candidate in (here, *here.parents)[:MAX_DEPTH]:
        link = candidate / ".git"
        if os.path.isfile(link):
            git_folder = read_link(link, candidate, prefix="gitdir:")
            return "" if git_folder is None else _branch_in(git_folder)
        if os.path.isfile(link / "HEAD"):
            return _branch_in(link)
    return ""


def _branch_in(git_folder: Path) -> str:
    data = read_regular(git_folder / "HEAD", _HEAD_BYTES)
    text = data.decode("utf-8", "replace").strip() if data else ""
    if text.startswith(_REF):
        return text.removeprefix(_REF)
    return DETACHED if text else ""
