"""Long poll: requests that wait until something changes, woken by one LISTEN connection of the service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading

import psycopg

logger = logging.getLogger(__name__)

#: How often a waiting request looks by itself, in seconds: a notification may be lost, or a pooler lies between.
LOOK_SECONDS = 5.0
#: Requests that wait at one time at most; further ones are answered at once.
MAX_WAITING = 2_000


class Doorbell:
    """Wakes every waiting request when any space changed; each looks for itself."""

    def __init__(self, dsn: str) -> None:
        """Prepare, but do not connect."""
        self._dsn = dsn
        self._loop: asyncio.AbstractEventLoop | None = None
        self._changed: asyncio.Event | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="hub-listen", daemon=True)
        self.waiting = 0

    def start(self) -> None:
        """Begin to listen; call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._thread.start()

    def stop(self) -> None:
        """End listening."""
        self._stopped.set()
        self._thread.join(timeout=5)

    async def wait(self, seconds: float) -> None:
        """Return after a change, or after ``seconds``."""
        assert self._changed is not None
        self.waiting += 1
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), min(seconds, LOOK_SECONDS))
        finally:
            self.waiting -= 1

    def _ring(self) -> None:
        assert self._changed is not None
        self._changed.set()
        self._changed = asyncio.Event()

    def _listen(self) -> None:
        assert self._loop is not None
        while not self._stopped.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=10) as connection:
                    connection.execute("LISTEN hub_changed")
                    while not self._stopped.is_set():
                        for _ in connection.notifies(timeout=0.5, stop_after=1):
                            self._loop.call_soon_threadsafe(self._ring)
            except psycopg.Error as error:
                logger.warning("action=listen failed=%s", type(error).__name__)
                self._stopped.wait(2.0)
            except RuntimeError:
                return  # the loop is closed
