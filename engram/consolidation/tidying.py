"""Run a consolidation: under a lease, within a time budget, resumable, logged, and undone on request."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import astuple, dataclass
from functools import partial

from engram.consolidation import steps
from engram.consolidation.context import Context, Distilling, Reconciling, Similar, TimeIsUp, digest_of
from engram.consolidation.graduation import NOTE, follow_graduation, graduate, not_graduating, retire, without_lines
from engram.consolidation.joining import end_open_work
from engram.consolidation.model_steps import distill_again, reconcile
from engram.consolidation.rejudge import archive_picked, rejudge_elements, rejudge_rules
from engram.consolidation.stale import confirm_merged, mark_stale
from engram.consolidation.steps import confirm_recent, supersede_outdated
from engram.consolidation.undo import KIND as UNDO_KIND
from engram.consolidation.undo import standing_changes, take_back
from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.forgetting.purge import check_unpurged
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history, watermarks
from engram.models.memories.memory_history import Change
from engram.models.memories.memory_undo import begin_ageing_anew, is_in_the_way
from engram.models.work.work import last_run_ms, release_lease, take_lease
from engram.notes.daily_log import notes_lock, read_text, write_text
from engram.settings import Settings

#: Name of the lease that keeps two workers from consolidating at once.
LEASE = "consolidate"
#: Maximum number of stored lines of a report.
_MAX_REPORT_LINES = 500


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a consolidation or a dry run."""

    #: 0 for a dry run, and if it did not run.
    run_id: int
    #: A line for each change.
    lines: tuple[str, ...]
    #: False if the time budget ended first; the next run resumes.
    is_complete: bool = True
    #: False if another process held the lease, or the last run was too recent.
    has_run: bool = True
    #: Of a dry run: a line for each memory that was used and does not graduate yet, with the reason.
    not_graduating: tuple[str, ...] = ()


def consolidate(
    store: Store,
    settings: Settings,
    *,
    similar: Similar | None = None,
    duplicate_cosine: float = 0.92,
    distilling: Distilling | None = None,
    reconciling: Reconciling | None = None,
    is_dry: bool = False,
    is_forced: bool = False,
) -> Report:
    """Consolidate: duplicates, outdated decisions, confirmed and stale memories, age, packing, MEMORY.md, daily log.

    Args:
        store: the open memory.
        settings: intervals, limits and places.
        similar: finds pairs of similar memories; without it, only exact duplicates are found.
        duplicate_cosine: cosine from which on two memories say the same; depends on the embedding model.
        distilling: distills again what the local extractor kept; None without a language model.
        reconciling: relates memories; None without a language model.
        is_dry: change nothing, and report what would be done.
        is_forced: run even if the last run was recent, and compare all memories; otherwise only new and changed ones
            since the last complete run.
    """
    if is_dry:
        context = Context(store, settings, None, similar, duplicate_cosine, distilling, reconciling, is_dry=True)
        for _, step in _steps(context, 0):
            step()
        waiting = [f"{memory.episode_id} ({why_not}): {memory.summary}" for memory, why_not in not_graduating(context)]
        return Report(0, tuple(context.told), not_graduating=tuple(waiting))
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
    context.told += run.report.get("lines", [])
    context.told_before = len(context.told)
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
            return Report(run.id, tuple(context.told), is_complete=False)
        context.save()
    with store.transaction() as tx:
        memory_history.update_run(tx, run, position="", report=_report(context), state="done")
    if context.similar is not None:
        with store.transaction() as tx:
            watermarks.save_watermark(tx, context.begins_at)
    return Report(run.id, tuple(context.told))


def _save(context: Context, run: memory_history.Run, position: str) -> None:
    with context.store.transaction() as tx:
        memory_history.update_run(tx, run, position=position, report=_report(context))


def _steps(context: Context, since_ms: int) -> list[tuple[str, Callable[[], None]]]:
    """Return the steps by name, in order. Each may be repeated: it then finds nothing left to do."""
    return [
        ("elements", lambda: rejudge_elements(context)),
        ("rejudge", lambda: rejudge_rules(context)),
        ("picked", lambda: archive_picked(context)),
        ("open work", lambda: end_open_work(context)),
        ("duplicates", lambda: steps.archive_exact_duplicates(context)),
        ("merge", lambda: steps.merge_near_duplicates(context)),
        ("supersede", lambda: supersede_outdated(context)),
        ("reconcile", lambda: reconcile(context)),
        ("confirm", lambda: confirm_recent(context, since_ms)),
        ("branches", lambda: confirm_merged(context)),
        ("stale", lambda: mark_stale(context)),
        ("age", lambda: steps.age(context)),
        ("pack", lambda: steps.pack_old(context)),
        ("retire", lambda: retire(context)),
        ("graduate", lambda: graduate(context)),
        ("distill", lambda: distill_again(context)),
        ("digest", lambda: steps.write_digests(context, since_ms)),
    ]


def _report(context: Context) -> dict[str, object]:
    return {
        "lines": context.told[:_MAX_REPORT_LINES],
        "files_before": context.files_before,
        "files_after": context.files_after,
        "begins_at": None if context.begins_at is None else astuple(context.begins_at),
    }


def undo_run(store: Store, settings: Settings, run_id: int, *, actor: Actor) -> list[str]:
    """Take back everything that a consolidation, an extraction, a save, a decision or an undo changed.

    The last change is taken back first; returns a line for each. That is a run too, and can be taken back in its turn.

    What is taken back is not done again by itself, and what had aged begins to age anew.

    Raises:
        NotFound: there is no such run.
        BadRequest: it is undone already, a later run changed the same memories, or some of them were purged.
    """
    run = memory_history.find_run(store, run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id}; 'engram consolidate --list' shows them")
    if run.state == "undone":
        raise BadRequest(f"run {run_id} is undone already")
    check_unpurged(store, run_id)
    changes = standing_changes(store, run_id)
    _check_untouched(store, changes)
    with store.transaction() as tx:
        told = take_back(tx, changes, actor=actor)
        for episode_id in {c.episode_id for c in changes if c.action == "age"}:
            begin_ageing_anew(tx, episode_id)
        memory_history.set_state(tx, run_id, "undone")
    if run.kind == UNDO_KIND:
        follow_graduation(store, settings, sorted({change.episode_id for change in changes}))
    graduated = [change.episode_id for change in changes if change.action == "graduate"]
    written = run.report.get("files_after", {})
    for name, text in run.report.get("files_before", {}).items():
        told.append(_restore_note(settings, name, text, written.get(name), graduated))
    return told


def _restore_note(settings: Settings, name: str, text: str, written: str | None, graduated: list[str]) -> str:
    """Put a note back as it was; where somebody wrote there since, only take out the lines of that run."""
    path = settings.places.notes / name
    with notes_lock(settings.places):
        now = read_text(path)
        if now is None:
            return f"notes/{name} cannot be rewritten; it stays as it is"
        if written is not None and now != text and digest_of(now) != written:
            if name == NOTE:
                write_text(path, without_lines(now, graduated))
            return f"notes/{name} was changed since: only the lines of that run were taken out of {NOTE}"
        if text:
            write_text(path, text)
        else:
            path.unlink(missing_ok=True)
    return f"restore notes/{name}"


def _check_untouched(store: Store, changes: list[Change]) -> None:
    for change in changes:
        history = memory_history.standing_steps(memory_history.history_of(store, change.episode_id))
        later = [step for step in history if is_in_the_way(change, step)]
        if later:
            raise BadRequest(
                f"{change.episode_id} was changed after that run ({later[-1].action}); undo the later run first"
            )
