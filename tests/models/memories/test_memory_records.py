"""Memories are found by id, slot, session, turn and successor, and one damaged list costs no other memory."""

from __future__ import annotations

from collections.abc import Callable

from planting import plant

from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Evidence, Memory
from tests.models.conversations import make_turn, store_session, store_turn


def test_a_memory_is_found_by_all_that_names_it(store: Store, keep: Callable[..., Memory]) -> None:
    store_session(store, "s1")
    turn_id = store_turn(store, make_turn("t1", "said"))
    slot = memory_records.slot_of("t1", "fact", "a memory")
    kept = keep("a memory", session_id="s1", slot=slot, evidence=[Evidence("t1", "s1", turn_id)])
    keep("another")

    (loaded,) = memory_records.memories_of_session(store, "s1")

    assert (loaded.episode_id, loaded.summary, loaded.session_id) == (kept.episode_id, "a memory", "s1")
    assert memory_records.memories_of_turns(store, [turn_id]) == [loaded]
    assert memory_records.find_memory(store, kept.episode_id) == memory_records.memory_by_slot(store, slot) == loaded
    assert memory_records.memories_by_row(store, [99, kept.id]) == {kept.id: loaded}
    assert memory_records.find_memory(store, "ep_000000000000") is None


def test_the_same_proposal_of_a_turn_has_the_same_slot_however_it_is_spaced() -> None:
    slot = memory_records.slot_of("t1", "fact", "The  lock is held")

    assert slot == memory_records.slot_of("t1", "fact", "the lock is held ")
    assert (
        len(
            {
                slot,
                memory_records.slot_of("t2", "fact", "the lock is held"),
                memory_records.slot_of("t1", "fix", "the lock"),
            }
        )
        == 3
    )


def test_a_malformed_list_is_read_as_empty(store: Store, keep: Callable[..., Memory]) -> None:
    kept = keep("a memory", facts=("one", "two"))
    plant(store, "UPDATE episode SET facts = '[broken', entities = '[7, \"name\"]'")

    (loaded,) = memory_records.all_memories(store)

    assert (loaded.episode_id, loaded.facts, loaded.entities) == (kept.episode_id, (), ("name",))


def test_every_new_id_is_one_and_no_other_text_is() -> None:
    assert memory_records.is_memory_id(memory_records.new_memory_id())
    assert not any(
        memory_records.is_memory_id(text) for text in ("", "ep_", "ep_00000000000G", "EP_000000000000", "ep_0" * 5)
    )
