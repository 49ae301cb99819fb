"""What reads memory.db and what writes it: ``Reader`` and ``Tx``, with the errors of both drivers as one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import peewee
from peewee import Query

from engram.causes import explain_disk
from engram.clock import Clock
from engram.errors import BrokenDatabase, StoreError
from engram.models.database import DATABASE_ERRORS, driver_errors, is_damage
from engram.models.records import RecordReader
from engram.models.statement import Statement, compile_query

R = TypeVar("R")

#: Most values asked for in one statement.
MOST_VALUES = 500

#: Words of SQLite's messages whose cause may be the disk.
_DISK_WORDS = ("full", "i/o", "readonly", "read-only", "unable to open")

#: What a statement may be given.
Value = str | int | float | bytes | None
Row = tuple[Any, ...]


class Reader:
    """Reads memory.db, in a transaction or outside. ``Store`` and ``Tx`` are readers; only ``Tx`` writes."""

    def __init__(self, database: Any, path: Path, *, driver: str, clock: Clock) -> None:
        self.path = path
        self.driver = driver
        self.clock = clock
        self._database = database
        # peewee maps what happens when a statement begins; what happens while its rows are fetched comes as it is.
        self._errors: tuple[type[BaseException], ...] = (*DATABASE_ERRORS, *driver_errors(driver))

    def rows(self, query: Query | Statement | str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a query; ``parameters`` belong to SQL in a text."""
        with self._mapped_errors():
            return [tuple(row) for row in self._execute(query, parameters).fetchall()]

    def each_row(self, query: Query | Statement | str) -> Iterator[Row]:
        """The rows of a query one after the other, for tables too large to hold at once."""
        with self._mapped_errors():
            for row in self._execute(query, ()):
                yield tuple(row)

    def rows_among(self, sql: str, values: Sequence[Value], parameters: Sequence[Value] = ()) -> Iterator[Row]:
        """All rows of a statement that ends in ``IN``, for any number of values; its other parameters stand before them."""
        for start in range(0, len(values), MOST_VALUES):
            some = values[start : start + MOST_VALUES]
            yield from self.rows(f"{sql} ({','.join('?' * len(some))})", (*parameters, *some))

    def row(self, query: Query | Statement | str, parameters: Sequence[Value] = ()) -> Row | None:
        """The first row of a query, or None."""
        with self._mapped_errors():
            row = self._execute(query, parameters).fetchone()
            return None if row is None else tuple(row)

    def value(self, query: Query | Statement | str, parameters: Sequence[Value] = ()) -> Any:
        """The first column of the first row, or None."""
        row = self.row(query, parameters)
        return None if row is None else row[0]

    def records(self, reader: RecordReader[R], query: Query | Statement) -> list[R]:
        """The records of all rows of a query that selects ``reader.columns``."""
        return [reader.read(row) for row in self.rows(query)]

    def record(self, reader: RecordReader[R], query: Query | Statement) -> R | None:
        """The record of the first row of a query that selects ``reader.columns``, or None."""
        row = self.row(query)
        return None if row is None else reader.read(row)

    def _execute(self, query: Query | Statement | str, parameters: Sequence[Value]) -> Any:
        if isinstance(query, str):
            return self._database.execute_sql(query, tuple(parameters))
        statement = compile_query(query)
        return self._database.execute_sql(statement.sql, tuple(statement.parameters))

    def now_ms(self) -> int:
        """The clock's time, for what is written."""
        return self.clock.now_ms()

    def _disconnect(self) -> None:
        with contextlib.suppress(*self._errors, UnicodeDecodeError):
            self._database.close()

    @contextlib.contextmanager
    def _mapped_errors(self, *, is_transaction: bool = False) -> Iterator[None]:
        """Turn the drivers' errors into Engram's, and drop the connection after an I/O error.

        A message that quotes bytes of a damaged file may be one that the driver fails to decode. In a transaction only
        the statements count for that: its body may decode other things.
        """
        try:
            yield
        except peewee.IntegrityError:
            raise
        except UnicodeDecodeError as error:
            if is_transaction:
                raise
            self._raise_damage(error)
        except self._errors as error:
            if is_damage(error):
                self._raise_damage(error)
            text = str(error).lower()
            if "i/o" in text or "full" in text:
                self._disconnect()
            cause = explain_disk(self.path) if any(word in text for word in _DISK_WORDS) else ""
            raise StoreError(f"memory.db: {error}{': ' if cause else ''}{cause}") from error

    def _raise_damage(self, error: BaseException) -> NoReturn:
        self._disconnect()
        raise BrokenDatabase(f"{self.path} is damaged: {error}") from error


class Tx(Reader):
    """A transaction that holds the write lock; ``Store.transaction`` makes it. Whoever writes asks for one."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader._database, reader.path, driver=reader.driver, clock=reader.clock)

    def run(self, query: Query | Statement | str, parameters: Sequence[Value] = ()) -> int:
        """Run one writing statement; returns how many rows it changed."""
        self._check_open()
        with self._mapped_errors():
            return int(self._execute(query, parameters).rowcount)

    def insert(self, query: Query | Statement | str, parameters: Sequence[Value] = ()) -> int:
        """Run one INSERT; returns the new row's id."""
        self._check_open()
        with self._mapped_errors():
            return int(self._database.last_insert_id(self._execute(query, parameters)))

    def run_many(self, sql: str, many: Sequence[Sequence[Value]]) -> None:
        """Run one writing statement for each set of parameters."""
        self._check_open()
        if not many:
            return
        with self._mapped_errors(), peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            self._database.cursor().executemany(sql, [tuple(one) for one in many])

    def _check_open(self) -> None:
        """Raise RuntimeError outside the transaction, or in another thread: there the statement would commit alone."""
        if not self._database.in_transaction():
            raise RuntimeError("the transaction is over")
