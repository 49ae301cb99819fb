"""Backups are sound copies made while writers run; a restore carries over what was done by hand since."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from engram.enums import Actor
from engram.errors import BrokenDatabase, StoreError
from engram.models.engine import migrations
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_changes, memory_records
from engram.models.open_memory import open_store
from engram.models.rescue import backup as backups
from engram.models.rescue.backup import drop_database, earlier_backups, holding_backups, list_backups, make_backup
from engram.models.rescue.carry_over import recover_by_hand
from engram.models.rescue.restore import restore_backup
from engram.settings import Settings
from engram.system.clock import SYSTEM_CLOCK, FixedClock
from tests.models.boat_memories import ENTRY, keep, summaries

DAY_SECONDS = 86_400


@pytest.fixture(params=["cysqlite", "sqlite3"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def settings(settings: Settings, driver: str) -> Settings:
    return replace(settings, sqlite_driver=driver)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "home" / "backups"


def test_a_backup_is_a_sound_private_copy(store: Store, folder: Path) -> None:
    keep(store, "The mast is brown")

    made = make_backup(store, folder)

    assert summaries(made.path) == ["The mast is brown"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []
    with Store(made.path, driver=store.driver) as copy:
        assert copy.find_damage() == ""


def test_the_two_newest_are_kept(store: Store, folder: Path, clock: FixedClock) -> None:
    names = []
    for number in range(4):
        keep(store, f"Fact {number}")
        names.append(make_backup(store, folder).path.name)
        clock.advance(DAY_SECONDS)

    assert sorted(one.path.name for one in list_backups(folder)) == names[-2:]


def test_a_backup_keeps_its_time_when_forgetting_changes_it(store: Store, folder: Path, clock: FixedClock) -> None:
    keep(store, "The mast is brown")
    made = []
    for _ in range(2):
        made.append(make_backup(store, folder))
        clock.advance(DAY_SECONDS)
    os.utime(made[0].path, (clock.now_ms() / 1000,) * 2)

    assert [(one.path, one.made_at_ms) for one in list_backups(folder)] == [
        (one.path, one.made_at_ms // 1000 * 1000) for one in reversed(made)
    ]


def test_of_a_memory_that_was_lost_the_newest_backup_stays_until_it_is_restored(
    store: Store, folder: Path, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = []
    for number in range(2):
        keep(store, f"Fact {number}")
        lost.append(make_backup(store, folder).path)
        clock.advance(DAY_SECONDS)
    assert earlier_backups(store, folder) == []
    store.close()
    drop_database(store.path)
    later_ms = SYSTEM_CLOCK.now_ms() + DAY_SECONDS * 1000
    monkeypatch.setattr(migrations, "SYSTEM_CLOCK", FixedClock(later_ms))
    with Store(store.path, driver=store.driver, clock=clock, may_start_over=True) as anew:
        made = []
        for number in range(3):
            keep(anew, f"Other fact {number}")
            made.append(make_backup(anew, folder).path)
            clock.advance(DAY_SECONDS)

        assert [backup.path for backup in earlier_backups(anew, folder)] == [lost[1]]
        assert {backup.path for backup in list_backups(folder)} == {lost[1], *made[1:]}

    restore_backup(store.path, lost[1], driver=store.driver, carry_more=carry_hubs)
    with open_store(store.path, driver=store.driver, clock=clock) as restored:
        assert earlier_backups(restored, folder) == []


def test_a_backup_that_cannot_be_read_is_of_no_earlier_memory(store: Store, folder: Path, clock: FixedClock) -> None:
    folder.mkdir(mode=0o700)
    keep(store, "The mast is brown")
    for number in range(3):
        (folder / f"memory-{number}.db").write_bytes(b"no database at all " * 500)
        os.utime(folder / f"memory-{number}.db", (number, number))

    made = make_backup(store, folder)

    assert earlier_backups(store, folder) == []
    assert [backup.path for backup in list_backups(folder)] == [made.path, folder / "memory-2.db"]


def test_writers_go_on_while_a_backup_is_made(store: Store, folder: Path) -> None:
    for number in range(30):
        keep(store, f"Fact {number}")
    stop = threading.Event()
    written = []

    def write() -> None:
        other = Store(store.path, driver=store.driver)
        while not stop.is_set():
            with other.transaction() as tx:
                tx.run("INSERT OR REPLACE INTO meta VALUES ('one', ?), ('other', ?)", (str(len(written)),) * 2)
            written.append(1)
        other.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        made = [make_backup(store, folder) for _ in range(3)][-1]
    finally:
        stop.set()
        thread.join()

    with sqlite3.connect(made.path) as connection:
        values = {value for (value,) in connection.execute("SELECT value FROM meta WHERE key IN ('one', 'other')")}
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert len(values) <= 1
    assert written


def test_what_a_killed_backup_left_is_removed(store: Store, folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / ".memory-2026.db.tmp").write_bytes(b"half")
    keep(store, "The mast is brown")

    make_backup(store, folder)

    assert len(list(folder.iterdir())) == 1


def test_a_damaged_database_replaces_no_backup(store: Store, folder: Path, clock: FixedClock) -> None:
    for number in range(200):
        keep(store, f"Fact {number} " * 20)
    good = [make_backup(store, folder).path.name]
    clock.advance(5)
    good.append(make_backup(store, folder).path.name)
    clock.advance(5)
    store.checkpoint("TRUNCATE")
    store.close()
    size = store.path.stat().st_size
    with store.path.open("r+b") as file:
        for page in range(8, size // 4096, 8):
            file.seek(page * 4096)
            file.write(os.urandom(4096))

    with pytest.raises(BrokenDatabase):
        make_backup(store, folder)

    assert sorted(path.name for path in folder.iterdir()) == good


def test_a_full_disk_is_said_and_the_old_backups_stay(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, "The mast is brown")
    make_backup(store, folder)
    monkeypatch.setattr(backups.shutil, "disk_usage", lambda _: SimpleNamespace(free=1000))

    with pytest.raises(StoreError, match="MB are free on the disk of"):
        make_backup(store, folder)

    assert len(list_backups(folder)) == 1


def test_while_the_folder_is_held_no_backup_is_made(store: Store, folder: Path) -> None:
    keep(store, "The mast is brown")
    started, done = threading.Event(), threading.Event()

    def back_up() -> None:
        started.set()
        make_backup(store, folder)
        done.set()

    thread = threading.Thread(target=back_up)
    with holding_backups(folder):
        thread.start()
        started.wait()
        assert not done.is_set()
        assert list_backups(folder) == []
    thread.join()
    assert len(list_backups(folder)) == 1


def test_what_was_done_by_hand_is_carried_over_and_the_rest_is_not(store: Store, tmp_path: Path) -> None:
    keep(store, "Taken by itself", slot="slot-1")
    keep(store, "Saved", source="manual")
    keep(store, "Pinned", is_pinned=True, slot="slot-2")
    gone = keep(store, "Forgotten", source="manual")
    with store.transaction() as tx:
        memory_changes.delete_memory(tx, gone, actor=Actor.USER)
    new = open_store(tmp_path / "new" / "memory.db", driver=store.driver)

    found = recover_by_hand(new, [store.path, store.path], actor=Actor.USER, carry_more=carry_hubs)

    kept = memory_records.all_memories(new)
    assert [one.summary for one in kept] == ["Saved", "Pinned"]
    assert {(one.project, one.session_id) for one in kept} == {("boat", "s1")}
    assert [one.uuid for one in memory_records.evidence_of(new, kept[0].id)] == [ENTRY]
    assert (found.memories, found.tombstones, found.lost) == (2, 1, 0)
    assert new.find_damage() == ""
    new.close()


def test_what_was_forgotten_since_the_backup_does_not_come_back(store: Store, folder: Path, tmp_path: Path) -> None:
    gone = keep(store, "Forgotten later", source="manual")
    made = make_backup(store, folder)
    with store.transaction() as tx:
        memory_changes.delete_memory(tx, gone, actor=Actor.USER)
    new = open_store(tmp_path / "new" / "memory.db", driver=store.driver)

    recover_by_hand(new, [store.path, made.path], actor=Actor.USER, carry_more=carry_hubs)

    assert memory_records.all_memories(new) == []
    new.close()
