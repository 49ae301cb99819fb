"""The rows of a memory: whatever is written, index, names and vector stay in step with it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from engram.enums import Scope
from engram.models import tables
from engram.models.engine.statement import pack_uuid
from engram.models.engine.transaction import Store
from engram.models.memories import memory_writes
from engram.models.memories.memory_records import Evidence, Memory, evidence_of, find_memory
from engram.models.search.vector_rows import count_vectors, put_vectors

Keep = Callable[..., Memory]
ENTRIES = [Evidence(letter * 32, "s1") for letter in "abc"]


def names(store: Store) -> set[str]:
    return {str(name) for (name,) in store.rows("SELECT name FROM entity")}


def give_vector(store: Store, memory: Memory) -> None:
    with store.transaction() as tx:
        put_vectors(tx, "m", [("e", memory.id, memory.revision, b"\0\0")])


def rewrite(store: Store, memory: Memory, **changes: object) -> None:
    after = dataclasses.replace(memory, revision=memory.revision + 1, **changes)  # type: ignore[arg-type]
    with store.transaction() as tx:
        memory_writes.update_memory(tx, after, changes)


def test_a_stored_memory_is_read_as_it_was_given(store: Store, keep: Keep) -> None:
    given = keep(
        "Größe ≥ 3", facts=("one", "two"), entities=("a.py",), questions=("Why?",), content="x" * 9_000, valid_from_ms=7
    )

    assert find_memory(store, given.episode_id) == given


@pytest.mark.parametrize(
    ("changes", "is_dropped"),
    [
        ({"summary": "other words"}, True),
        ({"content": "other words"}, True),
        ({"entities": ("b.py",)}, True),
        ({"questions": ("Why?",)}, True),
        ({"scope": Scope.PROJECT}, True),
        ({"is_pinned": True}, False),
        ({"confirmations": 2}, False),
    ],
)
def test_another_text_or_visibility_drops_the_vector(
    store: Store, keep: Keep, changes: dict[str, object], is_dropped: bool
) -> None:
    memory, other = keep("first words"), keep("untouched")
    give_vector(store, memory)
    give_vector(store, other)

    rewrite(store, memory, **changes)

    assert count_vectors(store, "e") == (1 if is_dropped else 2)
    assert store.find_damage() == ""


def test_a_change_writes_its_fields_alone(store: Store, keep: Keep) -> None:
    memory = keep("first words")
    rewrite(store, memory, summary="second words")

    # What this writer read is older: it changes the pin, and leaves the words of the other one alone.
    rewrite(store, memory, is_pinned=True)

    after = find_memory(store, memory.episode_id)
    assert after is not None
    assert (after.summary, after.is_pinned) == ("second words", True)


def test_a_deleted_memory_leaves_no_row_and_no_name_of_its_own(store: Store, keep: Keep) -> None:
    memory = keep("goes", entities=("its own", "shared"), evidence=ENTRIES)
    stays = keep("stays", entities=("shared",))
    give_vector(store, memory)

    with store.transaction() as tx:
        memory_writes.delete_memory_rows(tx, memory)

    assert find_memory(store, memory.episode_id) is None
    assert find_memory(store, stays.episode_id) == stays
    assert names(store) == {"shared"}
    assert count_vectors(store, "e") == 0
    assert evidence_of(store, memory.id) == []
    assert store.find_damage() == ""


def test_an_entry_supports_a_memory_once_and_in_the_order_given(store: Store, keep: Keep) -> None:
    memory = keep("it rests", evidence=ENTRIES[:1])

    with store.transaction() as tx:
        added = memory_writes.insert_evidence(tx, memory.id, [ENTRIES[0], ENTRIES[2], ENTRIES[2], ENTRIES[1]])

    assert added == 2
    assert evidence_of(store, memory.id) == [ENTRIES[0], ENTRIES[2], ENTRIES[1]]


def test_only_chosen_entries_or_all_of_them_go(store: Store, keep: Keep) -> None:
    named, every = (keep(name, evidence=ENTRIES) for name in ("named", "every"))

    with store.transaction() as tx:
        assert memory_writes.delete_evidence(tx, named.id, tables.Evidence.uuid == pack_uuid(ENTRIES[1].uuid)) == 1
        assert memory_writes.delete_evidence(tx, every.id) == 3

    assert [evidence_of(store, memory.id) for memory in (named, every)] == [[ENTRIES[0], ENTRIES[2]], []]


def test_a_use_is_counted_and_a_look_is_not(store: Store, keep: Keep) -> None:
    memory = keep("used")

    with store.transaction() as tx:
        memory_writes.set_accessed(tx, memory.episode_id, 5, is_use=True)
        memory_writes.set_accessed(tx, memory.episode_id, 9, is_use=False)

    after = find_memory(store, memory.episode_id)
    assert after is not None
    assert (after.accessed_at_ms, after.access_count, after.revision) == (9, 1, memory.revision)
