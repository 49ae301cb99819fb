"""A client's connection to engram.sock, and the listening socket."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import sys
from dataclasses import dataclass, field
from pathlib import Path

from engram.socketpath import bind_at


@dataclass(eq=False, slots=True)
class Client:
    """The connection of one client, with what was received and what is still to be sent."""

    connection: socket.socket
    #: Monotonic time at which its present step times out, in seconds.
    deadline: float
    received: bytearray = field(default_factory=bytearray)
    #: The rest of an answer that is still to be sent.
    answer: memoryview = field(default_factory=lambda: memoryview(b""))
    #: Monotonic time at which the request was complete, in seconds.
    complete_at: float = 0.0
    #: Monotonic time until which the client is shown signs of life, in seconds.
    lives_until: float = 0.0

    @property
    def is_gone(self) -> bool:
        """True if the client has left. Only Linux can tell that from a finished request."""
        if sys.platform != "linux":
            return False
        poller = select.poll()
        try:
            poller.register(self.connection, 0)
            return bool(poller.poll(0))
        except (OSError, ValueError):
            return True


def open_listener(path: Path) -> socket.socket:
    """Return a socket that listens at ``path``, replacing what is there. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bind_at(listener, path)
    listener.listen(1)
    return listener


def close_listener(listener: socket.socket) -> None:
    """Close a listening socket; clients that wait to be accepted are disconnected."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def is_same_user(connection: socket.socket) -> bool:
    """Return False if the system says that the client runs as another user."""
    try:
        if hasattr(socket, "SO_PEERCRED"):
            data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            uid = struct.unpack("3i", data)[1]
        elif hasattr(socket, "LOCAL_PEERCRED"):
            data = connection.getsockopt(0, socket.LOCAL_PEERCRED, 76)
            uid = struct.unpack_from("II", data)[1]
        else:
            return True
    except (OSError, struct.error):
        return True
    return bool(uid == os.geteuid())
