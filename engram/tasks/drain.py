"""Run all due work in this process until none is left, without a queue or a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engram.models.sessions.stored_turns import sessions_with_due_turns
from engram.models.work.work import due_work
from engram.tasks.enqueue_due import ENOUGH_MESSAGES
from engram.tasks.runtime import Runtime, run_guarded
from engram.tasks.session_tasks import Slice, embed_slice, extract_now, write_log
from engram.tasks.upkeep_tasks import index_now, tidy

#: Number of rows embedded in one call; higher than in a worker, since nothing else is waiting.
DRAIN_ROWS = 128

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Drained:
    sessions: int = 0
    failed: int = 0
    embedded: int = 0
    has_consolidated: bool = False


def drain(
    runtime: Runtime,
    *,
    with_waiting: bool = False,
    with_consolidation: bool = False,
    with_vectors: bool = True,
    progress: Progress = lambda stage, done, total: None,
) -> Drained:
    """Extract sessions that are due, index notes, and embed rows without a vector. Work that fails stays due.

    Args:
        with_waiting: also extract sessions that have not reached their threshold or delay yet.
        with_consolidation: also consolidate, if the last run is old enough.
        with_vectors: False to leave the vectors to a worker; until it has computed them, searches match only words.
        progress: called with the stage (extract or embed), the amount done, and the total (0 if unknown).
    """
    done = Drained()
    _extract_all(runtime, done, with_waiting, progress)
    run_guarded(runtime, "index_notes", "", lambda: index_now(runtime))
    if with_vectors:
        _embed_all(runtime, done, progress)
    if with_consolidation:
        run_guarded(runtime, "consolidate", "", lambda: setattr(done, "has_consolidated", tidy(runtime).has_run))
    if with_consolidation and with_vectors:
        _embed_all(runtime, done, progress)
    return done


def _extract_all(runtime: Runtime, done: Drained, with_waiting: bool, progress: Progress) -> None:
    if runtime.extractor is None:
        return
    due = [work for work in due_work(runtime.store, 1_000_000) if work.kind == "extract"]
    todo = [work.key for work in due]
    ended = {work.key for work in due if work.reason != ENOUGH_MESSAGES}
    if with_waiting:
        todo = list(dict.fromkeys([*todo, *sessions_with_due_turns(runtime.store)]))
    for number, session_id in enumerate(todo, 1):
        has_worked = run_guarded(runtime, "extract", session_id, partial(extract_now, runtime, session_id))
        if session_id in ended:
            run_guarded(runtime, "log", session_id, partial(write_log, runtime, session_id))
        done.sessions += 1
        done.failed += not has_worked
        progress("extract", number, len(todo))


def _embed_all(runtime: Runtime, done: Drained, progress: Progress) -> None:
    while (part := _embed_slice(runtime)) is not None:
        done.embedded += part.rows
        if part.rows:
            progress("embed", done.embedded, 0)
        if not part.has_more:
            return


def _embed_slice(runtime: Runtime) -> Slice | None:
    """Embed a slice; return None on failure."""
    if runtime.embedder is None:
        return None
    slices: list[Slice] = []
    run_guarded(runtime, "embed", "", lambda: slices.append(embed_slice(runtime, DRAIN_ROWS)))
    return slices[0] if slices else None
