"""Read and write memory.db: ``Reader``, ``Tx`` and the open ``Store``. They raise the same errors for both drivers."""

from __future__ import annotations

import contextlib
import os
import time
from collections import namedtuple
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, wraps
from pathlib import Path
from typing import Any, Concatenate, NoReturn, ParamSpec, TypeAlias, TypeVar

import peewee

from engram.errors import BadRequest, BrokenDatabase, DiskFull, ForeignDatabase, StoreError
from engram.models.engine.database import (
    APPLICATION_ID,
    CACHE_KB,
    DATABASE_ERRORS,
    OpenedFiles,
    check_missing,
    choose_driver,
    driver_errors,
    file_identity,
    finish_replacement,
    has_own_tables,
    is_cut_short,
    is_damage,
    is_emptied,
    is_foreign_file,
    is_no_file,
    is_read_only,
    is_replaced,
    open_database,
    words_of_error,
)
from engram.models.engine.migrations import migrate
from engram.models.engine.statement import (
    RecordReader,
    Statement,
    compile_query,
    grouped,
    insertion,
    prepared,
    row_change,
)
from engram.system.atomic import FILE_MODE, FOLDER_MODE, IS_FULL, behind_rollback, explain_disk, locked_folder
from engram.system.clock import SYSTEM_CLOCK, Clock

#: Maximum number of values in one statement.
MOST_VALUES = 500

#: Words in SQLite's messages that may point to the disk. On a full one, whoever reads memory.db locks all others out.
_DISK_WORDS = ("full", "i/o", "readonly", "read-only", "unable to open", "locked")

#: Message for when another process holds the write lock for longer than a statement waits.
_LOCKED = "memory.db is locked: another process is taking unusually long to write to it; try again in a moment"

#: Types of a statement's parameters.
Value = str | int | float | bytes | None
Row = tuple[Any, ...]
#: A query, compiled or not.
Query = peewee.Query | Statement
R = TypeVar("R")
T = TypeVar("T")
P = ParamSpec("P")


class Reader:
    """Reads memory.db, inside or outside a transaction. ``Store`` and ``Tx`` are readers; only ``Tx`` writes."""

    def __init__(self, database: Any, path: Path, *, driver: str, clock: Clock) -> None:
        self.path = path
        self.driver = driver
        self.clock = clock
        self._database = database
        # peewee maps errors that occur when a statement starts, but not those that occur while its rows are fetched.
        self._errors: tuple[type[BaseException], ...] = (*DATABASE_ERRORS, *driver_errors(driver))

    # -- queries: rows by name, and records

    def fetch(self, query: Query) -> list[Any]:
        """Return the rows of a query as named tuples."""
        rows, description = self._fetch_all(query)
        return list(map(_row_maker(description), rows)) if rows else []

    def fetch_first(self, query: Query) -> Any:
        """Return the first row of a query as a named tuple; None if there is no row."""
        rows = self.fetch(query)
        return rows[0] if rows else None

    def fetch_values(self, query: Query) -> list[Any]:
        """Return the first column of each row of a query."""
        rows, _ = self._fetch_all(query)
        return [row[0] for row in rows]

    def fetch_value(self, query: Query) -> Any:
        """Return the first column of the first row of a query; None if there is no row."""
        values = self.fetch_values(query)
        return values[0] if values else None

    def fetch_records(self, records: RecordReader[R], query: Query) -> list[R]:
        rows, _ = self._fetch_all(query)
        return records.read(rows)

    def fetch_records_by(self, records: RecordReader[R], query: Query) -> dict[Any, list[R]]:
        """Map each owner to its records, in the order of the query. The query must come from ``select_by``."""
        rows, _ = self._fetch_all(query)
        return grouped(zip((row[0] for row in rows), records.read([row[1:] for row in rows]), strict=True))

    def fetch_record(self, records: RecordReader[R], query: Query) -> R | None:
        found = self.fetch_records(records, query)
        return found[0] if found else None

    def has_any(self, query: Query) -> bool:
        rows, _ = self._fetch_all(query)
        return bool(rows)

    def _fetch_all(self, query: Query) -> tuple[list[Row], Row]:
        statement = compile_query(query)
        with self._mapped_errors():
            cursor = self._run_sql(statement.sql, statement.parameters)
            return cursor.fetchall(), cursor.description

    def _run_sql(self, sql: str, parameters: Sequence[Value]) -> Any:
        """Run a statement. Lone surrogates are replaced. Raises BadRequest for a number of more than 64 bits."""
        try:
            return self._database.execute_sql(sql, tuple(parameters))
        except OverflowError as error:
            raise BadRequest("a number is too large to be an id") from error
        except UnicodeEncodeError:
            from engram.transcripts.json_values import storable  # rarely needed, and slow to load

            values = tuple(storable(value) if isinstance(value, str) else value for value in parameters)
            return self._database.execute_sql(sql, values)

    # -- raw statements

    def rows(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        with self._mapped_errors():
            return [tuple(row) for row in self._run_sql(sql, parameters).fetchall()]

    def each_row(self, sql: str) -> Iterator[Row]:
        """Yield the rows of a statement one by one, for tables that are too large to load at once."""
        with self._mapped_errors():
            for row in self._database.execute_sql(sql):
                yield tuple(row)

    def rows_among(self, sql: str, values: Sequence[Value], parameters: Sequence[Value] = ()) -> Iterator[Row]:
        """Yield the rows of a statement that ends with ``IN``, for any number of values.

        ``parameters`` are those before the ``IN``.
        """
        for start in range(0, len(values), MOST_VALUES):
            some = values[start : start + MOST_VALUES]
            yield from self.rows(f"{sql} ({','.join('?' * len(some))})", (*parameters, *some))

    def row(self, sql: str, parameters: Sequence[Value] = ()) -> Row | None:
        with self._mapped_errors():
            found = self._run_sql(sql, parameters).fetchone()
            return None if found is None else tuple(found)

    def value(self, sql: str, parameters: Sequence[Value] = ()) -> Any:
        """Return the first column of the first row, or None."""
        found = self.row(sql, parameters)
        return None if found is None else found[0]

    def now_ms(self) -> int:
        """Return the time of this database's clock, in milliseconds since 1970. All rows are written with this time."""
        return self.clock.now_ms()

    def _disconnect(self) -> None:
        with contextlib.suppress(*self._errors, UnicodeDecodeError):
            self._database.close()

    @contextlib.contextmanager
    def _mapped_errors(self, *, is_transaction: bool = False) -> Iterator[None]:
        """Convert the drivers' errors into Engram's, and close the connection after an I/O error.

        The driver may fail to decode a message that quotes bytes of a damaged file. Around a transaction, such an error
        isn't treated as damage, because the body of the transaction may decode other things.
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
            cause = explain_disk(self.path, is_quick="locked" in text) if any(map(text.count, _DISK_WORDS)) else ""
            if "locked" in text and not cause:
                raise StoreError(_LOCKED) from met
            kind = DiskFull if "full" in text or cause.endswith(IS_FULL) else StoreError
            raise kind(f"memory.db: {words_of_error(met)}{': ' if cause else ''}{cause}") from met

    def _is_inconsistent(self) -> bool:
        """Return True if a quick check finds damage, because misplaced pages can make foreign keys fail."""
        with contextlib.suppress(*self._errors, UnicodeDecodeError):
            return [tuple(row) for row in self._database.execute_sql("PRAGMA quick_check(1)").fetchall()] != [("ok",)]
        return True

    def _raise_damage(self, error: BaseException) -> NoReturn:
        self._disconnect()
        raise BrokenDatabase(f"{self.path} is damaged: {words_of_error(error)}") from error


class Tx(Reader):
    """A transaction that holds the write lock, made by ``Store.transaction``. Every function that writes takes one."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader._database, reader.path, driver=reader.driver, clock=reader.clock)

    def run(self, query: Query | str, parameters: Sequence[Value] = ()) -> int:
        """Run one query that writes, or SQL with parameters; return how many rows it changed."""
        return int(self._execute(query, parameters).rowcount)

    def insert(self, query: Query | str, parameters: Sequence[Value] = ()) -> int:
        """Run one INSERT; return the new row's id."""
        return int(self._database.last_insert_id(self._execute(query, parameters)))

    def insert_row(self, table: type[peewee.Model], row: Mapping[str, Value]) -> int:
        """Insert one row, given as column names and values; return its id. Faster than a peewee query."""
        return self.insert(insertion(table, tuple(row)), list(row.values()))

    def update_row(
        self, table: type[peewee.Model], key: int | Mapping[str, Value], changes: Mapping[str, Value]
    ) -> None:
        """Update columns of the row with the given id or other key columns. Faster than a peewee query."""
        key = {"id": key} if isinstance(key, int) else key
        self.run(row_change(table, tuple(changes), tuple(key)), [*changes.values(), *key.values()])

    def insert_many(
        self, table: type[peewee.Model], rows: Sequence[Mapping[str, Value]], *, or_ignore: bool = False
    ) -> None:
        """Insert many rows, each given as column names and values; all have the same columns.

        This uses raw SQL, because peewee would build one statement with a parameter for every value, and convert each
        value.
        """
        if rows:
            names = tuple(rows[0])
            sql = insertion(table, names, "INSERT OR IGNORE" if or_ignore else "INSERT")
            self.run_many(sql, [tuple(map(row.__getitem__, names)) for row in rows])

    def run_many(self, sql: str, many: Sequence[Sequence[Value]]) -> None:
        """Run a statement that writes once for each set of parameters."""
        self._check_open()
        if not many:
            return
        with self._mapped_errors(), peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            self._database.cursor().executemany(sql, [tuple(row) for row in many])

    def _execute(self, query: Query | str, parameters: Sequence[Value]) -> Any:
        self._check_open()
        statement = Statement(query, tuple(parameters)) if isinstance(query, str) else compile_query(query)
        with self._mapped_errors():
            return self._run_sql(statement.sql, statement.parameters)

    def _check_open(self) -> None:
        """Raise RuntimeError after the transaction or in another thread.

        There, a statement would be committed immediately.
        """
        if not self._database.in_transaction():
            raise RuntimeError("the transaction has ended")


S = TypeVar("S", bound=Reader)

# -- Decorators for functions that build a query. The result takes a reader or transaction, and the query's arguments.

#: A decorator that makes a function that builds a query take a reader and return a ``T``.
Asker: TypeAlias = Callable[[Callable[P, peewee.Query]], Callable[Concatenate[Reader, P], T]]


def asks_rows(read: Callable[[list[Any]], T]) -> Asker[P, T]:
    """Make a function that builds a query run it and pass the rows to ``read``. The rules of ``prepared`` apply."""
    return lambda build: _asking(build, lambda reader, query: read(reader.fetch(query)))


def asks_records(records: RecordReader[R]) -> Asker[P, list[R]]:
    """Make a function that builds a query run it and return its records."""
    return lambda build: _asking(build, lambda reader, query: reader.fetch_records(records, query))


def asks_record(records: RecordReader[R]) -> Asker[P, R | None]:
    """Make a function that builds a query run it and return the first record, or None."""
    return lambda build: _asking(build, lambda reader, query: reader.fetch_record(records, query))


def asks_keyed(records: RecordReader[R], key: str) -> Asker[P, dict[Any, R]]:
    """Make a function that builds a query run it and return its records, keyed by their field ``key``."""

    def ask(reader: Reader, query: Statement) -> dict[Any, R]:
        return {getattr(record, key): record for record in reader.fetch_records(records, query)}

    return lambda build: _asking(build, ask)


def asks_values(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], list[Any]]:
    """Make a function that builds a query run it and return the first column of each row."""
    return _asking(build, Reader.fetch_values)


def asks_number(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], int]:
    """Make a function that builds a query run it and return its first value as an int; 0 if there is none."""
    return _asking(build, lambda reader, query: int(reader.fetch_value(query) or 0))


def asks_any(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Reader, P], bool]:
    """Make a function that builds a query run it and return True if there is a row."""
    return _asking(build, Reader.has_any)


def writes(build: Callable[P, peewee.Query]) -> Callable[Concatenate[Tx, P], int]:
    """Make a function that builds a writing query run it in a transaction and return how many rows it changed."""
    return _asking(build, Tx.run)


def _asking(build: Callable[P, peewee.Query], ask: Callable[[S, Statement], R]) -> Callable[Concatenate[S, P], R]:
    statement = prepared(build)

    @wraps(build)
    def run(reader: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return ask(reader, statement(*args, **kwargs))

    return run


@cache
def _row_maker(description: Row) -> Callable[[Row], Any]:
    make: Callable[[Row], Any] = namedtuple("NamedRow", [name for name, *_ in description])._make  # type: ignore[attr-defined]
    return make


# -- The open memory.db: open and close it, transactions, housekeeping.

#: Size above which the write-ahead log is emptied after a commit, in bytes.
LOG_LIMIT_BYTES = 8_000_000
#: How long to wait for readers before the log is emptied, in milliseconds; and if one is still reading, after how many
#: seconds to try again.
LOG_WAIT_MS = 400
LOG_AGAIN_SECONDS = 1.0

#: Modules whose ``LISTENER`` is notified of every change to a memory. They are listed by name rather than imported,
#: because most processes that open memory.db don't change it.
LISTENER_MODULES: list[str] = []


class Store(Reader):
    """The open memory.db. Thread-safe; each thread has its own connection."""

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
        may_start_over: bool = False,
        is_alone: bool = False,
    ) -> None:
        """Prepare to open the database at ``path``, without touching the file.

        ``is_damaged`` and ``is_alone`` are those of ``open_database``. ``open`` migrates earlier tables only with
        ``may_upgrade``, and creates a memory.db despite backups of a deleted one only with ``may_start_over``.
        """
        chosen = choose_driver(driver)
        database = open_database(path, chosen, busy_ms, cache_kb, is_damaged=is_damaged, is_alone=is_alone)
        super().__init__(database, path, driver=chosen, clock=clock)
        self._busy_ms = busy_ms
        self._may_upgrade = may_upgrade
        self._may_start_over = may_start_over
        self._log_path = f"{path}-wal"
        self._log_kept_seconds = -LOG_AGAIN_SECONDS
        self._files = OpenedFiles(database, path)

    # -- opening and closing

    def open(self) -> Store:
        """Open the file and create or migrate its tables, after finishing or undoing an interrupted restore.

        Raises:
            ForeignDatabase: the file belongs to another program.
            BrokenDatabase: the file is damaged or not a database.
            HomeError, MissingDatabase: there is no file, but there was one (``check_missing``).
            NewerSchema: the file was written by a newer Engram.
            OlderSchema: the file was written by an earlier Engram, and must not be upgraded.
            StoreError: any other error from SQLite.
        """
        self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        finish_replacement(self.path)
        if not self._may_start_over and not is_replaced(self.path):
            check_missing(self.path)
        if is_no_file(self.path):
            raise BrokenDatabase(f"{self.path} is not a regular file")
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
        """Raise the error for a database without Engram's mark in its header; ``identity`` is that of the checked file.

        Raises:
            BrokenDatabase: the file has Engram's tables, so its header is damaged.
            ForeignDatabase: the file belongs to another program.
        """
        try:
            is_own = has_own_tables(self.path, self.driver)
        except BrokenDatabase:
            if file_identity(self.path) == identity:
                raise
            is_own = False
        # Another process may have set it aside in the meantime, so this may be a different file.
        if is_own and file_identity(self.path) == identity:
            raise BrokenDatabase(f"{self.path} is damaged: its header lacks Engram's mark")
        raise ForeignDatabase(f"{self.path} is another program's database")

    def make_private(self) -> None:
        """Create the file with mode 0600 before SQLite opens it; its -wal and -shm get the same mode.

        An existing file is not opened, because closing it would drop this process's own locks on it.
        """
        with contextlib.suppress(OSError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))

    def _connect(self) -> None:
        """Open the first connection, retrying while the file is locked: another process may be switching it to WAL."""
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
        """Open this thread's connection if there is none, and map errors, because the pragmas read the file."""
        with self._mapped_errors():
            self._database.connection()

    def _check_owner(self, identity: tuple[int, int] | None) -> None:
        # The tables must be counted first: another process may be creating them and setting the id in one transaction.
        tables = int(self._database.execute_sql("SELECT count(*) FROM sqlite_master").fetchone()[0])
        application = int(self._database.execute_sql("PRAGMA application_id").fetchone()[0])
        if application != APPLICATION_ID and tables:
            self._refuse_foreign(identity)

    def close(self) -> None:
        self._disconnect()

    def __enter__(self) -> Store:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- transactions

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Tx]:
        """Begin a transaction that holds the write lock from its start. A nested transaction joins the outer one.

        Everything in it commits together or not at all. Keep it short: don't use a model, a file or the network inside.

        Raises:
            StoreError: SQLite fails, or the open files were deleted or replaced, so that the changes would be lost.
        """
        with self._mapped_errors(is_transaction=True):
            if self._database.in_transaction():
                yield Tx(self)
                return
            self._ensure_connected()
            if self.is_displaced():
                raise StoreError("memory.db was deleted or replaced while it was open; try again in a few seconds")
            with self._database.atomic("IMMEDIATE"):
                yield Tx(self)
        self._bound_log()

    @contextlib.contextmanager
    def attached(self, path: Path, name: str) -> Iterator[None]:
        """Attach another database as ``name`` for this thread's statements.

        Raises:
            StoreError: the other database can't be read.
        """
        self._ensure_connected()
        try:
            self._database.execute_sql(f'ATTACH DATABASE ? AS "{name}"', (str(path),))
        except DATABASE_ERRORS as error:
            raise StoreError(f"{path} can't be read: {error}") from error
        try:
            yield
        finally:
            with contextlib.suppress(*DATABASE_ERRORS):
                self._database.execute_sql(f'DETACH DATABASE "{name}"')

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """Read from a snapshot: all reads inside see the same state."""
        with self._mapped_errors(is_transaction=True):
            if self._database.in_transaction():
                yield self
                return
            self._ensure_connected()
            with self._database.atomic("DEFERRED"):
                yield self

    # -- housekeeping

    def checkpoint(self, mode: str = "PASSIVE") -> None:
        """Copy the write-ahead log into the database file; ``TRUNCATE`` also empties the log."""
        with contextlib.suppress(StoreError):
            self.row(f"PRAGMA wal_checkpoint({mode})")

    def data_version(self) -> int:
        """Return a number that changes when another connection changes the database."""
        return int(self.value("PRAGMA data_version") or 0)

    def file_identity(self) -> tuple[int, int] | None:
        """Return the device and inode of memory.db; None if there is no file. They change when it is replaced."""
        return file_identity(self.path)

    def is_displaced(self) -> bool:
        """Return True if the files that this thread has open were deleted or replaced."""
        self._ensure_connected()
        return self._files.are_displaced(self.data_version)

    def schema_version(self) -> int:
        return int(self.value("PRAGMA user_version"))

    def _bound_log(self) -> None:
        """Empty a write-ahead log that has grown because there was always a reader; wait briefly for readers."""
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
        """Return what SQLite finds wrong with the file or its indexes; "" if nothing is wrong."""
        try:
            messages = [str(message) for (message,) in self.rows("PRAGMA integrity_check(5)")]
            if messages != ["ok"]:
                return "; ".join(messages)
            if is_read_only(self.path):
                return ""  # the text indexes are checked by statements that write
            for table in ("passage_fts", "note_fts"):
                with self.transaction() as tx:
                    tx.run(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
            with self.transaction() as tx:
                tx.run("INSERT INTO episode_fts(episode_fts) VALUES ('integrity-check')")
            kept, indexed = "SELECT id FROM episode", "SELECT id FROM episode_fts_docsize"
            if self.value(f"SELECT 1 FROM ({kept} EXCEPT {indexed}) UNION ALL SELECT 1 FROM ({indexed} EXCEPT {kept})"):
                return "fts5: the index of memories does not match its rows"
        except StoreError as error:
            return str(error)
        return ""
