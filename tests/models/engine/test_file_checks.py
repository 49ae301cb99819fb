"""What lies at the path of a memory is told without changing it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from engram.errors import BrokenDatabase
from engram.models.engine import database
from engram.models.engine.transaction import Store


def make_foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE memories (text)")
    connection.close()


def test_another_programs_database_is_told_from_ours(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A file system may give the new file the number of a deleted one that another test had checked.
    monkeypatch.setattr(database, "_looked_at", set())
    store.checkpoint("TRUNCATE")
    foreign = tmp_path / "foreign.db"
    make_foreign(foreign)
    before = foreign.read_bytes()

    assert database.is_foreign_file(foreign)
    assert not database.has_own_tables(foreign, store.driver)
    assert foreign.read_bytes() == before
    assert not database.is_foreign_file(store.path)
    assert database.has_own_tables(store.path, store.driver)
    assert not database.is_foreign_file(tmp_path / "nothing.db")


def test_only_a_regular_file_is_a_file_and_nothing_is_not_a_fault(tmp_path: Path) -> None:
    regular = tmp_path / "memory.db"
    regular.write_bytes(b"")
    (tmp_path / "link.db").symlink_to(regular)
    os.mkfifo(tmp_path / "pipe.db")

    names = ("memory.db", "nothing.db", "link.db", "pipe.db", ".")

    assert [database.is_no_file(tmp_path / name) for name in names] == [False, False, True, True, True]


def test_a_file_that_cannot_be_read_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(b"no database " * 500)

    with pytest.raises(BrokenDatabase):
        database.has_own_tables(path, "sqlite3")


def test_a_database_goes_aside_with_its_log(tmp_path: Path) -> None:
    for suffix in ("", "-wal"):
        (tmp_path / f"memory.db{suffix}").write_text(f"content{suffix}")
    identity = database.file_identity(tmp_path / "memory.db")

    database.move_aside(tmp_path / "memory.db", tmp_path / "aside.db")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["aside.db", "aside.db-wal"]
    assert (tmp_path / "aside.db-wal").read_text() == "content-wal"
    assert database.file_identity(tmp_path / "aside.db") == identity
    assert database.file_identity(tmp_path / "memory.db") is None
