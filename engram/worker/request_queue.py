"""Complete requests that wait for a thread: bounded, the oldest first."""

from __future__ import annotations

import threading
from collections import deque

from engram.worker.connection import Client

Request = tuple[Client, bytes | None]


class RequestQueue:
    """A bounded queue of requests. Any thread may call any method."""

    def __init__(self, limit: int) -> None:
        """Create a queue for at most ``limit`` requests."""
        self._limit = limit
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, client: Client, request: bytes | None) -> Request | None:
        """Add a request; return the one that is dropped for it: the oldest, or this one once the queue is closed."""
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
        """Monotonic time at which the oldest waiting request was complete, in seconds; None while none waits."""
        with self._changed:
            return self._waiting[0][0].complete_at if self._waiting else None

    def close(self) -> None:
        """Release every waiting thread, and drop the requests that still wait."""
        with self._changed:
            self._is_closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for client, _ in waiting:
            client.connection.close()
