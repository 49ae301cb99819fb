"""Another memory.db in the place of the old one: all or nothing, and never under somebody who has it open."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engram.errors import AlreadyRunning, StoreError
from engram.models.engine import database
from engram.models.engine.database import (
    FOLDER_NAME,
    REPLACED_NAME,
    UNCLEAN_NAME,
    finish_replacement,
    free_name,
    is_replaced,
    owning_database,
    preparing_replacement,
    swap_in,
    using_database,
)
from engram.system.atomic import FILE_MODE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "memory.db").write_bytes(b"old")
    (tmp_path / "memory.db-wal").write_bytes(b"old log")
    return tmp_path / "memory.db"


def test_the_new_file_takes_the_place_and_the_old_one_goes_aside_with_its_log(path: Path) -> None:
    with preparing_replacement(path) as new:
        new.write_bytes(b"new")
        swap_in(path, path.with_name("aside.db"))

    assert path.read_bytes() == b"new"
    assert (path.with_name("aside.db").read_bytes(), path.with_name("aside.db-wal").read_bytes()) == (
        b"old",
        b"old log",
    )
    assert not path.with_name("memory.db-wal").exists()
    assert path.with_name(UNCLEAN_NAME).exists()
    assert not is_replaced(path)


def test_what_is_prepared_and_not_swapped_in_is_dropped(path: Path) -> None:
    with preparing_replacement(path) as new:
        new.write_bytes(b"new")
        assert is_replaced(path)

    assert path.read_bytes() == b"old"
    assert not is_replaced(path)


def test_a_killed_replacement_without_its_record_is_undone(path: Path) -> None:
    folder = path.with_name(FOLDER_NAME)
    folder.mkdir()
    (folder / "memory.db").write_bytes(b"new")

    finish_replacement(path)

    assert (path.read_bytes(), is_replaced(path)) == (b"old", False)


@pytest.mark.parametrize("is_old_aside", [False, True])
def test_a_killed_replacement_with_its_record_is_finished(path: Path, is_old_aside: bool) -> None:
    folder = path.with_name(FOLDER_NAME)
    folder.mkdir()
    (folder / "memory.db").write_bytes(b"new")
    (folder / "swap.json").write_text(json.dumps({"aside": "aside.db"}))
    if is_old_aside:
        for suffix in ("-wal", ""):
            path.with_name(f"memory.db{suffix}").rename(path.with_name(f"aside.db{suffix}"))

    finish_replacement(path)
    finish_replacement(path)

    assert path.read_bytes() == b"new"
    assert path.with_name("aside.db").read_bytes() == b"old"
    assert path.with_name("aside.db-wal").read_bytes() == b"old log"


@pytest.mark.parametrize("record", [b"", b"\0" * 20, b"{", b"[]", b"{}", b'{"aside": "a/b"}', b"\xff"])
@pytest.mark.parametrize("is_old_aside", [False, True])
def test_a_killed_replacement_is_finished_even_if_its_record_is_damaged(
    path: Path, record: bytes, is_old_aside: bool
) -> None:
    folder = path.with_name(FOLDER_NAME)
    folder.mkdir()
    (folder / "memory.db").write_bytes(b"new")
    (folder / "swap.json").write_bytes(record)
    if is_old_aside:
        path.rename(path.with_name("aside.db"))

    finish_replacement(path)

    assert path.read_bytes() == b"new"
    assert path.with_name("aside.db" if is_old_aside else REPLACED_NAME).read_bytes() == b"old"
    assert not is_replaced(path)


def test_a_name_that_is_taken_is_not_overwritten(path: Path) -> None:
    assert free_name(path, "memory.v2.db") == path.with_name("memory.v2.db")

    path.with_name("memory.v2.db").write_bytes(b"older")

    other = free_name(path, "memory.v2.db")
    assert other.name != "memory.v2.db"
    assert (other.suffix, other.exists()) == (".db", False)


def test_nobody_opens_it_while_it_is_owned_and_nobody_owns_it_while_it_is_used(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "USER_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(database, "OWNER_WAIT_SECONDS", 0.0)

    with owning_database(path), pytest.raises(StoreError, match="being restored"), using_database(path):
        pass
    with using_database(path), using_database(path), pytest.raises(AlreadyRunning), owning_database(path):
        pass
    with owning_database(path):
        assert path.with_name(database.LOCK_NAME).stat().st_mode & 0o777 == FILE_MODE
