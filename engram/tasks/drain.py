"""Do everything that is due in this process, once, until nothing is left: without a queue and without a worker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from engram.models.extractions import sessions_with_due_turns
from engram.models.work import due_work
from engram.tasks.boundary import run_guarded
from engram.tasks.consolidate import tidy
from engram.tasks.embed import embed_slice
from engram.tasks.extract import extract_now
from engram.tasks.index_notes import index_now
from engram.tasks.runtime import Runtime

#: Rows that are embedded in one call: nobody else waits here.
DRAIN_ROWS = 128

Progress = Callable[[str, int, int], None]


@dataclass(slots=True)
class Drained:
    """What was done."""

    sessions: int = 0
    failed: int = 0
    embedded: int = 0
    has_consolidated: bool = False


def drain(
    runtime: Runtime, *, with_waiting: bool = False, with_consolidation: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> Drained:  # fmt: skip
    """Extract what is due, index notes, embed what has no vector; what fails stays due for later.

    Args:
        with_waiting: also extract sessions whose threshold or silence has not come yet.
        with_consolidation: also consolidate, if the last run is old enough.
        progress: gets a stage (extract, embed), how much is done and the total (0: not known).
    """
    done = Drained()
    _extract_all(runtime, done, with_waiting, progress)
    run_guarded(runtime, "index_notes", "", lambda: index_now(runtime))
    _embed_all(runtime, done, progress)
    if with_consolidation:
        run_guarded(runtime, "consolidate", "", lambda: setattr(done, "has_consolidated", tidy(runtime)))
        _embed_all(runtime, done, progress)
    return done


def _extract_all(runtime: Runtime, done: Drained, with_waiting: bool, progress: Progress) -> None:
    if runtime.extractor is None:
        return
    todo = [work.key for work in due_work(runtime.store, 1_000_000) if work.kind == "extract"]
    if with_waiting:
        todo = list(dict.fromkeys([*todo, *sessions_with_due_turns(runtime.store)]))
    for number, session_id in enumerate(todo, 1):
        has_worked = run_guarded(runtime, "extract", session_id, partial(extract_now, runtime, session_id))
        done.sessions += 1
        done.failed += not has_worked
        progress("extract", number, len(todo))


def _embed_all(runtime: Runtime, done: Drained, progress: Progress) -> None:
    while True:
        left = _embed_slice(runtime)
        if not left:
            return
        done.embedded += left
        progress("embed", done.embedded, 0)


def _embed_slice(runtime: Runtime) -> int:
    """Embed a slice; 0 where nothing is left or it failed."""
    counts: list[int] = []
    run_guarded(runtime, "embed", "", lambda: counts.append(embed_slice(runtime, DRAIN_ROWS)))
    return counts[0] if counts else 0
