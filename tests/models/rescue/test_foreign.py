"""Another program's database is read as far as it goes, with its log, whoever holds it, and it is left as it was."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engram.errors import BrokenDatabase, StoreError
from engram.models.rescue.foreign_database import FOLDER_PREFIX, reading_foreign


def rows_of(path: Path, scratch: Path) -> tuple[list[object], int]:
    with reading_foreign(path, scratch) as database:
        values = [row["name"] for row in database.rows("item", frozenset({"name", "missing"}))]
        return values, database.unreadable


def make(path: Path, names: list[object]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT)")
    connection.executemany("INSERT INTO item (name) VALUES (?)", [(name,) for name in names])
    return connection


@pytest.mark.parametrize("mode", ["wal", "delete"])
def test_what_another_program_holds_locked_is_read_as_it_was_committed(tmp_path: Path, mode: str) -> None:
    connection = make(tmp_path / "its.db", ["kept"])
    connection.execute(f"PRAGMA journal_mode = {mode}")
    connection.execute("INSERT INTO item (name) VALUES ('newest')")
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("INSERT INTO item (name) VALUES ('not committed')")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name.startswith("its.db")}

    assert rows_of(tmp_path / "its.db", tmp_path) == (["kept", "newest"], 0)

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    connection.close()


def test_rows_far_apart_are_all_read_and_missing_columns_are_none(tmp_path: Path) -> None:
    connection = make(tmp_path / "its.db", ["first"])
    connection.execute("INSERT INTO item VALUES (4000000000, 'far')")
    connection.execute("INSERT INTO item VALUES (4000000300, x'ff41')")
    connection.execute("UPDATE item SET name = CAST(name AS TEXT)")
    connection.close()

    assert rows_of(tmp_path / "its.db", tmp_path) == (["first", "far", "\ufffdA"], 0)


def test_of_a_damaged_file_the_readable_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "its.db"
    make(path, [f"{number:04d}" + "x" * 900 for number in range(200)]).close()
    data = bytearray(path.read_bytes())
    page = next(start for start in range(4096 * 5, len(data), 4096) if data[start] == 13)
    data[page : page + 4096] = b"\xff" * 4096
    path.write_bytes(data)

    values, unreadable = rows_of(path, tmp_path)

    assert 150 < len(values) < 200
    assert len(values) + unreadable == 200


def test_what_is_not_a_database_or_is_missing_is_said(tmp_path: Path) -> None:
    (tmp_path / "its.db").write_bytes(b"hello" * 5000)
    with pytest.raises(BrokenDatabase, match="can't be read"):
        rows_of(tmp_path / "its.db", tmp_path)
    with pytest.raises(StoreError), reading_foreign(tmp_path / "its.db", tmp_path / "gone"):
        pass
    assert not list(tmp_path.glob(f"{FOLDER_PREFIX}*"))
