"""Databases of Engram that were set aside are known by name and content, and cleaned where they can be."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from engram.models.engine.database import UNCLEAN_NAME
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.rescue.clean_copies import read_tombstones
from engram.models.rescue.restore import clean_set_aside, set_aside_files
from engram.models.sessions.stored_turns import load_turn
from engram.models.sessions.turn_changes import delete_turn
from tests.models.conversations import make_turn, store_turn


def test_another_programs_database_and_links_are_none_of_ours(tmp_path: Path) -> None:
    for name in ("memory.broken.db", "memory.v2.7.db", "other.db"):
        open_store(tmp_path / name).close()
    with sqlite3.connect(tmp_path / "memory.v2.db") as foreign:
        foreign.execute("CREATE TABLE memories (text)")
    foreign.close()
    (tmp_path / "memory.replaced.db").symlink_to(tmp_path / "other.db")

    names = [path.name for path in set_aside_files(tmp_path, "auto")]

    assert names == ["memory.broken.db", "memory.v2.7.db"]


def test_what_was_forgotten_goes_from_each_and_a_damaged_one_stays_as_it_is(store: Store) -> None:
    folder = store.path.parent
    with open_store(folder / "memory.replaced.db") as aside:
        store_turn(aside, make_turn("t1", "forgotten"))
        store_turn(aside, make_turn("t2", "kept"))
    (folder / "memory.broken.db").write_bytes(b"no database " * 500)
    (folder / UNCLEAN_NAME).write_bytes(b"")
    row_id = store_turn(store, make_turn("t1", "forgotten"))
    with store.transaction() as tx:
        delete_turn(tx, row_id)

    clean_set_aside(store.path, store.driver, read_tombstones(store))

    with Store(folder / "memory.replaced.db") as aside:
        assert [load_turn(aside, key) is None for key in ("t1", "t2")] == [True, False]
    assert (folder / "memory.broken.db").read_bytes() == b"no database " * 500
    assert not (folder / UNCLEAN_NAME).exists()
