"""A file is made as the newest version, brought on by numbered steps, and refused where it cannot be."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

import peewee
import pytest

from engram.errors import BrokenDatabase, NewerSchema, StoreError, UnsupportedSchema
from engram.models.database import open_database
from engram.models.injections import injections_of_session
from engram.models.migrations import MIGRATIONS, migrate, newest_version
from engram.models.store import Store, open_store
from tests.models.version_4 import put_version_4, read_schema

#: SHA-256 of what each version's tables, indexes and views are declared as. A version that was released never changes:
#: a new column needs a numbered step in ``engram.models.migrations`` and a line here.
DIGESTS = {5: "7a355ec18468f2a8", 6: "e25536c3148d27f4"}


def add_column(database: Any) -> None:
    database.execute_sql("ALTER TABLE project ADD COLUMN colour TEXT NOT NULL DEFAULT 'green'")


def add_table(database: Any) -> None:
    database.execute_sql("CREATE TABLE boat (name TEXT PRIMARY KEY)")


def fail(database: Any) -> None:
    add_table(database)
    raise peewee.OperationalError("disk I/O error")


@pytest.fixture(params=["sqlite3", "cysqlite"])
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(tmp_path: Path, driver: str) -> Path:
    path = tmp_path / "memory.db"
    open_store(path, driver=driver).close()
    return path


def make_version_5(path: Path) -> None:
    """Take the steps after version 5 back, in a new and empty file."""
    connection = sqlite3.connect(path)
    connection.execute("ALTER TABLE injection RENAME COLUMN used_at_ms TO expanded_at_ms")
    connection.execute("UPDATE meta SET value = '5' WHERE key = 'schema_version'")
    connection.execute("PRAGMA user_version = 5")
    connection.commit()
    connection.close()


def version_of(path: Path) -> tuple[int, str]:
    connection = sqlite3.connect(path)
    try:
        (header,) = connection.execute("PRAGMA user_version").fetchone()
        (recorded,) = connection.execute("SELECT value FROM meta WHERE key = 'schema_version'").fetchone()
    finally:
        connection.close()
    return header, recorded


def test_a_new_file_has_the_newest_version_at_once(path: Path) -> None:
    assert version_of(path) == (newest_version(), str(newest_version()))


def test_a_changed_table_has_a_version_of_its_own(path: Path) -> None:
    declared = json.dumps([row for row in read_schema(path) if "_fts_" not in row[1]])  # those tables are SQLite's own

    assert hashlib.sha256(declared.encode()).hexdigest()[:16] == DIGESTS[newest_version()]


def test_the_steps_after_version_5_lead_to_the_declared_tables_and_keep_the_rows(path: Path, driver: str) -> None:
    declared = read_schema(path)
    make_version_5(path)
    assert read_schema(path) != declared
    connection = sqlite3.connect(path)
    connection.execute(
        "INSERT INTO injection (session_id, prompt_key, channel, episode_id, score, tokens, state, at_ms, "
        "expanded_at_ms) VALUES ('s1', 'p1', 'prompt', 'ep_000000000001', 0.5, 20, 'shown', 1000, 2000)"
    )
    connection.commit()
    connection.close()

    with open_store(path, driver=driver) as store:
        (shown,) = injections_of_session(store, "s1")

    assert read_schema(path) == declared
    assert (shown.at_ms, shown.used_at_ms) == (1000, 2000)


def test_numbered_steps_go_on_from_the_newest_version(path: Path, driver: str) -> None:
    database = open_database(path, driver)

    assert migrate(database, (*MIGRATIONS, add_column)) == 1
    assert migrate(database, (*MIGRATIONS, add_column, add_table)) == 1
    assert migrate(database, (*MIGRATIONS, add_column, add_table)) == 0

    assert version_of(path) == (newest_version() + 2, str(newest_version() + 2))
    assert {"boat"} <= {name for _, name, *_ in read_schema(path)}
    database.close()


def test_a_step_that_fails_leaves_the_version_before(path: Path, driver: str) -> None:
    database = open_database(path, driver)
    before = read_schema(path)

    with pytest.raises(peewee.OperationalError):
        migrate(database, (*MIGRATIONS, fail))

    assert version_of(path) == (newest_version(), str(newest_version()))
    assert read_schema(path) == before
    database.close()


def test_of_threads_that_race_one_makes_the_step(path: Path, driver: str) -> None:
    ready = threading.Barrier(4)
    done: list[int] = []

    def bring_on() -> None:
        database = open_database(path, driver)
        ready.wait()
        done.append(migrate(database, (*MIGRATIONS, add_column, add_table)))
        database.close()

    threads = [threading.Thread(target=bring_on) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(done) == 2
    assert version_of(path) == (newest_version() + 2, str(newest_version() + 2))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_version_from_before_the_first_release_is_refused_and_says_what_to_do(
    tmp_path: Path, driver: str, version: int
) -> None:
    path = put_version_4(tmp_path / "memory.db")
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'schema_version'", (str(version),))
    connection.commit()
    connection.close()
    before = read_schema(path)

    with pytest.raises(UnsupportedSchema, match=f"version {version}.*move the file out of the memory folder"):
        Store(path, driver=driver).open()

    assert read_schema(path) == before
    assert issubclass(UnsupportedSchema, StoreError)


def test_a_newer_version_is_refused(path: Path, driver: str) -> None:
    database = open_database(path, driver)
    migrate(database, (*MIGRATIONS, add_column))

    with pytest.raises(NewerSchema):
        migrate(database)
    database.close()


@pytest.mark.parametrize("version", [0, 4, newest_version() + 1])
def test_a_header_that_contradicts_the_tables_is_damage(path: Path, driver: str, version: int) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.commit()
    connection.close()

    with pytest.raises(BrokenDatabase, match="its header says version"):
        Store(path, driver=driver).open()
