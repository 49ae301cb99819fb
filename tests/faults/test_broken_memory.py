"""P6: a memory.db that is damaged, empty or no file is set aside, made anew, and what was done by hand comes back."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from planting import plant, plant_beside_index
from transcript_lines import say

from engram.enums import Actor
from engram.errors import BrokenDatabase, NewerSchema
from engram.ingest.read_sources import ingest_all
from engram.memories.save import pin_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Memory
from engram.models.open_memory import open_store
from engram.models.projects.projects import list_projects
from engram.models.rescue.backup import make_backup
from engram.models.rescue.restore import list_rescues
from engram.models.rescue.soundness import find_all_damage
from engram.models.work.task_runs import list_stages, note_damage, note_failure, note_lost_writes
from engram.redaction import redact
from engram.reports.health import take_vitals
from engram.settings import Settings
from engram.worker import memory_file
from engram.worker.memory_file import open_or_set_aside

SESSION = "11111111-2222-3333-4444-555555555555"


@pytest.fixture(params=["cysqlite", "sqlite3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    made = Settings(
        home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed", sqlite_driver=request.param
    )
    made.places.prepare()
    write_transcript(made)
    return made


def write_transcript(settings: Settings) -> None:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    for number in range(40):
        say(path, "user", f"Explain importer {number}. " * 40)


def read_all(store: Store, settings: Settings) -> int:
    ingest_all(store, settings=settings, redact=redact)
    return int(store.value("SELECT count(*) FROM turn"))


def fill(settings: Settings) -> None:
    """A memory of some size, with a backup and something saved since."""
    places = settings.places
    with open_store(places.memory_db, driver=settings.sqlite_driver) as store:
        assert read_all(store, settings) == 40
        project = list_projects(store)[0]
        save_memory(store, "Saved before the backup", redact, project_id=project.id, actor=Actor.AGENT)
        automatic = Memory(
            memory_records.new_memory_id(), "fact", "Taken by itself", "x", project_id=project.id, slot="s"
        )
        pinned = Memory(memory_records.new_memory_id(), "fact", "Pinned", "x", project_id=project.id, slot="p")
        with store.transaction() as tx:
            for one in (automatic, pinned):
                memory_changes.add_memory(tx, one, [], actor=Actor.MODEL)
        pin_memory(store, pinned.episode_id, actor=Actor.USER)
        make_backup(store, places.backups)
        save_memory(store, "Saved since the backup", redact, project_id=project.id, actor=Actor.AGENT)
        store.checkpoint("TRUNCATE")


def tear_pages(path: Path) -> None:
    """Overwrite every eighth page."""
    with path.open("r+b") as file:
        for page in range(8, path.stat().st_size // 4096, 8):
            file.seek(page * 4096)
            file.write(os.urandom(4096))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").write_text("x")


def make_link(path: Path) -> None:
    elsewhere = path.parent.parent / "elsewhere.db"
    os.replace(path, elsewhere)
    path.symlink_to(elsewhere)


def make_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


#: What is noted of a damaged write-ahead log.
LOST = "the write-ahead log is damaged: the last 3 writes before the crash are lost"
DAMAGES: dict[str, Callable[[Path], object]] = {
    "torn pages": tear_pages,
    "garbage": lambda path: path.write_bytes(b"no database at all " * 5000),
    "cut in half": lambda path: os.truncate(path, path.stat().st_size // 2 // 4096 * 4096),
    "empty": lambda path: os.truncate(path, 0),
    "folder": make_folder,
    "link": make_link,
    "pipe": make_pipe,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_it_is_set_aside_and_created_again_with_what_was_done_by_hand(settings: Settings, damage: str) -> None:
    fill(settings)
    path = settings.places.memory_db
    DAMAGES[damage](path)

    store = open_or_set_aside(settings.places, settings)

    kept = {one.summary for one in memory_records.all_memories(store)}
    assert (
        {"Saved before the backup", "Pinned"} <= kept <= {"Saved before the backup", "Saved since the backup", "Pinned"}
    )
    assert os.path.lexists(path.with_name("memory.broken.db"))
    assert stat.S_ISREG(path.lstat().st_mode)
    assert stat.S_IMODE(path.lstat().st_mode) == 0o600
    (said,) = list_rescues(store).values()
    assert "memory.broken.db" in said
    assert read_all(store, settings) == 40
    assert store.find_damage() == ""
    store.close()


def test_a_large_file_is_looked_through_at_the_start_only_after_damage_was_met(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(settings)
    looks = []
    monkeypatch.setattr(memory_file, "LARGE_BYTES", 1)
    monkeypatch.setattr(memory_file, "quick_damage", lambda store: looks.append(store.path) or "")

    open_or_set_aside(settings.places, settings).close()
    without = len(looks)
    with open_store(settings.places.memory_db) as store:
        note_lost_writes(store, LOST)
    open_or_set_aside(settings.places, settings).close()
    after_lost_writes = len(looks)
    with open_store(settings.places.memory_db) as store:
        note_damage(store)
    open_or_set_aside(settings.places, settings).close()

    assert (without, after_lost_writes, len(looks)) == (0, 0, 1)


def test_a_rescue_is_told_until_the_damaged_file_is_deleted_and_is_not_a_failure(settings: Settings) -> None:
    fill(settings)
    tear_pages(settings.places.memory_db)

    with open_or_set_aside(settings.places, settings) as store:
        assert [path.name for path in list_rescues(store)] == ["memory.broken.db"]
        assert take_vitals(store, settings).stages.keys() == {"ingest", "extract", "recollect"}
        (settings.home / "memory.broken.db").unlink()
        assert list_rescues(store) == {}


def test_a_second_damage_overwrites_nothing_that_was_set_aside(settings: Settings) -> None:
    fill(settings)
    for _ in range(2):
        tear_pages(settings.places.memory_db)
        store = open_or_set_aside(settings.places, settings)
        read_all(store, settings)
        store.checkpoint("TRUNCATE")
        store.close()

    assert len(list(settings.home.glob("memory.broken*.db"))) == 2


def test_a_second_damage_leaves_the_news_of_the_first(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db) as store:
        note_lost_writes(store, LOST)
    for _ in range(2):
        with open_store(settings.places.memory_db) as store:
            page = int(store.value("SELECT rootpage FROM sqlite_master WHERE name = 'turn'"))
            store.checkpoint("TRUNCATE")
        with settings.places.memory_db.open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(os.urandom(4096))
        open_or_set_aside(settings.places, settings).close()

    with open_store(settings.places.memory_db) as store:
        note_damage(store)
        asides = {path.name for path in settings.home.glob("memory.broken*.db")}
        assert {path.name for path in list_rescues(store)} == asides
        assert len(asides) == 2
        errors = {trouble.about: trouble.text for trouble in take_vitals(store, settings).troubles()}
        assert errors["lost writes"] == LOST
        assert "proved damaged" in errors["memory"]


def test_what_was_forgotten_before_the_damage_stays_forgotten(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        (saved,) = [one for one in memory_records.all_memories(store) if one.summary == "Saved before the backup"]
        with store.transaction() as tx:
            memory_changes.delete_memory(tx, saved, actor=Actor.USER)
        store.checkpoint("TRUNCATE")
    settings.places.memory_db.rename(settings.home / "aside.db")
    shutil.copyfile(settings.home / "aside.db", settings.places.memory_db)
    with settings.places.memory_db.open("r+b") as file:
        file.seek(-4096, os.SEEK_END)
        file.write(os.urandom(4096))
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        note_failure(store, "memory", "it proved damaged")

    store = open_or_set_aside(settings.places, settings)

    assert "Saved before the backup" not in {one.summary for one in memory_records.all_memories(store)}
    store.close()


def test_a_damaged_text_index_alone_is_rebuilt_and_nothing_is_set_aside(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        plant(store, "DELETE FROM passage_fts_data WHERE id > 10")
        assert store.find_damage()
        note_failure(store, "memory", "it proved damaged")

    store = open_or_set_aside(settings.places, settings)

    assert store.find_damage() == ""
    assert int(store.value("SELECT count(*) FROM passage_fts WHERE passage_fts MATCH 'importer'")) >= 40
    assert not settings.home.joinpath("memory.broken.db").exists()
    store.close()


def test_a_start_that_finds_the_file_sound_keeps_only_the_news_of_lost_writes(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        note_lost_writes(store, LOST)
        note_failure(store, "memory", "engram doctor found damage: row 1 of transcript cannot be read")

    store = open_or_set_aside(settings.places, settings)

    errors = {stage.name: stage.last_error for stage in list_stages(store)}
    assert (errors["lost writes"], errors["memory"]) == (LOST, "")
    store.close()


def test_an_index_with_a_text_that_is_not_utf8_is_rebuilt_and_nothing_is_set_aside(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        plant(store, "UPDATE session SET session_id = CAST(X'B1' AS TEXT)")
        plant_beside_index(store, "session_session_id", "UPDATE session SET session_id = ?", (SESSION,))
        with pytest.raises(BrokenDatabase):
            store.rows("SELECT session_id FROM session INDEXED BY session_session_id")
        note_damage(store)

    store = open_or_set_aside(settings.places, settings)

    assert store.rows("SELECT session_id FROM session INDEXED BY session_session_id") == [(SESSION,)]
    assert find_all_damage(store) == ""
    assert not settings.home.joinpath("memory.broken.db").exists()
    store.close()


def test_evidence_with_a_text_that_is_not_utf8_is_left_out_also_where_an_index_has_the_sound_one(
    settings: Settings,
) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        save_memory(store, "Saved in a session", redact, scope="global", session_id="s-1", actor=Actor.AGENT)
        spoil = "UPDATE evidence SET session_id = CAST(X'B1' AS TEXT) WHERE session_id = 's-1'"
        assert plant_beside_index(store, "evidence_session_id", spoil) == 1
        note_damage(store)

    store = open_or_set_aside(settings.places, settings)

    assert settings.home.joinpath("memory.broken.db").exists()
    assert find_all_damage(store) == ""
    assert read_all(store, settings) == 40
    kept = {memory.summary for memory in memory_records.all_memories(store)}
    assert kept == {"Saved before the backup", "Saved since the backup", "Pinned", "Saved in a session"}
    (said,) = list_rescues(store).values()
    assert "could not be read" not in said
    store.close()


def test_damage_met_while_it_runs_is_told_as_such_and_the_connection_is_dropped(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        tear_pages(settings.places.memory_db)
        store.close()

        with pytest.raises(BrokenDatabase):
            store.rows("SELECT * FROM said")


def test_words_that_were_damaged_come_back_from_the_backup(settings: Settings) -> None:
    fill(settings)
    path = settings.places.memory_db
    data = path.read_bytes().replace(b"Saved before the backup", b"Saved befoRe the backup")
    path.write_bytes(data[:68] + b"\x12\x34\x56\x78" + data[72:])

    store = open_or_set_aside(settings.places, settings)

    summaries = {memory.summary for memory in memory_records.all_memories(store)}
    assert {"Saved before the backup", "Saved since the backup"} <= summaries
    assert "Saved befoRe the backup" not in summaries
    store.close()


def test_rows_that_a_misplaced_page_hides_are_reported_as_perhaps_missing(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        plant(store, "PRAGMA writable_schema = 1")
        plant(
            store,
            "UPDATE sqlite_master SET rootpage = (SELECT rootpage FROM sqlite_master WHERE name = 'injection') "
            "WHERE name = 'episode'",
        )
        store.checkpoint("TRUNCATE")

    store = open_or_set_aside(settings.places, settings)

    assert "Saved before the backup" in {memory.summary for memory in memory_records.all_memories(store)}
    (said,) = list_rescues(store).values()
    assert "could not be read to its end" in said
    store.close()


@pytest.mark.parametrize("note", [note_damage, lambda store: note_failure(store, "memory", "doctor found damage")])
def test_a_memory_that_proves_sound_is_not_suspected_any_longer(
    settings: Settings, note: Callable[[Store], None]
) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        note(store)

    store = open_or_set_aside(settings.places, settings)

    assert not any(stage.last_error for stage in list_stages(store))
    assert not list(settings.home.glob("memory.broken*"))
    store.close()


@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("said", "text"),
        ("session", "cwd"),
        ("project", "name"),
        ("work", "key"),
        ("episode", "summary"),
        ("turn", "extra"),
    ],
)
def test_a_text_that_is_not_utf8_is_found_after_damage_was_met_and_the_memory_is_created_again(
    settings: Settings, table: str, column: str
) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        row_id = store.value(f"SELECT rowid FROM {table} LIMIT 1")
        changed = plant(store, f"UPDATE {table} SET {column} = CAST(x'61e28261' AS TEXT) WHERE rowid = ?", (row_id,))
        assert changed == 1
        note_damage(store)

    store = open_or_set_aside(settings.places, settings)

    assert settings.home.joinpath("memory.broken.db").exists()
    assert find_all_damage(store) == ""
    assert read_all(store, settings) == 40
    assert "Saved before the backup" in {memory.summary for memory in memory_records.all_memories(store)}
    store.close()


def test_a_log_left_by_a_crash_is_used_also_without_its_index(settings: Settings) -> None:
    path = settings.places.memory_db
    with open_store(path, driver=settings.sqlite_driver) as store:
        store.checkpoint("TRUNCATE")
        read_all(store, settings)
        other = settings.home / "copy"
        other.mkdir()
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{path}{suffix}", other / f"memory.db{suffix}")

    with open_store(other / "memory.db", driver=settings.sqlite_driver) as copy:
        assert copy.value("SELECT count(*) FROM turn") == 40
        assert copy.find_damage() == ""


def test_a_database_of_a_newer_engram_is_left_alone(settings: Settings) -> None:
    fill(settings)
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        plant(store, "PRAGMA user_version = 999")
        plant(store, "UPDATE meta SET value = '999' WHERE key = 'schema_version'")
        store.checkpoint("TRUNCATE")
    before = settings.places.memory_db.read_bytes()

    with pytest.raises(NewerSchema):
        open_or_set_aside(settings.places, settings)

    assert settings.places.memory_db.read_bytes() == before
    assert not list(settings.home.glob("memory.broken*"))
