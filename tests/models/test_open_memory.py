"""Opening the memory: what was forgotten goes, another program's file is set aside, and listeners hear of changes."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from types import ModuleType

import pytest
from peewee import Query

from engram.enums import Actor, Scope
from engram.models import tables
from engram.models.engine import meta, transaction
from engram.models.engine.transaction import Store, Tx
from engram.models.memories import memory_changes, tombstones
from engram.models.memories.memory_changes import ChangeListener
from engram.models.memories.memory_records import Evidence, Memory, find_memory, new_memory_id
from engram.models.memories.tombstones import TombstoneKind
from engram.models.memories.watermarks import note_undone
from engram.models.open_memory import open_store
from engram.system.clock import FixedClock


def keep(store: Store, summary: str = "The cache lives in SQLite") -> Memory:
    made = Memory(new_memory_id(), "decision", summary, summary, scope=Scope.GLOBAL)
    with store.transaction() as tx:
        return memory_changes.add_memory(tx, made, [Evidence("a" * 32, "s1")], actor=Actor.USER)


def test_what_tombstones_name_goes_when_a_migrated_file_is_opened(tmp_path: Path, clock: FixedClock) -> None:
    path = tmp_path / "memory.db"
    with open_store(path, clock=clock) as memory:
        kept, forgotten = keep(memory), keep(memory, "Tests run against SQLite")
        with memory.transaction() as tx:
            tombstones.add_tombstones(tx, TombstoneKind.MEMORY, [forgotten.episode_id.encode()])
    with open_store(path, clock=clock) as memory:
        assert find_memory(memory, forgotten.episode_id) is not None
        with memory.transaction() as tx:
            meta.put_meta(tx, "tombstones_due", "1")

    with open_store(path, clock=clock) as memory:
        assert find_memory(memory, forgotten.episode_id) is None
        assert find_memory(memory, kept.episode_id) is not None
        assert meta.get_meta(memory, "tombstones_due") is None


def test_the_database_of_another_program_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE recipes (name TEXT)")
    other.close()

    with open_store(path) as memory:
        keep(memory)

    assert (tmp_path / "memory.v2.db").is_file()


class Recorder(ChangeListener):
    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []

    def made(self, tx: Tx, memory: Memory, action: str) -> None:
        self.heard.append(("made", memory.episode_id, action))

    def changed(
        self, tx: Tx, before: Memory, after: Memory, action: str, actor: Actor, at_ms: int | None = None
    ) -> None:
        self.heard.append(("changed", after.episode_id, action, actor.value))

    def erased(self, tx: Tx, before: Memory, after: Memory) -> None:
        self.heard.append(("erased", after.episode_id))

    def moved(self, tx: Tx, episode_ids: Query) -> None:
        self.heard.append(("moved", *map(str, tx.fetch_values(episode_ids))))

    def deleted(self, tx: Tx, memory: Memory, *, is_purge: bool) -> None:
        self.heard.append(("deleted", memory.episode_id, str(is_purge)))

    def vetoed(self, tx: Tx, changes: object) -> None:
        self.heard.append(("vetoed", str(changes)))


def test_a_listener_hears_of_every_kind_of_change(
    tmp_path: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("a_listener")
    module.LISTENER = recorder = Recorder()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "a_listener", module)
    monkeypatch.setattr(transaction, "LISTENER_MODULES", [*transaction.LISTENER_MODULES, "a_listener"])
    monkeypatch.setattr(memory_changes, "LISTENER_MODULES", transaction.LISTENER_MODULES)

    with open_store(tmp_path / "memory.db", clock=clock) as memory:
        made = keep(memory)
        with memory.transaction() as tx:
            edited = memory_changes.change_memory(tx, made, "edit", actor=Actor.USER, summary="It lives in a file")
            note_undone(tx, [("archive", made.episode_id)])
            memory_changes.move_memories(tx, tables.Memory.id == made.id, None, "moved", actor=Actor.USER)
            erased = memory_changes.erase_fields(tx, edited, "forgotten", actor=Actor.USER, content="")
            memory_changes.delete_memory(tx, erased, actor=Actor.USER)

    name = made.episode_id
    assert recorder.heard == [
        ("made", name, "add"),
        ("changed", name, "edit", "user"),
        ("vetoed", str([("archive", name)])),
        ("moved", name),
        ("erased", name),
        ("deleted", name, "False"),
    ]
