"""Task ``flush(session_id)``: a session ended or was compacted; read its rest and extract everything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


@huey.task(name="flush", priority=20)
def flush(session_id: str) -> None:
    """Read the rest of a session, close its turn, and extract without waiting for a threshold."""
    from engram.tasks.boundary import run_guarded
    from engram.tasks.extract import run_extract
    from engram.tasks.runtime import current_runtime

    runtime = current_runtime()
    if run_guarded(runtime, "flush", session_id, lambda: read_and_make_due(runtime, session_id), stage="ingest"):
        run_extract(runtime, session_id)
        # After the extraction, so that the log has its decisions.
        runtime.executor.run(
            f"log {session_id}", lambda: run_guarded(runtime, "log", session_id, lambda: write_log(runtime, session_id))
        )


def write_log(runtime: Runtime, session_id: str) -> None:
    """Update the daily log of a session; the scan indexes it. Raises StoreError or OSError."""
    from engram.models.stages import note_success
    from engram.notes.daily import log_session

    files = log_session(runtime.store, runtime.settings.places, session_id)
    if files:
        note_success(runtime.store, "log", seen=1, done=1)


def read_and_make_due(runtime: Runtime, session_id: str) -> None:
    """Read the session, then record in memory.db that its extraction is due now. Raises StoreError."""
    from engram.models.extractions import has_due_turns
    from engram.models.sessions import find_session
    from engram.models.work import make_due
    from engram.tasks.ingest import read_session

    read_session(runtime, session_id)
    session = find_session(runtime.store, session_id)
    if session is None or runtime.extractor is None or not has_due_turns(runtime.store, session.id):
        return
    with runtime.store.transaction() as tx:
        make_due(tx, "extract", session_id, runtime.store.now_ms(), reason="flush")
