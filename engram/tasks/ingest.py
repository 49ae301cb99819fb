"""Task ``ingest(session_id)``: Claude stopped; read the rest of the session's transcripts and close its turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


@huey.task(name="ingest", priority=30)
def ingest(session_id: str) -> None:
    """Read the rest of a session's transcripts, close its open turn, and enqueue what that makes due."""
    from engram.tasks.boundary import run_guarded
    from engram.tasks.enqueue import enqueue_due
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()

    def read_and_enqueue() -> None:
        read_session(runtime, session_id)
        enqueue_due(runtime.store, runtime.settings, session_id)

    run_guarded(runtime, "ingest", session_id, read_and_enqueue)


def read_session(runtime: Runtime, session_id: str) -> None:
    """Read the sources of a session to their end and close its turn. Raises StoreError."""
    from engram.ingest.service import ingest_source, sources_of_session
    from engram.paths import is_session_id

    if not is_session_id(session_id):
        return
    for source in sources_of_session(runtime.store, session_id, runtime.settings):
        ingest_source(runtime.store, source, settings=runtime.settings, redact=runtime.redact, close=True)
