"""Task ``ingest(session_id)``: Claude stopped; read the rest of the session's file and close its turn."""

from __future__ import annotations

from pathlib import Path
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
    """Read the files of a session to their end. Raises StoreError."""
    from engram.ingest.service import ingest_file

    for path in files_of(runtime, session_id):
        ingest_file(runtime.store, path, settings=runtime.settings, redact=runtime.redact, close=True)


def files_of(runtime: Runtime, session_id: str) -> list[Path]:
    """The session's transcripts: those that are known, else by name below Claude's folder."""
    from engram.models.transcripts import transcript_of_session
    from engram.paths import is_session_id

    if not is_session_id(session_id):
        return []
    known = [path for path in transcript_of_session(runtime.store, session_id) if path.exists()]
    return known or sorted(runtime.settings.projects_folder.glob(f"*/{session_id}.jsonl"))
