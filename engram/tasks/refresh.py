"""Task ``refresh(session_id)``: after an extraction, choose the session's waiting bites anew."""

from __future__ import annotations

from engram.tasks.queue import huey


@huey.task(name="refresh", priority=40)
def refresh(session_id: str) -> None:
    """Make the session's pending or latest recollection anew."""
    from engram.tasks.boundary import run_guarded
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()
    run_guarded(runtime, "refresh", session_id, lambda: runtime.recollection.refresh(session_id))
