"""What reads memory.db and what writes it: ``Reader`` and ``Tx``, with the errors of both drivers as one."""

from __future__ import annotations

import contextlib
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import peewee

from engram.causes import behind_rollback, explain_disk
from engram.clock import Clock
from engram.errors import BrokenDatabase, StoreError
from engram.models.database import DATABASE_ERRORS, driver_errors, is_damage
from engram.models.records import RecordReader
from engram.models.statement import Statement, compile_query

#: Most values asked for in one statement.
MOST_VALUES = 500

#: Words of SQLite's messages whose cause may be the disk.
_DISK_WORDS = ("full", "i/o", "readonly", "read-only", "unable to open")

#: What a statement may be given.
Value = str | int | float | bytes | None
Row = tuple[Any, ...]
#: What can be run: a query, or one that was compiled before.
Query = peewee.Query | Statement
R = TypeVar("R")


class Reader:
    """Reads memory.db, in a transaction or outside. ``Store`` and ``Tx`` are readers; only ``Tx`` writes."""

    def __init__(self, database: Any, path: Path, *, driver: str, clock: Clock) -> None:
        self.path = path
        self.driver = driver
        self.clock = clock
        self._database = database
        # peewee maps what happens when a statement begins; what happens while its rows are fetched comes as it is.
        self._errors: tuple[type[BaseException], ...] = (*DATABASE_ERRORS, *driver_errors(driver))

    # -- queries: rows by name, and records

    def fetch(self, query: Query) -> list[Any]:
        """The rows of a query, each with the names of its columns as attributes."""
        rows, names = self._fetch_all(query)
        return list(map(_row_maker(names), rows))

    def fetch_first(self, query: Query) -> Any:
        """The first row of a query by the names of its columns; None where there is none."""
        rows = self.fetch(query)
        return rows[0] if rows else None

    def fetch_values(self, query: Query) -> list[Any]:
        """The first column of each row of a query."""
        rows, _ = self._fetch_all(query)
        return [row[0] for row in rows]

    def fetch_value(self, query: Query) -> Any:
        """The first column of the first row of a query; None where there is none."""
        values = self.fetch_values(query)
        return values[0] if values else None

    def fetch_records(self, records: RecordReader[R], query: Query) -> list[R]:
        """The records of a query that selects the columns of ``records``."""
        rows, _ = self._fetch_all(query)
        return records.read(rows)

    def fetch_records_by(self, records: RecordReader[R], query: Query) -> dict[Any, list[R]]:
        """Owner → its records, in the order of the query, which selects by ``select_by``."""
        rows, _ = self._fetch_all(query)
        found: dict[Any, list[R]] = {}
        for (owner, *_), record in zip(rows, records.read([row[1:] for row in rows]), strict=True):
            found.setdefault(owner, []).append(record)
        return found

    def fetch_record(self, records: RecordReader[R], query: Query) -> R | None:
        """The first record of a query that selects the columns of ``records``; None where there is none."""
        found = self.fetch_records(records, query)
        return found[0] if found else None

    def has_any(self, query: Query) -> bool:
        """True where a query has a row."""
        rows, _ = self._fetch_all(query)
        return bool(rows)

    def _fetch_all(self, query: Query) -> tuple[list[Row], tuple[str, ...]]:
        statement = compile_query(query)
        with self._mapped_errors():
            cursor = self._database.execute_sql(statement.sql, statement.parameters)
            return cursor.fetchall(), tuple(column[0] for column in cursor.description)

    # -- raw statements

    def rows(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a statement."""
        with self._mapped_errors():
            return [tuple(row) for row in self._database.execute_sql(sql, tuple(parameters)).fetchall()]

    def each_row(self, sql: str) -> Iterator[Row]:
        """The rows of a statement one after the other, for tables too large to hold at once."""
        with self._mapped_errors():
            for row in self._database.execute_sql(sql):
                yield tuple(row)

    def rows_among(self, sql: str, values: Sequence[Value], parameters: Sequence[Value] = ()) -> Iterator[Row]:
        """All rows of a statement that ends in ``IN``, for any number of values; its other parameters stand before
        them.
        """
        for start in range(0, len(values), MOST_VALUES):
            some = values[start : start + MOST_VALUES]
            yield from self.rows(f"{sql} ({','.join('?' * len(some))})", (*parameters, *some))

    def row(self, sql: str, parameters: Sequence[Value] = ()) -> Row | None:
        """The first row of a statement, or None."""
        with self._mapped_errors():
            found = self._database.execute_sql(sql, tuple(parameters)).fetchone()
            return None if found is None else tuple(found)

    def value(self, sql: str, parameters: Sequence[Value] = ()) -> Any:
        """The first column of the first row, or None."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

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
        except peewee.IntegrityError as error:
            if "FOREIGN KEY" in str(error) and self._is_inconsistent():
                raise BrokenDatabase(f"{self.path} is damaged: {error}") from error
            raise
        except UnicodeDecodeError as error:
            if is_transaction:
                raise
            self._raise_damage(error)
        except self._errors as raised:
            met = behind_rollback(raised)
            if not isinstance(met, self._errors):
                raise met from None
            if is_damage(met):
                self._raise_damage(met)
            text = str(met).lower()
            if "i/o" in text or "full" in text:
                self._disconnect()
            cause = explain_disk(self.path) if any(word in text for word in _DISK_WORDS) else ""
            raise StoreError(f"memory.db: {met}{': ' if cause else ''}{cause}") from met

    def _is_inconsistent(self) -> bool:
        """True where a quick check of the file finds damage: a row points nowhere because pages are not in place."""
        with contextlib.suppress(*self._errors, UnicodeDecodeError):
            return [tuple(row) for row in self._database.execute_sql("PRAGMA quick_check(1)").fetchall()] != [("ok",)]
        return True

    def _raise_damage(self, error: BaseException) -> NoReturn:
        self._disconnect()
        raise BrokenDatabase(f"{self.path} is damaged: {error}") from error


class Tx(Reader):
    """A transaction that holds the write lock; ``Store.transaction`` makes it. Whoever writes asks for one."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader._database, reader.path, driver=reader.driver, clock=reader.clock)

    def run(self, query: Query | str, parameters: Sequence[Value] = ()) -> int:
        """Run one writing query, or SQL with its parameters; returns how many rows it changed."""
        return int(self._execute(query, parameters).rowcount)

    def insert(self, query: Query | str, parameters: Sequence[Value] = ()) -> int:
        """Run one INSERT; returns the new row's id."""
        return int(self._database.last_insert_id(self._execute(query, parameters)))

    def insert_row(self, table: type[peewee.Model], row: Mapping[str, Value]) -> int:
        """Insert one row, given by the names of the columns; returns its id. Faster than a query, for rows of a
        read.
        """
        return self.insert(_insertion(table, tuple(row)), list(row.values()))

    def update_row(self, table: type[peewee.Model], row_id: int, changes: Mapping[str, Value]) -> None:
        """Change one row, given by the names of the columns. Faster than a query, for rows of a read."""
        self.run(_change(table, tuple(changes)), [*changes.values(), row_id])

    def insert_many(
        self, table: type[peewee.Model], rows: Sequence[Mapping[str, Value]], *, or_ignore: bool = False
    ) -> None:
        """Insert many rows, given by the names of the columns: the same in each.

        Raw SQL: peewee would make one statement with a parameter for every value, and convert each.
        """
        if rows:
            names = tuple(rows[0])
            sql = _insertion(table, names, "INSERT OR IGNORE" if or_ignore else "INSERT")
            self.run_many(sql, [[row[name] for name in names] for row in rows])

    def run_many(self, sql: str, many: Sequence[Sequence[Value]]) -> None:
        """Run one writing statement for each set of parameters."""
        self._check_open()
        if not many:
            return
        with self._mapped_errors(), peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            self._database.cursor().executemany(sql, [tuple(one) for one in many])

    def _execute(self, query: Query | str, parameters: Sequence[Value]) -> Any:
        self._check_open()
        statement = Statement(query, tuple(parameters)) if isinstance(query, str) else compile_query(query)
        with self._mapped_errors():
            return self._database.execute_sql(statement.sql, statement.parameters)

    def _check_open(self) -> None:
        """Raise RuntimeError outside the transaction, or in another thread: there the statement would commit alone."""
        if not self._database.in_transaction():
            raise RuntimeError("the transaction is over")


@cache
def _row_maker(names: tuple[str, ...]) -> Callable[[Row], Any]:
    """Makes rows with these names."""
    make: Callable[[Row], Any] = namedtuple("NamedRow", names)._make  # type: ignore[attr-defined]  # names of a query
    return make


@cache
def _insertion(table: type[peewee.Model], names: tuple[str, ...], verb: str = "INSERT") -> str:
    """The statement that inserts a row by the names of its columns."""
    marks = ", ".join("?" * len(names))
    return f'{verb} INTO "{table._meta.table_name}" ({", ".join(_quoted(table, names))}) VALUES ({marks})'


@cache
def _change(table: type[peewee.Model], names: tuple[str, ...]) -> str:
    """The statement that changes columns of the row of an id."""
    assignments = ", ".join(f"{name} = ?" for name in _quoted(table, names))
    return f'UPDATE "{table._meta.table_name}" SET {assignments} WHERE id = ?'


def _quoted(table: type[peewee.Model], names: tuple[str, ...]) -> list[str]:
    if unknown := set(names) - set(table._meta.columns):
        raise ValueError(f"{table.__name__} has no columns {', '.join(sorted(unknown))}")
    return [f'"{name}"' for name in names]
