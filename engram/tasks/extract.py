"""Task ``extract(session_id)``: turn the new part of a session into memories. Heavy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engram.tasks.queue import huey

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


@huey.task(name="extract", priority=10)
def extract(session_id: str) -> None:
    """Extract memories from a session's new turns; if that changes a memory, choose the session's bites again."""
    from engram.tasks.runtime import current_runtime

    run_extract(current_runtime(), session_id)


def run_extract(runtime: Runtime, session_id: str) -> None:
    """Extract after other heavy tasks or, if a language model is asked, after other extractions.

    What changed gets its vectors soon after, not only at the next scan.
    """
    from engram.tasks.boundary import run_guarded
    from engram.tasks.embed import embed
    from engram.tasks.recollect import refresh

    def extract_and_refresh() -> str:
        if not extract_now(runtime, session_id):
            return "no memory changed"
        refresh(session_id)
        embed()
        return "memories changed"

    runtime.extraction_executor.run(
        f"extract {session_id}", lambda: run_guarded(runtime, "extract", session_id, extract_and_refresh)
    )


def run_join(runtime: Runtime) -> None:
    """Join memories that no longer wait for an older turn, after other heavy tasks."""
    from engram.models.task_runs import NOTHING
    from engram.tasks.boundary import run_guarded

    def join() -> str:
        lines = join_now(runtime)
        return f"{len(lines)} changes" if lines else NOTHING

    runtime.executor.run("join", lambda: run_guarded(runtime, "join", "", join))


def extract_now(runtime: Runtime, session_id: str) -> bool:
    """Extract; return True if that changed a memory. Raises ExtractionError, StoreError."""
    from engram.consolidation.on_extract import reconcile_new
    from engram.extraction.service import extract_session

    if runtime.extractor is None:
        return False
    report = extract_session(
        runtime.store, session_id, extractor=runtime.extractor, embedder=runtime.embedder, settings=runtime.settings
    )
    lines: list[str] = []
    if report.turns:
        lines = reconcile_new(
            runtime.store, runtime.settings, session_id, (), runtime.searcher.similar_episodes, duplicate_cosine=1.0
        )
        runtime.refresh_index()
    lines += join_now(runtime)
    return report.has_changed or bool(lines)


def join_now(runtime: Runtime) -> list[str]:
    """Join memories with older ones in the order in which they were said; return a line for each change.

    Raises StoreError.
    """
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
