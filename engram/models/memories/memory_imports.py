"""Store imported memories with their history, and undo an import."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from peewee import fn

from engram.enums import Actor
from engram.models import tables
from engram.models.engine.statement import in_json_list
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories import memory_writes
from engram.models.memories.judgements import CONTRADICTIONS, Contradiction, is_noted
from engram.models.memories.memory_changes import ADDED, RELEASE, RESTORE, dates_of
from engram.models.memories.memory_history import IMPORT, Change, add_history, history_of
from engram.models.memories.memory_records import Evidence, Memory, memories_superseded_by

#: Fields of a memory that contain its words.
_WORDS = ("summary", "content")


def import_memory(
    tx: Tx, memory: Memory, evidence: Sequence[Evidence], history: Sequence[Change], *, reason: str, run_id: int
) -> Memory:
    """Store a memory with its history from elsewhere, and add the import, as a change by a person, as the last step.

    A step's ``undoes`` is the position in ``history`` of the step that it undid.
    """
    made = dataclasses.replace(memory, **dates_of(tx, memory))
    made = dataclasses.replace(made, id=memory_writes.insert_memory(tx, made))
    memory_writes.insert_evidence(tx, made.id, evidence)
    carry_history(tx, made.episode_id, history)
    add_history(tx, made.episode_id, IMPORT, reason, {}, {}, actor=Actor.USER, run_id=run_id)
    return made


def carry_history(tx: Tx, episode_id: str, history: Sequence[Change]) -> None:
    """Add a memory's history from elsewhere. A step's ``undoes`` is the position of the step that it undid."""
    numbers: list[int] = []
    for step in history:
        number = add_history(
            tx,
            episode_id,
            step.action,
            step.reason,
            step.before,
            step.after,
            actor=step.actor,
            at_ms=step.at_ms,
            undoes=numbers[step.undoes] if step.undoes is not None and 0 <= step.undoes < len(numbers) else None,
        )
        numbers.append(number)


def has_stable_id(store: Reader, stable_id: str) -> bool:
    memory = tables.Memory
    return store.has_any(memory.select(memory.id).where(memory.stable_id == stable_id).limit(1))


def stored_ids(store: Reader) -> list[str]:
    return store.fetch_values(tables.Memory.select(tables.Memory.episode_id))


def contradictions_of(store: Reader, episode_id: str) -> list[Contradiction]:
    """Return the contradictions, open or decided, in which a memory is the newer side."""
    table = tables.Contradiction
    return store.fetch_records(
        CONTRADICTIONS, CONTRADICTIONS.select().where(table.newer_id == episode_id).order_by(table.id)
    )


def carry_contradiction(tx: Tx, contradiction: Contradiction) -> None:
    """Add a contradiction from another database, if both memories exist and it is not yet recorded here."""
    table, memory = tables.Contradiction, tables.Memory
    pair = [contradiction.older_id, contradiction.newer_id]
    present = tx.fetch_value(memory.select(fn.COUNT(memory.id)).where(memory.episode_id.in_(pair)))
    if present == 2 and not is_noted(tx, pair):
        fields = dataclasses.asdict(contradiction)
        del fields["id"]
        tx.run(table.insert(**fields))


def carry_decision(tx: Tx, contradiction: Contradiction) -> None:
    """Copy the decision on a contradiction from a newer copy of this database; reopen it if it is undecided there."""
    table = tables.Contradiction
    is_it = (table.older_id == contradiction.older_id) & (table.newer_id == contradiction.newer_id)
    decided = table.update(decision=contradiction.decision, decided_at_ms=contradiction.decided_at_ms)
    tx.run(decided.where(is_it & (table.made_at_ms == contradiction.made_at_ms)))


def imported_by(store: Reader, run_id: int) -> list[str]:
    """Return the ids of the memories that an import added and that still exist, in that order."""
    history, memory = tables.History, tables.Memory
    there = memory.select(memory.episode_id)
    query = history.select(history.episode_id).where(
        (history.run_id == run_id) & (history.action == IMPORT) & history.episode_id.in_(there)
    )
    return store.fetch_values(query.order_by(history.id))


def why_not_removed(store: Reader, memory: Memory, imported: frozenset[str]) -> str:
    """Return why a memory must be kept when its import is undone; "" if it may be deleted.

    Args:
        imported: the ids of all memories from the same import.
    """
    steps = history_of(store, memory.episode_id)
    begin = max((step.id for step in steps if step.action == IMPORT), default=0)
    for step in steps:
        if step.action in (RESTORE, RELEASE):
            # The memory that had replaced it was removed, as this undo may do, too.
            continue
        if step.id > begin and step.actor is not Actor.TIDYING:
            return f"it has been changed since ({step.action})"
        if step.id > begin and (step.action == ADDED or any(name in step.before for name in _WORDS)):
            return "another memory was merged into it"
    others = [other for other in memories_superseded_by(store, memory.episode_id) if other.episode_id not in imported]
    return "it replaced other memories" if others else ""


def drop_empty_sessions(tx: Tx, session_ids: Sequence[str]) -> None:
    """Delete those of the given sessions that have no content left now that their memories are deleted."""
    session, used = tables.Session, (tables.Memory, tables.Turn, tables.Transcript)
    is_empty = [~fn.EXISTS(table.select(table.id).where(table.session == session.id)) for table in used]
    tx.run(session.delete().where(in_json_list(session.session_id, session_ids), *is_empty))


def drop_empty_projects(tx: Tx, project_ids: Sequence[int]) -> int:
    """Delete those of the given projects that are empty; return how many were deleted."""
    project, used = tables.Project, (tables.Memory, tables.Session, tables.Turn)
    is_empty = [~fn.EXISTS(table.select(table.id).where(table.project == project.id)) for table in used]
    return tx.run(project.delete().where(in_json_list(project.id, project_ids), *is_empty))
