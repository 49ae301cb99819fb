"""Task ``ingest(session_id)``: Claude stopped; read the rest of the session's file and close its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


@huey.task(name="ingest", priority=30)
def ingest(session_id: str) -> None:
    """Read the rest of a session's transcripts and close its open turn; what that makes due is enqueued for."""
    from engram.tasks.boundary import run_guarded
    from engram.tasks.enqueue import enqueue_due
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()
    if run_guarded(runtime, "ingest", session_id, lambda: read_session(runtime, session_id)):
        run_guarded(runtime, "ring", session_id, lambda: enqueue_due(runtime.store, runtime.settings, session_id))


def read_session(runtime: Runtime, session_id: str) -> None:
    """Read the sources of a session to their end and close its turn. Raises StoreError."""
    from engram.ingest.service import ingest_source, sources_of_session
    from engram.paths import is_session_id

    if not is_session_id(session_id):
        return
    for source in sources_of_session(runtime.store, session_id, runtime.settings):
        ingest_source(runtime.store, source, settings=runtime.settings, redact=runtime.redact, close=True)
