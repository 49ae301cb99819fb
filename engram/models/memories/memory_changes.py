"""All changes to memories go through this module, which records each in the memory's history with who made it and why.

Row, text index, entities, vector, evidence and history change in one transaction. Code that must be notified of every
change defines a ``ChangeListener``, and ``engram.models.open_memory`` lists its module.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import secrets
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from peewee import ColumnBase, Query, Value, fn

from engram.enums import CURRENT_STATUSES, Actor, Scope, Status, Voice
from engram.errors import StoreError
from engram.models import tables
from engram.models.engine.statement import is_same
from engram.models.engine.transaction import LISTENER_MODULES, Reader, Store, Tx
from engram.models.memories import memory_writes
from engram.models.memories.judgements import mark_used
from engram.models.memories.memory_history import ERASE, add_first_steps, add_history, drop_history, snapshot
from engram.models.memories.memory_records import (
    Evidence,
    Memory,
    evidence_of,
    find_memory,
    memories_superseded_by,
    select_memories,
)
from engram.models.memories.tombstones import TombstoneKind, add_tombstones, allow_text, bar_text, barred_entries
from engram.models.shown.injections import withdraw_bites

#: Actions recorded for a memory whose successor was deleted: it is current again, or gets another successor.
RESTORE, RELEASE = "restore", "release"
#: Action recorded for a memory that was moved to another project with the rest of its session or project.
MOVE = "move"
#: Action recorded for a memory that the user decided to keep although another one contradicts it.
DECIDE = "decide"
#: Fields of a new memory that history records. The others are in the memory or in the steps that changed them later.
_FIRST_FIELDS = ("kind", "status", "importance", "confidence", "source", "extractor")


class ChangeListener:
    """Base class of listeners, which are notified of every change to a memory in the transaction of the change."""

    def made(self, tx: Tx, memory: Memory, action: str) -> None:
        """A memory was stored."""

    def changed(
        self, tx: Tx, before: Memory, after: Memory, action: str, actor: Actor, at_ms: int | None = None
    ) -> None:
        """Fields of a memory changed, at the time ``at_ms`` (default: now)."""

    def erased(self, tx: Tx, before: Memory, after: Memory) -> None:
        """Words of a memory were forgotten."""

    def moved(self, tx: Tx, episode_ids: Query) -> None:
        """The memories that the query selects are about to move, or their project's identity changed."""

    def deleted(self, tx: Tx, memory: Memory, *, is_purge: bool) -> None:
        """A memory is about to be deleted permanently."""

    def vetoed(self, tx: Tx, changes: Sequence[tuple[str, str]]) -> None:
        """Changes were undone and must not be repeated. Each is given as an action and the id of a memory."""

    def merged(self, tx: Tx, from_id: int, into_id: int) -> None:
        """Everything in a project was moved to another one."""


def listeners() -> list[ChangeListener]:
    return [importlib.import_module(name).LISTENER for name in LISTENER_MODULES]


def add_memory(
    tx: Tx,
    memory: Memory,
    evidence: Sequence[Evidence],
    *,
    actor: Actor,
    action: str = "add",
    reason: str = "",
    run_id: int | None = None,
) -> Memory:
    made = dataclasses.replace(memory, **dates_of(tx, memory))
    made = dataclasses.replace(made, id=memory_writes.insert_memory(tx, made))
    memory_writes.insert_evidence(tx, made.id, evidence)
    if made.voice is Voice.USER:
        allow_text(tx, (made.summary, made.content), made.project_id)
    add_history(tx, made.episode_id, action, reason, {}, _first_fields(made), actor=actor, run_id=run_id)
    for listener in listeners():
        listener.made(tx, made, action)
    return made


def add_memories(
    tx: Tx, memories: Sequence[tuple[Memory, Sequence[Evidence]]], *, actor: Actor, action: str, reasons: Sequence[str]
) -> list[Memory]:
    """Store many new memories without a session, each with its evidence and reason, as ``add_memory`` does for one."""
    if not memories:
        return []
    dates = [dates_of(tx, memory) for memory, _ in memories]
    row_ids = memory_writes.insert_memories(tx, memories, dates)
    made = [
        dataclasses.replace(memory, id=row_ids[memory.episode_id], **of_memory)
        for (memory, _), of_memory in zip(memories, dates, strict=True)
    ]
    add_first_steps(
        tx,
        [(memory.episode_id, reason, _first_fields(memory)) for memory, reason in zip(made, reasons, strict=True)],
        actor=actor,
        action=action,
    )
    for listener in listeners():
        for memory in made:
            listener.made(tx, memory, action)
    return made


def dates_of(tx: Tx, memory: Memory) -> dict[str, Any]:
    """Return the timestamps and the stable id of a new memory."""
    now = tx.now_ms()
    return {
        "created_at_ms": memory.created_at_ms or now,
        "updated_at_ms": now,
        "kept_at_ms": memory.kept_at_ms or now,
        "stable_id": memory.stable_id or secrets.token_hex(8),
    }


def _first_fields(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in _FIRST_FIELDS}


def change_memory(
    tx: Tx,
    memory: Memory,
    action: str,
    reason: str = "",
    *,
    actor: Actor,
    run_id: int | None = None,
    undoes: int | None = None,
    at_ms: int | None = None,
    **changes: Any,
) -> Memory:
    """Change fields of a memory. ``undoes`` is the step of its history that this change undoes.

    If the text or the visibility changes, the vector is deleted and will be recomputed. If the memory stops being
    current without a successor, the memories that it had replaced become current again. ``at_ms`` is when the change
    was made, if not now.
    """
    if not changes:
        return memory
    after = change_alone(tx, memory, action, reason, actor=actor, run_id=run_id, undoes=undoes, at_ms=at_ms, **changes)
    if memory.is_current and not after.is_current and not after.superseded_by:
        for predecessor in predecessors_of(tx, after):
            _make_current(tx, predecessor, "what had replaced it is no longer current", actor=actor, run_id=run_id)
    return after


def supersede(
    tx: Tx, old: Memory, new: Memory, reason: str, *, actor: Actor, run_id: int | None = None, at_ms: int | None = None
) -> Memory:
    """Let ``new`` supersede ``old``, from ``at_ms`` or, by default, from when the new memory became valid."""
    return change_memory(
        tx,
        old,
        "supersede",
        reason,
        actor=actor,
        run_id=run_id,
        status=Status.SUPERSEDED,
        superseded_by=new.episode_id,
        valid_to_ms=new.holds_from_ms if at_ms is None else at_ms,
    )


def change_alone(
    tx: Tx,
    memory: Memory,
    action: str,
    reason: str,
    *,
    actor: Actor,
    run_id: int | None = None,
    undoes: int | None = None,
    at_ms: int | None = None,
    **changes: Any,
) -> Memory:
    """Store changed fields and a step of history that records them; if there are none, store only the step.

    Memories that it replaced remain replaced, even if it is archived: if it is outdated, so are they. ``at_ms`` is the
    time of the change (default: now).
    """
    after = memory
    if changes:
        changes = _as_allowed(memory, _with_questions(changes), actor)
        after = dataclasses.replace(memory, **changes, revision=memory.revision + 1, updated_at_ms=tx.now_ms())
        memory_writes.update_memory(tx, after, changes)
    fields = _changed_fields(memory, after)
    add_history(tx, memory.episode_id, action, reason, *fields, actor=actor, run_id=run_id, undoes=undoes, at_ms=at_ms)
    if after is memory:
        return memory
    _withdraw_changed(tx, memory, after)
    for listener in listeners():
        listener.changed(tx, memory, after, action, actor, at_ms)
    return after


#: Fields that determine a bite's text, or which projects see it.
_SHOWN_FIELDS = ("kind", "summary", "scope", "project_id", "stale_reason", "valid_to_ms")


def _withdraw_changed(tx: Tx, before: Memory, after: Memory) -> None:
    """Withdraw a memory's waiting bites if they would read differently now, or must not be shown any more."""
    is_hidden = not after.is_current or after.is_lowered or after.suspect
    if is_hidden or any(getattr(before, name) != getattr(after, name) for name in _SHOWN_FIELDS):
        withdraw_bites(tx, lambda: [after.episode_id])


def differing(memory: Memory, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the wanted fields that differ from a memory's, to be passed to ``change_memory``.

    If the summary differs, the wanted questions and title are always included, because omitting them deletes them.
    """
    changed = {name: value for name, value in wanted.items() if getattr(memory, name) != value}
    if "summary" in changed:
        changed |= {name: wanted[name] for name in _OF_THE_SUMMARY if name in wanted}
    return changed


def _with_questions(changes: dict[str, Any]) -> dict[str, Any]:
    """Return changes that also reset the questions and the title, which were written for the old summary."""
    return dict(_OF_THE_SUMMARY) | changes if "summary" in changes else changes


#: Fields that were written for a summary, with the values that they get when the summary changes.
_OF_THE_SUMMARY: dict[str, Any] = {"questions": (), "title": ""}


def _as_allowed(memory: Memory, changes: dict[str, Any], actor: Actor) -> dict[str, Any]:
    """Return changes except those that only a person may make: confirming a program's statement or making it global."""
    if memory.voice != Voice.PROGRAM or actor is Actor.USER:
        return changes
    is_confirmed = memory.status == Status.PROVISIONAL and changes.get("status") == Status.ACTIVE
    is_widened = memory.scope == Scope.PROJECT and changes.get("scope") == Scope.GLOBAL
    barred = {name for name, is_barred in (("status", is_confirmed), ("scope", is_widened)) if is_barred}
    return {name: value for name, value in changes.items() if name not in barred}


def erase_fields(tx: Tx, memory: Memory, reason: str, *, actor: Actor, **changes: Any) -> Memory:
    """Change fields of a memory whose words were forgotten, and delete the history that quotes them.

    The new history begins with this step, which lists no fields.
    """
    changes = _with_questions(changes)
    after = dataclasses.replace(memory, **changes, revision=memory.revision + 1, updated_at_ms=tx.now_ms())
    memory_writes.update_memory(tx, after, changes)
    drop_history(tx, memory.episode_id)
    if "entities" in changes:
        memory_writes.delete_unused_entities(tx)
    add_history(tx, memory.episode_id, ERASE, reason, {}, {}, actor=actor)
    withdraw_bites(tx, lambda: [memory.episode_id])
    for listener in listeners():
        listener.erased(tx, memory, after)
    return after


def pack_old_content(tx: Tx, memory: Memory, reason: str, *, actor: Actor, run_id: int | None = None) -> None:
    """Compress a memory's content and remove it from the text index. Reading it works as before."""
    row = tables.Memory
    if tx.fetch_value(row.select(row.packed_content).where(row.id == memory.id)) is not None:
        return
    memory_writes.set_packed_content(tx, memory.id, "", zlib.compress(memory.content.encode("utf-8"), 9))
    add_history(tx, memory.episode_id, "pack", reason, {}, {}, actor=actor, run_id=run_id)


def note_access(store: Store, episode_id: str, *, session_id: str = "") -> None:
    """Count an access to a memory. History doesn't record it, because it is not a change.

    If memory.db can't be written, the access is not counted, but no error is raised, so that the memory is still shown.

    Args:
        session_id: the session that expanded the memory; if it had been shown the memory, that counts as a use. "" for
            a person.
    """
    with contextlib.suppress(StoreError), store.transaction() as tx:
        memory_writes.set_accessed(tx, episode_id, tx.now_ms(), is_use=True)
        if session_id:
            mark_used(tx, session_id, {episode_id: tx.now_ms()})


def move_memories(
    tx: Tx, which: ColumnBase, to_project: int | None, reason: str, *, actor: Actor, is_said: bool = True
) -> None:
    """Move the memories that match a condition to a project, or to none; with ``is_said``, hubs are notified."""
    memory, history = tables.Memory, tables.History
    moving = which & ~is_same(memory.project, to_project)
    withdraw_bites(tx, lambda: tx.fetch_values(memory.select(memory.episode_id).where(moving)))
    before, after = (fn.json_object("project_id", project) for project in (memory.project, to_project))
    step = (tx.now_ms(), MOVE, reason, actor.value)
    columns = (history.episode_id, history.at_ms, history.action, history.reason, history.actor)
    steps = memory.select(memory.episode_id, *map(Value, step), before, after).where(moving)
    tx.run(history.insert_from(steps, [*columns, history.before, history.after]))
    for listener in listeners() if is_said else ():
        listener.moved(tx, memory.select(memory.episode_id).where(which))
    tx.run(memory.update({memory.project: to_project, memory.revision: memory.revision + 1}).where(moving))


def say_project_again(tx: Tx, project_id: int) -> None:
    """Notify hubs that a project is identified differently from now on."""
    memory = tables.Memory
    for listener in listeners():
        listener.moved(tx, memory.select(memory.episode_id).where(memory.project == project_id))


def move_memories_of_session(tx: Tx, session_ref: int, to_project: int | None, reason: str, *, actor: Actor) -> None:
    """Move all memories of a session to a project, or to none. Their vectors are deleted and will be recomputed."""
    of_session = tables.Memory.session == session_ref
    moved = tables.Memory.select(tables.Memory.id).where(of_session)
    tx.run(tables.Vector.delete().where((tables.Vector.owner == "e") & tables.Vector.owner_id.in_(moved)))
    move_memories(tx, of_session, to_project, reason, actor=actor)


def delete_memory(tx: Tx, memory: Memory, *, actor: Actor, is_purge: bool = False) -> None:
    """Delete a memory permanently, with its index, vector, entities, history and injections.

    Tombstones for its id and its slot keep it from being recreated automatically. Unless ``is_purge`` is set, they also
    keep an import or a restore from bringing it back, and an agent from saving its text again. Memories that it had
    replaced inherit its successor, or become current again if there is none.
    """
    remove_memory(tx, memory, actor=actor, is_purge=is_purge)
    add_tombstones(tx, TombstoneKind.PURGED if is_purge else TombstoneKind.MEMORY, [memory.episode_id.encode()])
    if memory.slot:
        slot_kind = TombstoneKind.PURGED_SLOT if is_purge else TombstoneKind.SLOT
        add_tombstones(tx, slot_kind, [memory.slot.encode()])
    if not is_purge:
        bar_text(tx, (memory.summary, memory.content), memory.project_id, is_global=memory.scope is Scope.GLOBAL)


def remove_memory(tx: Tx, memory: Memory, *, actor: Actor, is_purge: bool = False) -> None:
    """Delete a memory without tombstones, so that it can be imported again.

    Other machines delete it too, unless it is a purge.
    """
    _release_predecessors(tx, memory, actor)
    withdraw_bites(tx, lambda: [memory.episode_id])
    for listener in listeners():
        listener.deleted(tx, memory, is_purge=is_purge)
    memory_writes.delete_memory_rows(tx, memory)


def predecessors_of(store: Reader, successor: Memory) -> list[Memory]:
    """Return the memories that become current again if a memory stops being current without a successor.

    Only the most recent memory of a chain becomes current. A memory that was merged into ``successor`` remains
    archived, and the memories that it had replaced become current in its place.
    """
    predecessors: list[Memory] = []
    todo, seen = [successor.episode_id], set()
    while todo:
        episode_id = todo.pop(0)
        seen.add(episode_id)
        for replaced in memories_superseded_by(store, episode_id):
            if replaced.status == Status.SUPERSEDED:
                predecessors.append(replaced)
            elif replaced.status == Status.ARCHIVED and replaced.episode_id not in seen:
                todo.append(replaced.episode_id)
    return predecessors


def restore_orphans(tx: Tx, *, actor: Actor) -> list[Memory]:
    """Make memories current again that are superseded by a memory that doesn't exist."""
    successor = tables.Memory.alias()
    is_there = successor.select(1).where(successor.episode_id == tables.Memory.superseded_by)
    orphans = select_memories(tx, (tables.Memory.status == Status.SUPERSEDED.value) & ~fn.EXISTS(is_there))
    return [_make_current(tx, orphan, "what had replaced it does not exist", actor=actor) for orphan in orphans]


def _make_current(tx: Tx, memory: Memory, reason: str, *, actor: Actor, run_id: int | None = None) -> Memory:
    return change_memory(
        tx,
        memory,
        RESTORE,
        reason,
        actor=actor,
        run_id=run_id,
        status=_status_before(tx, memory),
        superseded_by="",
        valid_to_ms=None,
    )


def _release_predecessors(tx: Tx, memory: Memory, actor: Actor) -> None:
    """Give a memory's successor to the memories that it had replaced, or make them current again.

    Afterwards, the memory's id is not stored anywhere in these memories, not even in their history.
    """
    successor = find_memory(tx, memory.superseded_by) if memory.superseded_by else None
    restored = [] if successor else predecessors_of(tx, memory)
    reason = "what had replaced it is gone"
    for replaced in memories_superseded_by(tx, memory.episode_id):
        if replaced not in restored:
            hidden = dataclasses.replace(replaced, superseded_by="")
            after = dataclasses.replace(replaced, superseded_by=successor.episode_id if successor else "")
            memory_writes.update_memory(tx, after, ["superseded_by"])
            add_history(tx, replaced.episode_id, RELEASE, reason, *_changed_fields(hidden, after), actor=actor)
            for listener in listeners():
                listener.changed(tx, replaced, after, RELEASE, actor)
    for predecessor in restored:
        _make_current(tx, dataclasses.replace(predecessor, superseded_by=""), reason, actor=actor)


def _status_before(store: Reader, memory: Memory) -> Status:
    """Return the status that a superseded memory had while it was current."""
    history = tables.History
    steps = history.select(history.before).where(
        (history.episode_id == memory.episode_id) & (history.action == "supersede")
    )
    status = json.loads(store.fetch_value(steps.order_by(history.id.desc()).limit(1)) or "{}").get("status")
    return Status(status) if status in CURRENT_STATUSES else Status.ACTIVE


def _changed_fields(memory: Memory, after: Memory) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the fields that differ, with their values before and after, for a step of history."""
    before, now = snapshot(memory), snapshot(after)
    changed = [name for name in now if now[name] != before[name]]
    return {name: before[name] for name in changed}, {name: now[name] for name in changed}


# -- Evidence of memories: add, replace, merge and remove entries, with a step of history for each change.

#: Action recorded for a memory that got more evidence. The step contains the previous number of entries, so that an
#: undo can remove the others.
ADDED = "evidence"
#: Action recorded for a memory whose evidence was replaced.
REPLACED = "replace evidence"


def link_evidence(tx: Tx, session_id: str) -> None:
    """Link a session's evidence to turns that were stored after it, as happens with recovered memories."""
    memory_writes.link_evidence(tx, memory_writes.unlinked_of_session(session_id))


def unlink_evidence(tx: Tx, turn_id: int) -> None:
    """Unlink evidence from a turn whose row is about to be deleted, since another turn may get the same row id."""
    tx.run(tables.Evidence.update(turn_id=None).where(tables.Evidence.turn_id == turn_id))


def add_evidence(
    tx: Tx, memory: Memory, evidence: Sequence[Evidence], reason: str, *, actor: Actor, run_id: int | None = None
) -> bool:
    """Add evidence to a memory; return True if any of it is new. Entries without an id are left out."""
    return _add_evidence(tx, memory, [entry for entry in evidence if entry.uuid], reason, actor, run_id)


def _add_evidence(
    tx: Tx, memory: Memory, evidence: Sequence[Evidence], reason: str, actor: Actor, run_id: int | None
) -> bool:
    before = len(evidence_of(tx, memory.id))
    added = memory_writes.insert_evidence(tx, memory.id, evidence)
    if added:
        counts = {"count": before}, {"count": before + added}
        add_history(tx, memory.episode_id, ADDED, reason, *counts, actor=actor, run_id=run_id)
    return added > 0


def merge_evidence(tx: Tx, kept: Memory, merged: Memory, *, actor: Actor, run_id: int | None = None) -> None:
    _add_evidence(tx, kept, evidence_of(tx, merged.id), f"from {merged.episode_id}", actor, run_id)


def replace_evidence(
    tx: Tx, memory: Memory, evidence: Sequence[Evidence], reason: str, *, actor: Actor, run_id: int | None = None
) -> None:
    if evidence_of(tx, memory.id) == list(evidence):
        return
    memory_writes.delete_evidence(tx, memory.id)
    memory_writes.insert_evidence(tx, memory.id, evidence)
    add_history(tx, memory.episode_id, REPLACED, reason, {}, {}, actor=actor, run_id=run_id)


def take_out_evidence(tx: Tx, row_id: int, start: int, stop: int) -> list[list[str | int | None]]:
    """Remove a memory's evidence from position ``start`` up to but not including ``stop``.

    Return the id, session and turn of each removed entry, to be stored as JSON. Only ``memory_undo`` calls this.
    """
    taken, table = evidence_of(tx, row_id)[start:stop], tables.Evidence
    places = table.select(table.seq).where(table.memory == row_id).order_by(table.seq)
    memory_writes.delete_evidence(tx, row_id, table.seq.in_(places.limit(max(0, stop - start)).offset(start)))
    return [[entry.uuid, entry.session_id, entry.turn_id] for entry in taken]


def put_back_evidence(tx: Tx, row_id: int, entries: Sequence[Sequence[Any]]) -> tuple[int, int]:
    """Restore the entries that ``take_out_evidence`` removed, except those that have been forgotten since.

    Return the number of entries before and after.
    """
    barred = barred_entries(tx, [uuid for uuid, _, _ in entries])
    # The turn has another row id by now if this database was rebuilt, and is found again by the entry.
    known = [
        Evidence(uuid, session_id, None if uuid else turn_id)
        for uuid, session_id, turn_id in entries
        if uuid not in barred
    ]
    before = len(evidence_of(tx, row_id))
    return before, before + memory_writes.insert_evidence(tx, row_id, known)


def forget_evidence(tx: Tx, memory: Memory, which: ColumnBase, reason: str, *, actor: Actor) -> None:
    """Remove the entries that match a condition from a memory's evidence, because they were forgotten.

    Earlier steps about evidence are deleted, because undoing them would be wrong.
    """
    if not memory_writes.delete_evidence(tx, memory.id, which):
        return
    history = tables.History
    is_counted = (history.action == ADDED) | (history.before ** '{"count"%') | (history.before ** '{"entries"%')
    tx.run(history.delete().where((history.episode_id == memory.episode_id) & is_counted))
    add_history(tx, memory.episode_id, ERASE, reason, {}, {}, actor=actor)
