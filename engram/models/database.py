"""One way to open SQLite: peewee on cysqlite, or on the standard library's driver, with the same pragmas."""

from __future__ import annotations

import importlib.util
import sqlite3
import urllib.parse
from pathlib import Path
from typing import Any

import peewee

from engram.errors import BrokenDatabase

#: First SQLite without the WAL-reset corruption of 3.7.0 to 3.51.2 (https://sqlite.org/wal.html).
SAFE_SQLITE = (3, 51, 3)
#: How long a writer waits for another one, in milliseconds.
BUSY_MS = 5000
#: How much of the file a connection holds in memory, in KB: SQLite's default.
CACHE_KB = 2000
#: Every database error of both drivers, as peewee maps them.
DATABASE_ERRORS: tuple[type[Exception], ...] = (peewee.DatabaseError, peewee.InterfaceError)


def choose_driver(wanted: str) -> str:
    """``cysqlite`` or ``sqlite3``; ``auto`` takes cysqlite where it is installed."""
    if wanted == "auto":
        return "cysqlite" if importlib.util.find_spec("cysqlite") else "sqlite3"
    return wanted


def sqlite_version(driver: str) -> tuple[int, int, int]:
    """Version of the SQLite library behind a driver."""
    if driver == "cysqlite":
        import cysqlite

        major, minor, patch = cysqlite.sqlite_version_info[:3]
        return int(major), int(minor), int(patch)
    return sqlite3.sqlite_version_info[0], sqlite3.sqlite_version_info[1], sqlite3.sqlite_version_info[2]


def open_database(
    path: Path, driver: str, *, busy_ms: int = BUSY_MS, cache_kb: int = CACHE_KB, is_damaged: bool = False
) -> Any:
    """A peewee database for ``path``; connections are made per thread at first use, each with ``cache_kb`` of pages.

    WAL, synchronous NORMAL (the newest commits may roll back on power loss, always whole), secure_delete so that
    what is forgotten leaves the file, no mmap (an I/O error would be a signal). From a file that ``is_damaged`` what
    can still be read is read: SQLite passes over what is wrong with its schema and its size.
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
    if driver == "cysqlite":
        from playhouse.cysqlite_ext import CySqliteDatabase

        return CySqliteDatabase(str(path), pragmas=pragmas, timeout=busy_ms / 1000, rank_functions=False)
    return peewee.SqliteDatabase(str(path), pragmas=pragmas, timeout=busy_ms / 1000)


def connect_plainly(path: Path, driver: str) -> Any:
    """A connection of the driver itself, without pragmas: the target of a copy. Close it."""
    if driver == "cysqlite":
        import cysqlite

        return cysqlite.connect(str(path))
    return sqlite3.connect(path)


def driver_errors(driver: str) -> tuple[type[Exception], ...]:
    """The database errors of a driver where peewee does not map them."""
    if driver == "cysqlite":
        import cysqlite

        return (cysqlite.Error,)
    return (sqlite3.Error,)


#: What SQLite says of a file that is damaged, no database, or of a form that no SQLite writes.
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
    """True where the driver says that the file is damaged or no database at all.

    A message that is no UTF-8 quotes the bytes of a damaged file: the drivers cannot even tell it.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    text = str(error).lower()
    return any(word in text for word in _DAMAGE_WORDS)


def table_names(path: Path, driver: str) -> frozenset[str]:
    """Names of the tables in a database file, read as ``read_at_rest`` does: it may be another program's.

    Raises:
        BrokenDatabase: SQLite cannot read the file.
    """
    rows = read_at_rest(path, driver, "SELECT name FROM sqlite_master WHERE type = 'table'")
    return frozenset(str(value) for (value,) in rows)


def read_at_rest(path: Path, driver: str, statement: str) -> list[tuple[Any, ...]]:
    """Rows of a database file that nobody writes to. It is not locked and gets no side files; a log is not read.

    Raises:
        BrokenDatabase: SQLite cannot read the file, or it has no such table.
    """
    address = f"file:{urllib.parse.quote(str(path))}?mode=ro&immutable=1"
    connection = None
    try:
        connection = _connect_by_address(address, driver)
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
