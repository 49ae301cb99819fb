"""How far memories have been compared with each other, so that only new ones are compared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from peewee import SQL, Query, Select, fn

from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.transaction import Reader, Store, Tx, asks_values
from engram.models.memories.memory_changes import listeners
from engram.models.memories.memory_records import Memory, select_memories

# -- How far consolidation has got, so that the next one examines only memories that were added or changed since.

_LOOKED, _HEADS, _UNDONE = "consolidated_to", "git_heads", "undone"
#: Maximum number of undone changes that are stored; the oldest are dropped first.
MAX_UNDONE = 5_000


@dataclass(frozen=True, slots=True)
class Watermark:
    """A point in the history of all memories. Both numbers increase with every change and are never reused."""

    #: The latest row of the history.
    history_id: int
    #: The latest vector of a memory. Memories are compared once they have a vector.
    vector_seq: int


def current_watermark(store: Reader) -> Watermark:
    latest_vector = tables.Vector.select(fn.MAX(tables.Vector.seq)).where(tables.Vector.owner == "e")
    latest_history = tables.History.select(fn.MAX(tables.History.id))
    history_id = fn.COALESCE(latest_history, 0).alias("history_id")
    row = store.fetch_first(Select(columns=[history_id, fn.COALESCE(latest_vector, 0).alias("vector_seq")]))
    return Watermark(history_id=row.history_id, vector_seq=row.vector_seq)


def load_watermark(store: Reader) -> Watermark | None:
    """Return the watermark up to which everything has been compared; None if nothing has."""
    stored = get_meta(store, _LOOKED)
    return None if stored is None else Watermark(*json.loads(stored))


def save_watermark(tx: Tx, watermark: Watermark) -> None:
    """Record that everything up to a watermark has been compared."""
    put_meta(tx, _LOOKED, json.dumps([watermark.history_id, watermark.vector_seq]))


def changed_since(store: Reader, watermark: Watermark) -> frozenset[int]:
    """Return the row ids of the memories that were added, changed or embedded after a watermark."""
    changed = (
        tables.Memory.select(tables.Memory.id)
        .join(tables.History, on=tables.History.episode_id == tables.Memory.episode_id)
        .where(tables.History.id > watermark.history_id)
    )
    embedded = tables.Vector.select(tables.Vector.owner_id).where(
        (tables.Vector.owner == "e") & (tables.Vector.seq > watermark.vector_seq)
    )
    return frozenset(store.fetch_values(changed | embedded))


def load_heads(store: Reader) -> dict[str, str]:
    """Map each project's stable id to the state of its repository and memories when they were last compared."""
    stored = json.loads(get_meta(store, _HEADS) or "{}")
    return {str(name): str(value) for name, value in stored.items()}


def save_heads(tx: Tx, heads: Mapping[str, str]) -> None:
    """Store the states for ``load_heads``."""
    put_meta(tx, _HEADS, json.dumps(dict(heads), sort_keys=True))


def undone(store: Reader) -> frozenset[tuple[str, str]]:
    """Return the changes that the user undid and that must not be repeated, as ``(action, id of the memory)``."""
    return frozenset(load_undone(store))


def load_undone(store: Reader) -> list[tuple[str, str]]:
    """Return the same changes, the oldest first."""
    stored = json.loads(get_meta(store, _UNDONE) or "[]")
    return [(str(action), str(episode_id)) for action, episode_id in stored]


def note_undone(tx: Tx, changes: Sequence[tuple[str, str]]) -> None:
    """Store changes that the user undid, and notify the listeners."""
    keep_undone(tx, changes)
    for listener in listeners():
        listener.vetoed(tx, changes)


def keep_undone(tx: Tx, changes: Sequence[tuple[str, str]]) -> None:
    """Store changes that the user undid on another machine, or in another copy of this database."""
    kept = list(dict.fromkeys([*load_undone(tx), *changes]))[-MAX_UNDONE:]
    put_meta(tx, _UNDONE, json.dumps(kept))


# -- Memories that have not been compared with the others yet. They are compared in the order in which they were said.

#: How long an open turn that doesn't grow delays the comparison of later memories, in milliseconds.
OPEN_TURN_MS = 1_200_000


def mark_unjoined(tx: Tx, row_id: int) -> None:
    """Record that a memory is new or changed and must be compared with the others."""
    tx.run(tables.Memory.update(is_unjoined=1).where(tables.Memory.id == row_id))


def mark_joined(store: Store, row_id: int) -> None:
    """Record that a memory has been compared with the others."""
    with store.transaction() as tx:
        tx.run(tables.Memory.update(is_unjoined=0).where(tables.Memory.id == row_id))


def next_unjoined(store: Reader, before_ms: int) -> Memory | None:
    """Return the earliest memory that was said before a time and has not been compared yet."""
    memory = tables.Memory
    condition = (memory.is_unjoined == SQL("1")) & (memory.created_at_ms < before_ms)
    waiting = select_memories(store, condition, memory.created_at_ms, memory.slot, limit=1)
    return waiting[0] if waiting else None


@asks_values
def unjoined_rows() -> Query:
    """Return the row ids of the memories that have not been compared yet."""
    return tables.Memory.select(tables.Memory.id).where(tables.Memory.is_unjoined == SQL("1"))


def held_back_rows(store: Reader) -> frozenset[int]:
    """Return the row ids of the memories that can't be compared yet, because earlier turns may still change."""
    memory = tables.Memory
    waiting = (memory.is_unjoined == SQL("1")) & (memory.created_at_ms >= join_horizon_ms(store))
    return frozenset(store.fetch_values(memory.select(memory.id).where(waiting)))


@asks_values
def rows_of_same_turn(row_id: int) -> Query:
    """Return the row ids of the memories from the same turn as a memory."""
    mine, other = tables.Evidence.alias(), tables.Evidence.alias()
    turn = mine.select(mine.turn_id).where((mine.memory == row_id) & (mine.seq == 0))
    return other.select(other.memory).where((other.seq == 0) & (other.turn_id == turn))


def join_horizon_ms(store: Reader) -> int:
    """Return when the oldest turn that is open or due for extraction began; it may still change memories.

    Turns whose extraction has failed before are ignored, and so are open turns that have not grown for
    ``OPEN_TURN_MS``. This uses raw SQL because of its nested selects.
    """
    now_ms = store.now_ms()
    # The turn before one that has grown is extracted again with it.
    waiting = store.value(
        "SELECT min(coalesce((SELECT max(b.started_at_ms) FROM turn b WHERE b.session_ref = due.session_ref "
        "AND b.started_at_ms < due.first_ms), due.first_ms)) FROM ("
        "SELECT t.session_ref, min(t.started_at_ms) AS first_ms FROM turn t JOIN session s ON s.id = t.session_ref "
        "JOIN work w ON w.kind = 'extract' AND w.key = s.session_id AND w.state = 'due' AND w.attempts = 0 "
        "WHERE t.extracted_revision < t.revision GROUP BY t.session_ref) due"
    )
    still_open = store.value(
        "SELECT min(started_at_ms) FROM turn WHERE is_closed = 0 AND ended_at_ms > ?", (now_ms - OPEN_TURN_MS,)
    )
    return min(time for time in (waiting, still_open, now_ms + 1) if time is not None)
