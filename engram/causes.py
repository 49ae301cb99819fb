"""Explains why a file can't be written: the disk is full, has no inodes left, or is read-only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

#: A disk with less free space than this counts as full after a failed write, in bytes.
_FULL_BYTES = 1_000_000


def explain_disk(path: Path) -> str:
    """What prevents writing to ``path``; "" if nothing can be seen."""
    with contextlib.suppress(OSError):
        folder = path if path.is_dir() else path.parent
        facts = os.statvfs(folder)
        if facts.f_flag & os.ST_RDONLY:
            return f"the file system of {folder} is read-only"
        # A file system without blocks, as /proc, is no disk.
        if facts.f_blocks and facts.f_files and not facts.f_favail:
            return f"the file system of {folder} has no inodes left: delete files that you don't need"
        if facts.f_blocks and facts.f_bavail * facts.f_frsize < _FULL_BYTES:
            return f"the disk of {folder} is full: free some space"
        if not os.access(folder, os.W_OK | os.X_OK):
            return f"the folder {folder} is not writable"
        if path.is_file() and not os.access(path, os.W_OK):
            return f"the file {path} is not writable"
    return ""


def explain_error(error: OSError, path: Path | None = None) -> str:
    """One line that names the system's error, and the state of the disk if that is the cause."""
    if path is None and isinstance(error.filename, str | os.PathLike):
        path = Path(error.filename)
    reason = error.strerror or str(error) or type(error).__name__
    cause = "" if path is None else explain_disk(path)
    if cause:
        return f"{reason}: {cause}"
    return reason if path is None else f"{path}: {reason}"


def behind_rollback(error: BaseException) -> BaseException:
    """Return what ended a transaction where the error is only that nothing was left to roll back.

    SQLite itself rolls back where the disk is full or fails.
    """
    while "rollback" in str(error).lower() and error.__context__ is not None:
        error = error.__context__
    return error
