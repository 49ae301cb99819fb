"""Another database of Engram is opened only if it is sound, and what is cleaned from it leaves no trace."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from planting import plant

from engram.errors import OlderSchema, StoreError
from engram.models.engine.statement import unpack_text
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.memory_index import unindex_memory
from engram.models.open_memory import open_memory, open_store
from engram.models.rescue.clean_copies import clean_copy, open_sound_copy
from engram.models.rescue.soundness import find_all_damage
from engram.models.search import fulltext
from engram.models.sessions.stored_turns import load_turn
from engram.models.sessions.turn_changes import withdraw_turn
from tests.models.boat_memories import keep
from tests.models.conversations import make_turn, store_turn
from tests.models.engine.test_migrations import TABLES_18
from tests.models.version_4 import read_schema

WORD = "quixotically"


def make_copy(path: Path) -> Path:
    with open_store(path) as copy:
        store_turn(copy, make_turn("t1", f"the {WORD} long way"))
        store_turn(copy, make_turn("t2", "another way"))
    return path


def test_what_is_cleaned_from_a_copy_is_in_none_of_its_bytes(tmp_path: Path) -> None:
    path = make_copy(tmp_path / "copy.db")

    def clean(tx: Tx) -> int:
        withdraw_turn(tx, "t1")
        return 1

    assert clean_copy(path, "auto", clean) == 1

    with open_sound_copy(path, "auto") as copy:
        copy.checkpoint("TRUNCATE")
        assert load_turn(copy, "t1") is None
        assert load_turn(copy, "t2") is not None
    assert not any(WORD.encode() in file.read_bytes() for file in tmp_path.iterdir())


def test_a_damaged_copy_is_refused_and_kept_as_it_is(tmp_path: Path) -> None:
    path = make_copy(tmp_path / "copy.db")
    with Store(path) as copy:
        plant(copy, "DELETE FROM episode_fts_data")
        plant(copy, "INSERT INTO passage_fts(passage_fts) VALUES ('delete-all')")

    with pytest.raises(StoreError):
        clean_copy(path, "auto", lambda tx: tx.run("DELETE FROM meta"))

    with Store(path) as copy:
        assert load_turn(copy, "t1") is not None
        assert copy.value("SELECT count(*) FROM meta")


def test_a_missing_memory_is_made_only_where_that_was_asked(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"

    with open_memory(path, driver="auto", is_made=True) as memory:
        assert memory.find_damage() == ""


def make_older(path: Path) -> Path:
    """Give a database the tables of version 18, in which runs of letters without spaces are one word."""
    with Store(path) as store:
        rows = [memory_words(store, row_id) for (row_id,) in store.rows("SELECT id FROM episode")]
    connection = sqlite3.connect(path)
    for statement in (*TABLES_18, "INSERT INTO episode_fts(episode_fts) VALUES ('delete-all')"):
        connection.execute(statement)
    connection.executemany("INSERT INTO episode_fts(rowid, summary, content, entities) VALUES (?, ?, ?, ?)", rows)
    connection.execute("UPDATE meta SET value = '18' WHERE key = 'schema_version'")
    connection.execute("PRAGMA user_version = 18")
    connection.commit()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    return path


def memory_words(store: Store, row_id: int) -> tuple[int, str, str, str]:
    """What version 18 indexes of a memory."""
    sql = "SELECT summary, content, entities || ' ' || questions AS names FROM episode WHERE id = ?"
    ((summary, content, names),) = store.rows(sql, (row_id,))
    return row_id, summary, unpack_text(content), names


@pytest.mark.parametrize("driver", ["sqlite3", "cysqlite"])
def test_a_copy_of_an_earlier_version_keeps_its_tables_and_loses_what_is_cleaned(tmp_path: Path, driver: str) -> None:
    path = tmp_path / "memory-1-tables-18.db"
    with open_store(path) as copy:
        store_turn(copy, make_turn("t1", f"the {WORD} long way, 秘密の道を歩く"))
        store_turn(copy, make_turn("t2", "another way, 別の道を歩く"))
        keep(copy, f"The {WORD} way is long 秘密の道")
        keep(copy, "Another way is short 別の道")
    schema = read_schema(make_older(path))

    def clean(tx: Tx) -> int:
        withdraw_turn(tx, "t1")
        row_id = int(tx.value("SELECT id FROM episode ORDER BY id LIMIT 1"))
        unindex_memory(tx, row_id)
        tx.run("DELETE FROM episode WHERE id = ?", (row_id,))
        tx.run("INSERT INTO tombstone (kind, key, at_ms) VALUES ('episode', x'6570', 1)")
        return 1

    assert clean_copy(path, driver, clean) == 1

    assert read_schema(path) == schema
    assert not any(text.encode() in file.read_bytes() for file in tmp_path.iterdir() for text in (WORD, "秘密の道"))
    assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == []
    with pytest.raises(OlderSchema):
        Store(path, may_upgrade=False).open()
    with open_store(path, driver=driver) as upgraded:
        assert find_all_damage(upgraded) == ""
        assert load_turn(upgraded, "t1") is None
        assert load_turn(upgraded, "t2") is not None
        assert [summary for (summary,) in upgraded.rows("SELECT summary FROM episode")] == [
            "Another way is short 別の道"
        ]
        assert upgraded.value("SELECT count(*) FROM tombstone WHERE key = x'6570'") == 1
        assert fulltext.search_passages(upgraded, ["another"], 5)
        assert len(fulltext.search_memories(upgraded, ["way"], 5)) == 1


def test_an_older_copy_that_is_damaged_is_refused_and_kept_as_it_is(tmp_path: Path) -> None:
    path = make_older(make_copy(tmp_path / "copy.db"))
    connection = sqlite3.connect(path)
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'turn'").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    whole = path.read_bytes()
    before = whole[: (page - 1) * page_bytes] + bytes(page_bytes) + whole[page * page_bytes :]
    path.write_bytes(before)

    with pytest.raises(StoreError):
        clean_copy(path, "auto", lambda tx: tx.run("DELETE FROM meta"))

    assert path.read_bytes() == before
