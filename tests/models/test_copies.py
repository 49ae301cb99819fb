"""Another database of Engram is opened only if it is sound, and what is cleaned from it leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pytest
from planting import plant

from engram.errors import StoreError
from engram.models.copies import clean_copy, open_memory, open_sound_copy
from engram.models.store import Store, open_store
from engram.models.transaction import Tx
from engram.models.turn_changes import withdraw_turn
from engram.models.turns import load_turn
from tests.models.conversations import make_turn, store_turn

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
