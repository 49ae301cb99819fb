"""A lock that only one process can hold (flock). The system releases it when its holder dies, in any way."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from pathlib import Path

from engram.atomic import FILE_MODE
from engram.errors import AlreadyRunning

#: Exit code of a worker or watcher that asks to be restarted (EX_TEMPFAIL).
EXIT_RESTART = 75
#: How long a held lock is retried, in seconds: a status command holds a shared one for an instant.
PATIENCE_SECONDS = 0.3


class ProcessLock:
    """A held lock; its file names the process. Keep the object as long as the lock must be held."""

    def __init__(self, path: Path, note: str = "") -> None:
        """Take the lock.

        Args:
            path: the lock file; it is created if it is missing.
            note: the second line of the file, after the process id: the version of the code.

        Raises:
            AlreadyRunning: another process holds it.
        """
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._try():
            if time.monotonic() > until:
                os.close(self._descriptor)
                raise AlreadyRunning(f"another process holds {path}. Nothing to do")
            time.sleep(0.02)
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n{note}\n".encode(), 0)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def touch(self) -> None:
        """Set the time of the lock file to now: the heartbeat of its holder."""
        with contextlib.suppress(OSError):
            os.utime(self._descriptor)

    def is_in_place(self) -> bool:
        """True while ``path`` is the file that this object holds: nobody removed or replaced it."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except OSError:
            return False

    def release(self) -> None:
        """Release the lock; the file stays."""
        os.close(self._descriptor)


def is_process_alive(pid: int) -> bool:
    """True if the process may still run; also if that can't be determined."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True
