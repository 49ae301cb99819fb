"""The open memory.db: transactions, rows, errors of both drivers as one, foreign and damaged files set aside."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import peewee

from engram.atomic import FILE_MODE, FOLDER_MODE, locked_folder
from engram.clock import SYSTEM_CLOCK, Clock
from engram.errors import BrokenDatabase, ForeignDatabase, MissingDatabase, StoreError
from engram.models.database import CACHE_KB, choose_driver, open_database
from engram.models.file_checks import (
    file_identity,
    has_own_tables,
    is_cut_short,
    is_deleted,
    is_emptied,
    is_foreign_file,
    is_no_file,
)
from engram.models.migrations import migrate
from engram.models.replacement import finish_replacement, is_replaced
from engram.models.schema import APPLICATION_ID
from engram.models.transaction import Reader, Tx

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
                return "fts5: the index of episodes does not fit its rows"
        except StoreError as error:
            return str(error)
        return ""


def open_store(
    path: Path,
    *,
    driver: str = "auto",
    clock: Clock = SYSTEM_CLOCK,
    cache_kb: int = CACHE_KB,
    may_upgrade: bool = True,
) -> Store:
    """Open memory.db as ``engram.models.open_memory`` does, which replaces this function."""
    from engram.models import open_memory

    return open_memory.open_store(path, driver=driver, clock=clock, cache_kb=cache_kb, may_upgrade=may_upgrade)
