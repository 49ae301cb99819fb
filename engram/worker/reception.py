"""Connections of engram.sock: one thread reads them all, so that no client can keep another one waiting.

A connection takes a thread only once its request is complete. Silent and slow clients cost a file descriptor until
their time is up or a newer client needs the room.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import selectors
import socket
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

logger = logging.getLogger(__name__)

#: Longest request, in bytes.
MAX_REQUEST_BYTES = 1_000_000
#: How long a client may stay silent, and how long its request may take from the first byte on, in seconds.
IDLE_SECONDS = 10.0
REQUEST_SECONDS = 5.0
#: How long a client may take to read a long answer, in seconds.
SEND_SECONDS = 10.0
#: Incomplete requests at most; beyond, the oldest goes.
MAX_READING = 128
#: Long answers that are being sent at most.
MAX_SENDING = 16
#: Bytes of incomplete requests in memory at most; beyond, the largest request goes.
MAX_BUFFERED_BYTES = 16_000_000
#: Connections accepted before other clients are looked after again.
ACCEPT_BATCH = 64
_BACKLOG = 1024
_CHUNK_BYTES = 65_536
#: Longest wait for an event, in seconds: deadlines are looked at after it.
_LOOK_SECONDS = 1.0
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(eq=False, slots=True)
class Client:
    """One connection."""

    connection: socket.socket
    #: Steady time until which its present step may take, in seconds.
    until: float
    received: bytearray = field(default_factory=bytearray)
    #: What is left to be sent.
    answer: memoryview = field(default_factory=lambda: memoryview(b""))
    #: Steady time at which the request was complete, in seconds.
    complete_at: float = 0.0

    @property
    def is_gone(self) -> bool:
        """True where nobody is at the other end any more. Only Linux can tell that from a finished request."""
        if sys.platform != "linux":
            return False
        poller = select.poll()
        try:
            poller.register(self.connection, 0)
            return bool(poller.poll(0))
        except (OSError, ValueError):
            return True


class Reception:
    """Accepts clients, reads their requests and hands over those that are complete."""

    def __init__(self, listener: socket.socket, on_request: Callable[[Client, bytes | None], None]) -> None:
        """``on_request`` gets each complete request, None for one that is too long; it must not wait."""
        self._on_request = on_request
        self._listener: socket.socket | None = listener
        self._selector = selectors.DefaultSelector()
        self._reading: dict[Client, None] = {}
        self._sending: dict[Client, None] = {}
        self._buffered = 0
        self._todo: deque[Callable[[], None]] = deque()
        self._awake, self._bell = socket.socketpair()
        for end in (self._awake, self._bell):
            end.setblocking(False)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="reception", daemon=True)

    def start(self) -> None:
        """Accept clients from now on."""
        self._selector.register(self._awake, selectors.EVENT_READ)
        self._listen(self._listener)
        self._thread.start()

    def replace_listener(self, listener: socket.socket) -> None:
        """Accept at another socket from now on. Any thread may call this."""
        self._call(lambda: self._listen(listener))

    def send_rest(self, client: Client) -> None:
        """Send what is left of an answer as the client reads it. Any thread may call this."""
        self._call(lambda: self._begin_sending(client))

    def close(self, seconds: float) -> None:
        """Drop every client that is not being answered, and end the thread."""
        self._is_closing = True
        self._call(lambda: None)
        if self._thread.is_alive():
            self._thread.join(seconds)

    # -- the thread

    def _run(self) -> None:
        while not self._is_closing:
            try:
                self._step()
            except Exception as error:
                # One client must never end the service of all.
                logger.warning("action=reception failed=%s", type(error).__name__, exc_info=error)
                time.sleep(0.05)
        for client in (*self._reading, *self._sending):
            self._drop(client)
        if self._listener is not None:
            close_listener(self._listener)
        self._selector.close()
        for end in (self._awake, self._bell):
            end.close()

    def _step(self) -> None:
        for key, _ in self._selector.select(_LOOK_SECONDS):
            if key.fileobj is self._awake:
                with contextlib.suppress(BlockingIOError):
                    while self._awake.recv(_CHUNK_BYTES):
                        pass
            elif key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, Client) and key.data in self._reading:
                self._read(key.data)
            elif isinstance(key.data, Client) and key.data in self._sending:
                self._send(key.data)
        while self._todo:
            self._todo.popleft()()
        now = time.monotonic()
        for client in [one for one in (*self._reading, *self._sending) if one.until < now]:
            self._drop(client)

    def _call(self, action: Callable[[], None]) -> None:
        self._todo.append(action)
        with contextlib.suppress(OSError):
            self._bell.send(b"!")

    def _listen(self, listener: socket.socket | None) -> None:
        old, self._listener = self._listener, listener
        if old is not None and old is not listener:
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(old)
            close_listener(old)
        if listener is not None:
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._selector.register(listener, selectors.EVENT_READ)

    def _accept(self) -> None:
        for _ in range(ACCEPT_BATCH):
            if self._listener is None:
                return
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _NO_MORE_FILES and self._drop_one():
                    continue
                time.sleep(0.01)
                return
            if not is_same_user(connection):
                connection.close()
                continue
            connection.setblocking(False)
            client = Client(connection, time.monotonic() + IDLE_SECONDS)
            self._reading[client] = None
            self._selector.register(connection, selectors.EVENT_READ, client)
            # A hook has mostly sent everything by now.
            self._read(client)
            if len(self._reading) > MAX_READING:
                self._drop_one()

    def _read(self, client: Client) -> None:
        """Take what has come: at most one whole request, so that a large one keeps nobody waiting."""
        while True:
            try:
                chunk = client.connection.recv(_CHUNK_BYTES)
            except (BlockingIOError, InterruptedError):
                break
            except OSError:
                self._drop(client)
                return
            if not chunk:
                self._finish(client, bytes(client.received))
                return
            if not client.received:
                client.until = time.monotonic() + REQUEST_SECONDS
            client.received += chunk
            self._buffered += len(chunk)
            if len(client.received) > MAX_REQUEST_BYTES:
                self._finish(client, None)
                return
        while self._buffered > MAX_BUFFERED_BYTES:
            self._drop(max(self._reading, key=lambda one: len(one.received)))

    def _finish(self, client: Client, request: bytes | None) -> None:
        self._leave(client)
        client.received = bytearray()
        client.complete_at = time.monotonic()
        self._on_request(client, request)

    def _begin_sending(self, client: Client) -> None:
        if len(self._sending) >= MAX_SENDING:
            self._drop(next(iter(self._sending)))
        client.until = time.monotonic() + SEND_SECONDS
        self._sending[client] = None
        try:
            self._selector.register(client.connection, selectors.EVENT_WRITE, client)
        except (OSError, ValueError, KeyError):
            self._drop(client)

    def _send(self, client: Client) -> None:
        try:
            client.answer = client.answer[client.connection.send(client.answer) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._drop(client)
            return
        if not client.answer:
            self._drop(client)

    def _drop_one(self) -> bool:
        """Drop the client that has been at its request longest; False where there is none.

        Not the one that has sent least: a hook that was accepted a moment ago has sent nothing yet.
        """
        client = next(iter(self._reading), None)
        if client is None:
            return False
        self._drop(client)
        return True

    def _leave(self, client: Client) -> None:
        """Look after a client no more; its connection stays open."""
        with contextlib.suppress(KeyError, ValueError, OSError):
            self._selector.unregister(client.connection)
        if client in self._reading:
            self._buffered -= len(client.received)
            del self._reading[client]
        self._sending.pop(client, None)

    def _drop(self, client: Client) -> None:
        self._leave(client)
        with contextlib.suppress(OSError):
            client.connection.close()


def close_listener(listener: socket.socket) -> None:
    """Close a listening socket; clients that wait to be accepted are let go."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def is_same_user(connection: socket.socket) -> bool:
    """False where the system says that somebody else is at the other end."""
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
