"""What was forgotten is carried into other databases, and goes there too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from engram.enums import Actor, Source
from engram.errors import StoreError
from engram.models.engine.statement import pack_uuid
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import delete_memory
from engram.models.memories.memory_records import Evidence, Memory, find_memory
from engram.models.memories.tombstones import TombstoneKind, add_tombstones
from engram.models.open_memory import open_store
from engram.models.rescue import clean_copies

ENTRY = "a" * 32
Keep = Callable[..., Memory]


@pytest.fixture
def copy(store: Store, keep: Keep, tmp_path: Path) -> tuple[Path, Memory, Memory]:
    """A copy of a memory with two memories: its path, one that is forgotten later, and one that stays."""
    goes, stays = keep("goes", evidence=[Evidence(ENTRY, "s1")]), keep("stays")
    store.rows("VACUUM INTO ?", (str(tmp_path / "copy.db"),))
    with store.transaction() as tx:
        delete_memory(tx, goes, actor=Actor.USER)
    return tmp_path / "copy.db", goes, stays


def test_a_copy_loses_what_was_forgotten_and_keeps_the_rest(store: Store, copy: tuple[Path, Memory, Memory]) -> None:
    path, goes, stays = copy

    gone = clean_copies.delete_named_in_copy(path, store.driver, clean_copies.read_tombstones(store))

    assert gone == 1
    with open_store(path, driver=store.driver) as cleaned:
        assert find_memory(cleaned, goes.episode_id) is None
        assert find_memory(cleaned, stays.episode_id) == stays
    assert b"content of goes" not in path.read_bytes()


def test_a_damaged_copy_is_an_error_and_stays_as_it_is(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "broken.db"
    path.write_bytes(b"no database at all" * 100)

    with pytest.raises(StoreError):
        clean_copies.delete_named_in_copy(path, store.driver, [])

    assert path.read_bytes() == b"no database at all" * 100


def test_only_new_tombstones_are_counted_and_they_keep_their_time(store: Store) -> None:
    given = [("episode", b"ep_1", 5), ("slot", b"s", 6)]

    with store.transaction() as tx:
        counts = [clean_copies.carry_tombstones(tx, given) for _ in range(2)]

    assert counts == [2, 0]
    assert sorted(clean_copies.read_tombstones(store)) == given


@pytest.mark.parametrize(
    ("kind", "key", "source", "is_named", "is_named_without_purged"),
    [
        (TombstoneKind.MEMORY, b"ep_1", Source.MANUAL, True, True),
        (TombstoneKind.PURGED, b"ep_1", Source.AUTO, True, False),
        (TombstoneKind.SLOT, b"its slot", Source.AUTO, True, True),
        (TombstoneKind.PURGED_SLOT, b"its slot", Source.AUTO, True, False),
        (TombstoneKind.EVIDENCE, pack_uuid(ENTRY), Source.AUTO, True, True),
        (TombstoneKind.EVIDENCE, pack_uuid(ENTRY), Source.MANUAL, False, False),
        (TombstoneKind.MEMORY, b"ep_2", Source.AUTO, False, False),
    ],
)
def test_a_memory_does_not_come_back_by_id_slot_or_entry(
    store: Store, kind: TombstoneKind, key: bytes, source: Source, is_named: bool, is_named_without_purged: bool
) -> None:
    with store.transaction() as tx:
        add_tombstones(tx, kind, [key])

    named = [
        clean_copies.is_named_by_tombstone(store, "ep_1", "its slot", [ENTRY], source.value, with_purged=with_purged)
        for with_purged in (True, False)
    ]

    assert named == [is_named, is_named_without_purged]
