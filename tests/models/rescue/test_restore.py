"""A restore puts a sound backup in the place of memory.db, and keeps what people did by hand since."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from planting import plant_beside_index

from engram.errors import BadRequest
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.models.rescue.backup import make_backup
from engram.models.rescue.restore import rebuild_memory, restore_backup
from engram.settings import Settings
from tests.models.boat_memories import keep, summaries


@pytest.fixture(params=["cysqlite", "sqlite3"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def settings(settings: Settings, driver: str) -> Settings:
    return replace(settings, sqlite_driver=driver)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "backups"


def test_a_restore_goes_back_and_keeps_what_was_saved_since(store: Store, folder: Path, driver: str) -> None:
    keep(store, "Before", slot="slot-1")
    made = make_backup(store, folder)
    keep(store, "Taken since", slot="slot-2")
    keep(store, "Saved since", source="manual")
    store.close()

    done = restore_backup(store.path, made.path, driver=driver, carry_more=carry_hubs)

    assert summaries(store.path) == ["Before", "Saved since"]
    assert done.aside is not None
    assert summaries(done.aside) == ["Before", "Taken since", "Saved since"]
    assert (done.memories, done.carried.memories) == (2, 1)
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600


def test_a_backup_with_a_damaged_index_is_mended(store: Store, folder: Path, driver: str) -> None:
    keep(store, "Before")
    plant_beside_index(store, "episode_episode_id", "UPDATE episode SET episode_id = 'ep_ffffffffffff'")
    assert "missing from index" in store.find_damage()
    made = make_backup(store, folder)
    store.close()

    restore_backup(store.path, made.path, driver=driver, carry_more=carry_hubs)

    with open_store(store.path, driver=driver) as restored:
        assert restored.find_damage() == ""
        assert [memory.episode_id for memory in all_memories(restored)] == ["ep_ffffffffffff"]


@pytest.mark.parametrize("content", [b"", b"garbage" * 999, b"SQLite format 3\0" + b"\1" * 9000])
def test_a_file_that_is_not_a_sound_backup_changes_nothing(
    store: Store, driver: str, tmp_path: Path, content: bytes
) -> None:
    keep(store, "Before")
    store.close()
    other = tmp_path / "other.db"
    other.write_bytes(content)

    with pytest.raises(BadRequest):
        restore_backup(store.path, other, driver=driver, carry_more=carry_hubs)

    assert summaries(store.path) == ["Before"]
    assert sorted(path.name for path in store.path.parent.iterdir() if path.name.startswith((".", "memory.r"))) == []


def test_a_damaged_memory_is_set_aside_by_a_restore(store: Store, folder: Path, driver: str) -> None:
    keep(store, "Before")
    made = make_backup(store, folder)
    store.close()
    store.path.write_bytes(b"garbage" * 5000)

    done = restore_backup(store.path, made.path, driver=driver, carry_more=carry_hubs)

    assert summaries(store.path) == ["Before"]
    assert done.carried.memories == 0


def test_a_damaged_memory_is_rebuilt_and_the_reason_noted_in_it(store: Store, driver: str) -> None:
    keep(store, "Made of a transcript")
    keep(store, "Saved", source="manual")
    store.checkpoint("TRUNCATE")
    store.close()

    aside, carried = rebuild_memory(
        store.path,
        "memory.damaged.db",
        [],
        lambda new, aside, carried: note_in(new, f"{aside.name} {carried.memories}"),
        driver=driver,
        carry_more=carry_hubs,
    )

    assert (aside.name, carried.memories) == ("memory.damaged.db", 1)
    assert summaries(aside) == ["Made of a transcript", "Saved"]
    assert summaries(store.path) == ["Saved"]
    with open_store(store.path, driver=driver) as opened:
        assert opened.value("SELECT value FROM meta WHERE key = 'what happened'") == "memory.damaged.db 1"


def note_in(store: Store, text: str) -> None:
    with store.transaction() as tx:
        tx.run("INSERT INTO meta (key, value) VALUES ('what happened', ?)", (text,))
