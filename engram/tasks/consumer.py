"""Huey's consumer, quiet when idle and quick to stop."""

from __future__ import annotations

import logging
from typing import Any

from huey.consumer import Consumer, ConsumerStopped

from engram.tasks.queue import EngramQueue

logger = logging.getLogger(__name__)

#: Threads that run tasks; at most one of them is at something heavy.
WORKERS = 4
#: Seconds between two looks at Huey's schedule; nothing of ours waits there but Huey's own retries.
SCHEDULER_SECONDS = 5
#: Seconds between two looks of the main thread at signals.
SIGNAL_SECONDS = 0.25


class EngramConsumer(Consumer):
    """Threads that are woken by a datagram; SIGTERM and SIGINT let running tasks finish."""

    def __init__(self, queue: EngramQueue, drain_seconds: float, *, workers: int = WORKERS) -> None:
        """A consumer of ``queue`` that waits at most ``drain_seconds`` for running tasks when it stops."""
        super().__init__(
            queue,
            workers=workers,
            scheduler_interval=SCHEDULER_SECONDS,
            graceful_signal="TERM",
            shutdown_timeout=drain_seconds,
        )
        self._stop_flag_timeout = SIGNAL_SECONDS
        self._signal_actions = {self._graceful_sig: (False, True), self._interrupt_sig: (False, True)}
        #: False where a running task did not finish in time.
        self.has_drained = True

    def stop(self, graceful: bool = False) -> None:
        """Stop; with ``graceful`` running tasks may finish. The threads that wait are let go at once."""
        self.stop_flag.set()
        self.huey.storage.stop_waiting()
        super().stop(graceful)
        self.has_drained = not any(self.environment.is_alive(thread) for _, thread in self.worker_threads)

    def loop(self, health_check_ts: float | None = None) -> Any:
        """One look of the main thread; see Huey. A stop that a thread asked for is graceful as well."""
        try:
            return super().loop(health_check_ts)
        except ConsumerStopped:
            if self._signum is None:
                self.stop(graceful=True)
            raise
