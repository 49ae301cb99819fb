"""Task ``embed()``: give rows without a current vector one. Heavy, in slices, so that other tasks can run between."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime

#: Rows of one call; each call is one transaction.
BATCH_ROWS = 32
#: About how long one slice takes, in seconds; then other heavy tasks run.
SLICE_SECONDS = 2.0


@huey.task(name="embed", priority=0)
def embed() -> None:
    """Embed rows without a vector until none is left."""
    from engram.tasks.runtime import current_runtime

    run_embed(current_runtime())


def run_embed(runtime: Runtime) -> None:
    """Embed one slice after other heavy tasks, and queue the next slice if rows are left."""
    from engram.models.task_runs import NOTHING
    from engram.tasks.boundary import run_guarded

    def embed_and_queue() -> None:
        slices: list[Slice] = []

        def embed_one_slice() -> str:
            slices.append(embed_slice(runtime))
            return f"{slices[0].rows} rows embedded" if slices[0].rows else NOTHING

        if run_guarded(runtime, "embed", "", embed_one_slice) and slices[0].has_more:
            runtime.executor.run("embed", embed_and_queue)

    runtime.executor.run("embed", embed_and_queue)


@dataclass(frozen=True, slots=True)
class Slice:
    """What one slice did."""

    rows: int
    #: True if rows without a vector may be left.
    has_more: bool


def embed_slice(runtime: Runtime, batch_rows: int = BATCH_ROWS) -> Slice:
    """Embed a slice. Raises EmbeddingError.

    Args:
        batch_rows: rows of one call; more waste less on texts of unlike length, and make other tasks wait longer.
    """
    from engram.models.stages import note_success
    from engram.search.vectors.backfill import embed_missing

    if runtime.embedder is None:
        return Slice(rows=0, has_more=False)
    total, deadline = 0, time.monotonic() + SLICE_SECONDS
    while True:
        rows = 0 if runtime.is_stopping else embed_missing(runtime.store, runtime.embedder, batch_rows)
        total += rows
        if rows < batch_rows or time.monotonic() > deadline:
            break
    if total:
        note_success(runtime.store, "embed", seen=total, done=total)
        runtime.catch_up()
    return Slice(rows=total, has_more=rows == batch_rows)
