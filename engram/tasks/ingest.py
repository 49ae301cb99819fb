"""Task ``ingest(session_id)``: Claude stopped; read the rest of the session's transcripts and close its turn."""

from __future__ import annotations

from pathlib import Path
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
    """Read the transcripts of a session to their end. Raises StoreError."""
    from engram.ingest.service import ingest_file

    for path in files_of(runtime, session_id):
        ingest_file(runtime.store, path, settings=runtime.settings, redact=runtime.redact, close=True)


def files_of(runtime: Runtime, session_id: str) -> list[Path]:
    """Return the session's transcripts: the known ones, else those of its name in Claude's folder."""
    from engram.models.transcripts import transcript_of_session
    from engram.paths import is_session_id

    if not is_session_id(session_id):
        return []
    known = [path for path in transcript_of_session(runtime.store, session_id) if path.exists()]
    return known or sorted(runtime.settings.projects_folder.glob(f"*/{session_id}.jsonl"))
