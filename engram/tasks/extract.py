"""Task ``extract(session_id)``: make episodes of what a session has grown by. Heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


@huey.task(name="extract", priority=10)
def extract(session_id: str) -> None:
    """Extract a session's turns that have grown; then its recollection is made anew where that changed something."""
    from engram.tasks.runtime import current_runtime

    run_extract(current_runtime(), session_id)


def run_extract(runtime: Runtime, session_id: str) -> None:
    """Extract when no other heavy task runs, or, where a language model is asked, behind other extractions."""
    from engram.tasks.edge import attempt
    from engram.tasks.marker import marked
    from engram.tasks.refresh import refresh

    def extract_and_refresh() -> None:
        if extract_now(runtime, session_id):
            refresh(session_id)

    def guarded() -> None:
        with marked(runtime.store, "extract", session_id):
            attempt(runtime, "extract", session_id, extract_and_refresh)

    runtime.lane_of_extraction().run(f"extract {session_id}", guarded)


def extract_now(runtime: Runtime, session_id: str) -> bool:
    """Extract; True where that changed a memory. Raises ExtractionError, StoreError."""
    from engram.consolidation.arrivals import welcome
    from engram.extraction.service import extract_session

    if runtime.extractor is None:
        return False
    report = extract_session(
        runtime.store, session_id, extractor=runtime.extractor, embedder=runtime.embedder, settings=runtime.settings
    )
    if not report.turns:
        return False
    runtime.refresh_index()
    lines = welcome(
        runtime.store, runtime.settings, session_id, report.row_ids, runtime.searcher.similar_episodes,
        duplicate_cosine=0.92 if runtime.embedder is None else runtime.embedder.thresholds.duplicate,
    )  # fmt: skip
    if lines:
        runtime.refresh_index()
    return report.has_changed or bool(lines)
