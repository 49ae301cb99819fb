"""Daily backups of memory.db, made with SQLite's backup API while other processes read and write, and then checked.

The newest two are kept. If memory.db was lost and a new one created, the newest backup of the old one is kept until the
user deletes it. Copies made before a migration are kept as well, as the way back to the earlier version.
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.errors import BrokenDatabase, StoreError
from engram.models import tables
from engram.models.engine.database import (
    BACKUP_NAMES,
    DATABASE_ERRORS,
    connect_plainly,
    driver_errors,
    is_damage,
    open_database,
    read_at_rest,
)
from engram.models.engine.meta import get_meta, made_at_ms
from engram.models.engine.migrations import MADE_AT
from engram.models.engine.transaction import Reader, Store
from engram.system.atomic import FILE_MODE, locked_folder, make_private_folder
from engram.system.clock import DAY_MS, SYSTEM_CLOCK, Clock, iso_time, parse_time_ms
from engram.system.lazy_regex import lazy_regex

#: Number of the newest backups that are kept.
KEEP = 2
#: Number of the newest copies from before an upgrade that are kept, each with a different version of the tables.
KEEP_UPGRADED = 2
#: Suffix of such a copy's name, with the version of its tables.
_TABLES = lazy_regex(r"-tables-(\d+)\.db")
#: Beginning of a backup's name, with the time at which it was made, in UTC.
_MADE = lazy_regex(r"memory-(\d{4}-\d\d-\d\dT\d{6}Z)")
#: Number of pages copied at a time; other threads run in between.
_PAGES = 256
#: Free disk space that must remain after a backup, in bytes.
_SPARE_BYTES = 50_000_000


@dataclass(frozen=True, slots=True)
class Backup:
    path: Path
    made_at_ms: int
    size: int

    @property
    def upgraded_from(self) -> int:
        """Version of the tables in a copy from before an upgrade; 0 for other backups."""
        found = _TABLES.search(self.path.name)
        return int(found[1]) if found else 0


def list_backups(folder: Path, clock: Clock = SYSTEM_CLOCK) -> list[Backup]:
    """Return the backups in a folder, newest first, without links or half-written files.

    Backups dated more than a day ahead come last: the clock was wrong when they were made, so others may be newer.
    """
    found, tomorrow_ms = [], clock.now_ms() + DAY_MS
    for path in folder.glob(BACKUP_NAMES):
        if path.is_file() and not path.is_symlink():
            facts = path.stat()
            found.append(Backup(path, _made_at_ms(path.name) or facts.st_mtime_ns // 1_000_000, facts.st_size))
    return sorted(found, key=lambda row: (row.made_at_ms <= tomorrow_ms, row.made_at_ms, row.path.name), reverse=True)


@dataclass(frozen=True, slots=True)
class Held:
    """What a backup holds."""

    memories: int
    turns: int


#: A backup of a memory that had just been created.
EMPTY = Held(memories=0, turns=0)


def count_held(backup: Path, driver: str) -> Held | None:
    """Return what a backup holds; None if it can't be read."""
    with contextlib.suppress(BrokenDatabase):
        for row in read_at_rest(backup, driver, "SELECT (SELECT count(*) FROM episode), (SELECT count(*) FROM turn)"):
            return Held(*row)
    return None


def _made_at_ms(name: str) -> int | None:
    """Return when a backup was made, in milliseconds since 1970; None if its name doesn't say it.

    The file's modification time may be later, because forgetting changes backups.
    """
    found = _MADE.match(name)
    return parse_time_ms(found[1]) if found else None


def newest_backup_ms(store: Reader, folder: Path) -> int:
    """Return when the newest backup of this memory.db was made, even after a restore; 0 if there is none."""
    return max((backup.made_at_ms for backup in _by_memory(store, folder)[0]), default=0)


def earlier_backups(store: Reader, folder: Path) -> list[Backup]:
    """Return the newest backup of each earlier memory.db, which was damaged or deleted; newest first."""
    return [backups[0] for backups in _by_memory(store, folder)[1:]]


def _by_memory(store: Reader, folder: Path) -> list[list[Backup]]:
    """Return the backups of this or an unknown memory.db, then those of each earlier memory.db; newest first."""
    made_at = made_at_ms(store)
    found: dict[float, list[Backup]] = {made_at: []}
    for backup in list_backups(folder, store.clock):
        if backup.upgraded_from:
            continue
        found.setdefault(min(_began_ms(backup.path, store.driver), made_at), []).append(backup)
    return list(found.values())


def _began_ms(backup: Path, driver: str) -> float:
    """Return when the memory in a backup was created, in milliseconds since 1970; infinity if that can't be read."""
    with contextlib.suppress(BrokenDatabase, ValueError):
        for (value,) in read_at_rest(backup, driver, f"SELECT value FROM meta WHERE key = '{MADE_AT}'"):
            return int(value)
    return math.inf


def is_of_other_memory(store: Reader, backup: Path) -> bool:
    """Return True if a file is a copy of another memory than this, such as one of another machine."""
    with contextlib.suppress(BrokenDatabase):
        for (value,) in read_at_rest(backup, store.driver, "SELECT value FROM meta WHERE key = 'machine'"):
            return bool(value != get_meta(store, "machine"))
    return False


def has_content(store: Reader) -> bool:
    """Return True if memory.db contains anything that is worth a backup."""
    return any(store.fetch_first(table.select(table.id).limit(1)) for table in (tables.Memory, tables.Turn))


@contextlib.contextmanager
def holding_backups(folder: Path) -> Iterator[Path]:
    """Lock the backup folder, so that no backup is made in the meantime, which forgetting could miss."""
    make_private_folder(folder)
    with locked_folder(folder):
        yield folder


def make_backup(store: Reader, folder: Path, *, keep: int = KEEP) -> Backup:
    """Copy a snapshot of memory.db into ``folder`` (mode 0600), and delete all but the newest ``keep`` backups.

    The newest backup of each earlier memory.db is kept too. Other processes can read and write in the meantime. A
    damaged copy is discarded.

    Raises:
        BrokenDatabase: the copy is damaged, so memory.db is too; the older backups are kept.
        StoreError: the backup can't be made, for example because the disk is full; the older backups are kept.
    """
    with holding_backups(folder):
        made = _make(store, folder, "")
        present, *earlier = _by_memory(store, folder)
        for old in [*present[keep:], *(old for backups in earlier for old in backups[1:])]:
            drop_database(old.path)
    return made


def make_copy_before_upgrade(path: Path, folder: Path, version: int, *, driver: str) -> Backup:
    """Copy the memory.db at ``path``, whose tables have an earlier ``version``, into ``folder`` before it is migrated.

    Earlier copies of the same version are deleted, and so are copies of all but the newest two versions.

    Raises:
        BrokenDatabase: the copy is damaged, so memory.db is too.
        StoreError: the copy can't be made, for example because the disk is full.
    """
    store = Store(path, driver=driver)  # not opened, because that would migrate its tables
    try:
        with holding_backups(folder):
            made = _make(store, folder, f"-tables-{version}")
            others = [copy for copy in list_backups(folder) if copy.upgraded_from and copy.path != made.path]
            older = [copy for copy in others if copy.upgraded_from != version]
            for old in [*(copy for copy in others if copy not in older), *older[KEEP_UPGRADED - 1 :]]:
                drop_database(old.path)
    finally:
        store.close()
    return made


def _make(store: Reader, folder: Path, ending: str) -> Backup:
    """Make one copy in a locked folder. Raises StoreError."""
    _drop_leftovers(folder)
    size = store.path.stat().st_size
    if shutil.disk_usage(folder).free < size + _SPARE_BYTES:
        needed = (size + _SPARE_BYTES) // 1_000_000
        raise StoreError(f"no backup of memory.db: less than {needed} MB are free on the disk of {folder}")
    target = folder / f"memory-{iso_time(store.now_ms()).replace(':', '')}{ending}.db"
    half = target.with_name(f".{target.name}.tmp")
    try:
        os.close(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE))
        _copy(store, half)
        _check(store, half)
        os.replace(half, target)
    except OSError as error:
        raise StoreError(f"no backup: {error.strerror or error}") from error
    finally:
        _drop_leftovers(folder)
    return Backup(target, store.now_ms(), target.stat().st_size)


def drop_database(path: Path) -> None:
    """Delete a database with its -wal, -shm and -journal files."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _drop_leftovers(folder: Path) -> None:
    """Delete the leftovers of an interrupted backup. Call this only while the folder is locked."""
    for path in folder.glob(".memory-*.tmp*"):
        path.unlink(missing_ok=True)


def _copy(store: Reader, path: Path) -> None:
    """Copy a snapshot of the database, through a separate connection."""
    source = open_database(store.path, store.driver)
    target = connect_plainly(path, store.driver)
    try:
        with source.atomic("DEFERRED"):
            source.execute_sql("SELECT count(*) FROM sqlite_master").fetchone()
            source.connection().backup(target, pages=_PAGES)
    except DATABASE_ERRORS + driver_errors(store.driver) as error:
        raise _store_error(store, error) from error
    finally:
        target.close()
        with contextlib.suppress(*DATABASE_ERRORS):
            source.close()


def _check(store: Reader, path: Path) -> None:
    """Raise BrokenDatabase if SQLite finds the copy damaged."""
    copy = Store(path, driver=store.driver, clock=store.clock)
    try:
        message = copy.value("PRAGMA quick_check(1)")
        if message != "ok":
            raise BrokenDatabase(f"{store.path} is damaged: {message or 'the check failed'}")
        copy.checkpoint("TRUNCATE")
    finally:
        copy.close()


def _store_error(store: Reader, error: Exception) -> StoreError:
    if is_damage(error):
        return BrokenDatabase(f"{store.path} is damaged: {error}")
    return StoreError(f"no backup: {error}")
