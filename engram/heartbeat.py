"""The heartbeat of watcher and worker: the time of the lock file for every reader, and systemd's watchdog.

A beat means progress: the process calls ``beat`` only after it did something. One that hangs falls silent.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time

from engram.process_lock import ProcessLock

#: A process that is silent for longer than this hangs, in seconds. Its slowest step (a backup of a large memory.db on
#: a slow disk) is much shorter.
MAX_SILENCE_SECONDS = 300
#: Shortest time between two beats that are recorded, in seconds.
MIN_INTERVAL_SECONDS = 1.0


class Heartbeat:
    """Records the beats of the process that holds a lock."""

    def __init__(self, lock: ProcessLock) -> None:
        """Read systemd's address from the environment, and remove it there: child processes must not answer for us."""
        self._lock = lock
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        self._beat_seconds = float("-inf")

    def announce_ready(self) -> None:
        """Tell systemd that the start is over: the process works from now on."""
        self.beat()
        self._notify("READY=1")

    def beat(self) -> None:
        """Record progress. Cheap: at most one beat a second is recorded."""
        now = time.monotonic()
        if now - self._beat_seconds >= MIN_INTERVAL_SECONDS:
            self._beat_seconds = now
            self._lock.touch()
            self._notify("WATCHDOG=1")

    def announce_stop(self) -> None:
        """Tell systemd that the process stops on purpose."""
        self._notify("STOPPING=1")

    def _notify(self, message: str) -> None:
        """Send one datagram to systemd; a failure is ignored."""
        if not self._address:
            return
        # An address that begins with @ is not in the file system: a NUL byte stands for the @.
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(message.encode(), address)
