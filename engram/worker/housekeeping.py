"""Housekeeping of the worker: every few seconds it checks memory, sockets, damage, new vectors, due work and the
backup.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable

from engram.errors import BrokenDatabase, EngramError, StoreError
from engram.models.stages import is_damage_noted, note_damage
from engram.process_limits import give_back_memory, rss_mb
from engram.settings import DEFAULT_LIMIT_RSS_MB
from engram.tasks.enqueue import enqueue_due
from engram.tasks.queue import EngramQueue
from engram.tasks.runtime import Runtime
from engram.worker.backup import DailyBackup
from engram.worker.hub_watch import HubWatch
from engram.worker.server import RecallServer
from engram.worker.status_lines import StatusLines

logger = logging.getLogger(__name__)

#: Seconds between two checks.
EVERY_SECONDS = 5.0
#: What the default limit allows beyond the vectors in memory, in MB. A worker with three million vectors took 290 more.
ABOVE_INDEX_MB = 400.0
#: A heavy task that runs for longer hangs, in seconds. The caps of the language model end a legitimate one before.
MAX_ACTION_SECONDS = 7200.0
#: A request that waits longer for a thread shows that all threads hang, in seconds.
MAX_REQUEST_WAIT_SECONDS = 60.0
#: Growth after which unused memory is returned although no heavy task ran: questions leave some, too.
GROWN_MB = 8.0


class Housekeeper:
    """A thread that checks everything every few seconds; ``step`` is one check."""

    def __init__(
        self,
        runtime: Runtime,
        queue: EngramQueue,
        server: RecallServer,
        *,
        stop: Callable[[str], None],
        end: Callable[[str], None],
        beat: Callable[[], None],
    ) -> None:
        """Prepare; ``start`` starts the thread.

        Args:
            runtime: the services of the worker.
            queue: whose socket is opened again if it disappears.
            server: likewise.
            stop: called with the reason why the worker must be restarted.
            end: called with the reason why the worker must end for good.
            beat: called after each check if the worker makes progress.
        """
        self._runtime = runtime
        self._queue = queue
        self._server = server
        self._stop = stop
        self._end = end
        self._beat = beat
        self._has_warned = False
        self._data_version = -1
        self._quiet_checks = 0
        self._opened = runtime.store.file_identity()
        self._backup = DailyBackup(runtime)
        self._status_lines = StatusLines(runtime)
        self._hub_watch = HubWatch(runtime)
        self._was_busy = False
        #: Resident memory when unused memory was last returned, in MB.
        self._given_back_mb = 0.0
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="housekeeping", daemon=True)

    def start(self) -> Housekeeper:
        """Start the thread."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop the thread; waits for a check that is going on."""
        self._is_closing.set()
        self._hub_watch.close()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._is_closing.is_set():
            try:
                self.step()
            except Exception as error:
                logger.warning("action=housekeeping failed=%s", error, exc_info=error)
            self._is_closing.wait(EVERY_SECONDS)

    def step(self) -> None:
        """Check everything once."""
        home = self._runtime.settings.places
        if not home.root.is_dir():
            # Before anything else: a restarted worker would make an empty folder in its place.
            self._end("the memory folder is gone")
            return
        self._check_memory()
        if self._runtime.is_damaged.is_set():
            note_damage(self._runtime.store)
            self._stop("memory.db is damaged")
        if self._runtime.store.file_identity() != self._opened:
            self._stop("memory.db was replaced")
        with contextlib.suppress(OSError):
            self._server.renew()
            if not home.wake_socket.is_socket():
                self._queue.storage.listen()
        with contextlib.suppress(StoreError):
            try:
                self._check_work()
                self._look_at_vaults()
                self._backup.look()
                self._hub_watch.look()
            except BrokenDatabase as error:
                logger.error("action=look failed=%s", error)
                self._runtime.is_damaged.set()
        if self._makes_progress():
            self._beat()

    def _makes_progress(self) -> bool:
        """False if a heavy task never ends, or requests wait for threads that never come back."""
        longest_seconds = max(
            executor.running_seconds for executor in (self._runtime.executor, self._runtime.model_executor)
        )
        return longest_seconds < MAX_ACTION_SECONDS and self._server.longest_wait_seconds < MAX_REQUEST_WAIT_SECONDS

    def _look_at_vaults(self) -> None:
        try:
            self._server.vaults.look()
        except EngramError as error:
            logger.warning("action=look_at_vaults failed=%s", error)

    def _check_memory(self) -> None:
        is_busy, used_mb = self._runtime.is_busy, rss_mb()
        if is_busy or self._was_busy or used_mb > self._given_back_mb + GROWN_MB:
            give_back_memory()
            used_mb = self._given_back_mb = rss_mb()
        self._was_busy = is_busy
        settings = self._runtime.settings
        limit_mb = float(settings.limit_rss_mb)
        # A limit that the user set is not raised.
        if used_mb > limit_mb and settings.limit_rss_mb == DEFAULT_LIMIT_RSS_MB:
            limit_mb = max(limit_mb, self._runtime.index_mb() + ABOVE_INDEX_MB)
        if used_mb > limit_mb:
            index_mb = round(self._runtime.index_mb())
            self._stop(
                f"memory is {used_mb} MB, above limit_rss_mb = {limit_mb:.0f}; the vectors alone take {index_mb} MB"
            )
        elif used_mb > settings.warn_rss_mb and not self._has_warned:
            self._has_warned = True
            logger.warning("action=memory rss_mb=%s warn_mb=%d", used_mb, settings.warn_rss_mb)

    def _check_work(self) -> None:
        """Enqueue due work; load new vectors if the database changed; truncate its log if it was quiet."""
        store = self._runtime.store
        version = store.data_version()
        with contextlib.suppress(OSError):
            self._status_lines.write(has_changed=version != self._data_version)
        if version == self._data_version:
            self._quiet_checks += 1
            if self._quiet_checks == 6:
                store.checkpoint("TRUNCATE")
        else:
            self._data_version, self._quiet_checks = version, 0
            if is_damage_noted(store):
                self._runtime.is_damaged.set()
            self._runtime.refresh_index()
        enqueue_due(store, self._runtime.settings)
