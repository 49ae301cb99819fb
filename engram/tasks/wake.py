"""``wake.sock``: a datagram that tells an idle worker to look at the queue."""

from __future__ import annotations

import contextlib
import os
import select
import socket
from pathlib import Path

from engram.socketpath import bind_at, socket_address

#: Datagrams read at one time, so that a flood of them delays no task.
MAX_DATAGRAMS = 64


class WakeListener:
    """The worker's end. Any number of threads may wait; any thread may call ``release``."""

    def __init__(self, path: Path) -> None:
        """Bind ``path``, replacing any stale socket. Call with the worker's lock held. Raises OSError."""
        self.path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        try:
            bind_at(self._socket, path)
        except OSError:
            self._socket.close()
            raise
        self._released = os.pipe()

    def wait(self, seconds: float) -> bool:
        """Return after a datagram (then True), after ``release``, or after ``seconds``."""
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
        """Bind the path again, for example after somebody removed the socket file. Raises OSError."""
        fresh = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        fresh.setblocking(False)
        try:
            bind_at(fresh, self.path)
        except OSError:
            fresh.close()
            raise
        stale, self._socket = self._socket, fresh
        stale.close()

    def release(self) -> None:
        """Let every thread return from ``wait`` now; from now on ``wait`` returns immediately."""
        os.write(self._released[1], b"!")

    def close(self) -> None:
        """Close the socket and remove its file. No thread may still wait."""
        self._socket.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        for descriptor in self._released:
            os.close(descriptor)


class WakeSender:
    """A producer's end."""

    def __init__(self, path: Path) -> None:
        """Nothing is opened before ``send``."""
        self.path = path
        self._socket: socket.socket | None = None

    def send(self) -> None:
        """Wake the worker if there is one; never waits and never fails."""
        with contextlib.suppress(OSError):
            if self._socket is None:
                sender = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                sender.setblocking(False)
                self._socket = sender
            with socket_address(self.path) as address:
                self._socket.sendto(b"!", address)
