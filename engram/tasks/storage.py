"""Huey's SQLite storage, made a good doorbell: woken at once, one waiting row a key, healed when it breaks."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import socket
import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from huey.constants import EmptyData
from huey.storage import SqliteStorage

from engram.atomic import FILE_MODE, locked_folder, make_private_folder
from engram.failpoint import reach
from engram.paths import Home
from engram.socketpath import bind_at, socket_address
from engram.tasks.message import key_of

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Longest wait for a datagram before the queue is looked at anyway, in seconds: datagrams may get lost.
LOOK_ANYWAY_SECONDS = 5.0
#: Datagrams taken at one time, so that whoever floods wake.sock keeps no task waiting.
MAX_DATAGRAMS = 64
#: How long an enqueue waits for another writer unless told otherwise, in seconds.
BUSY_SECONDS = 5.0
#: Said by SQLite of a file that must be made anew. "locked" is not among them.
_BROKEN = ("malformed", "not a database", "corrupt", "no such table", "no such column", "readonly", "i/o error")


class QueueStorage(SqliteStorage):
    """``queue.db``: Huey's tables, and in ``task`` one column more that holds the key of a waiting row.

    The file may be deleted, overwritten or replaced at any time: it is made anew, and what it held is found again by
    the scan of memory.db. A worker ``listen``s on ``wake.sock``; a producer sends a datagram there after each enqueue.
    All methods may be called from any thread.
    """

    table_task = (
        "create table if not exists task (id integer not null primary key, queue text not null, data blob not null, "
        "priority real not null default 0.0, key text)"
    )
    index_key = "create unique index if not exists task_queue_key on task (queue, key) where key is not null"
    ddl = (
        SqliteStorage.table_kv, SqliteStorage.table_sched, SqliteStorage.index_sched, table_task,
        SqliteStorage.index_task, SqliteStorage.table_counter, index_key,
    )  # fmt: skip

    def __init__(self, name: str = "engram") -> None:
        """Prepare a storage; it has no place until ``place`` gives it one."""
        super().__init__(name, filename="", cache_mb=1, create_tables=False)
        self._conn: Any = None
        self.home: Home | None = None
        self._driver = "sqlite3"
        self._opened: tuple[int, int] | None = None
        self._index: tuple[int, int] | None = None
        self._listener: socket.socket | None = None
        self._stop_pipe: tuple[int, int] | None = None
        self._sender: socket.socket | None = None

    @property
    def blocking(self) -> bool:
        """True where ``dequeue`` waits for a task by itself."""
        return self._listener is not None

    # -- the file

    def place(self, home: Home, driver: str, busy_seconds: float) -> None:
        """Use the queue of ``home`` from now on; nothing is opened yet."""
        self.close()
        self.home, self.filename, self._driver, self._timeout = home, str(home.queue_db), driver, busy_seconds
        if driver == "cysqlite":
            import cysqlite

            self.integrity_error, self.operational_error = cysqlite.IntegrityError, cysqlite.OperationalError
            self._errors: type[Exception] = cysqlite.DatabaseError
        else:
            self.integrity_error, self.operational_error = sqlite3.IntegrityError, sqlite3.OperationalError
            self._errors = sqlite3.DatabaseError

    @property
    def conn(self) -> Any:
        """The open connection; opened anew where the file is another one by now. Only with ``lock`` held."""
        if self._conn is not None and (self._opened, self._index) != self._identities():
            self._drop_connection()
        if self._conn is None:
            self._conn = self._create_connection()
        return self._conn

    def _create_connection(self) -> Any:
        with locked_folder(make_private_folder(Path(self.filename).parent)):
            if _identity(self.filename) is None:
                _unlink(self.filename, "-wal", "-shm")
                # Only a new file may be opened and closed here: closing one drops the process's own locks on it.
                with contextlib.suppress(FileExistsError):
                    os.close(os.open(self.filename, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE))
            self._opened = _identity(self.filename)
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
        """The file and the index of its log as they are now; another index is one that other processes write to."""
        return _identity(self.filename), _identity(f"{self.filename}-shm")

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

    def _healed(self, action: Callable[[], T]) -> T:
        """Do ``action``; where the file turns out broken, make it anew and do it again."""
        try:
            return action()
        except self._errors as error:
            if not any(sign in str(error).lower() for sign in _BROKEN):
                raise
            logger.warning("action=renew_queue reason=%s", error)
        with self.lock:
            failed = self._opened
            self._drop_connection()
            with locked_folder(make_private_folder(Path(self.filename).parent)):
                if failed == _identity(self.filename):
                    _unlink(self.filename, "", "-wal", "-shm")
        return action()

    def sql(self, query: str, params: Any = None, commit: bool = False, results: bool = False) -> Any:
        """One statement; see Huey."""
        return self._healed(lambda: super(QueueStorage, self).sql(query, params, commit, results))

    # -- tasks

    def enqueue(self, data: bytes, priority: float | None = None) -> None:
        """Add a message, unless the same one waits already (then the higher priority counts); wake the worker."""
        self.sql(
            "insert into task (queue, data, priority, key) values (?, ?, ?, ?) on conflict (queue, key) "
            "where key is not null do update set priority = max(priority, excluded.priority)",
            (self.name, data, priority or 0, key_of(data)),
            commit=True,
        )
        reach("queue.enqueued")
        self.wake()

    def dequeue(self) -> bytes | None:
        """The next message, removed; None where none came for a while (at once without ``listen``)."""
        data = self._healed(self._take)
        if data is None and self._listener is not None:
            self._wait()
            data = self._healed(self._take)
        return data

    def _take(self) -> bytes | None:
        if not SqliteStorage.sql(self, "select 1 from task where queue = ? limit 1", (self.name,), results=True):
            return None
        with self.db(commit=True) as cursor:
            cursor.execute("select id, data from task where queue = ? order by priority desc, id limit 2", (self.name,))
            found = cursor.fetchall()
            if found:
                cursor.execute("delete from task where id = ?", (found[0][0],))
        if not found:
            return None
        if len(found) > 1:
            # One thread may have emptied the socket while another was about to wait: pass the ring on.
            self.wake()
        reach("queue.dequeued")
        return bytes(found[0][1])

    def read_schedule(self, ts: datetime) -> list[bytes]:
        """Messages whose time has come, removed. Looks without a lock first: mostly there are none."""
        if not self.sql(
            "select 1 from schedule where queue = ? and timestamp <= ? limit 1",
            (self.name, ts.timestamp()),
            results=True,
        ):
            return []
        return [bytes(data) for data in self._healed(lambda: super(QueueStorage, self).read_schedule(ts))]

    def pop_data(self, key: str) -> Any:
        """A stored value, removed. Looks without a lock first: mostly there is none."""
        if not self.has_data_for_key(key):
            return EmptyData
        return self._healed(lambda: super(QueueStorage, self).pop_data(key))

    def waiting(self) -> list[bytes]:
        """Every message that waits to be run, the next one first."""
        return [bytes(data) for data in self.enqueued_items()]

    # -- the bell

    def listen(self) -> None:
        """Be the one that ``wake.sock`` wakes; anything found there is replaced. Call with the worker's lock held."""
        assert self.home is not None
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.setblocking(False)
        bind_at(listener, self.home.wake_socket)
        old, self._listener = self._listener, listener
        self._stop_pipe = self._stop_pipe or os.pipe()
        if old is not None:
            old.close()

    def wake(self) -> None:
        """Ring at the worker, if there is one; never waits and never fails."""
        if self.home is None:
            return
        with contextlib.suppress(OSError):
            if self._sender is None:
                sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                sender.setblocking(False)
                self._sender = sender
            with socket_address(self.home.wake_socket) as address:
                self._sender.sendto(b"!", address)

    def stop_waiting(self) -> None:
        """Let every thread return from ``dequeue`` now, and at once from then on."""
        if self._stop_pipe is not None:
            os.write(self._stop_pipe[1], b"!")

    def stop_listening(self) -> None:
        """Remove ``wake.sock``; ``dequeue`` no longer waits."""
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.close()
            assert self.home is not None
            with contextlib.suppress(OSError):
                self.home.wake_socket.unlink()
        if self._stop_pipe is not None:
            for descriptor in self._stop_pipe:
                os.close(descriptor)
            self._stop_pipe = None

    def _wait(self) -> None:
        listener, pipe = self._listener, self._stop_pipe
        if listener is None or pipe is None:
            return
        poller = select.poll()
        poller.register(listener, select.POLLIN)
        poller.register(pipe[0], select.POLLIN)
        poller.poll(LOOK_ANYWAY_SECONDS * 1000)
        with contextlib.suppress(OSError):
            for _ in range(MAX_DATAGRAMS):
                if not listener.recv(16):
                    break


def _identity(filename: str) -> tuple[int, int] | None:
    """Device and inode; None where there is no such file."""
    try:
        facts = os.stat(filename)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _unlink(filename: str, *suffixes: str) -> None:
    for suffix in suffixes:
        with contextlib.suppress(OSError):
            os.unlink(filename + suffix)
