"""Run the steps of tidying: all of them as a consolidation, those of a session after its extraction.

A consolidation runs under a lease and within a time budget, so that it is logged and can be resumed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import astuple, dataclass
from functools import partial
from typing import TYPE_CHECKING

from engram.consolidation.git_staleness import confirm_merged, mark_stale
from engram.consolidation.graduation import graduate, not_graduating, retire
from engram.consolidation.rejudge import archive_picked, rejudge_elements, rejudge_rules
from engram.consolidation.step_context import Context, Similar, TimeIsUp
from engram.consolidation.tidying_steps import (
    NAMED_COSINE,
    age,
    archive_exact_duplicates,
    confirm_recent,
    confirm_session,
    distill_again,
    merge_near_duplicates,
    pack_old,
    reconcile,
    supersede_pairs,
    write_digests,
)
from engram.embedding.embedder import DUPLICATE_COSINE, Embedder, duplicate_cosine
from engram.enums import Actor, Status
from engram.extraction.local.local_extractor import LEAD
from engram.memories.save import may_rival, note_rival, note_rivals, rivals_of
from engram.models.engine.transaction import Store
from engram.models.forgetting.forget_memories import finish_wipe
from engram.models.memories import memory_history, memory_records, watermarks
from engram.models.memories.branches import branches_of_memories
from engram.models.memories.judgements import is_kept_by_hand
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory
from engram.models.memories.watermarks import (
    join_horizon_ms,
    mark_joined,
    next_unjoined,
    rows_of_same_turn,
    unjoined_rows,
)
from engram.models.search.memory_lists import current_states_by_rules
from engram.models.sessions.recent_work import latest_sessions_on
from engram.models.work.work import last_run_ms, release_lease, take_lease
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import embed_memories
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
        finish_wipe(store)
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
        ("rivals", lambda: note_all_rivals(context)),
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


def note_all_rivals(context: Context) -> None:
    """Record the contradictions between rules that name rivals, such as npm and pnpm, of which at least one is new."""
    rules: dict[object, list[Memory]] = {}
    for memory in filter(may_rival, context.current_memories()):
        rules.setdefault((memory.project_id, memory.scope), []).append(memory)
    for memory in [memory for group in rules.values() for memory in group]:
        context.check_time()
        if context.changed is not None and memory.id not in context.changed:
            continue
        found = list(rivals_of(memory, rules[memory.project_id, memory.scope], Actor.TIDYING))
        if found and context.is_dry:
            lines = [note_rival(context.store, *pair) for pair in found]
            context.lines += [line for line in lines if line and line not in context.lines]
        elif found:
            with context.store.transaction() as tx:
                context.lines += filter(None, [note_rival(tx, *pair) for pair in found])


def _report(context: Context) -> dict[str, object]:
    return {
        "lines": context.lines[:_MAX_REPORT_LINES],
        "files_before": context.files_before,
        "files_after": context.files_after,
        "begins_at": None if context.begins_at is None else astuple(context.begins_at),
    }


# -- After an extraction: settle the session, and join new memories with older ones in chronological order.

#: The end of the recorded reason for archiving open work.
WENT_ON = "continued the work on the branch"


def end_open_work(context: Context) -> None:
    """Archive the open work of a session once a later session of the project has worked on the same branch.

    The later session records for itself what it leaves open. Memories that a person changed or restored are kept.
    """
    states = [
        memory
        for memory in current_states_by_rules(context.store)
        if memory.summary.startswith(LEAD) and memory.project_id is not None and not is_kept_by_hand(memory)
    ]
    branches_of = branches_of_memories(context.store, [memory.id for memory in states])
    for memory in states:
        later = _went_on(context.store, memory, branches_of.get(memory.id, ()))
        is_settled = any(change.is_by_hand for change in history_of(context.store, memory.episode_id))
        if later and not is_settled and not context.is_undone("archive", memory):
            reason = f"session {later} {WENT_ON}"
            if context.change(memory, "archive", reason, actor=Actor.TIDYING, status=Status.ARCHIVED):
                context.add_line(f"archive {memory.episode_id} ({reason})")


def _went_on(store: Store, memory: Memory, branches: Collection[str]) -> str:
    """Return the id of the last session that worked on one of the branches after the memory's own; "" if there is none.

    A session that ran at the same time but ended earlier is ignored.
    """
    sessions = [row for branch in branches for row in latest_sessions_on(store, memory.project_id or 0, branch, 2)]
    own = max((row.last_at_ms for row in sessions if row.session_id == memory.session_id), default=0)
    since_ms = max(own, memory.created_at_ms)
    later = [row for row in sessions if row.session_id != memory.session_id and row.last_at_ms > since_ms]
    return max(later, key=lambda row: row.last_at_ms).session_id if later else ""


def settle_session(store: Store, settings: Settings, session_id: str) -> list[str]:
    """After an extraction, confirm the session's memories where possible, and archive open work that was continued.

    Return a line for each change.
    """
    with _logged_run(store, settings) as context:
        confirm_session(context, session_id)
        end_open_work(context)
    return context.lines


def join_pairs(
    store: Store, settings: Settings, pairs: Sequence[tuple[int, int, float]], *, duplicate_cosine: float
) -> list[str]:
    """Join memories with similar ones; return a line for each change.

    A memory that says the same as another one is merged with it. A decision or preference that abandons or changes an
    older one supersedes the older one.

    Args:
        pairs: ``(row id, other row id, cosine)``, most similar first.
    """
    with _logged_run(store, settings, duplicate_cosine) as context:
        supersede_pairs(context, pairs)
        context.similar = lambda least, _: iter([pair for pair in pairs if pair[2] >= least])
        merge_near_duplicates(context)
    return context.lines


@contextlib.contextmanager
def _logged_run(store: Store, settings: Settings, duplicate_cosine: float = DUPLICATE_COSINE) -> Iterator[Context]:
    """Log the changes made in the block as a run, which ``undo_run`` can undo."""
    with store.transaction() as tx:
        run_id = memory_history.add_run(tx, "extract")
    context = Context(store, settings, run_id, duplicate_cosine=duplicate_cosine)
    yield context
    with store.transaction() as tx:
        memory_history.close_run(tx, run_id, context.lines)


def join_waiting(store: Store, settings: Settings, searcher: Searcher, embedder: Embedder | None) -> list[str]:
    """Join waiting memories with those that were said before them; return a line for each change.

    A memory waits while an earlier turn is due or still open. Therefore the result depends neither on the order in
    which sessions are extracted nor on the number of workers.
    """
    lines: list[str] = []
    horizon_ms = join_horizon_ms(store)
    while (memory := next_unjoined(store, horizon_ms)) is not None:
        hidden = frozenset([*unjoined_rows(store), *rows_of_same_turn(store, memory.id)])
        similar = searcher.similar_memories([memory.id], NAMED_COSINE)
        pairs = sorted((p for p in similar if p[1] not in hidden), key=lambda pair: (-round(pair[2], 4), pair[1]))
        changes = join_pairs(store, settings, pairs, duplicate_cosine=duplicate_cosine(embedder))
        now = memory_records.find_memory(store, memory.episode_id)
        if now is not None and may_rival(now):  # Few memories are rules of this kind; the others need no write lock.
            with store.transaction() as tx:
                now = memory_records.find_memory(tx, memory.episode_id)
                lines += [] if now is None else note_rivals(tx, now, actor=Actor.TIDYING)
        if changes:
            if embedder is not None:
                embed_memories(store, embedder)
            searcher.refresh()
            lines += changes
        mark_joined(store, memory.id)
    return lines
