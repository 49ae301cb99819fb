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
    from engram.tasks.boundary import run_guarded
    from engram.tasks.in_progress import in_progress
    from engram.tasks.recollect import refresh

    def extract_and_refresh() -> None:
        if extract_now(runtime, session_id):
            refresh(session_id)

    def guarded() -> None:
        with in_progress(runtime.store, "extract", session_id):
            run_guarded(runtime, "extract", session_id, extract_and_refresh)

    runtime.extraction_executor.run(f"extract {session_id}", guarded)


def run_join(runtime: Runtime) -> None:
    """Join what no longer waits for an older turn, when no other heavy task runs."""
    from engram.tasks.boundary import run_guarded

    runtime.executor.run("join", lambda: run_guarded(runtime, "join", "", lambda: join_now(runtime)))


def extract_now(runtime: Runtime, session_id: str) -> bool:
    """Extract; True where that changed a memory. Raises ExtractionError, StoreError."""
    from engram.consolidation.on_extract import welcome
    from engram.extraction.service import extract_session

    if runtime.extractor is None:
        return False
    report = extract_session(
        runtime.store, session_id, extractor=runtime.extractor, embedder=runtime.embedder, settings=runtime.settings
    )
    lines: list[str] = []
    if report.turns:
        lines = welcome(
            runtime.store, runtime.settings, session_id, (), runtime.searcher.similar_episodes, duplicate_cosine=1.0
        )
        runtime.refresh_index()
    lines += join_now(runtime)
    return report.has_changed or bool(lines)


def join_now(runtime: Runtime) -> list[str]:
    """Join the memories whose turn it is with those said before them; returns a line a change. Raises StoreError."""
    from engram.consolidation.joining import join_waiting
    from engram.search.vectors.backfill import embed_episodes

    embedder = runtime.embedder

    def bring_up_to_date() -> None:
        if embedder is not None:
            embed_episodes(runtime.store, embedder)
        runtime.refresh_index()

    return join_waiting(
        runtime.store,
        runtime.settings,
        runtime.searcher.similar_episodes,
        bring_up_to_date,
        duplicate_cosine=0.92 if embedder is None else embedder.thresholds.duplicate,
    )
