"""Whether memories of a test are current, and what replaced them."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Memory


def current_row(store: Store, memory: Memory) -> Memory:
    """Return a memory as it is stored now; fails the test if it is gone."""
    row = memory_records.find_memory(store, memory.episode_id)
    assert row is not None
    return row


def states_of(store: Store, *memories: Memory) -> list[tuple[str, str]]:
    """Return the status of each memory and the id of the memory that replaced it."""
    rows = [current_row(store, memory) for memory in memories]
    return [(row.status, row.superseded_by) for row in rows]
