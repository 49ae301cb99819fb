"""How memory.db is opened as a file: choosing the driver, checking what its path contains, and replacing the file."""

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
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import peewee
from peewee import Model, SqliteDatabase

from engram.errors import AlreadyRunning, BrokenDatabase, StoreError
from engram.models import tables
from engram.paths import Home
from engram.system.atomic import (
    FILE_MODE,
    explain_error,
    flush_to_disk,
    lock_file,
    locked_folder,
    make_private_folder,
    read_regular,
    write_atomic,
)
from engram.system.failpoint import reach

# -- One way to open SQLite: peewee on cysqlite, or on the standard library's driver, with the same pragmas.

#: First SQLite without the WAL-reset corruption of 3.7.0 to 3.51.2 (https://sqlite.org/wal.html).
SAFE_SQLITE = (3, 51, 3)
#: How long a writer waits for another writer, in milliseconds.
BUSY_MS = 5000
#: Size of a connection's page cache, in KB: SQLite's default.
CACHE_KB = 2000
#: Every database error of both drivers, as peewee maps them.
DATABASE_ERRORS: tuple[type[Exception], ...] = (peewee.DatabaseError, peewee.InterfaceError)


def choose_driver(wanted: str) -> str:
    """Return ``cysqlite`` or ``sqlite3``; ``auto`` chooses cysqlite if it is installed."""
    if wanted == "auto":
        return "cysqlite" if importlib.util.find_spec("cysqlite") else "sqlite3"
    return wanted


def sqlite_version(driver: str) -> tuple[int, int, int]:
    if driver == "cysqlite":
        import cysqlite

        major, minor, patch = cysqlite.sqlite_version_info[:3]
        return int(major), int(minor), int(patch)
    return sqlite3.sqlite_version_info[0], sqlite3.sqlite_version_info[1], sqlite3.sqlite_version_info[2]


def open_database(
    path: Path, driver: str, *, busy_ms: int = BUSY_MS, cache_kb: int = CACHE_KB, is_damaged: bool = False
) -> Any:
    """Return a peewee database for ``path``. Each thread's connection opens at first use, with ``cache_kb`` of pages.

    WAL, synchronous NORMAL (on power loss, the newest commits may be rolled back, each completely), secure_delete so
    that forgotten data leaves the file, no mmap (an I/O error would be a signal). From a file that ``is_damaged``, as
    much as possible is read: SQLite ignores errors in its schema and size. In a folder that isn't writable, the file is
    opened read-only.
    """
    pragmas: list[tuple[str, str | int]] = [("writable_schema", 1)] if is_damaged else []
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
        # Without a log, no process is writing and SQLite needs no side files; with a log, it needs the existing ones.
        name = _read_only_address(path, is_at_rest=not path.with_name(f"{path.name}-wal").exists())
    if driver == "cysqlite":
        from playhouse.cysqlite_ext import CySqliteDatabase

        return CySqliteDatabase(name, pragmas=pragmas, timeout=seconds, rank_functions=False, uri=is_address)
    return peewee.SqliteDatabase(name, pragmas=pragmas, timeout=seconds, uri=is_address)


def is_read_only(path: Path) -> bool:
    """Return True for a database in a folder that isn't writable: SQLite can't create a log next to it."""
    return path.exists() and not os.access(path.parent, os.W_OK)


def _read_only_address(path: Path, *, is_at_rest: bool) -> str:
    return f"file:{urllib.parse.quote(os.fspath(path))}?mode=ro{'&immutable=1' if is_at_rest else ''}"


def connect_plainly(path: Path, driver: str) -> Any:
    """Return a connection of the driver itself, without pragmas: used as the target of a copy. The caller closes it."""
    if driver == "cysqlite":
        import cysqlite

        return cysqlite.connect(str(path))
    return sqlite3.connect(path)


def driver_errors(driver: str) -> tuple[type[Exception], ...]:
    """Return the database errors of a driver that peewee does not map."""
    if driver == "cysqlite":
        import cysqlite

        return (cysqlite.Error,)
    return (sqlite3.Error,)


#: SQLite's messages about a file that is damaged, is not a database, or has a format that SQLite never writes.
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

    A message that is not UTF-8 counts: it quotes the bytes of a damaged file, and the drivers cannot even report it.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    text = str(error).lower()
    return any(word in text for word in _DAMAGE_WORDS)


def words_of_error(error: BaseException) -> str:
    """Return SQLite's own message for an error; cysqlite puts the whole statement before it."""
    before, _, said = str(error).rpartition("] ")
    return said if before.startswith("error ") else str(error)


def table_names(path: Path, driver: str) -> frozenset[str]:
    """Return the names of the tables in a database file, read as ``read_at_rest`` does: it may be another program's.

    Raises:
        BrokenDatabase: SQLite cannot read the file.
    """
    rows = read_at_rest(path, driver, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return frozenset(str(value) for (value,) in rows)


def read_at_rest(path: Path, driver: str, statement: str) -> list[tuple[Any, ...]]:
    """Return rows of a database file that no process writes to, without locking it, creating side files or reading its
    log.

    Raises:
        BrokenDatabase: SQLite cannot read the file, or it has no such table.
    """
    connection = None
    try:
        connection = _connect_by_address(_read_only_address(path, is_at_rest=True), driver)
        return [tuple(row) for row in connection.execute(statement).fetchall()]
    except DATABASE_ERRORS + driver_errors(driver) + (UnicodeDecodeError,) as error:
        raise BrokenDatabase(f"{path} is damaged: {error}") from error
    finally:
        if connection is not None:
            connection.close()


def _connect_by_address(address: str, driver: str) -> Any:
    if driver == "cysqlite":
        import cysqlite

        return cysqlite.connect(address, uri=True)
    return sqlite3.connect(address, uri=True)


# -- Is the write-ahead log that a crash left complete? SQLite drops everything after a damaged frame without an
# error.
#
# The format: https://sqlite.org/fileformat2.html#the_write_ahead_log. Frames of this log carry its salts; a crash
# leaves a valid beginning. A commit after a frame with a wrong checksum had been written, but is lost.

_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}
#: Maximum size of a log that is examined, in bytes.
MAX_LOG_BYTES = 64_000_000


#: What both messages about a damaged log contain.
LOG_IS_DAMAGED = "the write-ahead log is damaged"


def find_log_damage(path: Path) -> str:
    """Return what was lost from the log of the database at ``path``, which no process has open; "" if nothing was."""
    data = read_regular(path.with_name(f"{path.name}-wal"), MAX_LOG_BYTES) or b""
    if len(data) < _HEADER_BYTES + _FRAME_HEADER_BYTES:
        return ""
    magic, _, page_bytes = struct.unpack_from(">3I", data)
    order = _MAGIC.get(magic)
    sums = (0, 0) if order is None else _checksum(order, data[: _HEADER_BYTES - 8], (0, 0))
    if order is None or sums != struct.unpack_from(">2I", data, _HEADER_BYTES - 8):
        return f"the beginning of {LOG_IS_DAMAGED}: the last writes before the crash are lost"
    lost = _count_lost_commits(data, order, page_bytes, sums)
    return f"{LOG_IS_DAMAGED}: the last {lost} writes before the crash are lost" if lost else ""


def _count_lost_commits(data: bytes, order: str, page_bytes: int, sums: tuple[int, int]) -> int:
    """Return the number of commits after the first invalid frame, wherever damage moved them.

    A killed process leaves at most one frame half written, the last one, which doesn't count as damage.
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


# -- Replacing memory.db: the new file is built next to it and swapped in, safely even if the process is killed.
#
# The new database is built in the folder ``.replacement`` next to the old one. A record in it is the point of no
# return: without the record, the folder is deleted when memory.db is next opened; with it, the swap is finished.

#: Where the new database is built, next to the old one.
FOLDER_NAME = ".replacement"
#: Locked (flock): in shared mode by each process that has memory.db open, exclusively by the process that replaces it.
LOCK_NAME = "memory.lock"
#: How long opening memory.db waits for a replacement, in seconds.
USER_WAIT_SECONDS = 10.0
#: How long a replacement waits for processes that have memory.db open, in seconds.
OWNER_WAIT_SECONDS = 5.0

#: Marker: databases that were set aside may still contain forgotten data.
UNCLEAN_NAME = ".set-aside-unclean"

_RECORD_NAME = "swap.json"
#: The log moves before the database: a database without its log would lose the log's contents.
_SUFFIXES = ("-wal", "-shm", "-journal", "")
_RETRY_SECONDS = 0.02


@contextlib.contextmanager
def using_database(path: Path) -> Iterator[str]:
    """Keep other processes from replacing the database at ``path``; wait a while for a replacement to finish.

    The first process to open it examines any log that a crash left, and gets a description of what was lost
    ("" if nothing was), because SQLite does not report that.

    Raises:
        StoreError: a replacement takes longer than the wait, or the folder cannot be written.
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
    """Keep other processes from opening the database at ``path``; wait a while for those that have it open.

    Raises:
        AlreadyRunning: another process keeps it open for longer than the wait.
        StoreError: its folder cannot be written.
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
    """Yield the path at which a new database for ``path`` is to be built; it is deleted unless it is swapped in.

    The folder's lock is held, so do not open a missing database in it in the meantime. Raises OSError.
    """
    with locked_folder(path.parent):
        _finish(path)
        folder = make_private_folder(path.with_name(FOLDER_NAME))
        try:
            yield folder / path.name
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def free_name(path: Path, name: str) -> Path:
    """Return where the database at ``path`` can be moved aside as ``name``, with a time appended if that is taken."""
    aside = path.with_name(name)
    return path.with_name(f"{aside.stem}.{time.time_ns()}{aside.suffix}") if os.path.lexists(aside) else aside


def swap_in(path: Path, aside: Path) -> None:
    """Move the file at ``path`` aside and the prepared database there. Use inside ``preparing_replacement``."""
    folder = path.with_name(FOLDER_NAME)
    flush_to_disk(folder / path.name)
    reach("restore.ready")
    write_atomic(folder / _RECORD_NAME, json.dumps({"aside": aside.name}).encode())
    reach("restore.recorded")
    _finish(path)


def is_replaced(path: Path) -> bool:
    """Return True if a replacement of ``path`` is under way, or was killed: there may be no file at the moment."""
    return os.path.lexists(path.with_name(FOLDER_NAME))


def finish_replacement(path: Path) -> None:
    """Finish or undo a replacement of ``path`` that was killed; this costs almost nothing if there was none.

    Wait while a replacement is under way in another process. Raises StoreError if it cannot be finished.
    """
    if is_replaced(path):
        try:
            with locked_folder(path.parent):
                _finish(path)
        except OSError as error:
            raise StoreError(f"an interrupted restore cannot be finished: {explain_error(error)}") from error


def _finish(path: Path) -> None:
    """Finish or undo a replacement, with the folder's lock held. Every step can be repeated."""
    folder = path.with_name(FOLDER_NAME)
    record = read_regular(folder / _RECORD_NAME, 10_000)
    new = folder / path.name
    if record and new.exists():
        aside = path.with_name(str(json.loads(record)["aside"]))
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


# -- The statements that create the tables of memory.db, compiled from ``engram.models.tables``.

#: SQLite application_id of Engram's databases ("ENGR").
APPLICATION_ID = 0x454E4752

#: Tables that every version has, and that no other program's database has all of.
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
    """Return the statements that create one table and its indexes."""
    manager = type(table._schema)(table, SqliteDatabase(None))  # type: ignore[attr-defined]  # the stubs lack it
    queries = [manager._create_table(safe=False), *manager._create_indexes(safe=False)]
    statements = []
    for query in queries:
        sql, parameters = query.query()
        assert not parameters, f"SQLite takes no parameters in {sql}"
        statements.append(sql)
    return tuple(statements)


# -- What the path of memory.db contains: nothing, Engram's database, another program's database, or something other
# than a file.

#: Names of the backups in their folder.
BACKUP_NAMES = "memory-*.db"
#: How long another process may take to fill a file that it has just created, in seconds.
_FILLED_SECONDS = 0.5
#: Minimum page size of a database, in bytes.
_LEAST_PAGE_BYTES = 512

#: Database files (device, inode) that this process found to be Engram's, or new.
_looked_at: set[tuple[int, int]] = set()
_looking = threading.Lock()


def is_no_file(path: Path) -> bool:
    """Return True if the path is something other than a regular file: a link, a folder, a pipe."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def is_deleted(path: Path) -> bool:
    """Return True if memory.db was deleted but has backups: a new one is created only if the user requests it."""
    return not os.path.lexists(path) and _has_backups(path)


def _has_backups(path: Path) -> bool:
    return next(Home(path.parent).backups.glob(BACKUP_NAMES), None) is not None


def is_emptied(path: Path) -> bool:
    """Return True for an empty file with backups: it once contained a memory, but SQLite would take it for new."""
    until = time.monotonic() + _FILLED_SECONDS
    while is_empty(path) and _has_backups(path):
        if time.monotonic() > until:
            return True
        time.sleep(0.01)
    return False


def is_cut_short(path: Path) -> bool:
    """Return True for a file that isn't empty but is shorter than a page: SQLite would take it for a new database."""
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
    """Return True for a database with Engram's tables, whatever its header says. Raises BrokenDatabase."""
    return table_names(path, driver) >= OWN_TABLES


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of the file at the path; None if there is none."""
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def is_foreign_file(path: Path) -> bool:
    """Return True for another program's database, judging only by its header: opening it would already write to it.

    A single-page database proves nothing: ours has one page until its first checkpoint. A file that this process
    checked before isn't checked again: closing a file drops all of the process's locks on it, including SQLite's.
    """
    try:
        facts = path.stat()  # before the header is read: another process may be filling the file right now
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
