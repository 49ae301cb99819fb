"""Undo changes to memories. A step in the history of each memory records who undid what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from engram.enums import Actor, Status
from engram.models.engine.statement import pack_text
from engram.models.engine.transaction import Tx
from engram.models.memories import memory_writes
from engram.models.memories.memory_changes import (
    ADDED,
    MOVE,
    RELEASE,
    REPLACED,
    RESTORE,
    change_alone,
    change_memory,
    put_back_evidence,
    take_out_evidence,
)
from engram.models.memories.memory_history import (
    ERASE,
    IMPORT,
    JUDGEMENT_ACTIONS,
    TAKE_BACK,
    Change,
    add_history,
    fields_of_snapshot,
    history_of,
    snapshot,
)
from engram.models.memories.memory_records import Memory, find_memory

#: Actions of a step that undoes a change, and of one that redoes it.
UNDO, REDO = "undo", "redo"
#: Steps that change neither what a memory says nor whether it is used, so they don't count as its last change.
QUIET_ACTIONS = ("age", "pack", ADDED, REPLACED)
#: Steps that can't be undone, with the reason.
FINAL_ACTIONS: Mapping[str, str] = {
    ERASE: "its words or its evidence were forgotten, which can't be undone",
    MOVE: "it moved with its session or project",
    RELEASE: "the memory that had replaced it was forgotten, which can't be undone",
    IMPORT: "it was imported: `engram import --list` shows the import, and `engram import --undo RUN` undoes it",
}
#: Steps outside any run that don't prevent a run from being undone.
_INDEPENDENT = (RESTORE, RELEASE, MOVE, ERASE, UNDO, REDO)
Fields: TypeAlias = dict[str, Any]
#: Keys in a step that changed a memory's evidence: the previous number of entries, and the removed entries.
_COUNT, _ENTRIES = "count", "entries"


def is_making(change: Change) -> bool:
    """Return True for the step that created a memory."""
    return not change.before and "kind" in change.after


def is_in_the_way(change: Change, later: Change) -> bool:
    """Return True if a later step of the same memory prevents undoing a run's change.

    A step that changed no field, such as the judgement "helpful", never prevents an undo.
    """
    is_independent = later.action in (UNDO, REDO) or (
        later.run_id is None and (later.action in _INDEPENDENT or not later.before)
    )
    return later.id > change.id and later.run_id != change.run_id and not is_independent


def fields_changed_since(change: Change, memory: Memory) -> list[str]:
    """Return the fields that a step set and that have a different value now."""
    now = {"status": memory.status} if is_making(change) else snapshot(memory)
    return [name for name, value in change.after.items() if name in now and _plain(now[name]) != _plain(value)]


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def undo_change(tx: Tx, change: Change, *, actor: Actor, run_id: int | None = None, reason: str = "") -> None:
    """Undo one change. If it is itself an undo, that redoes the original change. A missing memory is skipped.

    Args:
        reason: why; defaults to the number of the change's run.
    """
    memory = find_memory(tx, change.episode_id)
    if memory is None:
        return
    action = REDO if change.action == UNDO else UNDO
    reason = reason or f"run {change.run_id}"
    facts: tuple[Fields, Fields] = {}, {}
    if change.action in JUDGEMENT_ACTIONS.values() or _judgement_taken_back(tx, change) is not None:
        _undo_judgement(tx, memory, change, reason, actor)
        return
    if _COUNT in change.before:
        taken = take_out_evidence(tx, memory.id, int(change.before[_COUNT]), int(change.after[_COUNT]))
        facts = {_ENTRIES: taken}, {_ENTRIES: []}
    elif _ENTRIES in change.before:
        first, last = put_back_evidence(tx, memory.id, change.before[_ENTRIES])
        facts = {_COUNT: first}, {_COUNT: last}
    # A memory that the change created is archived instead.
    elif fields := {"status": Status.ARCHIVED} if is_making(change) else fields_of_snapshot(change.before):
        change_memory(tx, memory, action, reason, actor=actor, run_id=run_id, undoes=change.id, **fields)
        return
    elif change.action == "pack":
        memory_writes.set_packed_content(tx, memory.id, pack_text(memory.content), None)
    add_history(tx, memory.episode_id, action, reason, *facts, actor=actor, run_id=run_id, undoes=change.id)


def _undo_judgement(tx: Tx, memory: Memory, change: Change, reason: str, actor: Actor) -> None:
    """Withdraw a judgement, or restore it if the change withdrew it."""
    judged = _judgement_taken_back(tx, change)
    action, why = (TAKE_BACK, reason) if judged is None else (judged.action, judged.reason)
    change_alone(tx, memory, action, why, actor=actor, undoes=change.id, **fields_of_snapshot(change.before))


def _judgement_taken_back(tx: Tx, change: Change) -> Change | None:
    """Return the judgement that a step withdrew; None for any other step."""
    if change.action != TAKE_BACK or change.undoes is None:
        return None
    return next((step for step in history_of(tx, change.episode_id) if step.id == change.undoes), None)


def restart_ageing(tx: Tx, episode_id: str) -> None:
    """Restart a memory's ageing, because someone who undoes a change has reviewed the memory."""
    memory_writes.set_accessed(tx, episode_id, tx.now_ms(), is_use=False)
