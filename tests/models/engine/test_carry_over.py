"""A memory of version 4 becomes one of the newest version with everything in it, whatever kills or races the
opening.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import signal
import sqlite3
from pathlib import Path

import pytest

from engram.errors import BrokenDatabase
from engram.models import tables
from engram.models.engine import migrations
from engram.models.engine.database import open_database
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_history import history_of
from engram.models.open_memory import open_store
from engram.models.rescue.backup import list_backups
from engram.models.rescue.soundness import find_all_damage
from engram.models.search import fulltext
from engram.transcripts.agents import Cursor
from engram.transcripts.claude_code.state import load_cursor
from tests.fork_server import ForkedProcess
from tests.forked import run_forked
from tests.models.version_4 import put_version_4, read_rows, read_schema

#: Tables that change in a carry-over.
CHANGED = {"history", "meta", "transcript"}
#: Tables that version 4 had not.
NEW = (
    tables.Branch,
    tables.FailedCall,
    tables.HubMember,
    tables.HubMemory,
    tables.HubRule,
    tables.HubServer,
    tables.HubSetAside,
    tables.HubSpace,
    tables.ModelReading,
    tables.Outcome,
    tables.OutcomeCandidate,
    tables.PullRequest,
    tables.StandingFile,
    tables.TaskRun,
)
OPEN = (
    "from engram.models.open_memory import open_store; from pathlib import Path; "
    "open_store(Path({path!r}), driver={driver!r}).close()"
)


@pytest.fixture(params=["sqlite3", "cysqlite"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return put_version_4(tmp_path / "home" / "memory.db")


def fresh_schema(tmp_path: Path, driver: str) -> list[tuple[object, ...]]:
    path = tmp_path / "fresh" / "memory.db"
    open_store(path, driver=driver).close()
    return read_schema(path)


def carry_over_alone(path: Path, driver: str) -> None:
    """Carry a file over without what opening it does next: deleting what tombstones name."""
    database = open_database(path, driver)
    assert migrations.migrate(database)
    database.close()


def test_the_fixture_has_a_row_in_every_table(old: Path) -> None:
    names = {table._meta.table_name for table in tables.ALL_TABLES if table not in NEW}

    assert {name for name in names if not read_rows(old, name)} == set()


@pytest.mark.parametrize("name", ["version-4", "version-4-backup"])
def test_every_row_is_there_afterwards(tmp_path: Path, driver: str, name: str) -> None:
    path = put_version_4(tmp_path / "memory.db", name)
    before = {
        table._meta.table_name: read_rows(path, table._meta.table_name)
        for table in tables.ALL_TABLES
        if table not in NEW
    }
    for row in before["injection"]:
        row["used_at_ms"] = row.pop("expanded_at_ms")
    for row in before["episode"]:
        row |= {"questions": "[]", "title": ""}
    for row in before["session"]:
        row |= {"title": "", "title_rank": 0}

    carry_over_alone(path, driver)

    after = {name: read_rows(path, name) for name in before}
    assert {name for name in before if before[name] != after[name]} == CHANGED
    new = ("actor", "undoes")
    without_new = [{key: value for key, value in row.items() if key not in new} for row in after["history"]]
    assert without_new == before["history"]
    assert [reader_facts(row) for row in after["transcript"]] == [reader_facts_4(row) for row in before["transcript"]]
    new = {"schema_version": str(migrations.newest_version()), "tombstones_due": "1"}
    meta = {row["key"]: row["value"] for row in before["meta"]} | new
    assert {row["key"]: row["value"] for row in after["meta"]} == meta


def reader_facts(row: dict[str, object]) -> dict[str, object]:
    """How far a transcript was read, as Claude Code's reader understands it."""
    position, state = load_cursor(Cursor(str(row["cursor"]), str(row["cursor_words"])))
    facts = {"offset": position.offset, "lines": position.lines, "fingerprint": position.fingerprint}
    facts |= {"bytes_read": row["bytes_read"], "lines_read": row["lines_read"], "stamp": row["stamp"]}
    kept = ("id", "path", "session_ref", "generation", "size", "is_gone", "read_at_ms", "last_error")
    return facts | dataclasses.asdict(state) | {name: row[name] for name in kept}


def reader_facts_4(row: dict[str, object]) -> dict[str, object]:
    """The same of a row of version 4."""
    # Some lines were read, so the fields of the session are none, rather than unknown.
    state = dataclasses.asdict(load_cursor(Cursor("", ""))[1]) | {"fields": {}}
    facts = {"offset": row["cursor"], "lines": row["line_number"], "fingerprint": row["fingerprint"]}
    facts |= {"bytes_read": row["cursor"], "lines_read": row["line_number"], "stamp": str(row["size"])}
    kept = ("id", "path", "session_ref", "generation", "size", "is_gone", "read_at_ms", "last_error")
    return facts | state | json.loads(str(row["reader_state"])) | {name: row[name] for name in kept}


def test_the_tables_are_those_of_a_new_file(old: Path, tmp_path: Path, driver: str) -> None:
    open_store(old, driver=driver).close()

    assert read_schema(old) == fresh_schema(tmp_path, driver)


def test_the_memory_is_sound_and_found_by_its_words(old: Path, driver: str) -> None:
    with open_store(old, driver=driver) as store:
        assert store.schema_version() == migrations.newest_version()
        assert find_all_damage(store) == ""
        assert store.value("SELECT count(*) FROM pragma_foreign_key_check") == 0
        assert store.value("PRAGMA foreign_keys") == 1
        assert fulltext.search_passages(store, ["cursor"], 5)
        (tide, *_) = [row for row, _ in fulltext.search_memories(store, ["crane"], 5)]
        assert memory_records.memories_by_row(store, [tide])[tide].summary == "The crane was painted after the backup."
        assert fulltext.search_notes(store, ["Brigitte"], 5)


def test_no_number_is_given_out_twice(old: Path, driver: str) -> None:
    before = {row["name"]: row["seq"] for row in read_rows(old, "sqlite_sequence")}

    carry_over_alone(old, driver)

    after = {row["name"]: row["seq"] for row in read_rows(old, "sqlite_sequence")}
    assert before["work"] > max(row["id"] for row in read_rows(old, "work")), "the fixture shows it: a row was deleted"
    assert after == before


def test_changes_are_known_by_who_made_them(old: Path, driver: str) -> None:
    with open_store(old, driver=driver) as store:
        by_action: dict[str, set[str]] = {}
        for action, actor in store.rows("SELECT action, actor FROM history"):
            by_action.setdefault(action, set()).add(actor)

    assert by_action["extract"] == {"model"}
    assert by_action["edit"] == by_action["pin"] == by_action["bad"] == {"user"}
    assert by_action["save"] == {"user", "agent"}
    assert by_action["correct"] == {"agent"}
    assert by_action["pack"] == by_action["age"] == {"tidying"}


def test_what_was_forgotten_since_an_old_copy_was_made_goes(old: Path, driver: str) -> None:
    saved = next(row for row in read_rows(old, "episode") if row["source"] == "manual" and row["status"] == "active")
    connection = sqlite3.connect(old)
    connection.execute("INSERT INTO tombstone VALUES ('episode', ?, 1)", (saved["episode_id"].encode(),))
    connection.commit()
    connection.close()

    with open_store(old, driver=driver) as store:
        assert memory_records.find_memory(store, saved["episode_id"]) is None
        assert history_of(store, saved["episode_id"]) == []
        assert find_all_damage(store) == ""


def count_steps(path: Path, driver: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many points there are at which a carry-over can be killed."""
    reached: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(migrations, "reach", reached.append)
        open_store(path, driver=driver).close()
    return len(reached)


def test_a_kill_at_any_step_leaves_version_4_whole(
    tmp_path: Path, driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = count_steps(put_version_4(tmp_path / "counted.db"), driver, monkeypatch)
    assert steps > 100
    wanted = [
        row | {"questions": "[]", "title": ""} for row in read_rows(put_version_4(tmp_path / "wanted.db"), "episode")
    ]
    schema = fresh_schema(tmp_path, driver)
    for step in range(1, steps, 9 if driver == "sqlite3" else 37):
        path = put_version_4(tmp_path / f"killed-{step}" / "memory.db")
        killed = run_forked(functools.partial(open_store, path, driver=driver), f"migrate.step:{step}")
        assert killed == -signal.SIGKILL, step
        connection = sqlite3.connect(path)
        assert connection.execute("PRAGMA user_version").fetchone() == (4,)
        connection.close()

        with open_store(path, driver=driver) as store:
            assert store.schema_version() == migrations.newest_version()
        assert read_rows(path, "episode") == wanted
        assert read_schema(path) == schema


def test_of_processes_that_race_one_carries_over(old: Path, tmp_path: Path, driver: str) -> None:
    racing = [ForkedProcess(OPEN.format(path=str(old), driver=driver)) for _ in range(6)]

    assert [process.wait(120) for process in racing] == [0] * 6
    assert read_schema(old) == fresh_schema(tmp_path, driver)
    assert len(read_rows(old, "episode")) == 15


def test_a_value_that_no_version_ever_wrote_is_damage_and_leaves_the_file_as_it_was(old: Path, driver: str) -> None:
    connection = sqlite3.connect(old)
    connection.execute("UPDATE episode SET status = 'acti\x01e' WHERE id = 1")
    connection.commit()
    connection.close()

    with pytest.raises(BrokenDatabase):
        Store(old, driver=driver).open()

    connection = sqlite3.connect(old)
    assert connection.execute("PRAGMA user_version").fetchone() == (4,)
    assert connection.execute("SELECT count(*) FROM episode").fetchone() == (15,)
    connection.close()


def test_a_backup_of_version_4_is_restored(old: Path, tmp_path: Path) -> None:
    from click.testing import CliRunner

    from engram.cli.main import engram

    home = old.parent
    backup = put_version_4(home / "backups" / "memory-2026-06-11T000000Z.db", "version-4-backup")
    backup.chmod(0o600)
    assert [one.path for one in list_backups(backup.parent)] == [backup]
    saved = [row for row in read_rows(old, "episode") if "crane" in row["summary"]]

    arguments = ["--home", str(home), "--set", "embedding_model=hashed", "restore", "--yes", "--json", str(backup)]
    result = CliRunner().invoke(engram, arguments)

    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)
    with open_store(home / "memory.db") as store:
        assert store.schema_version() == migrations.newest_version()
        assert find_all_damage(store) == ""
        assert memory_records.find_memory(store, saved[0]["episode_id"]) is not None, (
            "what was saved since is carried over"
        )
    assert read_schema(home / "memory.db") == fresh_schema(tmp_path, "auto")
