"""Read requests on engram.sock in one thread, so that no client can delay another.

Only a complete request occupies an answering thread. A silent or slow client takes up a file descriptor until it times
out or is replaced by a newer client.
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
from pathlib import Path

from engram.system.socketpath import bind_at

# -- A client's connection to engram.sock, and the listening socket.


@dataclass(eq=False, slots=True)
class Client:
    """A client's connection, with the data received and the data still to be sent."""

    connection: socket.socket
    #: Monotonic time at which the current step will time out, in seconds.
    deadline: float
    received: bytearray = field(default_factory=bytearray)
    #: The unsent part of the answer.
    answer: memoryview = field(default_factory=lambda: memoryview(b""))
    #: Monotonic time at which the request became complete, in seconds.
    complete_at: float = 0.0
    #: Monotonic time until which the client is sent signs of life, in seconds.
    lives_until: float = 0.0

    @property
    def is_gone(self) -> bool:
        """True if the client has disconnected. This can be distinguished from a finished request only on Linux."""
        if sys.platform != "linux":
            return False
        poller = select.poll()
        try:
            poller.register(self.connection, 0)
            return bool(poller.poll(0))
        except (OSError, ValueError):
            return True


def open_listener(path: Path) -> socket.socket:
    """Return a socket that listens at ``path``, replacing any existing one. Raises OSError."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bind_at(listener, path)
    listener.listen(1)
    return listener


def close_listener(listener: socket.socket) -> None:
    """Close a listening socket, disconnecting clients that are waiting to be accepted."""
    with contextlib.suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def is_same_user(connection: socket.socket) -> bool:
    """Return False if the system reports that the client runs as another user."""
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


# -- Queue complete requests until a thread is free; the queue is bounded, and the oldest request comes first.

Request = tuple[Client, bytes | None]


class RequestQueue:
    """A bounded queue of requests. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, client: Client, request: bytes | None) -> Request | None:
        """Add a request; return the one dropped to make room: the oldest, or this one if the queue is closed."""
        with self._changed:
            if self._is_closed:
                return client, request
            dropped = self._waiting.popleft() if len(self._waiting) >= self._limit else None
            self._waiting.append((client, request))
            self._changed.notify()
            return dropped

    def take(self) -> Request | None:
        """Wait for a request and return the oldest; None once the queue is closed."""
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            return None if self._is_closed else self._waiting.popleft()

    @property
    def oldest_at(self) -> float | None:
        """Monotonic time at which the oldest waiting request became complete, in seconds; None if there is none."""
        with self._changed:
            return self._waiting[0][0].complete_at if self._waiting else None

    def close(self) -> None:
        """Release all waiting threads and drop the waiting requests."""
        with self._changed:
            self._is_closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for client, _ in waiting:
            client.connection.close()


logger = logging.getLogger(__name__)

#: Maximum size of a request, in bytes.
MAX_REQUEST_BYTES = 1_000_000
#: How long a client may be silent, and how long its request may take after the first byte, in seconds.
IDLE_SECONDS = 10.0
REQUEST_SECONDS = 5.0
#: Maximum time for a client to read a long answer, in seconds.
SEND_SECONDS = 10.0
#: Maximum number of incomplete requests at a time; above that, the oldest is dropped.
MAX_READING = 128
#: Maximum number of long answers sent at a time.
MAX_SENDING = 16
#: Maximum size of all incomplete requests, in bytes; above that, the largest is dropped.
MAX_BUFFERED_BYTES = 16_000_000
#: Number of connections to accept before serving other clients again.
ACCEPT_BATCH = 64
_BACKLOG = 1024
_CHUNK_BYTES = 65_536
#: Maximum wait for an event before deadlines are checked, in seconds.
_MAX_WAIT_SECONDS = 1.0
#: Interval between signs of life, in seconds; shorter than the time for which a hook waits for one.
SIGN_SECONDS = 0.1
#: A sign of life: whitespace before the JSON answer.
_SIGN = b" "
_NO_MORE_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Reception:
    """Accepts clients, reads their requests and passes on complete ones."""

    def __init__(self, listener: socket.socket, on_request: Callable[[Client, bytes | None], None]) -> None:
        """``on_request`` is called with each complete request, or None if one is too long; it must not block."""
        self._on_request = on_request
        self._listener: socket.socket | None = listener
        self._selector = selectors.DefaultSelector()
        self._reading: dict[Client, None] = {}
        self._sending: dict[Client, None] = {}
        #: Clients to send signs of life while their answers are being prepared. The lock also guards their sockets.
        self._patient: dict[Client, None] = {}
        self._patient_lock = threading.Lock()
        self._signed_at = 0.0
        self._buffered = 0
        self._calls: deque[Callable[[], None]] = deque()
        self._waker, self._wake = socket.socketpair()
        for end in (self._waker, self._wake):
            end.setblocking(False)
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="reception", daemon=True)

    def start(self) -> None:
        self._selector.register(self._waker, selectors.EVENT_READ)
        self._listen(self._listener)
        self._thread.start()

    def replace_listener(self, listener: socket.socket) -> None:
        """Accept clients on another socket from now on. Any thread may call this."""
        self._call(lambda: self._listen(listener))

    def send_rest(self, client: Client) -> None:
        """Send the rest of an answer as the client reads it. Any thread may call this."""
        self._call(lambda: self._begin_sending(client))

    def show_life(self, client: Client, seconds: float) -> None:
        """Send signs of life until ``begin_answer``; hang up after ``seconds``. Only ``on_request`` may call this."""
        client.lives_until = time.monotonic() + seconds
        with self._patient_lock:
            self._patient[client] = None
            self._sign(client)

    def begin_answer(self, client: Client) -> None:
        """Stop sending a client signs of life. Any thread may call this."""
        with self._patient_lock:
            self._patient.pop(client, None)

    def close(self, seconds: float) -> None:
        """Drop every client whose answer is not being prepared, and stop the thread."""
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
                # A single client must never stop the service for all others.
                logger.warning("action=reception failed=%s", type(error).__name__, exc_info=error)
                time.sleep(0.05)
        for client in (*self._reading, *self._sending):
            self._drop(client)
        if self._listener is not None:
            close_listener(self._listener)
        self._selector.close()
        for end in (self._waker, self._wake):
            end.close()

    def _step(self) -> None:
        for key, _ in self._selector.select(SIGN_SECONDS if self._patient else _MAX_WAIT_SECONDS):
            if key.fileobj is self._waker:
                with contextlib.suppress(BlockingIOError):
                    while self._waker.recv(_CHUNK_BYTES):
                        pass
            elif key.fileobj is self._listener:
                self._accept()
            elif isinstance(key.data, Client) and key.data in self._reading:
                self._read(key.data)
            elif isinstance(key.data, Client) and key.data in self._sending:
                self._send(key.data)
        while self._calls:
            self._calls.popleft()()
        now = time.monotonic()
        if self._patient and now - self._signed_at >= SIGN_SECONDS / 2:
            self._signed_at = now
            self._sign_all(now)
        for client in [client for client in (*self._reading, *self._sending) if client.deadline < now]:
            self._drop(client)

    def _sign_all(self, now: float) -> None:
        """Send every patient client a sign of life, or hang up if it has waited long enough."""
        with self._patient_lock:
            for client in list(self._patient):
                if client.lives_until > now:
                    self._sign(client)
                    continue
                del self._patient[client]
                # Leave the socket open, so that the thread preparing the answer notices that the client is gone.
                with contextlib.suppress(OSError):
                    client.connection.shutdown(socket.SHUT_RDWR)

    def _sign(self, client: Client) -> None:
        try:
            client.connection.send(_SIGN)
        except OSError:
            self._patient.pop(client, None)

    def _call(self, action: Callable[[], None]) -> None:
        self._calls.append(action)
        with contextlib.suppress(OSError):
            self._wake.send(b"!")

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
            # A hook has usually sent everything by now.
            self._read(client)
            if len(self._reading) > MAX_READING:
                self._drop_one()

    def _read(self, client: Client) -> None:
        """Read the data that has arrived, up to one complete request, so that no client delays the others."""
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
                client.deadline = time.monotonic() + REQUEST_SECONDS
            client.received += chunk
            self._buffered += len(chunk)
            if len(client.received) > MAX_REQUEST_BYTES:
                self._finish(client, None)
                return
        while self._buffered > MAX_BUFFERED_BYTES:
            self._drop(max(self._reading, key=lambda client: len(client.received)))

    def _finish(self, client: Client, request: bytes | None) -> None:
        self._leave(client)
        client.received = bytearray()
        client.complete_at = time.monotonic()
        self._on_request(client, request)

    def _begin_sending(self, client: Client) -> None:
        if len(self._sending) >= MAX_SENDING:
            self._drop(next(iter(self._sending)))
        client.deadline = time.monotonic() + SEND_SECONDS
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
        """Drop the client with the request that has taken longest, if any.

        A client that has sent little may be a new hook.
        """
        client = next(iter(self._reading), None)
        if client is None:
            return False
        self._drop(client)
        return True

    def _leave(self, client: Client) -> None:
        """Stop serving a client without closing its connection."""
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
