"""Long poll: requests that wait until a space changes, woken by one LISTEN connection of the service."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Collection, Iterator

import psycopg

logger = logging.getLogger(__name__)

#: How often a waiting request looks by itself, in seconds: where notifications arrive; and where they may not, as
#: behind a pooler or while the database is away.
LOOK_SECONDS, DEAF_LOOK_SECONDS = 30.0, 5.0
#: Requests that wait at one time at most; further ones are answered at once.
MAX_WAITING = 2_000


class Doorbell:
    """Wakes the requests that wait for a space when it changed; each looks for itself."""

    def __init__(self, dsn: str, *, is_pooled: bool = False) -> None:
        """Prepare, but do not connect. Arguments as of ``Database``."""
        self._dsn = dsn
        self._is_pooled = is_pooled
        self._loop: asyncio.AbstractEventLoop | None = None
        #: Space → what wakes the requests that wait for it. Used in the event loop alone.
        self._bells: dict[int, set[asyncio.Event]] = {}
        self._is_deaf = True
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="hub-listen", daemon=True)
        self.waiting = 0

    def start(self) -> None:
        """Begin to listen; call it in the event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread.start()

    def stop(self) -> None:
        """End listening."""
        self._stopped.set()
        self._thread.join(timeout=5)

    @contextlib.contextmanager
    def listening(self, spaces: Collection[int]) -> Iterator[asyncio.Event]:
        """Give a request a bell that rings for its spaces. What changes before it looks is not missed."""
        bell = asyncio.Event()
        for ns_id in spaces:
            self._bells.setdefault(ns_id, set()).add(bell)
        self.waiting += 1
        try:
            yield bell
        finally:
            self.waiting -= 1
            for ns_id in spaces:
                bells = self._bells[ns_id]
                bells.discard(bell)
                if not bells:
                    del self._bells[ns_id]

    async def wait(self, bell: asyncio.Event, seconds: float) -> None:
        """Return when the bell rings, when it is time to look, or after ``seconds``."""
        look = DEAF_LOOK_SECONDS if self._is_deaf else LOOK_SECONDS
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(bell.wait(), min(seconds, look))

    def _ring(self, ns_id: int) -> None:
        for bell in self._bells.get(ns_id, ()):
            bell.set()

    def _ring_all(self, is_deaf: bool) -> None:
        """Let everybody look: notifications may have been missed."""
        self._is_deaf = is_deaf
        for bells in self._bells.values():
            for bell in bells:
                bell.set()

    def _listen(self) -> None:
        assert self._loop is not None
        while not self._stopped.is_set():
            try:
                with psycopg.connect(self._dsn, autocommit=True, connect_timeout=10) as connection:
                    connection.execute("LISTEN hub_changed")
                    self._loop.call_soon_threadsafe(self._ring_all, self._is_pooled)
                    while not self._stopped.is_set():
                        for notification in connection.notifies(timeout=0.5, stop_after=1):
                            self._loop.call_soon_threadsafe(self._ring, int(notification.payload))
            except psycopg.Error as error:
                logger.warning("action=listen failed=%s", type(error).__name__)
                with contextlib.suppress(RuntimeError):
                    self._loop.call_soon_threadsafe(self._ring_all, True)
                self._stopped.wait(2.0)
            except RuntimeError:
                return  # the loop is closed
