"""The tasks that read sessions and make memories from them: ingest, flush, extract, recollect, refresh, embed.

Light to import.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engram.tasks.queue import huey
from engram.trust.display import number_of

if TYPE_CHECKING:
    from engram.tasks.runtime import Runtime


# -- Task ``embed()``: embed rows without a current vector. It is heavy, and runs in slices so that other tasks can run
# in between.

#: Number of rows embedded in one call, which is one transaction.
BATCH_ROWS = 32
#: Approximate duration of a slice, in seconds, after which other heavy tasks run.
SLICE_SECONDS = 2.0


@huey.task(name="embed", priority=0)
def embed() -> None:
    """Embed rows without a vector until none is left."""
    from engram.tasks.runtime import current_runtime

    run_embed(current_runtime())


def run_embed(runtime: Runtime) -> None:
    """Embed a slice after other heavy tasks, and queue the next slice if rows are left."""
    from engram.models.work.task_runs import NOTHING
    from engram.tasks.runtime import run_guarded

    if runtime.embedder is None:
        # Return here to keep the stage's error, which explains why there is no model.
        return

    def embed_and_queue() -> None:
        slices: list[Slice] = []

        def embed_one_slice() -> str:
            slices.append(embed_slice(runtime))
            return f"{number_of(slices[0].rows, 'text')} prepared" if slices[0].rows else NOTHING

        if run_guarded(runtime, "embed", "", embed_one_slice) and slices[0].has_more:
            runtime.executor.run("embed", embed_and_queue)

    runtime.executor.run("embed", embed_and_queue)


@dataclass(frozen=True, slots=True)
class Slice:
    rows: int
    #: True if rows without a vector may be left.
    has_more: bool


def embed_slice(runtime: Runtime, batch_rows: int = BATCH_ROWS) -> Slice:
    """Embed a slice. Raises EmbeddingError.

    Args:
        batch_rows: number of rows in one call. Larger batches are more efficient but make other tasks wait longer.
    """
    from engram.models.work.task_runs import note_success
    from engram.search.vectors.loaded_vectors import embed_missing

    if runtime.embedder is None:
        return Slice(rows=0, has_more=False)
    total, deadline = 0, time.monotonic() + SLICE_SECONDS
    while True:
        rows = 0 if runtime.is_stopping else embed_missing(runtime.store, runtime.embedder, batch_rows)
        total += rows
        if rows < batch_rows or time.monotonic() > deadline:
            break
    if total:
        note_success(runtime.store, "embed", seen=total, done=total)
        runtime.searcher.catch_up()
    return Slice(rows=total, has_more=rows == batch_rows)


# -- Tasks ``recollect(session_id)`` and ``refresh(session_id)``: choose bites for prompts that were not answered on the
# socket.

#: Number of a turn's latest tool calls to consider.
TOOL_CALLS = 3


@huey.task(name="recollect", priority=50)
def recollect(session_id: str) -> None:
    """Store relevant bites for the session's latest prompt or, if there are none, for its latest tool calls."""
    from engram.tasks.runtime import current_runtime, run_guarded

    runtime = current_runtime()
    run_guarded(runtime, "recollect", session_id, lambda: recollect_now(runtime, session_id))


@huey.task(name="refresh", priority=40)
def refresh(session_id: str) -> None:
    """Choose the session's pending or latest bites again after an extraction has changed memories."""
    from engram.tasks.runtime import current_runtime, run_guarded

    runtime = current_runtime()
    run_guarded(runtime, "refresh", session_id, lambda: runtime.recollection.refresh(session_id))


def recollect_now(runtime: Runtime, session_id: str) -> None:
    """Choose bites, then finish the work unless a newer prompt has made it due again."""
    from engram.models.work.task_runs import note_success
    from engram.models.work.work import find_work, finish

    work = find_work(runtime.store, "recollect", session_id)
    if not runtime.recollection.recollect(session_id):
        _recollect_for_tools(runtime, session_id)
    with runtime.store.transaction() as tx:
        if work is not None:
            finish(tx, work)
        note_success(runtime.store, "recollect", seen=1, done=1)


def _recollect_for_tools(runtime: Runtime, session_id: str) -> None:
    """Choose memories about the files or the command that the session's latest tool calls used."""
    from engram.models.sessions.recent_work import latest_turn

    recent = latest_turn(runtime.store, session_id)
    if recent is None or not recent.turn.actions:
        return
    actions = recent.turn.actions[-TOOL_CALLS:]
    files = [name for action in actions for name in action.files]
    command = next((action.command for action in reversed(actions) if action.command), "")
    error = next((action.error_line for action in reversed(actions) if action.error_line), "")
    if files or command:
        runtime.recollection.about_tool(session_id, files, command, error)


# -- Task ``extract(session_id)``: turn the new part of a session into memories. Heavy.


@huey.task(name="extract", priority=10)
def extract(session_id: str) -> None:
    """Extract memories from a session's new turns; if that changes a memory, choose the session's bites again."""
    from engram.tasks.runtime import current_runtime

    run_extract(current_runtime(), session_id)


def run_extract(runtime: Runtime, session_id: str) -> None:
    """Extract after other heavy tasks or, with a language model, after other extractions; then embed the changes."""
    from engram.tasks.runtime import run_guarded

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
    """After other heavy tasks, join memories that are no longer waiting for an older turn."""
    from engram.models.work.task_runs import NOTHING
    from engram.tasks.runtime import run_guarded

    def join() -> str:
        lines = join_now(runtime)
        return number_of(len(lines), "change") if lines else NOTHING

    runtime.executor.run("join", lambda: run_guarded(runtime, "join", "", join))


def extract_now(runtime: Runtime, session_id: str) -> bool:
    """Extract; return True if a memory changed. Raises ExtractionError or StoreError."""
    from engram.consolidation.consolidation_run import settle_session
    from engram.extraction.extracting import extract_session

    if runtime.extractor is None:
        return False
    report = extract_session(
        runtime.store, session_id, extractor=runtime.extractor, embedder=runtime.embedder, settings=runtime.settings
    )
    lines: list[str] = []
    if report.turns:
        lines = settle_session(runtime.store, runtime.settings, session_id)
        runtime.refresh_index()
    lines += join_now(runtime)
    return report.has_changed or bool(lines)


def join_now(runtime: Runtime) -> list[str]:
    """Join memories with older ones in the order of their turns; return a line for each change. Raises StoreError."""
    from engram.consolidation.consolidation_run import join_waiting

    return join_waiting(runtime.store, runtime.settings, runtime.searcher, runtime.embedder)


# -- Task ``ingest(session_id)``: when Claude has stopped, read the rest of the session's transcripts and close its
# turn.


@huey.task(name="ingest", priority=30)
def ingest(session_id: str) -> None:
    """Read the rest of a session's transcripts, close its open turn, and enqueue the resulting work."""
    from engram.tasks.enqueue_due import enqueue_due
    from engram.tasks.runtime import current_runtime, run_guarded

    runtime = current_runtime()

    def read_and_enqueue() -> None:
        read_session(runtime, session_id)
        enqueue_due(runtime.store, runtime.settings, session_id)

    run_guarded(runtime, "ingest", session_id, read_and_enqueue)


def read_session(runtime: Runtime, session_id: str) -> None:
    """Read a session's sources to the end and close its turn. Raises StoreError."""
    from engram.ingest.read_sources import ingest_session
    from engram.paths import is_session_id

    if is_session_id(session_id):
        ingest_session(runtime.store, session_id, settings=runtime.settings, redact=runtime.redact, close=True)


# -- Task ``flush(session_id)``: when a session has ended or was compacted, read the rest of it and extract everything.


@huey.task(name="flush", priority=20)
def flush(session_id: str) -> None:
    """Read the rest of a session, close its turn, and extract without waiting for a threshold."""
    from engram.tasks.runtime import current_runtime, run_guarded

    runtime = current_runtime()
    if run_guarded(runtime, "flush", session_id, lambda: read_and_make_due(runtime, session_id), stage="ingest"):
        run_extract(runtime, session_id)
        # This runs after the extraction, so that the log contains the extracted decisions.
        runtime.executor.run(
            f"log {session_id}", lambda: run_guarded(runtime, "log", session_id, lambda: write_log(runtime, session_id))
        )


def write_log(runtime: Runtime, session_id: str) -> None:
    """Update a session's daily log; the scan indexes it. Raises StoreError or OSError."""
    from engram.models.work.task_runs import note_success
    from engram.notes.daily_log import log_session

    files = log_session(runtime.store, runtime.settings.places, session_id)
    if files:
        note_success(runtime.store, "log", seen=1, done=1)


def read_and_make_due(runtime: Runtime, session_id: str) -> None:
    """Read the session, then record in memory.db that its extraction is due now. Raises StoreError."""
    from engram.models.sessions.sessions import find_session
    from engram.models.sessions.stored_turns import has_due_turns
    from engram.models.work.work import make_due

    read_session(runtime, session_id)
    session = find_session(runtime.store, session_id)
    if session is None or runtime.extractor is None or not has_due_turns(runtime.store, session.id):
        return
    with runtime.store.transaction() as tx:
        make_due(tx, "extract", session_id, runtime.store.now_ms(), reason="flush")
