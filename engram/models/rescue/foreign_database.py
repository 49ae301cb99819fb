"""Read as much as possible of another program's SQLite database from a private copy; SQLite never opens the original.

The copy includes the write-ahead log, which may contain the newest rows. The other program's locks don't matter, and
after a crash, SQLite repairs the copy. The standard library's driver is used because it can read text that isn't UTF-8.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.errors import BrokenDatabase, StoreError
from engram.system.atomic import explain_error

#: Prefix of the name of a copy's folder. A folder that a killed process left behind is deleted at the next read.
FOLDER_PREFIX = ".reading-"
#: Suffixes of the files that SQLite needs. It recreates the index of the log (-shm).
_SIDE_FILES = ("", "-wal", "-journal")
#: Maximum number of attempts to copy the database while the other program writes to it.
MAX_ATTEMPTS = 5
#: Number of rows read at once. If one of them is damaged, these rows are read one by one.
_ROWS = 200

ForeignRow = dict[str, Any]


class ForeignDatabase:
    """The open copy of another program's database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self.path = path
        #: Rows that could not be read.
        self.unreadable = 0

    def columns(self, table: str) -> frozenset[str]:
        """Return the names of a table's columns; empty if there is no such table. Raises BrokenDatabase."""
        rows = self._read("SELECT name FROM pragma_table_info(?)", (table,))
        return frozenset(str(name) for (name,) in rows)

    def count(self, table: str) -> int:
        """Return the number of rows in a table. Raises BrokenDatabase."""
        return int(self._read(f'SELECT count(*) FROM "{table}"')[0][0])

    def rows(self, table: str, columns: frozenset[str]) -> Iterator[ForeignRow]:
        """Yield the rows of a table by row id, with the given columns; columns that don't exist are None.

        A value may have any type. Unreadable rows are counted and skipped.

        Raises:
            BrokenDatabase: no part of the table can be read.
        """
        present = sorted(columns & self.columns(table))
        names = ", ".join(f'"{name}"' for name in present)
        last = self._last_row(table)
        start = 0
        while start < last:
            stop = min(start + _ROWS, last)
            yield from self._rows_between(table, names, present, columns, start, stop)
            start = self._next_row(table, stop) - 1

    def _rows_between(
        self, table: str, names: str, present: list[str], columns: frozenset[str], start: int, stop: int
    ) -> Iterator[ForeignRow]:
        sql = f'SELECT {names} FROM "{table}" WHERE rowid > ? AND rowid <= ? ORDER BY rowid'
        try:
            rows = self._read(sql, (start, stop))
        except BrokenDatabase:
            if stop - start == 1:
                self.unreadable += 1
                return
            for row_id in range(start, stop):
                yield from self._rows_between(table, names, present, columns, row_id, row_id + 1)
            return
        for row in rows:
            yield dict.fromkeys(columns) | dict(zip(present, row, strict=True))

    def _last_row(self, table: str) -> int:
        try:
            return int(self._read(f'SELECT coalesce(max(rowid), 0) FROM "{table}"')[0][0])
        except BrokenDatabase:
            # The last page is damaged, but rows can still be counted with an index.
            return int(self._read(f'SELECT count(*) FROM "{table}"')[0][0])

    def _next_row(self, table: str, after: int) -> int:
        """Return the id of the next row; there may be large gaps between row ids."""
        try:
            found = self._read(f'SELECT min(rowid) FROM "{table}" WHERE rowid > ?', (after,))[0][0]
        except BrokenDatabase:
            return after + 1
        return after + 1 if found is None else int(found)

    def _read(self, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        try:
            return [tuple(row) for row in self._connection.execute(sql, parameters).fetchall()]
        except sqlite3.Error as error:
            raise BrokenDatabase(f"{self.path} can't be read: {error}") from error


@contextlib.contextmanager
def reading_foreign(path: Path, folder: Path) -> Iterator[ForeignDatabase]:
    """Open a copy of another program's database.

    Args:
        folder: where to create a private folder for the copy, which is deleted afterwards.

    Raises:
        BrokenDatabase: the file is not a database.
        StoreError: the file can't be copied.
    """
    for leftover in folder.glob(f"{FOLDER_PREFIX}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        private = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=folder))
    except OSError as error:
        raise StoreError(f"can't make a copy of {path}: {explain_error(error, folder)}") from error
    try:
        copy = _copy(path, private)
        connection = sqlite3.connect(copy)
        try:
            # Otherwise, text that isn't UTF-8 would make its row unreadable.
            connection.text_factory = lambda data: bytes(data).decode("utf-8", "replace")
            database = ForeignDatabase(connection, path)
            database._read("SELECT count(*) FROM sqlite_master")
            yield database
        finally:
            connection.close()
    finally:
        shutil.rmtree(private, ignore_errors=True)


def _copy(path: Path, folder: Path) -> Path:
    """Copy a database with its side files; retry if one of them changes in the meantime. Raises StoreError."""
    target = folder / "copy.db"
    try:
        for _ in range(MAX_ATTEMPTS):
            before = _stamps(path)
            for suffix in _SIDE_FILES:
                source, copy = path.with_name(path.name + suffix), target.with_name(target.name + suffix)
                copy.unlink(missing_ok=True)
                if source.is_file():
                    shutil.copyfile(source, copy)
            if _stamps(path) == before:
                return target
    except OSError as error:
        raise StoreError(f"can't copy {path}: {explain_error(error, path)}") from error
    raise StoreError(f"{path} is constantly being written to; stop the program that uses it, then try again")


def _stamps(path: Path) -> list[tuple[int, int] | None]:
    stamps: list[tuple[int, int] | None] = []
    for suffix in _SIDE_FILES:
        try:
            facts = os.stat(path.with_name(path.name + suffix))
        except OSError:
            stamps.append(None)
        else:
            stamps.append((facts.st_size, facts.st_mtime_ns))
    return stamps
