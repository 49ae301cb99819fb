"""Task ``scan()``, every minute: enqueue what memory.db says is due, missing or overdue."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from engram.tasks.library import crontab
from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime

#: A scan that is younger than this is not repeated, in seconds.
EVERY_SECONDS = 50
#: How long a scan may hold its lease, in seconds.
LEASE_SECONDS = 60


@huey.periodic_task(crontab(), name="scan", priority=5)
def scan() -> None:
    """Enqueue due work, missing vectors, changed notes and an overdue consolidation."""
    from engram.models.task_runs import NOTHING
    from engram.tasks.boundary import run_guarded
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()

    def scan_and_describe() -> str:
        enqueued = scan_under_lease(runtime)
        return f"{enqueued} tasks enqueued" if enqueued else NOTHING

    run_guarded(runtime, "scan", "", scan_and_describe)


def scan_under_lease(runtime: Runtime) -> int | None:
    """Scan and return how many tasks were enqueued; None if another process scans, or just did. Raises StoreError."""
    from engram.models.leases import release_lease, take_lease
    from engram.models.stages import note_success

    owner = f"{os.getpid()}-{id(runtime)}"
    if not take_lease(runtime.store, "scan", owner, LEASE_SECONDS, every_seconds=EVERY_SECONDS):
        return None
    try:
        enqueued = scan_now(runtime)
        note_success(runtime.store, "scan", seen=1, done=enqueued)
    finally:
        release_lease(runtime.store, "scan", owner)
    return enqueued


def scan_now(runtime: Runtime) -> int:
    """Enqueue everything that is due and return how many tasks that are. Raises StoreError."""
    from engram.consolidation.branches import read_branches
    from engram.ingest.moves import join_moved, read_hints, sort_if_due
    from engram.models.hub_spaces import list_servers
    from engram.models.unjoined import join_horizon_ms, next_unjoined
    from engram.tasks.embed import embed
    from engram.tasks.enqueue import enqueue_consolidation_if_overdue, enqueue_due
    from engram.tasks.extract import run_join
    from engram.tasks.index_notes import index_notes
    from engram.tasks.sync import sync

    store, settings = runtime.store, runtime.settings
    enqueued = enqueue_due(store, settings)
    if runtime.embedder is not None and _misses_vectors(runtime, runtime.embedder.model_id):
        embed()
        enqueued += 1
    read_hints(store)
    if [*join_moved(store), *sort_if_due(store, settings)]:
        runtime.refresh_index()
    _write_due_logs(runtime)
    index_notes()
    enqueued += enqueue_consolidation_if_overdue(store, settings)
    if next_unjoined(store, join_horizon_ms(store)) is not None:
        run_join(runtime)
    if list_servers(store):
        sync()
        enqueued += 1
    runtime.recollection.tidy()
    read_branches(store, settings, only_lively=True)
    return enqueued


def _write_due_logs(runtime: Runtime) -> None:
    """Write the daily logs that sorting made due; extraction may be off, or fail for long."""
    from functools import partial

    from engram.models.work import LOG_IS_DUE, WorkState, list_work, make_due
    from engram.tasks.boundary import run_guarded
    from engram.tasks.flush import write_log

    for work in list_work(runtime.store, (WorkState.DUE,)):
        if work.kind != "extract" or work.reason != LOG_IS_DUE:
            continue
        if run_guarded(runtime, "log", work.key, partial(write_log, runtime, work.key)):
            with runtime.store.transaction() as tx:
                make_due(tx, "extract", work.key, work.due_at_ms, reason="log written")


def _misses_vectors(runtime: Runtime, model: str) -> bool:
    """True if a row has no current vector; reads all rows only after some were added or changed."""
    from engram.models.vectors import embeddable_watermark, missing_vectors

    mark = embeddable_watermark(runtime.store)
    if mark == runtime.embedded_mark:
        return False
    if missing_vectors(runtime.store, model, 1):
        return True
    runtime.embedded_mark = mark
    return False
