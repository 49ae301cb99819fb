"""A lock that only one process can hold (flock). The system releases it when that process ends, however it ends."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import logging
import os
import socket
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import NoReturn

from engram.errors import AlreadyRunning
from engram.system.atomic import FILE_MODE, lock_file

logger = logging.getLogger(__name__)

#: Exit code with which a worker or watcher requests a restart (EX_TEMPFAIL).
EXIT_RESTART = 75
#: How long to retry if the lock is held, in seconds, because a status command holds a shared lock for an instant.
PATIENCE_SECONDS = 0.3


def end_now(code: int) -> NoReturn:
    """Exit without shutting down the interpreter, which would abort when a thread returns from the model.

    All important data has been committed; the next process replays SQLite's log. A process must exit in this way if the
    log that it has open was deleted, because closing the last connection would also delete the new log at the same
    path.
    """
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class ProcessLock:
    """A held lock. Its file contains the process id. Keep the object for as long as the lock must be held."""

    def __init__(self, path: Path, note: str = "") -> None:
        """Take the lock.

        Args:
            path: the lock file; it is created if it is missing.
            note: the version of the code. It becomes the second line of the file, after the process id. The namespace
                in which that id is valid (``process_space``) and the time of the last beat follow.

        Raises:
            AlreadyRunning: another process holds the lock.
            HomeError: the file system does not support locks.
        """
        self.path = path
        self._note = note
        self._descriptor = self._open()
        if not self._take():
            os.close(self._descriptor)
            raise AlreadyRunning(f"another process holds {path}. Nothing to do")

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)

    def _take(self) -> bool:
        until = time.monotonic() + PATIENCE_SECONDS
        while not self._try():
            if time.monotonic() > until:
                return False
            time.sleep(0.02)
        os.ftruncate(self._descriptor, 0)
        self._write()
        return True

    def _write(self) -> None:
        """Write the facts that other processes read about the holder, always at the same length, to replace the old
        ones.
        """
        facts = f"{os.getpid()}\n{self._note}\n{process_space()}\n{time.monotonic():015.3f}\n"
        os.pwrite(self._descriptor, facts.encode(), 0)

    def _try(self) -> bool:
        try:
            lock_file(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, self.path.parent)
        except BlockingIOError:
            return False
        return True

    def touch(self) -> None:
        """Record the heartbeat of the holder: write the time into the lock file, which also changes the file's time."""
        with contextlib.suppress(OSError):
            self._write()

    def is_in_place(self) -> bool:
        """Return True if ``path`` is still the locked file, neither removed nor replaced."""
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.stat(self.path))
        except OSError:
            return False

    def put_back(self) -> bool:
        """Create and lock the file again if it was deleted or replaced; return False if another process holds it now.

        Without the file, other processes believe that this one has exited, and can neither stop it nor start another.
        """
        if self.is_in_place():
            return True
        former = self._descriptor
        try:
            self._descriptor = self._open()
        except OSError:
            return True  # the folder is gone or can't be written, which others notice
        if not self._take():
            os.close(self._descriptor)
            self._descriptor = former
            return False
        os.close(former)
        return True

    def note_end(self) -> None:
        """Record that the holder ends as intended, by emptying the file; the lock is held until it has ended."""
        with contextlib.suppress(OSError):
            os.ftruncate(self._descriptor, 0)

    def release(self) -> None:
        """Release the lock; the file is kept."""
        os.close(self._descriptor)


def process_space() -> str:
    """Return the PID namespace of this process (each container has its own); "" if unknown."""
    with contextlib.suppress(OSError):
        return os.readlink("/proc/self/ns/pid")
    return ""


def is_process_alive(pid: int) -> bool:
    """Return False only if the process is known not to be running."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


# -- The heartbeat of the watcher and the worker: a time in the lock file, and systemd's watchdog. The time is that of
# ``time.monotonic``, a clock that all processes share, that nobody can set, and that stops while the machine sleeps.
#
# A beat means progress: the process calls ``beat`` only after it has done something. A process that hangs sends no more
# beats, and one of its own threads then terminates it. launchd has no watchdog, but it restarts a process that failed.

#: A process without a beat for more than this many seconds counts as hanging. The slowest step, a backup of a large
#: memory.db on a slow disk, takes much less time.
MAX_SILENCE_SECONDS = 300
#: Minimum time between two beats that are recorded, in seconds.
MIN_INTERVAL_SECONDS = 1.0
#: Seconds between two checks by the thread that terminates a hanging process.
LOOK_SECONDS = 5.0


class Heartbeat:
    """Records the beats of the process that holds a lock."""

    def __init__(self, lock: ProcessLock) -> None:
        """Read systemd's address from the environment and remove it, so that no child process sends heartbeats."""
        self._lock = lock
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        #: When the process last beat, by the monotonic clock.
        self.last_beat_seconds = float("-inf")
        self._is_stopping = threading.Event()

    def announce_ready(self) -> None:
        """Notify systemd that startup is complete. From now on, the process must send heartbeats."""
        self.beat()
        arguments = (weakref.ref(self), self._is_stopping)
        threading.Thread(target=_end_if_silent, args=arguments, name="heartbeat", daemon=True).start()
        self._notify("READY=1")

    def beat(self) -> None:
        """Record progress; at most one beat per second is written."""
        now = time.monotonic()
        if now - self.last_beat_seconds >= MIN_INTERVAL_SECONDS:
            self.last_beat_seconds = now
            if not self._lock.put_back():
                logger.warning("action=stop reason=another process has taken %s", self._lock.path.name)
                end_now(EXIT_RESTART)
            self._lock.touch()
            self._notify("WATCHDOG=1")

    def announce_stop(self) -> None:
        """Notify systemd that the process is stopping on purpose."""
        self._is_stopping.set()
        self._notify("STOPPING=1")

    def _notify(self, message: str) -> None:
        """Send one datagram to systemd; a failure is ignored."""
        if not self._address:
            return
        # An address that begins with @ is an abstract one, whose first byte is NUL.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), address)


def _end_if_silent(of_process: weakref.ref[Heartbeat], is_stopping: threading.Event) -> None:
    """Print a traceback of all threads and exit with ``EXIT_RESTART`` if there is no beat for too long.

    Returns once the process stops on purpose, or its heartbeat object no longer exists.
    """
    last_beat, silent_seconds, last_look = float("-inf"), 0.0, time.monotonic()
    while not is_stopping.wait(LOOK_SECONDS):
        heartbeat = of_process()
        if heartbeat is None:
            return
        beat, now = heartbeat.last_beat_seconds, time.monotonic()
        del heartbeat
        # A long gap between two checks means a laptop that slept, or this thread's own delay.
        silent_seconds = 0.0 if beat != last_beat else silent_seconds + min(now - last_look, 2 * LOOK_SECONDS)
        last_beat, last_look = beat, now
        if silent_seconds > MAX_SILENCE_SECONDS:
            with contextlib.suppress(OSError, ValueError, RuntimeError):
                faulthandler.dump_traceback(2)
            os._exit(EXIT_RESTART)
