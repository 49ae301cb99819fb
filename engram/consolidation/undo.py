"""Undo the last change to a memory with all related changes, or a whole run. An undo can itself be undone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engram.consolidation.graduation import NOTE, follow_graduation, without_lines
from engram.consolidation.step_context import digest_of
from engram.enums import Actor, Judgement, Status
from engram.errors import BadRequest, NotFound
from engram.forgetting.purge import check_unpurged
from engram.memories.save import require_memory
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories import judgements, memory_history, watermarks
from engram.models.memories.memory_changes import DECIDE, RESTORE
from engram.models.memories.memory_history import JUDGEMENT_ACTIONS, Change, changes_of_run, history_of, standing_steps
from engram.models.memories.memory_records import MEMORY_ID, Memory, find_memory
from engram.models.memories.memory_undo import (
    FINAL_ACTIONS,
    QUIET_ACTIONS,
    REDO,
    UNDO,
    fields_changed_since,
    is_in_the_way,
    is_making,
    restart_ageing,
    undo_change,
)
from engram.notes.daily_log import notes_lock, read_text, write_text
from engram.settings import Settings
from engram.system.clock import iso_time

#: Kind of a run that undoes other changes.
KIND = "undo"
#: Actions that consolidation doesn't repeat once they have been undone.
NOT_AGAIN = ("archive", "supersede", "graduate")
#: Kinds of runs that are a single action, so that all changes of such a run belong together.
_WHOLE_RUNS = ("save", "decide", KIND)
#: Actions that can be undone even though they change no field.
_FIELDLESS = (JUDGEMENT_ACTIONS[Judgement.HELPFUL], DECIDE)


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The last change to a memory, and everything that is undone together with it."""

    #: The last change itself.
    change: Change
    #: All changes that belong to it, including the change itself, oldest first.
    together: tuple[Change, ...]

    @property
    def is_redo(self) -> bool:
        return self.change.action == UNDO

    def lines(self) -> list[str]:
        """Return a line for each change to undo, last change first."""
        verb = REDO if self.is_redo else UNDO
        return [f"{verb} {_name(change)} of {change.episode_id}" for change in reversed(self.together)]

    def to_json(self) -> dict[str, object]:
        return {
            "action": self.change.action,
            "reason": self.change.reason,
            "actor": self.change.actor,
            "at": iso_time(self.change.at_ms),
            "redo": self.is_redo,
            "before": dict(self.change.before),
            "after": dict(self.change.after),
            "lines": self.lines(),
        }


def plan_undo(store: Reader, memory: Memory) -> UndoPlan:
    """Find the last change to a memory, and all changes that belong to it.

    Ageing, packing and added evidence do not count as changes. All changes of a save, decision or undo belong together;
    in a consolidation or extraction, only changes to memories that refer to each other do.

    Raises:
        BadRequest: there is nothing to undo, or the last change is final.
    """
    steps = [step for step in standing_steps(history_of(store, memory.episode_id)) if _is_visible(step)]
    if not steps:
        raise BadRequest(f"{memory.episode_id} has no change to undo")
    change = steps[-1]
    if change.action in FINAL_ACTIONS or (change.action == RESTORE and change.run_id is None):
        reason = FINAL_ACTIONS.get(change.action, "it is valid again because the memory that had replaced it is gone")
        raise BadRequest(f"the last change of {memory.episode_id} ({change.action}) can't be undone: {reason}")
    if not (change.before or is_making(change) or change.undoes or change.action in _FIELDLESS):
        raise BadRequest(f"the last change of {memory.episode_id} ({change.action}) can't be undone")
    return UndoPlan(change, tuple(_together(store, change)))


def undo_last_change(
    store: Store, settings: Settings, episode_id: str, *, actor: Actor, step: int | None = None
) -> UndoPlan:
    """Undo the last change to a memory, and all changes that belong to it.

    Each memory's history records the undo, and a second call reverts it. Consolidation does not repeat changes that
    were undone.

    Args:
        step: the id of the step that must be the last change; None for any.

    Raises:
        NotFound: there is no such memory.
        BadRequest: there is nothing to undo, the change is final, or one of its fields has been changed again since.
    """
    with store.transaction() as tx:
        plan = plan_undo(tx, require_memory(tx, episode_id))
        if step is not None and plan.change.id != step:
            raise BadRequest(
                f"{episode_id} has been changed since ({plan.change.action}); review it before you undo it"
            )
        take_back(tx, plan.together, actor=actor, check=_check_unchanged)
        _check_successors(tx, plan.together)
    follow_graduation(store, settings, list(dict.fromkeys(change.episode_id for change in plan.together)))
    return plan


def take_back(
    tx: Tx, changes: Sequence[Change], *, actor: Actor, check: Callable[[Tx, Change], None] = lambda *_: None
) -> list[str]:
    """Undo changes, last one first, in a separate run; return a line for each of them.

    ``check`` is called before each change is undone, and may raise an error to refuse the undo.

    Contradictions are reopened if the run that decided them no longer has any effect. Changes that were undone are not
    repeated.
    """
    run_id = memory_history.add_run(tx, KIND)
    for change in reversed(changes):
        check(tx, change)
        reason = f"{_name(change)}: {change.reason}" if change.reason else _name(change)
        undo_change(tx, change, actor=actor, run_id=run_id, reason=reason)
    _settle_runs(tx, changes)
    watermarks.note_undone(tx, [(c.action, c.episode_id) for c in changes if c.action in NOT_AGAIN])
    lines = UndoPlan(changes[-1], tuple(changes)).lines() if changes else []
    memory_history.close_run(tx, run_id, lines)
    return lines


def _is_visible(step: Change) -> bool:
    """Return True for a step that people see as a change."""
    is_empty_undo = step.action in (UNDO, REDO) and not step.before
    return step.action not in QUIET_ACTIONS and not is_empty_undo


def _name(change: Change) -> str:
    return "the undo" if change.action == UNDO else change.action


def _together(store: Reader, change: Change) -> list[Change]:
    """Return the changes of the same run that are still in effect and belong to ``change``, oldest first."""
    if change.run_id is None:
        return [change]
    of_run = standing_changes(store, change.run_id)
    if memory_history.find_run(store, change.run_id, _WHOLE_RUNS) is not None:
        return of_run
    linked, todo = {change.episode_id}, [change.episode_id]
    while todo:
        named = todo.pop()
        for step in of_run:
            ids = _ids_of(step)
            if named in ids and not ids <= linked:
                todo += ids - linked
                linked |= ids
    return [step for step in of_run if step.episode_id in linked]


def _ids_of(step: Change) -> set[str]:
    """Return the ids of a step's memory and of those that it refers to."""
    successors = (step.before.get("superseded_by"), step.after.get("superseded_by"))
    return {step.episode_id, *MEMORY_ID.findall(step.reason), *(successor for successor in successors if successor)}


def _check_unchanged(tx: Tx, change: Change) -> None:
    """Raise BadRequest if the memory is gone, or if a field that the change set has been changed again."""
    memory = find_memory(tx, change.episode_id)
    if memory is None:
        raise BadRequest(f"this can't be undone: {change.episode_id}, which was changed with it, is gone")
    changed = fields_changed_since(change, memory)
    if changed:
        raise BadRequest(
            f"{change.episode_id} has been changed since ({', '.join(changed)}); "
            f"undo that first: engram undo {change.episode_id}"
        )


def _check_successors(tx: Tx, changes: Sequence[Change]) -> None:
    """Raise BadRequest if a memory would be left superseded by one that is neither current nor superseded."""
    for episode_id in {change.episode_id for change in changes}:
        memory = find_memory(tx, episode_id)
        if memory is None or memory.status is not Status.SUPERSEDED:
            continue
        successor = find_memory(tx, memory.superseded_by)
        if successor is None or not (successor.is_current or successor.superseded_by):
            raise BadRequest(
                f"this can't be undone: {memory.superseded_by}, which replaced {episode_id}, is no longer there"
            )


def _settle_runs(tx: Tx, changes: Sequence[Change]) -> None:
    """Record, for each run that made the changes, whether it still has an effect, and update its decisions."""
    for run_id in _runs_behind(tx, changes):
        standing = standing_changes(tx, run_id)
        memory_history.set_state(tx, run_id, "done" if standing else "undone")
        if not standing:
            judgements.reopen_contradictions(tx, run_id)
        else:
            replaced = {step.episode_id: by for step in standing if (by := step.after.get("superseded_by"))}
            judgements.decide_again(tx, run_id, replaced)


def _runs_behind(tx: Tx, changes: Sequence[Change]) -> set[int]:
    """Return the runs of the changes, and the runs of any changes that these had undone."""
    behind: set[int] = set()
    todo = list(changes)
    while todo:
        change = todo.pop()
        behind |= set() if change.run_id is None else {change.run_id}
        if change.undoes is not None:
            todo += [step for step in history_of(tx, change.episode_id) if step.id == change.undoes]
    return behind


def standing_changes(store: Reader, run_id: int) -> list[Change]:
    """Return the changes of a run that have not been undone, oldest first."""
    of_run = changes_of_run(store, run_id)
    standing = {
        step.id
        for episode_id in {step.episode_id for step in of_run}
        for step in standing_steps(history_of(store, episode_id))
    }
    return [step for step in of_run if step.id in standing]


# -- Undo a whole run.


def undo_run(store: Store, settings: Settings, run_id: int, *, actor: Actor) -> list[str]:
    """Undo all changes of a run (consolidation, extraction, save, decision or undo), last one first.

    Return a line for each. The undo is itself a run, which can be undone. Consolidation does not repeat changes that
    were undone; memories that had aged start to age again.

    Raises:
        NotFound: there is no such run.
        BadRequest: the run was already undone, a later run changed the same memories, or some of them were purged.
    """
    with store.transaction() as tx:
        run = memory_history.find_run(tx, run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}; `engram consolidate --list` lists the runs")
        if run.state == "undone":
            raise BadRequest(f"run {run_id} has already been undone")
        check_unpurged(tx, run_id)
        changes = standing_changes(tx, run_id)
        _check_untouched(tx, changes)
        lines = take_back(tx, changes, actor=actor)
        for episode_id in {c.episode_id for c in changes if c.action == "age"}:
            restart_ageing(tx, episode_id)
        memory_history.set_state(tx, run_id, "undone")
    if run.kind == KIND:
        follow_graduation(store, settings, sorted({change.episode_id for change in changes}))
    graduated = [change.episode_id for change in changes if change.action == "graduate"]
    written = run.report.get("files_after", {})
    for name, text in run.report.get("files_before", {}).items():
        lines.append(_restore_note(settings, name, text, written.get(name), graduated))
    return lines


def _restore_note(settings: Settings, name: str, text: str, written: str | None, graduated: list[str]) -> str:
    """Restore a note; if it has been changed since the run, only remove the run's lines."""
    path = settings.places.notes / name
    with notes_lock(settings.places):
        now = read_text(path)
        if now is None:
            return f"notes/{name} cannot be rewritten and is left unchanged"
        if written is not None and now != text and digest_of(now) != written:
            if name == NOTE:
                write_text(path, without_lines(now, graduated))
            return f"notes/{name} has been changed since: only that run's lines were removed from {NOTE}"
        if text:
            write_text(path, text)
        else:
            path.unlink(missing_ok=True)
    return f"restore notes/{name}"


def _check_untouched(store: Reader, changes: list[Change]) -> None:
    for change in changes:
        history = memory_history.standing_steps(memory_history.history_of(store, change.episode_id))
        later = [step for step in history if is_in_the_way(change, step)]
        if later:
            raise BadRequest(
                f"{change.episode_id} was changed after that run ({later[-1].action}); undo the later run first"
            )
