"""Databases of the earlier Engram, by their tables: the one named memory.db, and those that were moved aside."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import locked_folder, read_regular
from engram.errors import StoreError
from engram.models.file_checks import move_aside
from engram.models.foreign import ForeignDatabase, reading_foreign
from engram.models.replacement import free_name, owning_database
from engram.models.schema import APPLICATION_ID
from engram.models.store import ASIDE_NAME, UNINSTALLED_NAME
from engram.paths import Home

#: Columns that the episodes of its second version have; its first version has the table ``chunks`` instead.
EPISODE_COLUMNS = frozenset({"id", "session_id", "summary", "created_at"})
#: Names under which its database may lie in the memory folder.
PATTERNS = ("memory.db", "memory.v2*.db")


@dataclass(frozen=True, slots=True)
class EarlierDatabase:
    """A database of the earlier Engram."""

    path: Path
    #: 1: indexed notes only. 2: episodes.
    version: int
    #: Number of episodes; 0 where they cannot be counted.
    episodes: int


def find_databases(folder: Path, scratch: Path) -> list[EarlierDatabase]:
    """Return the earlier Engram's databases in a folder.

    Args:
        folder: its memory folder.
        scratch: where copies of them are made for a moment; an existing folder.
    """
    found = []
    for pattern in PATTERNS:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not _has_own_mark(path):
                database = _look_at(path, scratch)
                if database is not None:
                    found.append(database)
    return found


def _has_own_mark(path: Path) -> bool:
    """Return True for this program's database, by its header: it may be large, and is not copied to look at it."""
    header = read_regular(path, 100) or b""
    return int.from_bytes(header[68:72], "big") == APPLICATION_ID


def _look_at(path: Path, scratch: Path) -> EarlierDatabase | None:
    with contextlib.suppress(StoreError), reading_foreign(path, scratch) as database:
        version = version_of(database)
        if version:
            return EarlierDatabase(path, version, _count(database) if version == 2 else 0)
    return None


def version_of(database: ForeignDatabase) -> int:
    """Return 2 or 1 for a database of the earlier Engram by its tables, 0 for another program's."""
    if database.columns("episodes") >= EPISODE_COLUMNS:
        return 2
    return int(bool(database.columns("chunks")) and bool(database.columns("fts")))


def _count(database: ForeignDatabase) -> int:
    try:
        return database.count("episodes")
    except StoreError:
        return 0


def _is_earlier(path: Path) -> bool:
    is_candidate = path.is_file() and not _has_own_mark(path)
    return is_candidate and _look_at(path, path.parent) is not None


def set_earlier_aside(folder: Path) -> None:
    """Move the earlier Engram's memory.db aside, and this program's own back that an uninstallation left."""
    path = Home(folder).memory_db
    if not folder.is_dir():
        return
    with locked_folder(folder):
        if _is_earlier(path):
            move_aside(path, free_name(path, ASIDE_NAME))
        own = path.with_name(UNINSTALLED_NAME)
        if own.is_file() and not os.path.lexists(path):
            move_aside(own, path)


def bring_back_earlier(folder: Path) -> None:
    """Give the name memory.db back to the earlier Engram, for an uninstallation; this program's own goes aside.

    Raises:
        AlreadyRunning: a process of this program has memory.db open.
    """
    path = Home(folder).memory_db
    aside = path.with_name(ASIDE_NAME)
    if not _is_earlier(aside):
        return
    with contextlib.ExitStack() as held:
        if path.is_file():
            if not _has_own_mark(path):
                return
            held.enter_context(owning_database(path))
        held.enter_context(locked_folder(folder))
        if path.is_file():
            move_aside(path, free_name(path, UNINSTALLED_NAME))
        move_aside(aside, path)
