"""Damage that SQLite does not see: values that Engram packs and cannot read again are found and named."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from planting import plant, plant_beside_index

from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import add_run
from engram.models.memories.memory_records import Memory
from engram.models.rescue.soundness import find_all_damage, find_unreadable, quick_damage, rebuild_all_indexes
from tests.models.conversations import make_turn, store_turn


@pytest.fixture
def filled(store: Store, keep: Callable[..., Memory]) -> Store:
    keep("a memory", content="walrus " * 100, facts=("one",))
    store_turn(store, make_turn("t1", "ask", "answer"))
    with store.transaction() as tx:
        add_run(tx, "decide")
    return store


def test_a_sound_memory_has_no_damage(filled: Store) -> None:
    assert (quick_damage(filled), find_unreadable(filled), find_all_damage(filled)) == ("", "", "")


@pytest.mark.parametrize(
    ("table", "sql"),
    [
        ("episode", "UPDATE episode SET content = X'00FF00FF'"),
        ("episode", "UPDATE episode SET summary = X'FF'"),
        ("turn", "UPDATE turn SET actions = X'789C0000'"),
        ("transcript", "UPDATE transcript SET cursor = '{'"),
        ("run", "UPDATE run SET report = 'no json'"),
        ("history", "UPDATE history SET before = '{'"),
    ],
)
def test_a_value_that_cannot_be_read_is_named_with_its_table(filled: Store, table: str, sql: str) -> None:
    assert plant(filled, sql) == 1

    damage = find_unreadable(filled)

    assert f" of {table} cannot be read" in damage
    assert find_all_damage(filled) == damage or "fts5" in find_all_damage(filled)
    assert quick_damage(filled) == ""


@pytest.mark.parametrize(("table", "column"), [("said", "text"), ("evidence", "session_id"), ("evidence", "turn_id")])
def test_text_of_no_encoding_is_found_in_any_column(filled: Store, table: str, column: str) -> None:
    assert plant(filled, f"UPDATE {table} SET {column} = CAST(X'FFFE41' AS TEXT)") > 0

    assert "cannot be read" in find_unreadable(filled)


def test_text_of_no_encoding_is_found_where_an_index_still_has_the_sound_one(filled: Store) -> None:
    spoil = "UPDATE evidence SET session_id = CAST(X'B1' AS TEXT)"
    assert plant_beside_index(filled, "evidence_session_id", spoil) > 0
    assert filled.rows("SELECT session_id FROM evidence") == [("s1",)]

    assert 'text in "evidence" cannot be read' in find_unreadable(filled)
    assert "missing from index evidence_session_id" in find_all_damage(filled)
    rebuild_all_indexes(filled)
    assert 'text in "evidence" cannot be read' in find_all_damage(filled)


def test_an_index_that_does_not_fit_its_rows_is_found_and_rebuilt(filled: Store) -> None:
    assert plant_beside_index(filled, "evidence_session_id", "UPDATE evidence SET session_id = 's2'") > 0
    assert (quick_damage(filled), find_unreadable(filled)) == ("", "")
    assert "missing from index evidence_session_id" in find_all_damage(filled)

    rebuild_all_indexes(filled)

    assert find_all_damage(filled) == ""
