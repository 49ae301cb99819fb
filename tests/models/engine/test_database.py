"""Both drivers open a file in the same way, and a file of another program is read without being touched."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engram.errors import BrokenDatabase
from engram.models.engine.database import (
    DATABASE_ERRORS,
    choose_driver,
    driver_errors,
    has_own_tables,
    is_damage,
    open_database,
)

DRIVERS = ("cysqlite", "sqlite3")


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize(
    ("pragma", "value"),
    [("journal_mode", "wal"), ("secure_delete", 1), ("foreign_keys", 1), ("mmap_size", 0), ("trusted_schema", 0)],
)
def test_each_driver_opens_a_file_with_the_same_pragmas(
    tmp_path: Path, driver: str, pragma: str, value: str | int
) -> None:
    database = open_database(tmp_path / "memory.db", driver)
    try:
        assert database.execute_sql(f"PRAGMA {pragma}").fetchone()[0] == value
    finally:
        database.close()


@pytest.mark.parametrize("driver", DRIVERS)
def test_reading_the_tables_of_a_file_leaves_it_and_its_folder_as_they_are(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "a file? of 100%.db"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA journal_mode = wal")
        other.execute("CREATE TABLE memories (text)")
    other.close()
    before = path.read_bytes()

    assert not has_own_tables(path, driver)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_file_that_is_not_a_database_is_damage_and_a_lock_is_none(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(b"not a database at all" * 300)
    with pytest.raises(BrokenDatabase):
        has_own_tables(path, driver)
    broken = open_database(path, driver)
    with pytest.raises(DATABASE_ERRORS + driver_errors(driver)) as damage:
        broken.execute_sql("SELECT * FROM sqlite_master").fetchall()
    broken.close()
    first, second = (open_database(tmp_path / "sound.db", driver, busy_ms=1) for _ in range(2))
    first.execute_sql("BEGIN IMMEDIATE")
    with pytest.raises(DATABASE_ERRORS + driver_errors(driver)) as lock:
        second.execute_sql("BEGIN IMMEDIATE")
    first.execute_sql("ROLLBACK")
    first.close()
    second.close()

    assert is_damage(damage.value)
    assert not is_damage(lock.value)


def test_a_driver_that_is_named_is_taken_and_auto_means_one_of_the_two() -> None:
    assert [choose_driver(driver) for driver in DRIVERS] == list(DRIVERS)
    assert choose_driver("auto") in DRIVERS
