"""Run a consolidation under a lease and within a time budget, so that it is logged and can be resumed."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING

from engram.consolidation.after_extraction import end_open_work
from engram.consolidation.git_staleness import confirm_merged, mark_stale
from engram.consolidation.graduation import graduate, not_graduating, retire
from engram.consolidation.rejudge import archive_picked, rejudge_elements, rejudge_rules
from engram.consolidation.step_context import Context, Similar, TimeIsUp
from engram.consolidation.tidying_steps import (
    NAMED_COSINE,
    age,
    archive_exact_duplicates,
    confirm_recent,
    distill_again,
    merge_near_duplicates,
    pack_old,
    reconcile,
    supersede_pairs,
    write_digests,
)
from engram.embedding.embedder import DUPLICATE_COSINE
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history, watermarks
from engram.models.work.work import last_run_ms, release_lease, take_lease
from engram.settings import Settings

if TYPE_CHECKING:
    from engram.extraction.model.reconcile import Reconciler
    from engram.extraction.model.second_chance import SecondChance

#: Name of the lease that prevents two workers from consolidating at once.
LEASE = "consolidate"
#: Maximum number of report lines that are stored.
_MAX_REPORT_LINES = 500


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a consolidation or a dry run."""

    #: 0 for a dry run, or if the consolidation did not run.
    run_id: int
    #: A line for each change.
    lines: tuple[str, ...]
    #: False if the time budget was used up first; the next run resumes.
    is_complete: bool = True
    #: False if another process held the lease, or the last run was too recent.
    has_run: bool = True
    #: For a dry run: a line for each memory that has been used but does not graduate yet, with the reason.
    not_graduating: tuple[str, ...] = ()


def consolidate(
    store: Store,
    settings: Settings,
    *,
    similar: Similar | None = None,
    duplicate_cosine: float = DUPLICATE_COSINE,
    distilling: SecondChance | None = None,
    reconciling: Reconciler | None = None,
    is_dry: bool = False,
    is_forced: bool = False,
) -> Report:
    """Run or resume a consolidation, unless another process holds the lease or the last run is recent.

    Args:
        similar: finds pairs of similar memories; without it, only exact duplicates are found.
        duplicate_cosine: minimum cosine at which two memories are taken to say the same; it depends on the embedding
            model.
        distilling: redoes the local extractor's memories; None without a language model.
        reconciling: relates memories; None without a language model.
        is_forced: run even if the last run was recent, and compare all memories, not only those that are new or have
            changed since the last complete run.
    """
    if is_dry:
        context = Context(store, settings, None, similar, duplicate_cosine, distilling, reconciling, is_dry=True)
        for _, step in _steps(context, 0):
            step()
        waiting = [f"{memory.episode_id} ({why_not}): {memory.summary}" for memory, why_not in not_graduating(context)]
        return Report(0, tuple(context.lines), not_graduating=tuple(waiting))
    owner = f"{os.getpid()}-{id(store)}"
    every = 0 if is_forced else settings.consolidate_seconds
    since = last_run_ms(store, LEASE)
    if not take_lease(store, LEASE, owner, settings.consolidate_budget_seconds * 2 + 60, every_seconds=every):
        return Report(0, (), has_run=False)
    has_finished = False
    try:
        begun = memory_history.begin_run(store)
        context = Context(store, settings, begun.id, similar, duplicate_cosine, distilling, reconciling)
        context.is_forced = is_forced
        report = _run(context, begun, since, is_full=is_forced)
        has_finished = report.is_complete
        return report
    finally:
        release_lease(store, LEASE, owner, has_run=has_finished)


def _run(context: Context, run: memory_history.Run, since_ms: int, *, is_full: bool) -> Report:
    store, settings = context.store, context.settings
    known = None if is_full else watermarks.load_watermark(store)
    context.changed = None if known is None else watermarks.changed_since(store, known)
    context.begins_at = (
        watermarks.Watermark(*run.report["begins_at"])
        if run.report.get("begins_at")
        else watermarks.current_watermark(store)
    )
    context.lines += run.report.get("lines", [])
    context.lines_before = len(context.lines)
    context.files_before |= run.report.get("files_before", {})
    context.files_after |= run.report.get("files_after", {})
    context.until_seconds = store.clock.steady_seconds() + settings.consolidate_budget_seconds
    todo = _steps(context, since_ms)
    names = [name for name, _ in todo]
    for name, step in todo[names.index(run.position) if run.position in names else 0 :]:
        context.save = partial(_save, context, run, name)
        try:
            context.check_time()
            step()
        except TimeIsUp:
            context.save()
            return Report(run.id, tuple(context.lines), is_complete=False)
        context.save()
    with store.transaction() as tx:
        memory_history.update_run(tx, run, position="", report=_report(context), state="done")
    if context.similar is not None:
        with store.transaction() as tx:
            watermarks.save_watermark(tx, context.begins_at)
    return Report(run.id, tuple(context.lines))


def _save(context: Context, run: memory_history.Run, position: str) -> None:
    with context.store.transaction() as tx:
        memory_history.update_run(tx, run, position=position, report=_report(context))


def _steps(context: Context, since_ms: int) -> list[tuple[str, Callable[[], None]]]:
    """Return the named steps, in order. A step that is repeated finds nothing left to do."""
    return [
        ("elements", lambda: rejudge_elements(context)),
        ("rejudge", lambda: rejudge_rules(context)),
        ("picked", lambda: archive_picked(context)),
        ("open work", lambda: end_open_work(context)),
        ("duplicates", lambda: archive_exact_duplicates(context)),
        ("merge", lambda: merge_near_duplicates(context)),
        ("supersede", lambda: supersede_pairs(context, context.pairs(NAMED_COSINE))),
        ("reconcile", lambda: reconcile(context)),
        ("confirm", lambda: confirm_recent(context, since_ms)),
        ("branches", lambda: confirm_merged(context)),
        ("stale", lambda: mark_stale(context)),
        ("age", lambda: age(context)),
        ("pack", lambda: pack_old(context)),
        ("retire", lambda: retire(context)),
        ("graduate", lambda: graduate(context)),
        ("distill", lambda: distill_again(context)),
        ("digest", lambda: write_digests(context, since_ms)),
    ]


def _report(context: Context) -> dict[str, object]:
    return {
        "lines": context.lines[:_MAX_REPORT_LINES],
        "files_before": context.files_before,
        "files_after": context.files_after,
        "begins_at": None if context.begins_at is None else astuple(context.begins_at),
    }
