"""A restore that is killed at any step is finished or undone at the next start: nothing is lost, nothing comes back."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from engram.cli.main import main
from engram.enums import Actor
from engram.errors import AlreadyRunning
from engram.forgetting.forget import forget_memory
from engram.memories.save import save_memory
from engram.models.engine.database import FOLDER_NAME, using_database
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories import memory_records
from engram.models.open_memory import open_store
from engram.models.rescue.backup import list_backups, make_backup
from engram.models.rescue.restore import restore_backup
from engram.settings import Settings
from engram.worker.memory_file import open_or_set_aside
from tests import failpoints
from tests.forked import run_forked

POINTS = [name for name in failpoints.NAMES if name.startswith("restore.")]
KEPT = {"Saved before the backup", "Saved since the backup"}
FORGOTTEN = "The forgotten walnut harbour"


@pytest.fixture(params=["cysqlite", pytest.param("sqlite3", marks=pytest.mark.soak)])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    """A memory with a backup, and something saved and something forgotten since."""
    made = Settings(
        home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed", sqlite_driver=request.param
    )
    places = made.places.prepare()
    with open_store(places.memory_db, driver=made.sqlite_driver) as store:
        save_memory(store, "Saved before the backup", str, scope="global", actor=Actor.AGENT)
        forgotten = save_memory(store, FORGOTTEN, str, scope="global", actor=Actor.AGENT)
        backup = make_backup(store, places.backups)
        shutil.copyfile(backup.path, tmp_path / "outside.db")
        save_memory(store, "Saved since the backup", str, scope="global", actor=Actor.AGENT)
        forget_memory(store, places, forgotten.episode_id, also_source=True, actor=Actor.USER)
    return made


def restore(settings: Settings, file: Path, *, crash: str = "") -> int:
    """Run ``engram restore`` in a child; returns its exit code."""
    driver = f"sqlite_driver={settings.sqlite_driver}"
    return run_forked(
        lambda: main(["--home", str(settings.home), "--set", driver, "restore", "--yes", str(file)]), crash
    )


def summaries(settings: Settings) -> set[str]:
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        assert store.find_damage() == ""
        found = [memory.summary for memory in memory_records.all_memories(store)]
    assert len(found) == len(set(found))
    return set(found)


def files_with(folder: Path, text: str) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("outside", [False, True], ids=["backup", "outside file"])
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at_any_step_loses_nothing_and_brings_nothing_back(
    settings: Settings, tmp_path: Path, point: str, outside: bool
) -> None:
    file = tmp_path / "outside.db" if outside else list_backups(settings.places.backups)[0].path

    assert restore(settings, file, crash=point) == -signal.SIGKILL

    assert summaries(settings) == KEPT
    assert not settings.home.joinpath(FOLDER_NAME).exists()
    assert restore(settings, file) == 0
    assert summaries(settings) == KEPT
    assert files_with(settings.home, FORGOTTEN) == []


def test_an_outside_file_brings_nothing_forgotten_back(settings: Settings, tmp_path: Path) -> None:
    assert restore(settings, tmp_path / "outside.db") == 0

    assert summaries(settings) == KEPT
    assert files_with(settings.home, FORGOTTEN) == []


@pytest.mark.parametrize("crash", ["", "restore.swapped", "restore.finished"])
def test_what_the_restored_file_knows_as_forgotten_leaves_the_memory_set_aside(settings: Settings, crash: str) -> None:
    places = settings.places
    with open_store(places.memory_db, driver=settings.sqlite_driver) as store:
        copy = make_backup(store, places.backups).path
        (kept,) = [one for one in memory_records.all_memories(store) if one.summary == "Saved since the backup"]
    copy = Path(shutil.move(copy, settings.home.parent / "other.db"))
    with open_store(copy, driver=settings.sqlite_driver) as store:
        forget_memory(store, places, kept.episode_id, also_source=True, actor=Actor.USER)
    shutil.copyfile(places.memory_db, settings.home / "memory.v2.db")

    restore(settings, copy, crash=crash)
    open_or_set_aside(places, settings).close()

    assert summaries(settings) == {"Saved before the backup"}
    assert places.root.joinpath("memory.replaced.db").exists()
    assert files_with(settings.home, "Saved since the backup") == []


def test_a_memory_that_is_in_use_is_not_replaced(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.models.engine.database.OWNER_WAIT_SECONDS", 0.0)
    backup = list_backups(settings.places.backups)[0].path

    with using_database(settings.places.memory_db), pytest.raises(AlreadyRunning):
        restore_backup(settings.places.memory_db, backup, driver=settings.sqlite_driver, carry_more=carry_hubs)

    assert summaries(settings) == KEPT


def damage_mark(path: Path) -> None:
    """Overwrite SQLite's application id."""
    with path.open("r+b") as file:
        file.seek(68)
        file.write(b"\x12\x34\x56\x78")


def damage_version(path: Path) -> None:
    """Overwrite the number of the schema."""
    with path.open("r+b") as file:
        file.seek(60)
        file.write(b"\0\0\0\2")


@pytest.mark.parametrize("damage", [damage_mark, damage_version])
def test_a_damaged_header_is_not_a_foreign_database(settings: Settings, damage: Callable[[Path], None]) -> None:
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        store.checkpoint("TRUNCATE")
    damage(settings.places.memory_db)

    open_or_set_aside(settings.places, settings).close()

    assert summaries(settings) == KEPT
    assert [path.name for path in settings.home.glob("memory.*.db")] == ["memory.broken.db"]


@pytest.mark.parametrize("point", [one for one in POINTS if one != "restore.copied"])
def test_a_kill_while_a_damaged_memory_is_set_aside_loses_nothing(settings: Settings, point: str) -> None:
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        store.checkpoint("TRUNCATE")
    damage_mark(settings.places.memory_db)

    killed = run_forked(lambda: open_or_set_aside(settings.places, settings).close(), point)
    assert killed == -signal.SIGKILL

    open_or_set_aside(settings.places, settings).close()

    assert summaries(settings) == KEPT
