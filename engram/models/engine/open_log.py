"""Keep a deleted write-ahead log of memory.db from losing what was saved.

Whoever deletes ``memory.db-wal`` or ``-shm`` while processes have memory.db open splits it: they go on in files that no
new process sees, and a new one would begin a second log. Pages of two logs can't be merged, and SQLite's last close of
the one deletes the other. So no second log may begin: a process that finds a file of the log missing waits until those
that have memory.db open have written their log into it and ended, and these neither connect nor write any more.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from engram.errors import StoreError
from engram.models.engine.database import file_identity, is_empty, is_read_only
from engram.paths import Home
from engram.system.atomic import FILE_MODE, explain_error, lock_file

#: A lock file (flock): each process holds it in shared mode while it has memory.db open, and exclusively while it opens
#: a memory.db that has no log.
LOCK_NAME = "memory.log.lock"
#: How long opening memory.db waits for the processes whose log was deleted, in seconds. They notice within 5 s.
WAIT_SECONDS = 10.0
_RETRY_SECONDS = 0.02

_DISPLACED = (
    "the log of memory.db was deleted while Engram was running. Nothing is lost: Engram's processes write what they "
    "have into memory.db and start again. Try again in a moment; if that doesn't help, end other Engram commands"
)


class OpenLog:
    """The files of the log that a process has open with memory.db, and the lock that says so. Thread-safe."""

    def __init__(self, path: Path) -> None:
        """``path`` is memory.db. Nothing is touched."""
        self._path = path
        self._sides = tuple(path.with_name(f"{path.name}{suffix}") for suffix in ("-wal", "-shm"))
        self._descriptor: int | None = None
        self._owner = 0
        #: The files' identities; None until they are known.
        self._files: tuple[tuple[int, int] | None, ...] | None = None

    def __del__(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)

    @contextlib.contextmanager
    def joining(self) -> Iterator[None]:
        """Make the first connection inside this block; it must open the log.

        Raises:
            StoreError: the log was deleted, and the processes that have it open have not ended in time.
        """
        self.leave()
        if self._path != Home(self._path.parent).memory_db or is_read_only(self._path):
            # No process writes to a copy of memory.db, which has another name.
            yield
            return
        lock = self._path.with_name(LOCK_NAME)
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        except OSError as error:
            raise StoreError(f"can't use the memory folder {lock.parent}: {explain_error(error, lock)}") from error
        try:
            until = time.monotonic() + WAIT_SECONDS
            while not self._is_admitted(descriptor):
                if time.monotonic() > until:
                    raise StoreError(_DISPLACED)
                time.sleep(_RETRY_SECONDS)
            yield
            lock_file(descriptor, fcntl.LOCK_SH, lock.parent)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor, self._owner, self._files = descriptor, threading.get_ident(), None
        self.is_displaced()

    def _is_admitted(self, descriptor: int) -> bool:
        """Lock: in shared mode beside others that use the log, or exclusively if there is none and no one uses it."""
        is_used = None not in self._identities()
        try:
            lock_file(descriptor, (fcntl.LOCK_SH if is_used else fcntl.LOCK_EX) | fcntl.LOCK_NB, self._path.parent)
        except BlockingIOError:
            return False
        if is_used and None in self._identities():
            lock_file(descriptor, fcntl.LOCK_UN, self._path.parent)
            return False
        return True

    def leave(self) -> None:
        """Release the lock, after this thread's connection was closed, if it is the thread that took it."""
        if self._descriptor is not None and self._owner == threading.get_ident():
            os.close(self._descriptor)
            self._descriptor = self._files = None

    def forget(self) -> None:
        """Expect that a connection is closed because of an error; with the last one, SQLite deletes the log."""
        if not self.is_displaced():
            self._files = None

    def is_displaced(self) -> bool:
        """Return True if a file of the log that this process uses was deleted or replaced."""
        if self._descriptor is None:
            return False
        files = self._identities()
        if self._files is None:
            self._files = None if None in files else files
            return False
        return files != self._files

    def has_no_rival(self) -> bool:
        """Return True if no other process can have begun another log, so that this one may be written to memory.db."""
        wal, shm = self._identities()
        own_wal, own_shm = self._files or (None, None)
        return (wal in (None, own_wal) or is_empty(self._sides[0])) and shm in (None, own_shm)

    def check(self) -> None:
        """Raise StoreError if the log was deleted or replaced: a new connection or a write would go astray."""
        if self.is_displaced():
            raise StoreError(_DISPLACED)

    def _identities(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(map(file_identity, self._sides))
