"""Task ``index_notes()``: update the index of Markdown notes. Heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


@huey.task(name="index_notes", priority=0)
def index_notes() -> None:
    """Index new and changed notes, remove deleted ones, and enqueue the embedding of what changed."""
    from engram.models.task_runs import NOTHING
    from engram.tasks.boundary import run_guarded
    from engram.tasks.embed import embed
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()

    def index_and_embed() -> str:
        if not index_now(runtime):
            return NOTHING
        embed()
        return "notes indexed"

    runtime.executor.run("index_notes", lambda: run_guarded(runtime, "index_notes", "", index_and_embed))


def index_now(runtime: Runtime) -> bool:
    """Update the index; return True if something changed. Raises StoreError."""
    from engram.models.stages import note_success
    from engram.notes.index import index_notes as update_index
    from engram.notes.standing import read_standing_files

    read_standing_files(runtime.store, runtime.settings, runtime.redact)
    report = update_index(runtime.store, runtime.settings, runtime.redact)
    has_changed = bool(report.changed or report.removed)
    if has_changed:
        note_success(runtime.store, "index_notes", seen=report.notes, done=report.changed)
    return has_changed
