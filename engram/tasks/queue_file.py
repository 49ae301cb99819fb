"""Open ``queue.db``, and rebuild it if it is broken; wake the worker through ``wake.sock``."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import logging
import os
import select
import socket
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from engram.errors import HomeError, StoreError
from engram.paths import Home
from engram.system.atomic import FILE_MODE, behind_rollback, explain_disk, explain_error, identity_of, locked_folder
from engram.system.process_limits import import_without_drivers
from engram.system.socketpath import bind_at, socket_address

# -- Import the parts of Huey that Engram uses. Only this module imports Huey, without the PostgreSQL drivers that Huey
# would load.

import_without_drivers("huey")

from huey import crontab  # noqa: E402 - the drivers are hidden first
from huey.api import Huey  # noqa: E402
from huey.constants import WORKER_THREAD, EmptyData  # noqa: E402
from huey.consumer import Consumer, ConsumerStopped, Worker  # noqa: E402
from huey.exceptions import HueyException  # noqa: E402
from huey.registry import Message, Registry  # noqa: E402
from huey.storage import SqliteStorage  # noqa: E402

__all__ = [
    "WORKER_THREAD",
    "Consumer",
    "ConsumerStopped",
    "EmptyData",
    "Huey",
    "HueyException",
    "Message",
    "Registry",
    "SqliteStorage",
    "Worker",
    "crontab",
]


# -- Wake an idle worker: a datagram on ``wake.sock`` makes it read the queue.

#: Maximum number of datagrams read at a time, so that a flood of them delays no task.
MAX_DATAGRAMS = 64


class WakeListener:
    """The worker's end of the socket. Any number of threads may wait; any thread may call ``release``."""

    def __init__(self, path: Path) -> None:
        """Bind ``path``, replacing any stale socket. Call with the worker's lock held. Raises OSError."""
        self.path = path
        self._socket = self._bound()
        self._released = os.pipe()

    def wait(self, seconds: float) -> bool:
        """Wait for a datagram, for ``release``, or for ``seconds``; return True after a datagram."""
        poller = select.poll()
        poller.register(self._socket, select.POLLIN)
        poller.register(self._released[0], select.POLLIN)
        poller.poll(seconds * 1000)
        has_received = False
        with contextlib.suppress(OSError):
            for _ in range(MAX_DATAGRAMS):
                if not self._socket.recv(16):
                    break
                has_received = True
        return has_received

    def rebind(self) -> None:
        """Bind the path again, for example after the socket file was removed. Raises OSError."""
        stale, self._socket = self._socket, self._bound()
        stale.close()

    def _bound(self) -> socket.socket:
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        bound.setblocking(False)
        try:
            bind_at(bound, self.path)
        except OSError:
            bound.close()
            raise
        return bound

    def release(self) -> None:
        """Make ``wait`` return immediately in every thread from now on."""
        os.write(self._released[1], b"!")

    def close(self) -> None:
        """Close the socket and remove its file. No thread may be waiting."""
        self._socket.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        for descriptor in self._released:
            os.close(descriptor)


class WakeSender:
    """A producer's end of the socket."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._socket: socket.socket | None = None

    def send(self) -> None:
        """Wake the worker if there is one. Never blocks or fails."""
        with contextlib.suppress(OSError):
            if self._socket is None:
                sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                sender.setblocking(False)
                self._socket = sender
            with socket_address(self.path) as address:
                self._socket.sendto(b"!", address)


logger = logging.getLogger(__name__)

Result = TypeVar("Result")

#: How long an enqueue waits for another writer, in seconds.
BUSY_SECONDS = 5.0
#: SQLite messages that may be caused by the disk; the state of the disk is then also reported.
_DISK_SIGNS = ("full", "i/o error", "readonly", "unable to open")
#: SQLite messages that mean that the file must be rebuilt. "locked" is not one of them.
_BROKEN = ("malformed", "not a database", "corrupt", "no such table", "no such column", "readonly", "i/o error")


class QueueFile(SqliteStorage):
    """Huey's tables, with an additional column in ``task``: the key of a waiting row. Thread-safe.

    A deleted, overwritten or replaced file is rebuilt; the scan of memory.db enqueues what is due again.
    """

    table_task = (
        "create table if not exists task (id integer not null primary key, queue text not null, data blob not null, "
        "priority real not null default 0.0, key text)"
    )
    index_key = "create unique index if not exists task_queue_key on task (queue, key) where key is not null"
    ddl = (
        SqliteStorage.table_kv,
        SqliteStorage.table_sched,
        SqliteStorage.index_sched,
        table_task,
        SqliteStorage.index_task,
        SqliteStorage.table_counter,
        index_key,
    )

    def __init__(self, name: str = "engram") -> None:
        """Create the storage; ``place`` sets its location, and the first use opens it."""
        super().__init__(name, filename="", cache_mb=1, create_tables=False)
        self._conn: Any = None
        self.home: Home | None = None
        self._driver = "sqlite3"
        self._errors: type[Exception] = sqlite3.DatabaseError
        #: Device and inode of the open file and of its log's index.
        self._opened: tuple[int, int] | None = None
        self._index: tuple[int, int] | None = None

    def place(self, home: Home, driver: str = "auto", busy_seconds: float = BUSY_SECONDS) -> None:
        """Switch to the queue of ``home``, without opening it yet."""
        self.close()
        if driver == "auto":
            driver = "cysqlite" if importlib.util.find_spec("cysqlite") else "sqlite3"
        self.home, self.filename, self._driver, self._timeout = home, str(home.queue_db), driver, busy_seconds
        if driver == "cysqlite":
            import cysqlite

            self.integrity_error, self.operational_error = cysqlite.IntegrityError, cysqlite.OperationalError
            self._errors = cysqlite.DatabaseError
        else:
            self.integrity_error, self.operational_error = sqlite3.IntegrityError, sqlite3.OperationalError
            self._errors = sqlite3.DatabaseError

    @property
    def placed_home(self) -> Home:
        """The memory folder. Raises HomeError before ``place``, so that nothing is written to a default folder."""
        if self.home is None:
            raise HomeError("the queue has no memory folder yet; bind it first")
        return self.home

    @property
    def conn(self) -> Any:
        """Return the open connection, reopened if the file was replaced. The caller holds ``lock``."""
        home = self.placed_home
        if self._conn is not None and (self._opened, self._index) != self._identities():
            self._drop_connection()
        if self._conn is None:
            self._conn = self._create_connection(home)
        return self._conn

    def _create_connection(self, home: Home) -> Any:
        if os.path.isdir(self.filename):  # which SQLite only calls "unable to open"
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self.filename)
        with _locked_home(home):
            if identity_of(self.filename) is None:
                _unlink(self.filename, "-wal", "-shm")
                # Open and close only a new file, since closing a file drops all of this process's locks on it.
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(self.filename, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
            self._opened = identity_of(self.filename)
            connection = self._connect()
        try:
            self._set_journal_mode(connection)
            for pragma in ("synchronous=1", "cache_size=-1000", "mmap_size=0", "journal_size_limit=1000000"):
                connection.execute(f"pragma {pragma}").fetchall()
            self._make_tables(connection)
        except self._errors:
            connection.close()
            raise
        self._index = self._identities()[1]
        return connection

    def _identities(self) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
        """Return the identities of the file and of its log's index.

        If the index differs, other processes use a different log.
        """
        return identity_of(self.filename), identity_of(f"{self.filename}-shm")

    def _connect(self) -> Any:
        if self._driver == "cysqlite":
            import cysqlite

            return cysqlite.connect(self.filename, timeout=self._timeout)
        connection = sqlite3.connect(self.filename, timeout=self._timeout, check_same_thread=False)
        connection.isolation_level = None
        return connection

    def _make_tables(self, connection: Any) -> None:
        try:
            connection.execute("select key from task limit 1").fetchall()
            return
        except self._errors as error:
            if "no such table" not in str(error):
                raise
        connection.execute("begin exclusive")
        for statement in self.ddl:
            connection.execute(statement)
        connection.execute("commit")

    def _drop_connection(self) -> None:
        connection, self._conn = self._conn, None
        if connection is not None:
            with contextlib.suppress(self._errors):
                connection.close()

    def _with_repair(self, action: Callable[[], Result]) -> Result:
        """Return the result of ``action``; if the file is broken, rebuild it and try once more.

        Raises StoreError if the disk is full, read-only or failing; the scan enqueues what is due again.
        """
        try:
            return action()
        except OSError as error:
            raise StoreError(f"queue.db: {explain_error(error, Path(self.filename))}") from error
        except self._errors as error:
            met = behind_rollback(error)
            text = str(met).lower()
            # Check the folder, because if only the file isn't writable, it can be rebuilt.
            folder = Path(self.filename).parent
            cause = explain_disk(folder) if any(sign in text for sign in _DISK_SIGNS) else ""
            if cause or "full" in text:
                # The failure may have left a transaction open.
                with self.lock:
                    self._drop_connection()
                raise StoreError(f"queue.db: {met}{': ' if cause else ''}{cause}") from error
            if not any(sign in text for sign in _BROKEN):
                raise
            logger.warning("action=rebuild_queue reason=%s", met)
        with self.lock:
            failed = self._opened
            self._drop_connection()
            with _locked_home(self.placed_home):
                if failed == identity_of(self.filename):
                    _unlink(self.filename, "", "-wal", "-shm")
        return action()

    def sql(self, query: str, params: Any = None, commit: bool = False, results: bool = False) -> Any:
        return self._with_repair(lambda: super(QueueFile, self).sql(query, params, commit, results))


@contextlib.contextmanager
def _locked_home(home: Home) -> Iterator[None]:
    """Hold a lock on the memory folder. Raises HomeError if it is gone; the queue never recreates it."""
    try:
        with locked_folder(home.root):
            yield
    except FileNotFoundError as error:
        raise HomeError(f"the memory folder {home.root} is gone") from error


def _unlink(filename: str, *suffixes: str) -> None:
    for suffix in suffixes:
        with contextlib.suppress(OSError):
            os.unlink(filename + suffix)
