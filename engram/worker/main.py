"""``engram work``: the consumer of ``huey_consumer engram.tasks.queue.huey`` with our defaults."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engram.models.store import Store
from engram.settings import Settings
from engram.tasks.consumer import SCHEDULER_SECONDS, WORKERS
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime, make_runtime


def run_worker(
    settings: Settings, *, make: Callable[[Settings, Store], Runtime] = make_runtime, has_parent: bool = False
) -> int:
    """Run until SIGTERM or SIGINT; call it in its own process, from the main thread.

    Args:
        make: creates the services of the tasks; compiles the model first if that was not done yet.
        has_parent: a supervisor started it, so that a memory folder that is gone by now is not made anew.

    Returns:
        0 after a clean stop, if the memory folder went away, or immediately if another worker runs; 75 if it is to be
        started again: its memory exceeded the limit, memory.db is damaged, or a task did not finish within
        ``drain_seconds``.

    Raises:
        HomeError: the memory folder can't be used.
        StoreError: memory.db can't be opened, or is newer than this program.
    """
    logging.getLogger("huey").setLevel(logging.WARNING)
    consumer = huey.create_consumer(
        settings=settings,
        make_runtime=make,
        has_parent=has_parent,
        workers=WORKERS,
        scheduler_interval=SCHEDULER_SECONDS,
    )
    return consumer.serve()
