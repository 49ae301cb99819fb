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
from engram.models.migrations import FIRST_VERSION, MIGRATIONS, migrate, newest_version
from engram.models.schema import APPLICATION_ID
from engram.models.store import Store, open_store
from tests.models.version_4 import put_version_4, read_schema

#: SHA-256 of what each version's tables, indexes and views are declared as. A version that was released never changes:
#: a new column needs a numbered step in ``engram.models.migrations`` and a line here.
DIGESTS = {5: "7a355ec18468f2a8", 6: "4b5f96c7aac4a768"}
#: The statements that made a memory.db of version 5.
FIRST_SCHEMA = Path(__file__).with_name("fixtures") / "version-5.sql"


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


def put_first_version(path: Path) -> Path:
    """Write an empty memory.db of version 5, as its statements were before any numbered step."""
    connection = sqlite3.connect(path)
    connection.executescript(FIRST_SCHEMA.read_text(encoding="utf-8"))
    connection.execute("INSERT INTO meta (key, value) VALUES ('schema_version', ?)", (str(FIRST_VERSION),))
    connection.execute("INSERT INTO meta (key, value) VALUES ('machine', 'a'), ('salt', '00'), ('made_at_ms', '1')")
    connection.execute(f"PRAGMA user_version = {FIRST_VERSION}")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.commit()
    connection.close()
    return path


def digest_of(path: Path) -> str:
    """The digest of what a file's tables, indexes and views are declared as."""
    declared = json.dumps([row for row in read_schema(path) if "_fts_" not in row[1]])  # those tables are SQLite's own
    return hashlib.sha256(declared.encode()).hexdigest()[:16]


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


def test_the_steps_lead_from_the_first_version_to_what_a_new_file_has(path: Path, tmp_path: Path, driver: str) -> None:
    first = put_first_version(tmp_path / "first.db")
    assert digest_of(first) == DIGESTS[FIRST_VERSION]

    open_store(first, driver=driver).close()

    assert read_schema(first) == read_schema(path)
    assert version_of(first) == (newest_version(), str(newest_version()))


def test_a_changed_table_has_a_version_of_its_own(path: Path) -> None:
    assert digest_of(path) == DIGESTS[newest_version()]


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
