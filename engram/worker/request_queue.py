"""Complete requests that wait for a thread: bounded, the oldest first."""

from __future__ import annotations

import threading
from collections import deque

from engram.worker.reception import Client

Request = tuple[Client, bytes | None]


class RequestQueue:
    """A queue of requests. Any thread may call any method."""

    def __init__(self, limit: int) -> None:
        """At most ``limit`` requests wait."""
        self._limit = limit
        self._waiting: deque[Request] = deque()
        self._changed = threading.Condition()
        self._is_closed = False

    def put(self, client: Client, request: bytes | None) -> Request | None:
        """Add a request; returns the one that had to go: the one that waited longest, or this one after the end."""
        with self._changed:
            if self._is_closed:
                return client, request
            dropped = self._waiting.popleft() if len(self._waiting) >= self._limit else None
            self._waiting.append((client, request))
            self._changed.notify()
            return dropped

    def take(self) -> Request | None:
        """The request that waited longest; waits for one. None once the queue is closed."""
        with self._changed:
            while not self._waiting and not self._is_closed:
                self._changed.wait()
            return None if self._is_closed else self._waiting.popleft()

    def close(self) -> None:
        """Let every thread go; requests that still wait are dropped."""
        with self._changed:
            self._is_closed = True
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for client, _ in waiting:
            client.connection.close()
