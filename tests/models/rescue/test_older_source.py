"""Columns that an older memory.db was made without are read as their defaults, and the file stays as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from engram.enums import Actor, Source
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_changes
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Memory, all_memories, find_memory
from engram.models.open_memory import open_store
from engram.models.rescue.carry_over import recover_by_hand
from engram.models.rescue.soundness import opened_source

Keep = Callable[..., Memory]


def older_copy(store: Store, path: Path) -> Path:
    """A copy of the memory as a version wrote it that knew no questions and no undone steps."""
    store.checkpoint("TRUNCATE")
    path.write_bytes(store.path.read_bytes())
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE episode DROP COLUMN questions")
    connection.execute("ALTER TABLE history DROP COLUMN undoes")
    connection.commit()
    connection.close()
    return path


def test_a_memory_of_an_older_version_is_read_with_its_history(store: Store, keep: Keep, tmp_path: Path) -> None:
    kept = keep("saved", source=Source.MANUAL, questions=("Which one?",))
    with store.transaction() as tx:
        memory_changes.change_memory(tx, kept, "pin", actor=Actor.USER, is_pinned=True)
    path = older_copy(store, tmp_path / "older.db")
    before = path.read_bytes()

    with opened_source(store, path) as source:
        (memory,) = all_memories(source)
        steps = history_of(source, kept.episode_id)

    assert (memory.summary, memory.is_pinned, memory.questions) == ("saved", True, ())
    assert [(step.action, step.undoes) for step in steps][-1] == ("pin", None)
    assert path.read_bytes() == before


def test_what_was_saved_by_hand_comes_out_of_an_older_version(store: Store, keep: Keep, tmp_path: Path) -> None:
    kept = keep("saved", source=Source.MANUAL)
    path = older_copy(store, tmp_path / "older.db")

    with open_store(tmp_path / "new" / "memory.db", driver=store.driver, clock=store.clock) as new:
        done = recover_by_hand(new, [path], actor=Actor.USER, carry_more=carry_hubs)

        assert (done.memories, done.lost, done.is_complete) == (1, 0, True)
        assert find_memory(new, kept.episode_id) is not None
