"""Memories wait to be compared, in the order in which they were said, and behind what was said before them."""

from __future__ import annotations

from collections.abc import Callable

from engram.models.engine.transaction import Store
from engram.models.memories import watermarks
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.work import work
from engram.system.clock import FixedClock
from tests.models.conversations import make_turn, store_turn


def test_the_oldest_waits_first_and_only_until_it_was_compared(store: Store, keep: Callable[..., Memory]) -> None:
    late, early = keep("late", created_at_ms=200), keep("early", created_at_ms=100)
    with store.transaction() as tx:
        for memory in (late, early):
            watermarks.mark_unjoined(tx, memory.id)

    first = watermarks.next_unjoined(store, 201)
    assert first is not None
    assert first.episode_id == early.episode_id
    watermarks.mark_joined(store, first.id)

    assert watermarks.unjoined_rows(store) == [late.id]
    assert watermarks.next_unjoined(store, 200) is None


def test_a_turn_that_is_open_or_waits_for_its_extraction_holds_later_memories_up(
    store: Store, clock: FixedClock, keep: Callable[..., Memory]
) -> None:
    now = clock.now_ms()
    memory = keep("said after", created_at_ms=now - 500)
    with store.transaction() as tx:
        watermarks.mark_unjoined(tx, memory.id)
    assert watermarks.join_horizon_ms(store) == now + 1
    assert watermarks.held_back_rows(store) == frozenset()

    store_turn(store, make_turn("t1", "open", at_ms=now - 1000))
    assert watermarks.join_horizon_ms(store) == now - 1000
    assert watermarks.held_back_rows(store) == {memory.id}

    clock.advance(watermarks.OPEN_TURN_MS / 1000)
    assert watermarks.held_back_rows(store) == frozenset(), "nobody has written to it for a while"
    with store.transaction() as tx:
        work.make_due(tx, "extract", "s1", now)
    assert watermarks.held_back_rows(store) == {memory.id}


def test_memories_of_one_turn_know_each_other(store: Store, keep: Callable[..., Memory]) -> None:
    turns = [store_turn(store, make_turn(key, "said")) for key in ("t1", "t2")]
    first, second, other = (
        keep(f"memory {number}", evidence=[Evidence("", "s1", turn_id)])
        for number, turn_id in enumerate((turns[0], turns[0], turns[1]))
    )

    assert set(watermarks.rows_of_same_turn(store, first.id)) == {first.id, second.id}
    assert watermarks.rows_of_same_turn(store, other.id) == [other.id]
