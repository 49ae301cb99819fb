"""Task ``embed()``: give rows without a current vector one. Heavy, in slices, so that others get their turn."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime

#: Rows of one call, each call is one transaction.
BATCH_ROWS = 32
#: About as long as one slice takes, in seconds; then whoever waits has its turn.
SLICE_SECONDS = 2.0


@huey.task(name="embed", priority=0)
def embed() -> None:
    """Embed what waits for a vector, until nothing does."""
    from engram.tasks.runtime import current_runtime

    run_embed(current_runtime())


def run_embed(runtime: Runtime) -> None:
    """Embed one slice when no other heavy task runs, and get in line again where more is left."""
    from engram.tasks.boundary import run_guarded

    def slice_and_again() -> None:
        done: list[int] = []
        if run_guarded(runtime, "embed", "", lambda: done.append(embed_slice(runtime))) and done and done[0]:
            runtime.executor.run("embed", slice_and_again)

    runtime.executor.run("embed", slice_and_again)


def embed_slice(runtime: Runtime, rows: int = BATCH_ROWS) -> int:
    """Embed a slice; returns how many rows were embedded, or 0 where none is left. Raises EmbeddingError.

    Args:
        rows: rows of one call; more waste less on texts of unlike length, and keep others waiting longer.
    """
    from engram.models.stages import note_success
    from engram.search.vectors.backfill import embed_missing

    if runtime.embedder is None:
        return 0
    total, until = 0, time.monotonic() + SLICE_SECONDS
    while True:
        done = 0 if runtime.is_stopping else embed_missing(runtime.store, runtime.embedder, rows)
        total += done
        if done < rows or time.monotonic() > until:
            break
    if total:
        note_success(runtime.store, "embed", seen=total, done=total)
        runtime.catch_up()
    return total if done == rows else 0
