"""The schema: its statements make a whole memory by themselves, on both drivers alike."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from engram.models.engine.database import APPLICATION_ID, OWN_TABLES, schema_statements, table_statements
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.tables import Turn


def shape_of(path: Path) -> set[tuple[str, str]]:
    connection = sqlite3.connect(path)
    try:
        return set(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
    finally:
        connection.close()


def test_both_drivers_make_the_same_file_marked_as_engrams(tmp_path: Path) -> None:
    shapes = []
    for driver in ("cysqlite", "sqlite3"):
        with open_store(tmp_path / f"{driver}.db", driver=driver) as store:
            assert store.value("PRAGMA application_id") == APPLICATION_ID
            assert store.find_damage() == ""
        shapes.append(shape_of(tmp_path / f"{driver}.db"))

    assert shapes[0] == shapes[1]


def test_the_statements_make_all_of_it_in_an_empty_database(store: Store) -> None:
    connection = sqlite3.connect(":memory:")
    for statement in schema_statements():
        connection.execute(statement)
    names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    connection.close()

    assert {name for name, _ in shape_of(store.path)} <= names
    assert names >= OWN_TABLES


def test_a_table_comes_with_its_indexes(store: Store) -> None:
    table, *indexes = table_statements(Turn)

    assert table.startswith("CREATE TABLE")
    assert len(indexes) >= 3
    assert any("turn_due" in index for index in indexes)
