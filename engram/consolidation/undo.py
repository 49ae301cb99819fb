"""Undo the last change of one memory, with what was changed together with it. An undo can be undone."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engram.consolidation.graduation import follow_graduation
from engram.enums import Actor, Judgement, Status
from engram.errors import BadRequest
from engram.memories.save import require_memory
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.memories import judgements, memory_history, watermarks
from engram.models.memories.memory_changes import DECIDE, RESTORE
from engram.models.memories.memory_history import JUDGEMENT_ACTIONS, Change, changes_of_run, history_of, standing_steps
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.memories.memory_undo import (
    FINAL_ACTIONS,
    QUIET_ACTIONS,
    REDO,
    UNDO,
    fields_changed_since,
    is_making,
    undo_change,
)
from engram.settings import Settings
from engram.system.clock import iso_time

#: Kind of a run that takes back what another one changed.
KIND = "undo"
#: Actions that no consolidation repeats once they were undone.
NOT_AGAIN = ("archive", "supersede", "graduate")
#: Runs whose changes belong together whatever they name: each was one act of somebody.
_WHOLE_RUNS = ("save", "decide", KIND)
#: Changes without a field that can be taken back.
_FIELDLESS = (JUDGEMENT_ACTIONS[Judgement.HELPFUL], DECIDE)
_ID = re.compile(r"\bep_[0-9a-f]{12}\b")


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The last change of a memory, and everything that is taken back with it."""

    #: The change that was asked for.
    change: Change
    #: All changes that go together, this one included, the oldest first.
    together: tuple[Change, ...]

    @property
    def is_redo(self) -> bool:
        """True if what is taken back is itself an undo."""
        return self.change.action == UNDO

    def lines(self) -> list[str]:
        """A line for each change that is taken back, the last one first."""
        verb = REDO if self.is_redo else UNDO
        return [f"{verb} {_name(change)} of {change.episode_id}" for change in reversed(self.together)]

    def to_json(self) -> dict[str, object]:
        """The plan for scripts."""
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
    """Find the last change of a memory, and what was changed together with it.

    Ageing, packing and added evidence are no changes in this sense. What a save, a decision or an undo changed goes as
    a whole; of a consolidation or extraction, the changes of the memories that name each other.

    Raises:
        BadRequest: there is nothing to undo, or what was last changed is final.
    """
    steps = [step for step in standing_steps(history_of(store, memory.episode_id)) if _is_visible(step)]
    if not steps:
        raise BadRequest(f"nothing of {memory.episode_id} can be undone: its history has no change")
    change = steps[-1]
    if change.action in FINAL_ACTIONS or (change.action == RESTORE and change.run_id is None):
        reason = FINAL_ACTIONS.get(change.action, "it is in force again since what had replaced it is gone")
        raise BadRequest(f"the last change of {memory.episode_id} ({change.action}) can't be undone: {reason}")
    if not (change.before or is_making(change) or change.undoes or change.action in _FIELDLESS):
        raise BadRequest(f"the last change of {memory.episode_id} ({change.action}) can't be undone")
    return UndoPlan(change, tuple(_together(store, change)))


def undo_last_change(
    store: Store, settings: Settings, episode_id: str, *, actor: Actor, step: int | None = None
) -> UndoPlan:
    """Take back the last change of a memory, and everything that was changed together with it.

    Each memory's history has a step that says so; a second call takes the undo back. What a consolidation did is not
    done again by itself.

    Args:
        store: the open memory.
        settings: the places of the notes.
        episode_id: the memory.
        actor: who undoes it.
        step: the id of the step that is expected to be the last change; None takes whatever is the last.

    Raises:
        NotFound: there is no such memory.
        BadRequest: there is nothing to undo, it is final, or something of it was changed since.
    """
    with store.transaction() as tx:
        plan = plan_undo(tx, require_memory(tx, episode_id))
        if step is not None and plan.change.id != step:
            raise BadRequest(f"{episode_id} was changed since ({plan.change.action}); look at it again")
        take_back(tx, plan.together, actor=actor, check=_check_unchanged)
        _check_successors(tx, plan.together)
    follow_graduation(store, settings, list(dict.fromkeys(change.episode_id for change in plan.together)))
    return plan


def take_back(
    tx: Tx, changes: Sequence[Change], *, actor: Actor, check: Callable[[Tx, Change], None] = lambda *_: None
) -> list[str]:
    """Take changes back, the last one first, as a run of its own; returns a line for each.

    ``check`` may refuse each change by an error, right before it is taken back.

    What was decided of a contradiction in a run of which nothing stands any more is asked again, and a consolidation
    does not repeat what was taken back.
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
    """Return True for a step that a person means by a change."""
    is_empty_undo = step.action in (UNDO, REDO) and not step.before
    return step.action not in QUIET_ACTIONS and not is_empty_undo


def _name(change: Change) -> str:
    return "the undo" if change.action == UNDO else change.action


def _together(store: Reader, change: Change) -> list[Change]:
    """Return the standing changes of the same run that go with one, the oldest first."""
    if change.run_id is None:
        return [change]
    of_run = standing_changes(store, change.run_id)
    if memory_history.kind_of_run(store, change.run_id) in _WHOLE_RUNS:
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
    """Return the memory of a step and those that it names."""
    successors = (step.before.get("superseded_by"), step.after.get("superseded_by"))
    return {step.episode_id, *_ID.findall(step.reason), *(one for one in successors if one)}


def _check_unchanged(tx: Tx, change: Change) -> None:
    """Raise BadRequest if a memory is gone, or a field that a change had set was changed again."""
    memory = find_memory(tx, change.episode_id)
    if memory is None:
        raise BadRequest(f"this can't be undone: {change.episode_id}, which was changed with it, is gone")
    changed = fields_changed_since(change, memory)
    if changed:
        raise BadRequest(
            f"{change.episode_id} was changed since ({', '.join(changed)}); "
            f"undo that first: engram undo {change.episode_id}"
        )


def _check_successors(tx: Tx, changes: Sequence[Change]) -> None:
    """Raise BadRequest if a memory would be replaced by one that is not in force."""
    for episode_id in {change.episode_id for change in changes}:
        memory = find_memory(tx, episode_id)
        if memory is None or memory.status is not Status.SUPERSEDED:
            continue
        successor = find_memory(tx, memory.superseded_by)
        if successor is None or not (successor.is_current or successor.superseded_by):
            raise BadRequest(f"this can't be undone: {memory.superseded_by}, which replaced {episode_id}, is not there")


def _settle_runs(tx: Tx, changes: Sequence[Change]) -> None:
    """Note of every run behind some changes whether it stands, and let its decisions follow."""
    for run_id in _runs_behind(tx, changes):
        standing = standing_changes(tx, run_id)
        memory_history.set_state(tx, run_id, "done" if standing else "undone")
        if not standing:
            judgements.reopen_contradictions(tx, run_id)
        else:
            judgements.decide_again(tx, run_id, _replaced_in(standing))


def _runs_behind(tx: Tx, changes: Sequence[Change]) -> set[int]:
    """Return the runs of some changes, and of those that they took back in their turn."""
    behind: set[int] = set()
    todo = list(changes)
    while todo:
        change = todo.pop()
        behind |= set() if change.run_id is None else {change.run_id}
        if change.undoes is not None:
            todo += [step for step in history_of(tx, change.episode_id) if step.id == change.undoes]
    return behind


def standing_changes(store: Reader, run_id: int) -> list[Change]:
    """Return the changes of a run that nothing took back, the oldest first."""
    of_run = changes_of_run(store, run_id)
    standing = {
        step.id
        for episode_id in {step.episode_id for step in of_run}
        for step in standing_steps(history_of(store, episode_id))
    }
    return [step for step in of_run if step.id in standing]


def _replaced_in(steps: Sequence[Change]) -> dict[str, str]:
    """Return the memories that some changes replaced, each with the one in its place."""
    return {step.episode_id: step.after["superseded_by"] for step in steps if step.after.get("superseded_by")}
