"""The open memory.db: transactions, rows, errors of both drivers as one, foreign and damaged files set aside."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import peewee

from engram.atomic import FILE_MODE, FOLDER_MODE, locked_folder, read_regular
from engram.clock import SYSTEM_CLOCK, Clock
from engram.errors import BrokenDatabase, ForeignDatabase, StoreError
from engram.models.database import DATABASE_ERRORS, choose_driver, driver_errors, is_damage, open_database
from engram.models.migrations import migrate
from engram.models.schema import APPLICATION_ID

#: Database files (device, inode) that this process found to be Engram's, or new.
_looked_at: set[tuple[int, int]] = set()
_looking = threading.Lock()

#: Most values asked for in one statement.
MOST_VALUES = 500
#: A write-ahead log that is larger is emptied after a commit, in bytes.
LOG_LIMIT_BYTES = 8_000_000
#: How long that waits for readers, in milliseconds, and when it is tried again where one stays, in seconds.
LOG_WAIT_MS = 400
LOG_AGAIN_SECONDS = 1.0

#: What a statement may be given.
Value = str | int | float | bytes | None
Row = tuple[Any, ...]


class Store:
    """The open memory.db. One object may be used by many threads; each has its own connection."""

    def __init__(self, path: Path, *, driver: str = "auto", clock: Clock = SYSTEM_CLOCK, busy_ms: int = 5000) -> None:
        """Prepare, but do not touch, the database at ``path``."""
        self.path = path
        self.clock = clock
        self.driver = choose_driver(driver)
        self._busy_ms = busy_ms
        self._log_path = f"{path}-wal"
        self._log_kept_seconds = -LOG_AGAIN_SECONDS
        self._database = open_database(path, self.driver, busy_ms=busy_ms)
        # peewee maps what happens when a statement begins; what happens while its rows are fetched comes as it is.
        self._errors: tuple[type[BaseException], ...] = (*DATABASE_ERRORS, *driver_errors(self.driver))

    # -- opening and closing

    def open(self) -> Store:
        """Open the file, make or migrate its tables.

        Raises:
            ForeignDatabase: the file belongs to another program.
            BrokenDatabase: the file is damaged or no database.
            NewerSchema: the file was written by a newer Engram.
            StoreError: anything else that SQLite says.
        """
        self.path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
        if is_no_file(self.path):
            raise BrokenDatabase(f"{self.path} is no regular file")
        if _is_foreign_file(self.path):
            raise ForeignDatabase(f"{self.path} is a database of another program")
        if not os.path.lexists(self.path):
            with locked_folder(self.path.parent):
                self._make_private()
        with self._mapped_errors():
            self._connect()
            self._check_owner()
            migrate(self._database)
        return self

    def _make_private(self) -> None:
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

    def _check_owner(self) -> None:
        # In this order: another process may be making the tables just now, and sets the id in the same transaction.
        tables = int(self._database.execute_sql("SELECT count(*) FROM sqlite_master").fetchone()[0])
        application = int(self._database.execute_sql("PRAGMA application_id").fetchone()[0])
        if application != APPLICATION_ID and tables:
            raise ForeignDatabase(f"{self.path} is a database of another program")

    def close(self) -> None:
        """Close this thread's connection."""
        with contextlib.suppress(*self._errors):
            self._database.close()

    def __enter__(self) -> Store:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- statements

    def rows(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        """All rows of a statement."""
        with self._mapped_errors():
            return [tuple(row) for row in self._database.execute_sql(sql, tuple(parameters)).fetchall()]

    def rows_among(self, sql: str, values: Sequence[Value], parameters: Sequence[Value] = ()) -> Iterator[Row]:
        """All rows of a statement that ends in ``IN``, for any number of values; its other parameters stand before them."""
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

    def run(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """Run one writing statement; returns how many rows it changed."""
        with self._mapped_errors():
            return int(self._database.execute_sql(sql, tuple(parameters)).rowcount)

    def insert(self, sql: str, parameters: Sequence[Value] = ()) -> int:
        """Run one INSERT; returns the new row's id."""
        with self._mapped_errors():
            return int(self._database.last_insert_id(self._database.execute_sql(sql, tuple(parameters))))

    def run_many(self, sql: str, many: Sequence[Sequence[Value]]) -> None:
        """Run one writing statement for each set of parameters; call it inside ``writing``."""
        if not many:
            return
        with self._mapped_errors(), peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            self._database.cursor().executemany(sql, [tuple(one) for one in many])

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction that holds the write lock from its start; nested use joins the outer one.

        Everything in it commits together or not at all. Keep it short: no model, no file and no network inside.
        """
        with self._mapped_errors():
            if self._database.in_transaction():
                yield
                return
            with self._database.atomic("IMMEDIATE"):
                yield
        self._bound_log()

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """One consistent view for several reads."""
        with self._mapped_errors():
            if self._database.in_transaction():
                yield
                return
            with self._database.atomic("DEFERRED"):
                yield

    @contextlib.contextmanager
    def _mapped_errors(self) -> Iterator[None]:
        """Turn the drivers' errors into Engram's, and drop the connection after an I/O error."""
        try:
            yield
        except peewee.IntegrityError:
            raise
        except self._errors as error:
            if is_damage(error):
                self.close()
                raise BrokenDatabase(f"{self.path} is damaged: {error}") from error
            if "i/o" in str(error).lower() or "full" in str(error).lower():
                self.close()
            raise StoreError(f"memory.db: {error}") from error

    # -- housekeeping

    def now_ms(self) -> int:
        """The clock's time, for what is written."""
        return self.clock.now_ms()

    def checkpoint(self, mode: str = "PASSIVE") -> None:
        """Move the write-ahead log into the file; ``TRUNCATE`` also empties it."""
        with contextlib.suppress(StoreError):
            self.row(f"PRAGMA wal_checkpoint({mode})")

    def schema_version(self) -> int:
        """Number of the migration that the file is at."""
        return int(self.value("PRAGMA user_version"))

    def _bound_log(self) -> None:
        """Empty a write-ahead log that has grown large because there was always some reader; wait for those a moment."""
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
            found = [str(row[0]) for row in self.rows("PRAGMA quick_check(5)")]
            if found != ["ok"]:
                return "; ".join(found)
            for table in ("passage_fts", "note_fts"):
                self.run(f"INSERT INTO {table}({table}, rank) VALUES ('integrity-check', 1)")
            self.run("INSERT INTO episode_fts(episode_fts) VALUES ('integrity-check')")
            kept, indexed = "SELECT id FROM episode", "SELECT id FROM episode_fts_docsize"
            if self.value(f"SELECT 1 FROM ({kept} EXCEPT {indexed}) UNION ALL SELECT 1 FROM ({indexed} EXCEPT {kept})"):
                return "fts5: the index of episodes does not fit its rows"
        except StoreError as error:
            return str(error)
        return ""


def is_no_file(path: Path) -> bool:
    """True where something else than a regular file lies: a link, a folder, a pipe. False where nothing does."""
    try:
        return not stat.S_ISREG(os.lstat(path).st_mode)
    except OSError:
        return False


def _is_foreign_file(path: Path) -> bool:
    """True for another program's database, by its header alone: opening it would already write to it.

    A database of a single page tells nothing: ours is one until its first checkpoint. A file that this process looked
    at before is not looked at again: closing a file gives up all locks of the process on it, SQLite's among them.
    """
    try:
        facts = path.stat()  # before the header is read: another process may be filling the file just now
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


def set_aside(path: Path, name: str) -> Path:
    """Move a database and its side files out of the way as ``name`` in the same folder; returns where it went.

    A name that is taken gets a time behind it; nothing is ever overwritten. Nobody makes a new database meanwhile.
    """
    with locked_folder(path.parent):
        return move_aside(path, name)


def move_aside(path: Path, name: str) -> Path:
    """As ``set_aside``, with the folder's lock held by the caller."""
    target = path.with_name(name)
    if os.path.lexists(target):
        target = path.with_name(f"{Path(name).stem}.{time.time_ns()}{Path(name).suffix}")
    os.replace(path, target)
    for suffix in ("-wal", "-shm"):
        side = path.with_name(path.name + suffix)
        if side.exists():
            os.replace(side, target.with_name(target.name + suffix))
    return target


def open_store(path: Path, *, driver: str = "auto", clock: Clock = SYSTEM_CLOCK) -> Store:
    """Open memory.db; another program's database found there is set aside as ``memory.v2.db`` first.

    Raises:
        BrokenDatabase, NewerSchema, StoreError: as ``Store.open``.
    """
    store = Store(path, driver=driver, clock=clock)
    try:
        return store.open()
    except ForeignDatabase:
        store.close()
    except BrokenDatabase:
        store.close()
        raise
    with locked_folder(path.parent):
        # Another process may have set it aside meanwhile, and what lies there now is ours.
        with contextlib.suppress(ForeignDatabase):
            return store.open()
        store.close()
        move_aside(path, "memory.v2.db")
        store._make_private()
    return Store(path, driver=driver, clock=clock).open()
