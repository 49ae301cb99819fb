"""The file of memory.db: choose a driver and open it, check what its path contains, and replace it."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import sqlite3
import stat
import struct
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import peewee
from peewee import Model, SqliteDatabase

from engram.errors import AlreadyRunning, BrokenDatabase, MissingDatabase, StoreError
from engram.models import tables
from engram.paths import Home
from engram.system.atomic import (
    FILE_MODE,
    explain_error,
    flush_to_disk,
    identity_of,
    lock_file,
    locked_folder,
    make_private_folder,
    read_regular,
    write_atomic,
)
from engram.system.failpoint import reach

# -- Open SQLite with peewee on cysqlite or on the standard library's driver, always with the same pragmas.

#: The first SQLite without the WAL-reset bug of 3.7.0 to 3.51.2 (https://sqlite.org/wal.html).
SAFE_SQLITE = (3, 51, 3)
#: How long a writer waits for another writer, in milliseconds.
BUSY_MS = 5000
#: Size of a connection's page cache, in KB: SQLite's default.
CACHE_KB = 2000
#: The errors to which peewee maps every database error of both drivers.
DATABASE_ERRORS: tuple[type[Exception], ...] = (peewee.DatabaseError, peewee.InterfaceError)


def choose_driver(wanted: str) -> str:
    """Return ``cysqlite`` or ``sqlite3``; ``auto`` chooses cysqlite if it is installed."""
    if wanted == "auto":
        return "cysqlite" if importlib.util.find_spec("cysqlite") else "sqlite3"
    return wanted


def _module_of(driver: str) -> Any:
    if driver == "cysqlite":
        import cysqlite

        return cysqlite
    return sqlite3


def sqlite_version(driver: str) -> tuple[int, int, int]:
    major, minor, patch = _module_of(driver).sqlite_version_info[:3]
    return int(major), int(minor), int(patch)


def open_database(
    path: Path,
    driver: str,
    busy_ms: int = BUSY_MS,
    cache_kb: int = CACHE_KB,
    *,
    is_damaged: bool = False,
    is_alone: bool = False,
) -> Any:
    """Return a peewee database for ``path``. Each thread's connection is opened when it is first used.

    With synchronous NORMAL, a power failure may roll back the newest commits, each of them completely. secure_delete
    removes forgotten data from the file. mmap is off, because an I/O error would raise a signal. With ``is_damaged``,
    SQLite ignores errors in the file's schema and size, so that as much as possible can be read. With ``is_alone``, the
    only connection locks the file, so that SQLite needs no -shm file, for which a full disk has no room. In a folder
    that isn't writable, the file is opened read-only.
    """
    # Not later, because the first access creates the -shm file.
    pragmas: list[tuple[str, str | int]] = [("locking_mode", "exclusive")] if is_alone else []
    pragmas += [("writable_schema", 1)] if is_damaged else []
    pragmas += [
        ("journal_mode", "wal"),
        ("synchronous", 1),
        ("busy_timeout", busy_ms),
        ("secure_delete", 1),
        ("foreign_keys", 1),
        ("mmap_size", 0),
        ("cache_size", -cache_kb),
        ("trusted_schema", 0),
        ("wal_autocheckpoint", 1000),
        ("journal_size_limit", 4_000_000),
    ]
    name, seconds, is_address = str(path), busy_ms / 1000, is_read_only(path)
    if is_address:
        # Without a log, no process is writing, and SQLite needs no -wal or -shm; with a log, it needs the existing
        # ones.
        name = _read_only_address(path, is_at_rest=not path.with_name(f"{path.name}-wal").exists())
    if driver == "cysqlite":
        from playhouse.cysqlite_ext import CySqliteDatabase

        return CySqliteDatabase(name, pragmas=pragmas, timeout=seconds, rank_functions=False, uri=is_address)
    return peewee.SqliteDatabase(name, pragmas=pragmas, timeout=seconds, uri=is_address)


def is_read_only(path: Path) -> bool:
    """Return True for a database in a folder that isn't writable, in which SQLite can't create a log."""
    return path.exists() and not os.access(path.parent, os.W_OK)


def _read_only_address(path: Path, *, is_at_rest: bool) -> str:
    return f"file:{urllib.parse.quote(os.fspath(path))}?mode=ro{'&immutable=1' if is_at_rest else ''}"


def connect_plainly(path: Path, driver: str) -> Any:
    """Return the driver's own connection, without pragmas, as the target of a copy. The caller closes it."""
    return _module_of(driver).connect(str(path))


def driver_errors(driver: str) -> tuple[type[Exception], ...]:
    """Return the driver's own database errors, which peewee doesn't map while rows are fetched."""
    return (_module_of(driver).Error,)


#: Parts of SQLite's messages about a file that is damaged, is not a database, or has an unknown format.
_DAMAGE_WORDS = (
    "malformed",
    "not a database",
    "corrupt",
    "unsupported file format",
    "could not decode",
    "invalid fts5 file format",
    "vtable constructor failed",
)


def is_damage(error: BaseException) -> bool:
    """Return True if the driver reports that the file is damaged or not a database at all.

    That includes a message that isn't valid UTF-8, because it quotes bytes of a damaged file. The drivers can't decode
    it.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    text = str(error).lower()
    return any(word in text for word in _DAMAGE_WORDS)


def words_of_error(error: BaseException) -> str:
    """Return SQLite's own message for an error, without the statement that cysqlite puts before it."""
    before, _, said = str(error).rpartition("] ")
    return said if before.startswith("error ") else str(error)


def read_at_rest(path: Path, driver: str, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of a database file to which no process is writing.

    The file is not locked, its log is not read, and no other file is created.

    Raises:
        BrokenDatabase: SQLite can't read the file, or it has no such table.
    """
    connection = None
    try:
        connection = _module_of(driver).connect(_read_only_address(path, is_at_rest=True), uri=True)
        return [tuple(row) for row in connection.execute(statement).fetchall()]
    except DATABASE_ERRORS + driver_errors(driver) + (UnicodeDecodeError,) as error:
        raise BrokenDatabase(f"{path} is damaged: {error}") from error
    finally:
        if connection is not None:
            connection.close()


# -- Check whether a write-ahead log that a crash left behind is complete. SQLite drops everything after a damaged frame
# without an error.
#
# The format: https://sqlite.org/fileformat2.html#the_write_ahead_log. All frames of a log carry its salts. After a
# crash, the beginning of the log is valid. Commits after a frame with a wrong checksum were written, but are lost.

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
#: Maximum size of a log that is examined, in bytes.
MAX_LOG_BYTES = 64_000_000


#: Text that both messages about a damaged log contain.
_LOG_IS_DAMAGED = "the write-ahead log is damaged"


def find_log_damage(path: Path) -> str:
    """Return what has been lost from a database's log; "" if nothing has. No process may have the database open."""
    data = read_regular(path.with_name(f"{path.name}-wal"), MAX_LOG_BYTES) or b""
    if len(data) < _HEADER_BYTES + _FRAME_HEADER_BYTES:
        return ""
    magic, _, page_bytes = struct.unpack_from(">3I", data)
    order = _MAGIC.get(magic)
    sums = (0, 0) if order is None else _checksum(order, data[: _HEADER_BYTES - 8], (0, 0))
    if order is None or sums != struct.unpack_from(">2I", data, _HEADER_BYTES - 8):
        return f"the beginning of {_LOG_IS_DAMAGED}: the last writes before the crash are lost"
    lost = _count_lost_commits(data, order, page_bytes, sums)
    return f"{_LOG_IS_DAMAGED}: the last {lost} writes before the crash are lost" if lost else ""


def _count_lost_commits(data: bytes, order: str, page_bytes: int, sums: tuple[int, int]) -> int:
    """Return the number of commits after the first invalid frame, even if damage has shifted them.

    A killed process may leave the last frame half-written; that doesn't count as damage.
    """
    salts = data[16:24]
    start = _HEADER_BYTES
    while start + _FRAME_HEADER_BYTES + page_bytes <= len(data):
        page = data[start + _FRAME_HEADER_BYTES : start + _FRAME_HEADER_BYTES + page_bytes]
        sums = _checksum(order, page, _checksum(order, data[start : start + 8], sums))
        if data[start + 8 : start + 16] != salts or sums != struct.unpack_from(">2I", data, start + 16):
            break
        start += _FRAME_HEADER_BYTES + page_bytes
    frames, commits, place = 0, 0, data.find(salts, start)
    while place >= 0:
        frames += 1
        commits += any(data[place - 4 : place])
        place = data.find(salts, place + len(salts))
    return commits if frames > 1 or start + 8 < data.find(salts, start) else 0


def _checksum(order: str, data: bytes, sums: tuple[int, int]) -> tuple[int, int]:
    first, second = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second


# -- Replace memory.db: build the new file next to it and swap it in, safely even if the process is killed.
#
# The new database is built in the folder ``.replacement`` next to the old one. A record in that folder is the point of
# no return: when memory.db is next opened, the swap is finished if the record exists, and otherwise the folder is
# deleted.

#: The folder in which the new database is built, next to the old one.
FOLDER_NAME = ".replacement"
#: A lock file (flock): each process that has memory.db open holds it in shared mode, the process that replaces
#: memory.db exclusively.
LOCK_NAME = "memory.lock"
#: How long opening memory.db waits for a replacement, in seconds.
USER_WAIT_SECONDS = 10.0
#: How long a replacement waits for processes that have memory.db open, in seconds.
OWNER_WAIT_SECONDS = 5.0

#: A file that marks that databases that were set aside may still contain forgotten data.
UNCLEAN_NAME = ".set-aside-unclean"

_RECORD_NAME = "swap.json"
#: The file that was replaced.
REPLACED_NAME = "memory.replaced.db"
#: Name under which another program's memory.db is set aside; and the name that Engram's own memory.db gets when it is
#: uninstalled and the other program's file is restored.
ASIDE_NAME = "memory.v2.db"
UNINSTALLED_NAME = "memory.uninstalled.db"
#: The log is moved before the database, because a database without its log would lose the log's contents.
_SUFFIXES = ("-wal", "-shm", "-journal", "")
_RETRY_SECONDS = 0.02


@contextlib.contextmanager
def using_database(path: Path) -> Iterator[str]:
    """Keep other processes from replacing the database at ``path``. Wait up to 10 s for a replacement to finish.

    Yield a description of what a crash has lost from the log, because SQLite doesn't report that; "" if nothing was
    lost, or if another process has the database open.

    Raises:
        StoreError: the replacement took longer, or the folder can't be written.
    """
    with _holding(path, fcntl.LOCK_SH, USER_WAIT_SECONDS) as descriptor:
        if descriptor is None:
            raise StoreError("memory.db is being restored; try again when that is done")
        damage = ""
        if path.with_name(f"{path.name}-wal").exists() and _try_lock(descriptor, fcntl.LOCK_EX, path):
            damage = find_log_damage(path)
        lock_file(descriptor, fcntl.LOCK_SH, path.parent)
        yield damage


@contextlib.contextmanager
def owning_database(path: Path) -> Iterator[None]:
    """Keep other processes from opening the database at ``path``. Wait up to 5 s for those that have it open.

    Raises:
        AlreadyRunning: another process kept it open for longer.
        StoreError: the folder can't be written.
    """
    with _holding(path, fcntl.LOCK_EX, OWNER_WAIT_SECONDS) as descriptor:
        if descriptor is None:
            raise AlreadyRunning("another Engram command has memory.db open; stop it, then try again")
        yield


@contextlib.contextmanager
def _holding(path: Path, operation: int, wait_seconds: float) -> Iterator[int | None]:
    how = os.O_RDONLY if is_read_only(path) else os.O_RDWR | os.O_CREAT
    lock = path.with_name(LOCK_NAME)
    try:
        descriptor = os.open(lock, how | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
    except OSError as error:
        raise StoreError(f"can't use the memory folder {path.parent}: {explain_error(error, lock)}") from error
    try:
        until = time.monotonic() + wait_seconds
        while not (is_held := _try_lock(descriptor, operation, path)) and time.monotonic() < until:
            time.sleep(_RETRY_SECONDS)
        yield descriptor if is_held else None
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int, operation: int, path: Path) -> bool:
    try:
        lock_file(descriptor, operation | fcntl.LOCK_NB, path.parent)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def preparing_replacement(path: Path) -> Iterator[Path]:
    """Yield the path at which to build a new database for ``path``. It is deleted unless it is swapped in.

    The folder's lock is held in the meantime, so don't open a database that doesn't exist yet. Raises OSError.
    """
    with locked_folder(path.parent):
        _finish(path)
        folder = make_private_folder(path.with_name(FOLDER_NAME))
        try:
            yield folder / path.name
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def free_name(path: Path, name: str) -> Path:
    """Return the path to which the database at ``path`` can be moved as ``name``, with a timestamp if that is taken."""
    aside = path.with_name(name)
    return path.with_name(f"{aside.stem}.{time.time_ns()}{aside.suffix}") if os.path.lexists(aside) else aside


def swap_in(path: Path, aside: Path) -> None:
    """Move the file at ``path`` aside and swap in the prepared one. Use inside ``preparing_replacement``."""
    folder = path.with_name(FOLDER_NAME)
    flush_to_disk(folder / path.name)
    reach("restore.ready")
    write_atomic(folder / _RECORD_NAME, json.dumps({"aside": aside.name}).encode())
    reach("restore.recorded")
    _finish(path)


def is_replaced(path: Path) -> bool:
    """Return True if a replacement of ``path`` is in progress or was interrupted, so that the file may be missing."""
    return os.path.lexists(path.with_name(FOLDER_NAME))


def finish_replacement(path: Path) -> None:
    """Finish or undo an interrupted replacement of ``path``. Costs almost nothing if there was none.

    Wait while another process is replacing the file. Raises StoreError if the replacement can't be finished.
    """
    if is_replaced(path):
        try:
            with locked_folder(path.parent):
                _finish(path)
        except OSError as error:
            raise StoreError(f"an interrupted restore can't be finished: {explain_error(error)}") from error


def _finish(path: Path) -> None:
    """Finish or undo a replacement, with the folder's lock held. Every step can be repeated."""
    folder = path.with_name(FOLDER_NAME)
    record = read_regular(folder / _RECORD_NAME, 10_000)
    new = folder / path.name
    if record is not None and new.exists():
        aside = _aside_of(path, record)
        for suffix in _SUFFIXES:
            old, target = path.with_name(path.name + suffix), aside.with_name(aside.name + suffix)
            if os.path.lexists(old) and not os.path.lexists(target):
                os.replace(old, target)
                reach("restore.aside")
        write_atomic(path.with_name(UNCLEAN_NAME), b"")
        os.replace(new, path)
        reach("restore.swapped")
        flush_to_disk(path.parent)
    if os.path.lexists(folder):
        shutil.rmtree(folder)
        reach("restore.finished")


def _aside_of(path: Path, record: bytes) -> Path:
    """Return where to move the old file, even if its record is damaged; the new database is complete in any case."""
    try:
        return path.with_name(str(json.loads(record)["aside"]))
    except (ValueError, LookupError, TypeError):
        return free_name(path, REPLACED_NAME)


# -- The statements that create the tables of memory.db, compiled from ``engram.models.tables``.

#: SQLite application_id of Engram's databases ("ENGR").
APPLICATION_ID = 0x454E4752

#: Tables that every version has. No other program's database has all of them.
OWN_TABLES = frozenset({"meta", "project", "session", "transcript", "turn", "said", "episode", "evidence", "tombstone"})


@cache
def schema_statements() -> tuple[str, ...]:
    """Return every statement that creates the tables, indexes, views and full-text indexes, in order."""
    statements: list[str] = []
    for table in tables.ALL_TABLES:
        statements += table_statements(table)
    statements += [view.definition for view in tables.ALL_VIEWS]
    for index in tables.ALL_TEXT_INDEXES:
        statements += table_statements(index)
    return tuple(statements)


@cache
def table_statements(table: type[Model]) -> tuple[str, ...]:
    manager = type(table._schema)(table, SqliteDatabase(None))  # type: ignore[attr-defined]  # the stubs lack it
    queries = [manager._create_table(safe=False), *manager._create_indexes(safe=False)]
    statements = []
    for query in queries:
        sql, parameters = query.query()
        assert not parameters, f"SQLite takes no parameters in {sql}"
        statements.append(sql)
    return tuple(statements)


# -- Find out what is at the path of memory.db: nothing, Engram's database, another program's, or no file.

#: Names of the backups in their folder.
BACKUP_NAMES = "memory-*.db"
#: How long another process may take to fill a file that it has just created, in seconds.
_FILLED_SECONDS = 0.5
#: Minimum page size of a database, in bytes.
_LEAST_PAGE_BYTES = 512

#: Files (device, inode) that this process has checked and found to be Engram's, or new.
_looked_at: set[tuple[int, int]] = set()
_looking = threading.Lock()


def is_no_file(path: Path) -> bool:
    """Return True if there is something other than a regular file at the path, such as a link, a folder or a pipe."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def is_deleted(path: Path) -> bool:
    """Return True if memory.db is missing but has backups. A new one is then created only on request."""
    return not os.path.lexists(path) and _has_backups(path)


def check_missing(path: Path) -> None:
    """Raise MissingDatabase if memory.db was deleted; HomeError if it is on a disk that is not mounted."""
    Home(path.parent).check_place()
    if is_deleted(path):
        raise MissingDatabase()


def _has_backups(path: Path) -> bool:
    return next(Home(path.parent).backups.glob(BACKUP_NAMES), None) is not None


def is_emptied(path: Path) -> bool:
    """Return True for an empty file with backups. It has lost its content, but SQLite would treat it as new."""
    until = time.monotonic() + _FILLED_SECONDS
    while is_empty(path) and _has_backups(path):
        if time.monotonic() > until:
            return True
        time.sleep(0.01)
    return False


def is_cut_short(path: Path) -> bool:
    """Return True for a non-empty file that is shorter than a page. SQLite would treat it as a new database."""
    return 0 < _size(path) < _LEAST_PAGE_BYTES


def is_empty(path: Path) -> bool:
    return _size(path) == 0


def _size(path: Path) -> int:
    """Return the size of a file in bytes; -1 if there is none."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return -1


def has_own_tables(path: Path, driver: str) -> bool:
    """Return True for a database with Engram's tables, whatever its header contains. Raises BrokenDatabase."""
    rows = read_at_rest(path, driver, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return {str(name) for (name,) in rows} >= OWN_TABLES


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at the path; None if there is none."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


class OpenedFiles:
    """The files that each thread's connection has opened: the database and its log."""

    def __init__(self, database: SqliteDatabase, path: Path) -> None:
        self._paths = (str(path), f"{path}-wal", f"{path}-shm")
        self._noted = threading.local()
        # peewee calls this for each new connection, right after the pragmas have read the file, not a later one.
        database._initialize_connection = self._note  # type: ignore[attr-defined]

    def are_displaced(self, open_log: Callable[[], object]) -> bool:
        """Return True if the files that this thread's connection has open were deleted or replaced.

        Makes only three system calls, because it runs at the beginning of each transaction.

        Args:
            open_log: makes the connection open the log, if the pragmas did not.
        """
        if not getattr(self._noted, "is_complete", False):
            open_log()
            before = getattr(self._noted, "files", [None] * len(self._paths))
            self._noted.files = [known or identity_of(path) for known, path in zip(before, self._paths, strict=True)]
            self._noted.is_complete = True
        return any(identity_of(path) != known for path, known in zip(self._paths, self._noted.files, strict=True))

    def _note(self, _connection: object) -> None:
        self._noted.files = [identity_of(path) for path in self._paths]
        self._noted.is_complete = all(self._noted.files)


def is_foreign_file(path: Path) -> bool:
    """Return True for another program's database, judging only by its header, because opening it would write to it.

    A database of a single page counts as Engram's, which has one page until its first checkpoint. A checked file isn't
    read again, because closing a file drops all of the process's locks on it, including SQLite's.
    """
    try:
        facts = path.stat()  # before the header is read, because another process may be filling the file
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


def copy_files(source: Path, target: Path) -> None:
    """Copy a database with its -wal, without following links; the copies have mode 0600. Raises OSError."""
    for suffix in ("", "-wal"):
        part, copy = source.with_name(source.name + suffix), target.with_name(target.name + suffix)
        if not suffix or (part.is_file() and not part.is_symlink()):
            shutil.copyfile(part, copy, follow_symlinks=False)
            os.chmod(copy, FILE_MODE)


def move_aside(path: Path, target: Path) -> None:
    """Move a database with its -wal and -shm out of the way. The caller holds the folder's lock."""
    os.replace(path, target)
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if side.exists():
            os.replace(side, target.with_name(target.name + suffix))
