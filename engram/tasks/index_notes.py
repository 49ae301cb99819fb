"""Task ``index_notes()``: bring the index of Markdown notes in line with the files. Heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


@huey.task(name="index_notes", priority=0)
def index_notes() -> None:
    """Index new and changed notes, drop vanished ones; their vectors are made afterwards."""
    from engram.tasks.boundary import run_guarded
    from engram.tasks.embed import embed
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()

    def index_and_embed() -> None:
        if index_now(runtime):
            embed()

    runtime.executor.run("index_notes", lambda: run_guarded(runtime, "index_notes", "", index_and_embed))


def index_now(runtime: Runtime) -> bool:
    """Index; True where something changed. Raises StoreError."""
    from engram.models.stages import note_success
    from engram.notes.index import index_notes as bring_in_line

    report = bring_in_line(runtime.store, runtime.settings, runtime.redact)
    if report.changed or report.removed:
        note_success(runtime.store, "index_notes", seen=report.notes, done=report.changed)
    return bool(report.changed or report.removed)
