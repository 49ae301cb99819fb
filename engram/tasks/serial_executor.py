"""Runs heavy actions one at a time without a thread that waits: the thread at work also runs what is queued
meanwhile.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from engram import process_limits


class SerialExecutor:
    """Run actions one after the other; each key is queued at most once.

    Queued actions are lost when the process ends: memory.db still says what is due.
    """

    def __init__(self) -> None:
        """Create an executor with an empty queue."""
        self._guard = threading.Lock()
        self._queue: dict[str, Callable[[], object]] = {}
        self._is_busy = False
        self._is_closed = False
        #: Monotonic time at which the running action started, in seconds; None while none runs.
        self._started_seconds: float | None = None

    @property
    def running_seconds(self) -> float:
        """How long the running action has run, in seconds; 0 while none runs."""
        started_seconds = self._started_seconds
        return 0.0 if started_seconds is None else time.monotonic() - started_seconds

    @property
    def is_busy(self) -> bool:
        """True while an action runs."""
        return self._is_busy

    @property
    def is_closed(self) -> bool:
        """True once the process is to stop: a long action ends at its next step."""
        return self._is_closed

    @property
    def queued(self) -> int:
        """Return the number of queued actions."""
        return len(self._queue)

    def run(self, key: str, action: Callable[[], object]) -> None:
        """Run ``action`` and everything queued after it; while another thread is at work, queue it and return.

        ``action`` must not raise. If it does, the queue continues with the next call.
        """
        if self._enqueue(key, action):
            self._work()

    def _enqueue(self, key: str, action: Callable[[], object]) -> bool:
        """Queue an action; return True if the caller is to work the queue off."""
        with self._guard:
            if self._is_closed:
                return False
            self._queue.setdefault(key, action)
            if self._is_busy:
                return False
            self._is_busy = True
            return True

    def _work(self) -> None:
        try:
            while (action := self._next()) is not None:
                self._started_seconds = time.monotonic()
                try:
                    with process_limits.giving_way():
                        process_limits.pause()
                        action()
                finally:
                    self._started_seconds = None
        except BaseException:
            with self._guard:
                self._is_busy = False
            raise

    def _next(self) -> Callable[[], object] | None:
        with self._guard:
            if self._is_closed or not self._queue:
                self._is_busy = False
                return None
            return self._queue.pop(next(iter(self._queue)))

    def close(self) -> None:
        """Drop the queue and start nothing from now on."""
        with self._guard:
            self._is_closed = True
            self._queue.clear()


class BackgroundExecutor(SerialExecutor):
    """A serial executor with its own thread, for tasks that wait long for a language model."""

    def __init__(self, name: str) -> None:
        """Create an executor whose thread is called ``name``; the thread lives while there is something to run."""
        super().__init__()
        self._name = name
        self._thread: threading.Thread | None = None

    def run(self, key: str, action: Callable[[], object]) -> None:
        """Queue ``action`` and return immediately."""
        if self._enqueue(key, action):
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until the queue is worked off or closed; return False if that takes longer than ``seconds``."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()
