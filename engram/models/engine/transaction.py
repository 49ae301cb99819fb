"""What reads memory.db and what writes it: ``Reader``, ``Tx`` and the open ``Store``, with the errors of both drivers
as one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeVar

import peewee

from engram.errors import BrokenDatabase, ForeignDatabase, MissingDatabase, StoreError
from engram.models.engine.database import (
    APPLICATION_ID,
    CACHE_KB,
    DATABASE_ERRORS,
    choose_driver,
    driver_errors,
    file_identity,
    finish_replacement,
    has_own_tables,
    is_cut_short,
    is_damage,
    is_deleted,
    is_emptied,
    is_foreign_file,
    is_no_file,
    is_replaced,
    open_database,
)
from engram.models.engine.migrations import migrate
from engram.models.engine.statement import RecordReader, Statement, compile_query, prepared
from engram.system.atomic import FILE_MODE, FOLDER_MODE, behind_rollback, explain_disk, locked_folder
from engram.system.clock import SYSTEM_CLOCK, Clock

# -- What reads memory.db and what writes it: ``Reader`` and ``Tx``, with the errors of both drivers as one.

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
P = ParamSpec("P")


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


S = TypeVar("S", bound=Reader)

# -- A query that is a function: asked of a reader, or run in a transaction, with the arguments of the query behind.


def asks_records(
    records: RecordReader[R],
) -> Callable[[Callable[P, peewee.Query]], Callable[Concatenate[Reader, P], list[R]]]:
    """Let a function that builds a query, as for ``prepared``, return the records of the query."""

    def decorate(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], list[R]]:
        return _asking(build, lambda reader, query: reader.fetch_records(records, query))

    return decorate


def asks_record(
    records: RecordReader[R],
) -> Callable[[Callable[P, peewee.Query]], Callable[Concatenate[Reader, P], R | None]]:
    """Let a function that builds a query return the first record of the query, or None."""

    def decorate(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], R | None]:
        return _asking(build, lambda reader, query: reader.fetch_record(records, query))

    return decorate


def asks_values(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], list[Any]]:
    """Let a function that builds a query return the first column of each row."""
    return _asking(build, Reader.fetch_values)


def asks_number(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], int]:
    """Let a function that builds a query return its one number; 0 where there is none."""
    return _asking(build, lambda reader, query: int(reader.fetch_value(query) or 0))


def asks_any(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], bool]:
    """Let a function that builds a query return whether the query has a row."""
    return _asking(build, Reader.has_any)


def writes(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Tx, P], int]:
    """Let a function that builds a writing query run it in a transaction; returns how many rows it changed."""
    return _asking(build, Tx.run)


def _asking(build: Callable[P, peewee.Query], ask: Callable[[S, Statement], R]) -> Callable[Concatenate[S, P], R]:
    statement = prepared(build)

    @wraps(build)
    def run(reader: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return ask(reader, statement(*args, **kwargs))

    return run


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


# -- The open memory.db: transactions, rows, errors of both drivers as one, foreign and damaged files set aside.

#: A write-ahead log that is larger is emptied after a commit, in bytes.
LOG_LIMIT_BYTES = 8_000_000
#: How long that waits for readers, in milliseconds, and when it is tried again where one stays, in seconds.
LOG_WAIT_MS = 400
LOG_AGAIN_SECONDS = 1.0
#: What another program's database is called that was found as memory.db, and what Engram's own is called after an
#: uninstallation that gave the name back.
ASIDE_NAME = "memory.v2.db"
UNINSTALLED_NAME = "memory.uninstalled.db"

#: Modules whose ``LISTENER`` hears of every change of a memory. They are named, not imported: most processes that open
#: the memory change none.
LISTENER_MODULES: list[str] = []


class Store(Reader):
    """The open memory.db. One object may be used by many threads; each has its own connection."""

    def __init__(
        self,
        path: Path,
        *,
        driver: str = "auto",
        clock: Clock = SYSTEM_CLOCK,
        busy_ms: int = 5000,
        cache_kb: int = CACHE_KB,
        is_damaged: bool = False,
        may_upgrade: bool = True,
        begins_anew: bool = False,
    ) -> None:
        """Prepare, but do not touch, the database at ``path``; one that ``is_damaged`` is read as far as it goes.

        Unless it ``may_upgrade``, opening leaves the tables of an earlier version as they are. Unless it
        ``begins_anew``, opening makes no memory.db beside the backups of one that was deleted.
        """
        chosen = choose_driver(driver)
        database = open_database(path, chosen, busy_ms=busy_ms, cache_kb=cache_kb, is_damaged=is_damaged)
        super().__init__(database, path, driver=chosen, clock=clock)
        self._busy_ms = busy_ms
        self._may_upgrade = may_upgrade
        self._begins_anew = begins_anew
        self._log_path = f"{path}-wal"
        self._log_kept_seconds = -LOG_AGAIN_SECONDS

    # -- opening and closing

    def open(self) -> Store:
        """Open the file, make or migrate its tables; first, what a killed restore left is finished or undone.

        Raises:
            ForeignDatabase: the file belongs to another program.
            BrokenDatabase: the file is damaged or no database.
            MissingDatabase: there is no file, but there are backups of one.
            NewerSchema: the file was written by a newer Engram.
            OlderSchema: it was written by an earlier Engram, and must not be upgraded.
            StoreError: anything else that SQLite says.
        """
        self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        finish_replacement(self.path)
        if not self._begins_anew and is_deleted(self.path) and not is_replaced(self.path):
            raise MissingDatabase()
        if is_no_file(self.path):
            raise BrokenDatabase(f"{self.path} is no regular file")
        if is_emptied(self.path):
            raise BrokenDatabase(f"{self.path} is damaged: it is empty, but there are backups of it")
        if is_cut_short(self.path):
            raise BrokenDatabase(f"{self.path} is damaged: it is shorter than any database")
        identity = file_identity(self.path)
        if is_foreign_file(self.path):
            self._refuse_foreign(identity)
        if not os.path.lexists(self.path):
            with locked_folder(self.path.parent):
                self.make_private()
        identity = file_identity(self.path)
        with self._mapped_errors():
            self._connect()
            self._check_owner(identity)
            migrate(self._database, may_upgrade=self._may_upgrade)
        return self

    def _refuse_foreign(self, identity: tuple[int, int] | None) -> None:
        """Raise what a database without Engram's mark is; ``identity`` is that of the file that lacks it.

        Raises:
            BrokenDatabase: it has Engram's tables, so its header is damaged.
            ForeignDatabase: it is another program's.
        """
        try:
            is_own = has_own_tables(self.path, self.driver)
        except BrokenDatabase:
            if file_identity(self.path) == identity:
                raise
            is_own = False
        # Another process may have set it aside meanwhile: what lies there now is another file.
        if is_own and file_identity(self.path) == identity:
            raise BrokenDatabase(f"{self.path} is damaged: its header lacks Engram's mark")
        raise ForeignDatabase(f"{self.path} is a database of another program")

    def make_private(self) -> None:
        """Make the file 0600 before SQLite opens it; its -wal and -shm take over the mode.

        Only a file that is new is opened and closed here: closing one drops this process's own locks on it.
        """
        with contextlib.suppress(OSError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))

    def _connect(self) -> None:
        """Make the first connection; switching a new file to WAL fails at once while another process does so too."""
        until = time.monotonic() + self._busy_ms / 1000
        while True:
            try:
                self._database.connect(reuse_if_open=True)
                return
            except peewee.OperationalError as error:
                self.close()
                if "locked" not in str(error) or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def _ensure_connected(self) -> None:
        """Make this thread's connection where there is none: its pragmas read the file."""
        with self._mapped_errors():
            self._database.connection()

    def _check_owner(self, identity: tuple[int, int] | None) -> None:
        # In this order: another process may be making the tables just now, and sets the id in the same transaction.
        tables = int(self._database.execute_sql("SELECT count(*) FROM sqlite_master").fetchone()[0])
        application = int(self._database.execute_sql("PRAGMA application_id").fetchone()[0])
        if application != APPLICATION_ID and tables:
            self._refuse_foreign(identity)

    def close(self) -> None:
        """Close this thread's connection."""
        self._disconnect()

    def __enter__(self) -> Store:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- transactions

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Tx]:
        """A transaction that holds the write lock from its start; nested use joins the outer one.

        Everything in it commits together or not at all. Keep it short: no model, no file and no network inside.
        """
        with self._mapped_errors(is_transaction=True):
            if self._database.in_transaction():
                yield Tx(self)
                return
            self._ensure_connected()
            with self._database.atomic("IMMEDIATE"):
                yield Tx(self)
        self._bound_log()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """One consistent view for several reads."""
        with self._mapped_errors(is_transaction=True):
            if self._database.in_transaction():
                yield self
                return
            self._ensure_connected()
            with self._database.atomic("DEFERRED"):
                yield self

    # -- housekeeping

    def checkpoint(self, mode: str = "PASSIVE") -> None:
        """Move the write-ahead log into the file; ``TRUNCATE`` also empties it."""
        with contextlib.suppress(StoreError):
            self.row(f"PRAGMA wal_checkpoint({mode})")

    def data_version(self) -> int:
        """A number that differs once another connection has changed the database; it means nothing else."""
        return int(self.value("PRAGMA data_version") or 0)

    def file_identity(self) -> tuple[int, int] | None:
        """Device and inode of memory.db now; None where there is none. Another one than at the start: it was
        replaced.
        """
        return file_identity(self.path)

    def schema_version(self) -> int:
        """Number of the migration that the file is at."""
        return int(self.value("PRAGMA user_version"))

    def _bound_log(self) -> None:
        """Empty a write-ahead log that has grown large because there was always some reader; wait for those a
        moment.
        """
        try:
            if os.stat(self._log_path).st_size < LOG_LIMIT_BYTES:
                return
        except OSError:
            return
        steady = self.clock.steady_seconds()
        if 0 <= steady - self._log_kept_seconds < LOG_AGAIN_SECONDS:
            return
        with contextlib.suppress(StoreError):
            self.rows(f"PRAGMA busy_timeout = {LOG_WAIT_MS}")
            try:
                was_busy = bool(self.value("PRAGMA wal_checkpoint(TRUNCATE)"))
                self._log_kept_seconds = steady if was_busy else -LOG_AGAIN_SECONDS
            finally:
                self.rows(f"PRAGMA busy_timeout = {self._busy_ms}")

    def find_damage(self) -> str:
        """What SQLite finds wrong with the file or its text indexes; "" where all is well."""
        try:
            messages = [str(message) for (message,) in self.rows("PRAGMA quick_check(5)")]
            if messages != ["ok"]:
                return "; ".join(messages)
            for table in ("passage_fts", "note_fts"):
                with self.transaction() as tx:
                    tx.run(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
            with self.transaction() as tx:
                tx.run("INSERT INTO episode_fts(episode_fts) VALUES ('integrity-check')")
            kept, indexed = "SELECT id FROM episode", "SELECT id FROM episode_fts_docsize"
            if self.value(f"SELECT 1 FROM ({kept} EXCEPT {indexed}) UNION ALL SELECT 1 FROM ({indexed} EXCEPT {kept})"):
                return "fts5: the index of memories does not fit its rows"
        except StoreError as error:
            return str(error)
        return ""
