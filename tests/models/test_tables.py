"""The declared tables: what version 4 had is in them, names fit the file, and values out of place are refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import peewee
import pytest

from engram.models import tables
from engram.models.engine.database import OWN_TABLES, schema_statements
from engram.models.engine.transaction import Store
from tests.models.version_4 import put_version_4


def columns_of(path: Path, table: str) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return [name for _, name, *_ in connection.execute(f'PRAGMA table_info("{table}")')]
    finally:
        connection.close()


#: Columns of version 4 whose values the carry-over puts into others.
REPLACED_COLUMNS = {"transcript": {"line_number", "fingerprint", "reader_state"}, "injection": {"expanded_at_ms"}}


@pytest.mark.parametrize("table", tables.ALL_TABLES, ids=lambda table: table.__name__)
def test_no_column_of_version_4_is_missing(table: type[tables.Table], tmp_path: Path) -> None:
    old = columns_of(put_version_4(tmp_path / "memory.db"), table._meta.table_name)

    replaced = REPLACED_COLUMNS.get(table._meta.table_name, set())
    assert set(old) - replaced <= set(tables.column_names(table))


@pytest.mark.parametrize("table", [*tables.ALL_TABLES, *tables.ALL_VIEWS], ids=lambda table: table.__name__)
def test_the_file_has_the_declared_columns(store: Store, table: type[tables.Table]) -> None:
    assert columns_of(store.path, table._meta.table_name) == tables.column_names(table)


def test_every_table_of_the_file_is_declared(store: Store) -> None:
    rows = store.rows("SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'")
    declared = {model._meta.table_name for model in (*tables.ALL_TABLES, *tables.ALL_VIEWS, *tables.ALL_TEXT_INDEXES)}
    shadows = {f"{index._meta.table_name}_" for index in tables.ALL_TEXT_INDEXES}

    assert {name for (name,) in rows if not name.startswith(tuple(shadows))} == declared
    assert declared >= OWN_TABLES


def test_the_statements_name_no_database() -> None:
    assert all(statement.startswith("CREATE ") for statement in schema_statements())
    assert all(table._meta.database is None for table in tables.ALL_TABLES)


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO work (kind, key, state, due_at_ms, updated_at_ms) VALUES ('extract', 's', 'asleep', 0, 0)",
        "INSERT INTO history (episode_id, at_ms, action, reason, before, after, actor) "
        "VALUES ('ep_1', 0, 'edit', '', '{}', '{}', 'nobody')",
        "INSERT INTO task_run (kind, state, started_at_ms) VALUES ('embed', 'lost', 0)",
        "INSERT INTO session (session_id, agent, is_global, first_at_ms, last_at_ms) VALUES ('s', 'a', 2, 0, 0)",
        "INSERT INTO vector (owner, owner_id, model_id, data) VALUES ('x', 1, 1, x'00')",
        "INSERT INTO turn (stable_id, key, session_ref) VALUES ('a', 'b', 1)",
    ],
)
def test_a_value_out_of_place_is_refused(store: Store, statement: str) -> None:
    with pytest.raises(peewee.IntegrityError), store.transaction() as tx:
        tx.run(statement)


def test_defaults_of_the_declaration_hold_for_raw_statements_too(store: Store) -> None:
    with store.transaction() as tx:
        tx.run("INSERT INTO session (session_id, agent, first_at_ms, last_at_ms) VALUES ('s', 'claude-code', 1, 1)")
        tx.run("INSERT INTO transcript (path) VALUES (x'2f')")

    assert store.row("SELECT is_global, rolling_summary, extracted_at_ms FROM session") == (0, "", 0)
    assert store.row("SELECT part, cursor, is_gone FROM transcript") == ("", "", 0)


def test_a_row_that_others_name_cannot_be_deleted_alone(store: Store) -> None:
    with store.transaction() as tx:
        tx.run("INSERT INTO project (id, stable_id, identity, name, updated_at_ms) VALUES (1, 'a', '/a', 'a', 0)")
        tx.run(
            "INSERT INTO session (session_id, agent, project_id, first_at_ms, last_at_ms) "
            "VALUES ('s', 'claude-code', 1, 1, 1)"
        )

    with pytest.raises(peewee.IntegrityError), store.transaction() as tx:
        tx.run("DELETE FROM project")
