"""Deletes the memory folder: what this program keeps there, and nothing else."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from engram.causes import explain_error
from engram.errors import InstallError
from engram.paths import Home

#: Names of files and folders in the memory folder, as patterns.
PATTERNS = (
    "memory.db*",
    "memory.*.db*",
    "queue.db*",
    "*.sock",
    "*.lock",
    "python",
    "config.toml",
    ".env",
    "recollections",
    "notes",
    "logs",
    "models",
    "backups",
    "calls",
    "install",
    ".self-test-*",
    ".*.tmp",
)


def purge_memory(home: Home, *, keep: Collection[Path] = ()) -> list[Path]:
    """Delete this program's files in the memory folder, and the folder if it is empty then.

    Args:
        keep: files of the earlier Engram.

    Returns:
        What is left.

    Raises:
        InstallError: a file can't be deleted.
    """
    if not home.root.is_dir():
        return []
    try:
        for path in _ours(home.root, set(keep)):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    except OSError as error:
        raise InstallError(f"can't delete the memory: {explain_error(error)}") from error
    left = sorted(home.root.iterdir())
    if not left:
        with contextlib.suppress(OSError):
            os.rmdir(home.root)
    return left


def _ours(root: Path, keep: set[Path]) -> Iterator[Path]:
    for pattern in PATTERNS:
        for path in sorted(root.glob(pattern)):
            if path not in keep:
                yield path
