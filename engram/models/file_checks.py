"""What lies at the path of memory.db: nothing, Engram's database, another program's, or no file at all."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path

from engram.atomic import read_regular
from engram.models.database import table_names
from engram.models.schema import APPLICATION_ID, OWN_TABLES
from engram.paths import Home

#: Names of the backups in their folder.
BACKUP_NAMES = "memory-*.db"
#: How long another process may take to fill a file that it just made, in seconds.
_FILLED_SECONDS = 0.5
#: The smallest page that a database may have, in bytes.
_LEAST_PAGE_BYTES = 512

#: Database files (device, inode) that this process found to be Engram's, or new.
_looked_at: set[tuple[int, int]] = set()
_looking = threading.Lock()


def is_no_file(path: Path) -> bool:
    """True where something else than a regular file lies: a link, a folder, a pipe. False where nothing does."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def is_deleted(path: Path) -> bool:
    """True if memory.db is gone while there are backups of it: nobody makes a new one unless the user asks for it."""
    return not os.path.lexists(path) and _has_backups(path)


def _has_backups(path: Path) -> bool:
    return next(Home(path.parent).backups.glob(BACKUP_NAMES), None) is not None


def is_emptied(path: Path) -> bool:
    """True for an empty file beside backups: there was a memory once. SQLite would take it for a new one."""
    until = time.monotonic() + _FILLED_SECONDS
    while is_empty(path) and _has_backups(path):
        if time.monotonic() > until:
            return True
        time.sleep(0.01)
    return False


def is_cut_short(path: Path) -> bool:
    """True for a file that holds something, but no page of a database: SQLite would take it for a new one."""
    return 0 < _size(path) < _LEAST_PAGE_BYTES


def is_empty(path: Path) -> bool:
    """True for a file of no bytes."""
    return _size(path) == 0


def _size(path: Path) -> int:
    """Return the size of a file in bytes; -1 where there is none."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def has_own_tables(path: Path, driver: str) -> bool:
    """True for a database with Engram's tables, whatever its header says. Raises BrokenDatabase: it cannot be read."""
    return table_names(path, driver) >= OWN_TABLES


def file_identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file that lies there now; None where there is none."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def is_foreign_file(path: Path) -> bool:
    """True for another program's database, by its header alone: opening it would already write to it.

    A database of a single page tells nothing: ours is one until its first checkpoint. A file that this process looked
    at before is not looked at again: closing a file gives up all locks of the process on it, SQLite's among them.
    """
    try:
        facts = path.stat()  # before the header is read: another process may be filling the file just now
    except OSError:
        return False
    with _looking:
        identity = (facts.st_dev, facts.st_ino)
        if identity in _looked_at:
            return False
        if _has_foreign_header(path, facts.st_size):
            return True
        _looked_at.add(identity)
    return False


def _has_foreign_header(path: Path, size: int) -> bool:
    header = read_regular(path, 100) or b""
    if len(header) < 100 or not header.startswith(b"SQLite format 3\0"):
        return False
    application = int.from_bytes(header[68:72], "big")
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65_536 if page_bytes == 1 else page_bytes
    return application != APPLICATION_ID and size > page_bytes


def move_aside(path: Path, target: Path) -> None:
    """Move a database and its side files out of the way, with the folder's lock held."""
    os.replace(path, target)
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if side.exists():
            os.replace(side, target.with_name(target.name + suffix))
