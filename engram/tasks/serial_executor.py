"""One heavy task at a time, without a thread that waits: what comes meanwhile is run by the one that is at it."""

from __future__ import annotations

import threading
from collections.abc import Callable


class HeavyLane:
    """Heavy tasks, one after the other, each key at most once in line.

    What stands in line is lost when the process ends; memory.db says what is due.
    """

    def __init__(self) -> None:
        """Nobody is in line."""
        self._guard = threading.Lock()
        self._line: dict[str, Callable[[], object]] = {}
        self._is_busy = False
        self._is_closed = False

    @property
    def is_busy(self) -> bool:
        """True while a heavy task runs."""
        return self._is_busy

    @property
    def is_closed(self) -> bool:
        """True once the process is to stop: a long task ends at its next step."""
        return self._is_closed

    @property
    def length(self) -> int:
        """How many stand in line."""
        return len(self._line)

    def run(self, key: str, action: Callable[[], object]) -> None:
        """Run ``action`` now and then everything in line; or, while another thread does, get in line and return.

        ``action`` must not raise; if it does, the line goes on with the next task that comes.
        """
        if self._join(key, action):
            self._work()

    def _join(self, key: str, action: Callable[[], object]) -> bool:
        """Get in line; True where the caller is to work the line off."""
        with self._guard:
            if self._is_closed:
                return False
            self._line.setdefault(key, action)
            if self._is_busy:
                return False
            self._is_busy = True
            return True

    def _work(self) -> None:
        try:
            while (following := self._next()) is not None:
                following()
        except BaseException:
            with self._guard:
                self._is_busy = False
            raise

    def _next(self) -> Callable[[], object] | None:
        with self._guard:
            if self._is_closed or not self._line:
                self._is_busy = False
                return None
            return self._line.pop(next(iter(self._line)))

    def close(self) -> None:
        """Let nobody begin any more."""
        with self._guard:
            self._is_closed = True
            self._line.clear()


class BackgroundLane(HeavyLane):
    """The same in a thread of its own, for tasks that wait long for a language model: no worker thread waits."""

    def __init__(self, name: str) -> None:
        """``name``: that of the thread, which lives while there is something in line."""
        super().__init__()
        self._name = name
        self._thread: threading.Thread | None = None

    def run(self, key: str, action: Callable[[], object]) -> None:
        """Get in line and return at once."""
        if self._join(key, action):
            self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
            self._thread.start()

    def wait(self, seconds: float) -> bool:
        """Wait until the line is worked off or closed; False where the time was too short."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)
        return thread is None or not thread.is_alive()
