"""Task ``consolidate()``: tidy up memories, at most every ``consolidate_seconds`` (four hours). Heavy.

When it is due is decided by the time of the last run in memory.db (``is_overdue``), not by Huey's crontab: a crontab
of every fourth hour is skipped if the laptop sleeps or the worker is down at that minute.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.consolidation.service import Report
    from engram.tasks.runtime import Runtime


@huey.task(name="consolidate", priority=0)
def consolidate() -> None:
    """Archive duplicates, merge, supersede, age, pack and graduate, unless the last run is too recent."""
    from engram.models.task_runs import NOTHING
    from engram.tasks.boundary import run_guarded
    from engram.tasks.embed import embed
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()

    def tidy_and_embed() -> str:
        report = tidy(runtime)
        if not report.has_run:
            return NOTHING
        embed()
        return f"{len(report.lines)} changes"

    runtime.extraction_executor.run("consolidate", lambda: run_guarded(runtime, "consolidate", "", tidy_and_embed))


def tidy(runtime: Runtime) -> Report:
    """Consolidate under the lease of consolidations, if the last run is old enough. Raises StoreError."""
    from engram.consolidation.service import consolidate as run_consolidation
    from engram.models.stages import note_success
    from engram.search.vectors.pairs import similar_pairs

    embedder = runtime.embedder
    distilling, reconciling = runtime.model_steps
    report = run_consolidation(
        runtime.store,
        runtime.settings,
        similar=None if embedder is None else partial(similar_pairs, runtime.store, embedder.model_id),
        duplicate_cosine=0.92 if embedder is None else embedder.thresholds.duplicate,
        distilling=distilling,
        reconciling=reconciling,
    )
    if report.has_run:
        note_success(runtime.store, "consolidate", seen=1, done=len(report.lines))
        runtime.refresh_index()
    return report
