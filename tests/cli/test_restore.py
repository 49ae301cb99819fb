"""``engram restore``: shows the backups, puts one back, refuses while Engram runs."""

from __future__ import annotations

import contextlib
import json
import shutil
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from engram.cli.main import engram
from engram.enums import Actor
from engram.memories.save import save_memory
from engram.models.memories import memory_changes, memory_records
from engram.models.open_memory import open_store
from engram.models.rescue.backup import drop_database, list_backups, make_backup
from engram.paths import Home, default_home
from engram.system.process_lock import ProcessLock


@pytest.fixture
def home() -> Home:
    """A memory with one backup, and something taken since that only a restore takes back."""
    places = Home(default_home()).prepare()
    with open_store(places.memory_db) as store:
        save_memory(store, "The mast is brown", str, scope="global", actor=Actor.AGENT)
        make_backup(store, places.backups)
        with store.transaction() as tx:
            memory_changes.add_memory(
                tx,
                memory_records.Memory(memory_records.new_memory_id(), "fact", "Nonsense", "x"),
                [],
                actor=Actor.MODEL,
            )
    return places


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(engram, ["restore", *arguments])
    return result.exit_code, result.output


def test_the_backups_are_listed(home: Home) -> None:
    code, output = run("--list", "--json")

    assert code == 0
    (backup,) = json.loads(output)["backups"]
    assert Path(backup["path"]).parent == home.backups


def test_without_backups_it_says_so(tmp_path: Path) -> None:
    assert "no backups yet" in run("--list")[1]
    code, output = run("--yes")
    assert (code, "there is no backup" in output) == (1, True)


def test_the_newest_is_put_back(home: Home) -> None:
    assert run("--json")[0] == 1
    assert not (home.root / "memory.replaced.db").exists()

    code, output = run("--json", "--yes")

    assert code == 0
    assert json.loads(output)["episodes"] == 1
    with open_store(home.memory_db) as store:
        assert [memory.summary for memory in memory_records.all_memories(store)] == ["The mast is brown"]
    assert (home.root / "memory.replaced.db").exists()


def test_without_a_memory_it_says_how_old_the_backup_is_and_what_is_lost(home: Home) -> None:
    drop_database(home.memory_db)

    output = run("--yes")[1]

    assert "was made on 20" in output
    assert "saved, changed, judged, decided or forgot is lost" in output
    assert "memory.db is now memory-" in output


def test_a_hub_that_the_backup_does_not_know_is_named_and_joined_again(home: Home, tmp_path: Path) -> None:
    synced = tmp_path / "synced"
    synced.mkdir()
    command = ["sync", str(synced)]
    assert CliRunner().invoke(engram, [*command, "--yes"]).exit_code == 0
    assert CliRunner().invoke(engram, ["save", "--global", "The buoy is red"]).exit_code == 0
    assert CliRunner().invoke(engram, command).exit_code == 0
    drop_database(home.memory_db)

    assert f"engram sync {synced}" in run("--yes")[1]
    assert f"engram sync {synced}" in CliRunner().invoke(engram, ["hub", "status"]).output
    status = json.loads(CliRunner().invoke(engram, ["hub", "status", "--json"]).output)
    assert status == {"hubs": [], "hubs_to_join": {str(synced): f"engram sync {synced}"}}
    assert f"run: engram sync {synced}" in " ".join(CliRunner().invoke(engram, ["doctor"]).output.split())

    assert CliRunner().invoke(engram, command).exit_code == 0
    with open_store(home.memory_db) as store:
        assert "The buoy is red" in [memory.summary for memory in memory_records.all_memories(store)]
    assert "had joined" not in CliRunner().invoke(engram, ["hub", "status"]).output


def test_a_hub_that_was_joined_since_the_backup_stays_joined(home: Home, tmp_path: Path) -> None:
    synced = tmp_path / "synced"
    synced.mkdir()
    assert CliRunner().invoke(engram, ["sync", str(synced), "--yes"]).exit_code == 0
    assert CliRunner().invoke(engram, ["save", "--global", "The buoy is red"]).exit_code == 0
    assert CliRunner().invoke(engram, ["hub", "sync"]).exit_code == 0

    told = run("--yes")[1]

    assert "had joined" not in told
    assert CliRunner().invoke(engram, ["save", "--global", "The pier is long"]).exit_code == 0
    synced_again = CliRunner().invoke(engram, ["hub", "sync"])
    assert synced_again.exit_code == 0, synced_again.output
    status = json.loads(CliRunner().invoke(engram, ["hub", "status", "--json"]).output)
    assert [(hub["failures"], hub["waiting"]) for hub in status["hubs"]] == [(0, 0)]
    with open_store(home.memory_db) as store:
        kept = {memory.summary for memory in memory_records.all_memories(store)}
    assert kept >= {"The mast is brown", "The buoy is red", "The pier is long"}


def test_before_it_asks_it_says_what_would_be_lost(home: Home) -> None:
    with contextlib.closing(sqlite3.connect(home.memory_db)) as database, database:
        database.execute("UPDATE episode SET kept_at_ms = kept_at_ms + 100000000 WHERE source != 'manual'")

    asked = CliRunner().invoke(engram, ["restore"], input="n\n").output

    assert "1 memory that nobody saved by hand: made again" in asked
    assert " 0 " not in asked
    assert asked.index("carried over") < asked.index("Replace ")
    assert not (home.root / "memory.replaced.db").exists()


def test_what_starts_engram_again_is_named(home: Home) -> None:
    assert run("--yes")[1].endswith("Start Engram again: engram up\n")

    home.install_journal.parent.mkdir()
    home.install_journal.touch()

    assert run("--yes")[1].endswith("Start Engram again: engram service start\n")
    drop_database(home.memory_db)
    assert run("--new")[1].endswith("Start Engram again: engram service start\n")


def test_nothing_is_created_where_no_backup_shows_that_there_was_a_memory(home: Home) -> None:
    drop_database(home.memory_db)
    shutil.rmtree(home.backups)

    code, output = run("--new")

    assert (code, "there are no backups of one; `engram up` creates one" in output) == (1, True)
    assert not home.memory_db.exists()


def test_a_file_that_is_not_a_backup_is_refused(home: Home, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    other.write_text("nothing")

    code, output = run("--yes", str(other))

    assert (code, output) == (1, f"Error: {other} is not a backup of memory.db\n")
    assert run("--yes", "missing.db")[0] == 1


@pytest.mark.parametrize("options", [(), ("--yes",), ("--new",)])
def test_while_engram_runs_it_is_refused_before_anything_is_said_or_asked(home: Home, options: tuple[str, ...]) -> None:
    lock = ProcessLock(home.worker_lock)
    code, output = run(*options)
    lock.release()

    assert code == 1
    assert output.startswith("Error: Engram is running. Stop it first")
    assert not (home.root / "memory.replaced.db").exists()


def test_without_a_name_it_takes_the_newest_backup_that_is_not_empty(home: Home, tmp_path: Path) -> None:
    (full,) = list_backups(home.backups)
    in_a_minute = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime(time.time() + 60))
    empty = home.backups / f"memory-{in_a_minute}.db"
    with open_store(tmp_path / "memory.db"):
        pass
    shutil.copyfile(tmp_path / "memory.db", empty)

    listed = {Path(one["path"]).name: one["memories"] for one in json.loads(run("--list", "--json")[1])["backups"]}
    asked = CliRunner().invoke(engram, ["restore"], input="n\n").output
    named = CliRunner().invoke(engram, ["restore", empty.name], input="n\n").output

    assert listed == {empty.name: 0, full.path.name: 1}
    assert f"{empty.name} is newer, but empty; it can be named, too.\n{full.path.name} holds 1 memory.\n" in asked
    assert named.startswith(f"{empty.name} holds nothing.\n")


def test_what_a_restore_can_not_clean_is_logged_and_not_printed(home: Home, tmp_path: Path) -> None:
    (home.root / "memory.broken.db").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    program = [sys.executable, "-m", "engram.cli.main", "--home", str(home.root), "restore", "--yes"]

    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)

    assert "action=" not in done.stdout + done.stderr
    assert "action=clean_set_aside" in (home.logs / "cli.log").read_text()


def test_a_backup_of_another_machine_is_named_as_such_and_all_that_it_lacks_is_counted(
    home: Home, tmp_path: Path
) -> None:
    """It is newer than everything here, and yet has nothing of it; it may have the name of one that is here."""
    other = Home(tmp_path / "elsewhere").prepare()
    with open_store(other.memory_db) as store:
        save_memory(store, "The keel is green", str, scope="global", actor=Actor.AGENT)
        backup = make_backup(store, other.backups).path
    backup = backup.rename(other.backups / list_backups(home.backups)[0].path.name)

    output = run("--yes", str(backup))[1]

    assert "comes from another memory" in output
    assert "1 memory that nobody saved by hand" in output
    with open_store(home.memory_db) as store:
        summaries = {memory.summary for memory in memory_records.all_memories(store)}
    assert summaries == {"The keel is green", "The mast is brown"}


def test_the_doctor_names_a_log_that_was_set_aside_without_its_database(home: Home) -> None:
    logs = [home.root / f"memory.replaced.17.db-{ending}" for ending in ("shm", "wal")]
    for log in logs:
        log.write_bytes(bytes(300_000))

    checks = json.loads(CliRunner().invoke(engram, ["doctor", "--quick", "--json"]).stdout)["checks"]

    (found,) = [check for check in checks if check["name"] == "set aside"]
    assert f"{logs[0]} and {logs[1]}" in found["detail"]
    assert found["advice"].endswith(
        f"(0.6 MB), or delete what you no longer need: rm {home.root}/memory.replaced.17.db*"
    )


def test_the_doctor_names_the_size_of_what_restores_set_aside_once(home: Home) -> None:
    for _ in range(2):
        assert run("--yes")[0] == 0

    checks = json.loads(CliRunner().invoke(engram, ["doctor", "--quick", "--json"]).stdout)["checks"]

    (found,) = [check for check in checks if check["name"] == "set aside"]
    files = sorted(home.root.glob("memory.replaced*.db"))
    assert len(files) == 2
    assert f"{sum(file.stat().st_size for file in files) / 1e6:.1f} MB" in found["advice"]
    assert all(f"{file}*" in found["advice"] for file in files)
