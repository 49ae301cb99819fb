"""One backup a day: by one worker, only of what holds anything, told where it fails."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.enums import Actor
from engram.errors import BrokenDatabase, StoreError
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.open_memory import open_store
from engram.models.rescue.backup import list_backups
from engram.models.rescue.restore import restore_backup
from engram.models.work.task_runs import carry_lost_writes, list_stages, note_lost_writes
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.tasks.runtime import Runtime
from engram.worker import memory_file
from engram.worker.memory_file import BACKUP_AGAIN_SECONDS, BACKUP_EVERY_SECONDS, DailyBackup


@pytest.fixture
def runtime(tmp_path: Path, clock: FixedClock) -> Iterator[Runtime]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    settings.places.prepare()
    with open_store(settings.places.memory_db, clock=clock) as store:
        searcher = Searcher(store, settings)
        yield Runtime(settings, store, searcher, RecollectionService(store, searcher, settings))


def save(store: Store) -> None:
    save_memory(store, "The mast is brown", str, scope="global", actor=Actor.AGENT)


def test_an_empty_memory_needs_none(runtime: Runtime) -> None:
    assert not DailyBackup(runtime).run_if_due()


def test_one_a_day_and_two_are_kept(runtime: Runtime, clock: FixedClock) -> None:
    save(runtime.store)
    backup = DailyBackup(runtime)
    made = []
    for _ in range(4 * 4):
        made.append(backup.run_if_due())
        clock.advance(BACKUP_EVERY_SECONDS / 4 + 1)

    assert sum(made) == 4
    assert len(list_backups(runtime.settings.places.backups)) == 2


def test_a_restore_does_not_let_a_backup_push_out_an_older_one(runtime: Runtime, clock: FixedClock) -> None:
    store, folder = runtime.store, runtime.settings.places.backups
    save(store)
    for _ in range(2):
        assert DailyBackup(runtime).run_if_due()
        clock.advance(BACKUP_EVERY_SECONDS + 1)
    clock.advance(-BACKUP_EVERY_SECONDS / 2)
    kept = list_backups(folder)
    store.close()
    restore_backup(store.path, kept[0].path, driver=store.driver, carry_more=carry_hubs)
    store.open()
    backup = DailyBackup(runtime)

    assert not backup.run_if_due()
    assert list_backups(folder) == kept
    clock.advance(BACKUP_EVERY_SECONDS / 2 + 1)
    assert backup.run_if_due()


def test_two_workers_make_one(runtime: Runtime) -> None:
    save(runtime.store)

    assert [DailyBackup(runtime).run_if_due(), DailyBackup(runtime).run_if_due()] == [True, False]


def test_deleted_backups_are_created_again(runtime: Runtime, clock: FixedClock) -> None:
    save(runtime.store)
    backup = DailyBackup(runtime)
    assert backup.run_if_due()
    for one in list_backups(runtime.settings.places.backups):
        one.path.unlink()
    clock.advance(BACKUP_AGAIN_SECONDS + 1)

    assert backup.run_if_due()


def test_a_clock_that_went_back_a_year_keeps_no_backup_away(runtime: Runtime, clock: FixedClock) -> None:
    save(runtime.store)
    assert DailyBackup(runtime).run_if_due()
    clock.at_ms -= 365 * 86_400_000
    clock.steady += 60

    assert DailyBackup(runtime).run_if_due()


def test_a_failure_is_told_and_tried_again_later(
    runtime: Runtime, clock: FixedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(runtime.store)

    def fail(*_: object) -> None:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(memory_file, "make_backup", fail)
        backup = DailyBackup(runtime)
        assert not backup.run_if_due()
    (stage,) = [one for one in list_stages(runtime.store) if one.name == "backup"]
    assert stage.last_error == "the disk is full"
    assert not backup.run_if_due()

    clock.advance(BACKUP_AGAIN_SECONDS + 1)

    assert backup.run_if_due()


def test_damage_found_by_the_backup_stops_the_worker(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    save(runtime.store)

    def fail(*_: object) -> None:
        raise BrokenDatabase("a page is torn")

    monkeypatch.setattr(memory_file, "make_backup", fail)

    assert not DailyBackup(dataclasses.replace(runtime)).run_if_due()
    assert runtime.is_damaged.is_set()


def test_the_news_of_lost_writes_ends_with_a_later_backup(runtime: Runtime, clock: FixedClock) -> None:
    save(runtime.store)
    note_lost_writes(runtime.store, "the write-ahead log is damaged: the last 3 writes before the crash are lost")
    backup = DailyBackup(runtime)
    assert backup.run_if_due()
    assert any(stage.last_error for stage in list_stages(runtime.store))

    clock.advance(BACKUP_EVERY_SECONDS)
    assert backup.run_if_due()

    assert not any(stage.last_error for stage in list_stages(runtime.store))


def test_the_news_of_lost_writes_keeps_its_time_in_another_memory(
    runtime: Runtime, clock: FixedClock, tmp_path: Path
) -> None:
    note_lost_writes(runtime.store, "the write-ahead log is damaged")
    noted_ms = clock.now_ms()
    clock.advance(1000)

    with open_store(tmp_path / "memory.db", clock=clock) as rescued:
        carry_lost_writes(rescued, runtime.store)

        assert [stage.last_error_ms for stage in list_stages(rescued)] == [noted_ms]
