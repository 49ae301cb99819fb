"""The tasks that maintain the memory: consolidate, index_notes, sync, and the scan that enqueues due work.

Light to import.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from engram.tasks.queue import huey
from engram.tasks.queue_file import crontab
from engram.trust.display import number_of

if TYPE_CHECKING:
    from engram.consolidation.consolidation_run import Report
    from engram.models.engine.transaction import Store
    from engram.models.work.work import HeldLease
    from engram.tasks.runtime import Runtime


# -- Task ``consolidate()``: tidy up memories, at most every ``consolidate_seconds`` (four hours). Heavy. Whether it is
# due depends on the time of the last run in memory.db (``is_overdue``). Huey's crontab would skip a run if the laptop
# were asleep or the worker were down at that minute.


@huey.task(name="consolidate", priority=0)
def consolidate() -> None:
    """Archive duplicates, and merge, supersede, age, pack and graduate memories, unless the last run is too recent."""
    from engram.models.work.task_runs import NOTHING
    from engram.tasks.runtime import current_runtime, run_guarded
    from engram.tasks.session_tasks import embed

    runtime = current_runtime()

    def tidy_and_embed() -> str:
        report = tidy(runtime)
        if not report.has_run:
            return NOTHING
        embed()
        return number_of(len(report.lines), "change")

    runtime.extraction_executor.run("consolidate", lambda: run_guarded(runtime, "consolidate", "", tidy_and_embed))


def tidy(runtime: Runtime) -> Report:
    """Consolidate under the lease if the last run is old enough. Raises StoreError."""
    from engram.consolidation.consolidation_run import consolidate as run_consolidation
    from engram.embedding.embedder import duplicate_cosine
    from engram.models.work.task_runs import note_success
    from engram.search.vectors.loaded_vectors import similar_pairs
    from engram.tasks.runtime import make_model_steps

    embedder = runtime.embedder
    distilling, reconciling = make_model_steps(runtime.settings, runtime.store, runtime.extractor)
    report = run_consolidation(
        runtime.store,
        runtime.settings,
        similar=None if embedder is None else partial(similar_pairs, runtime.store, embedder.model_id),
        duplicate_cosine=duplicate_cosine(embedder),
        distilling=distilling,
        reconciling=reconciling,
    )
    if report.has_run:
        note_success(runtime.store, "consolidate", seen=1, done=len(report.lines))
        runtime.refresh_index()
    return report


# -- Task ``index_notes()``: update the index of Markdown notes. Heavy.


@huey.task(name="index_notes", priority=0)
def index_notes() -> None:
    """Index new and changed notes, remove deleted ones, and enqueue the embedding of changed ones."""
    from engram.models.work.task_runs import NOTHING
    from engram.tasks.runtime import current_runtime, run_guarded
    from engram.tasks.session_tasks import embed

    runtime = current_runtime()

    def index_and_embed() -> str:
        if not index_now(runtime):
            return NOTHING
        embed()
        return "notes indexed"

    runtime.executor.run("index_notes", lambda: run_guarded(runtime, "index_notes", "", index_and_embed))


def index_now(runtime: Runtime) -> bool:
    """Update the index; return True if something changed. Raises StoreError."""
    from engram.models.work.task_runs import note_success
    from engram.notes.note_index import index_notes as update_index
    from engram.notes.user_files import read_standing_files

    read_standing_files(runtime.store, runtime.settings, runtime.redact)
    report = update_index(runtime.store, runtime.settings, runtime.redact)
    has_changed = bool(report.changed or report.removed)
    if has_changed:
        note_success(runtime.store, "index_notes", seen=report.notes, done=report.changed)
    return has_changed


# -- Task ``sync()``: sync with every joined hub. Only one process syncs at a time, and a hub that fails is retried
# later. Rounds run in their own thread (``runtime.hub_executor``), so that a slow hub does not delay memories. A
# request during a round leads to one more round.

#: How long a round keeps its lease without making progress, in seconds; longer than a request may take.
LEASE_SECONDS = 300


@huey.task(name="sync", priority=0)
def sync() -> None:
    """Pull what other machines sent, and push what is new on this machine."""
    from engram.tasks.runtime import current_runtime

    run_sync(current_runtime())


def run_sync(runtime: Runtime) -> None:
    """Start the rounds that are due, after any round in progress, and return immediately."""
    from engram.models.work.task_runs import NOTHING
    from engram.tasks.runtime import run_guarded
    from engram.tasks.session_tasks import embed

    def sync_and_embed() -> str:
        outcome, has_changed = sync_under_lease(runtime)
        if has_changed:
            runtime.refresh_index()
            embed()
        return outcome or NOTHING

    runtime.hub_executor.run("sync", lambda: run_guarded(runtime, "sync", "", sync_and_embed, stage="hub"))


def sync_under_lease(runtime: Runtime, *, is_forced: bool = False) -> tuple[str, bool]:
    """Run the rounds that are due; return a summary of them, and whether memories on this machine changed.

    Return ("", False) while another process or thread runs a round, or if no hub is joined.
    """
    from engram.hub.client.rounds import sync_all
    from engram.models.hub.spaces import list_servers
    from engram.models.work.task_runs import note_failure, note_success

    store = runtime.store
    if not list_servers(store):
        return "", False
    lease = take_sync_lease(store, lambda: runtime.hub_executor.is_closed)
    if lease is None:
        return "", False
    with lease:
        rounds = sync_all(store, runtime.settings.places, runtime.redact, is_forced=is_forced, goes_on=lease.goes_on)
    errors = [done.error for done in rounds if done.error]
    if errors:
        note_failure(store, "hub", "; ".join(errors))
    elif rounds and not any(server.last_error for server in list_servers(store)):
        rows = sum(done.pulled + done.pushed for done in rounds)
        note_success(store, "hub", seen=rows, done=rows)
    if any(done.is_unfinished and done.did_something for done in rounds):
        sync()
    summaries = [f"{done.pulled} pulled, {done.pushed} pushed" for done in rounds if done.did_something]
    return "; ".join([*summaries, *errors]), any(done.changed for done in rounds)


def take_sync_lease(store: Store, is_stopping: Callable[[], bool] = lambda: False) -> HeldLease | None:
    """Take the lease for rounds, even from a dead process; return None while another thread holds it."""
    from engram.models.work.work import HeldLease, drop_lease, lease_owners, take_lease
    from engram.tasks.runtime import is_owner_gone

    owner = f"{os.getpid()}-{threading.get_ident()}"
    holder = lease_owners(store).get("sync", "")
    if holder and is_owner_gone(holder):
        drop_lease(store, "sync", holder)
    if not take_lease(store, "sync", owner, LEASE_SECONDS):
        return None
    return HeldLease(store, "sync", owner, LEASE_SECONDS, is_stopping)


# -- Task ``scan()``, every minute: enqueue what is due, missing or overdue according to memory.db.

#: Minimum age of the last scan before the next one, in seconds.
EVERY_SECONDS = 50
#: How long a scan may hold its lease, in seconds.
SCAN_LEASE_SECONDS = 60


@huey.periodic_task(crontab(), name="scan", priority=5)
def scan() -> None:
    """Enqueue due work, missing vectors, changed notes and an overdue consolidation."""
    from engram.models.work.task_runs import NOTHING
    from engram.tasks.runtime import current_runtime, run_guarded

    runtime = current_runtime()

    def scan_and_describe() -> str:
        enqueued = scan_under_lease(runtime)
        return f"{number_of(enqueued, 'task')} to do" if enqueued else NOTHING

    run_guarded(runtime, "scan", "", scan_and_describe)


def scan_under_lease(runtime: Runtime) -> int | None:
    """Scan, and return the number of enqueued tasks; None during or just after another scan. Raises StoreError."""
    from engram.models.work.task_runs import note_success
    from engram.models.work.work import release_lease, take_lease

    owner = f"{os.getpid()}-{id(runtime)}"
    if not take_lease(runtime.store, "scan", owner, SCAN_LEASE_SECONDS, every_seconds=EVERY_SECONDS):
        return None
    try:
        enqueued = scan_now(runtime)
        note_success(runtime.store, "scan", seen=1, done=enqueued)
    finally:
        release_lease(runtime.store, "scan", owner)
    return enqueued


def scan_now(runtime: Runtime) -> int:
    """Enqueue everything that is due and return the number of tasks. Raises StoreError."""
    from engram.consolidation.git_staleness import read_branches
    from engram.ingest.project_moves import settle_projects
    from engram.models.hub.spaces import list_servers
    from engram.models.memories.watermarks import join_horizon_ms, next_unjoined
    from engram.tasks.enqueue_due import enqueue_consolidation_if_overdue, enqueue_due
    from engram.tasks.session_tasks import embed, run_join

    store, settings = runtime.store, runtime.settings
    enqueued = enqueue_due(store, settings)
    if runtime.embedder is not None and _misses_vectors(runtime, runtime.embedder.model_id):
        embed()
        enqueued += 1
    if settle_projects(store, settings):
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
    """Write the daily logs that became due when sessions were assigned to projects.

    This can't be left to extraction, which may be off or failing.
    """
    from functools import partial

    from engram.models.work.work import LOG_IS_DUE, WorkState, list_work, make_due
    from engram.tasks.runtime import run_guarded
    from engram.tasks.session_tasks import write_log

    for work in list_work(runtime.store, (WorkState.DUE,)):
        if work.kind != "extract" or work.reason != LOG_IS_DUE:
            continue
        if run_guarded(runtime, "log", work.key, partial(write_log, runtime, work.key)):
            with runtime.store.transaction() as tx:
                make_due(tx, "extract", work.key, work.due_at_ms, reason="log written")


def _misses_vectors(runtime: Runtime, model: str) -> bool:
    """Return True if a row has no current vector; all rows are read only if some were added or changed."""
    from engram.models.search.vector_rows import embeddable_watermark, missing_vectors

    mark = embeddable_watermark(runtime.store)
    if mark == runtime.embedded_mark:
        return False
    if missing_vectors(runtime.store, model, 1):
        return True
    runtime.embedded_mark = mark
    return False
