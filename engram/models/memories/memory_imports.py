"""Memories that come from a file with their history, and how an import is taken back."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from peewee import fn

from engram.enums import Actor
from engram.models import tables
from engram.models.engine.statement import RecordReader
from engram.models.engine.transaction import Reader, Tx
from engram.models.memories import memory_rows
from engram.models.memories.memory_changes import ADDED, remove_memory
from engram.models.memories.memory_history import IMPORT, Change, add_history, history_of
from engram.models.memories.memory_records import Evidence, Memory, memories_superseded_by

#: Fields of a memory that hold its words.
_WORDS = ("summary", "content")


@dataclass(frozen=True, slots=True)
class KnownContradiction:
    """Two memories that cannot both hold, and how that was decided."""

    older_id: str
    newer_id: str
    reason: str
    #: "" while it is open, the id of the memory that was kept, or "both".
    decision: str
    made_at_ms: int
    decided_at_ms: int | None


_CONTRADICTIONS = RecordReader(KnownContradiction, tables.Contradiction, left_out=("id", "run_id"))


def import_memory(
    tx: Tx,
    memory: Memory,
    evidence: Sequence[Evidence],
    history: Sequence[Change],
    *,
    reason: str,
    run_id: int,
) -> Memory:
    """Store a memory as it was elsewhere, with its history; the last step of it is this import, by a person.

    What a step took back (``undoes``) is the place of that step in ``history``.
    """
    now_ms = tx.now_ms()
    made = dataclasses.replace(
        memory,
        created_at_ms=memory.created_at_ms or now_ms,
        kept_at_ms=memory.kept_at_ms or now_ms,
        updated_at_ms=now_ms,
        stable_id=memory.stable_id or secrets.token_hex(8),
    )
    made = dataclasses.replace(made, id=memory_rows.insert_memory(tx, made))
    memory_rows.insert_evidence(tx, made.id, evidence)
    numbers: list[int] = []
    for step in history:
        number = add_history(
            tx,
            made.episode_id,
            step.action,
            step.reason,
            step.before,
            step.after,
            actor=step.actor,
            at_ms=step.at_ms,
            undoes=numbers[step.undoes] if step.undoes is not None and 0 <= step.undoes < len(numbers) else None,
        )
        numbers.append(number)
    add_history(tx, made.episode_id, IMPORT, reason, {}, {}, actor=Actor.USER, run_id=run_id)
    return made


def has_stable_id(store: Reader, stable_id: str) -> bool:
    """True where a memory has this stable id."""
    memory = tables.Memory
    return store.has_any(memory.select(memory.id).where(memory.stable_id == stable_id).limit(1))


def contradictions_of(store: Reader, episode_id: str) -> list[KnownContradiction]:
    """Return the contradictions, open or decided, of which a memory is the newer side."""
    table = tables.Contradiction
    return store.fetch_records(
        _CONTRADICTIONS, _CONTRADICTIONS.select().where(table.newer_id == episode_id).order_by(table.id)
    )


def carry_contradiction(tx: Tx, contradiction: KnownContradiction) -> None:
    """Add a contradiction of another database, if both memories are here and it is not known."""
    table, memory = tables.Contradiction, tables.Memory
    pair = [contradiction.older_id, contradiction.newer_id]
    present = tx.fetch_value(memory.select(fn.COUNT(memory.id)).where(memory.episode_id.in_(pair)))
    known = tx.has_any(table.select(table.id).where(table.older_id.in_(pair) & table.newer_id.in_(pair)))
    if present == 2 and not known:
        tx.run(table.insert(**dataclasses.asdict(contradiction)))


def imported_by(store: Reader, run_id: int) -> list[str]:
    """Return the ids of the memories that an import added and that are still there, in order."""
    history, memory = tables.History, tables.Memory
    there = memory.select(memory.episode_id)
    query = history.select(history.episode_id).where(
        (history.run_id == run_id) & (history.action == IMPORT) & history.episode_id.in_(there)
    )
    return store.fetch_values(query.order_by(history.id))


def why_not_removed(store: Reader, memory: Memory, imported: frozenset[str]) -> str:
    """Return why a memory must stay when its import is undone; "" if it may go.

    Args:
        store: the open memory.
        memory: an imported memory.
        imported: the ids of all memories of the same import.
    """
    steps = history_of(store, memory.episode_id)
    begin = max((step.id for step in steps if step.action == IMPORT), default=0)
    for step in steps:
        if step.id > begin and step.actor is not Actor.TIDYING:
            return f"it was changed since ({step.action})"
        if step.id > begin and (step.action == ADDED or any(name in step.before for name in _WORDS)):
            return "another memory was merged into it"
    others = [other for other in memories_superseded_by(store, memory.episode_id) if other.episode_id not in imported]
    return "it stands for other memories" if others else ""


def remove_imported(tx: Tx, memory: Memory) -> None:
    """Take back the import of one memory: it goes without a tombstone, and can be imported again."""
    remove_memory(tx, memory, actor=Actor.USER)


def drop_empty_sessions(tx: Tx, session_ids: Sequence[str]) -> None:
    """Delete those of the sessions of which only the name is left: they came with memories that went again."""
    session = tables.Session
    for session_id in session_ids:
        row_id = tx.fetch_value(session.select(session.id).where(session.session_id == session_id))
        used = (tables.Memory, tables.Turn, tables.Transcript)
        if row_id is not None and not any(
            tx.has_any(table.select(table.id).where(table.session == row_id).limit(1)) for table in used
        ):
            tx.run(session.delete().where(session.id == row_id))


def drop_empty_projects(tx: Tx, project_ids: Sequence[int]) -> int:
    """Delete those of the projects of which nothing is left; returns how many."""
    project, count = tables.Project, 0
    used = (tables.Memory, tables.Session, tables.Turn)
    for project_id in project_ids:
        if not any(tx.has_any(table.select(table.id).where(table.project == project_id).limit(1)) for table in used):
            count += tx.run(project.delete().where(project.id == project_id))
    return count
