"""What is paused now, and when what was paused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.work.work import (
    FOREVER_MS,
    carry_pauses,
    move_pauses,
    move_to_now,
    pause,
    paused_scopes,
    pauses_of,
    resume,
)
from engram.system.clock import FixedClock

HOUR_MS = 3_600_000


def test_a_pause_ends_by_itself_and_its_time_is_kept(store: Store, clock: FixedClock) -> None:
    began_at = clock.now_ms()
    pause(store, "/a", began_at + HOUR_MS)
    assert paused_scopes(store) == {"/a"}

    clock.advance(3600)

    assert paused_scopes(store) == frozenset()
    assert pauses_of(store, "/a") == [(began_at, began_at + HOUR_MS)]
    assert pauses_of(store, "/b") == []


def test_a_pause_that_is_ended_early_counts_until_then(store: Store, clock: FixedClock) -> None:
    began_at = clock.now_ms()
    pause(store, "", began_at + HOUR_MS)
    clock.advance(60)

    assert resume(store, "")
    assert not resume(store, "")

    assert paused_scopes(store) == frozenset()
    assert pauses_of(store, "/any") == pauses_of(store, None) == [(began_at, began_at + 60_000)]


def test_a_pause_that_was_begun_by_a_clock_that_was_ahead_moves_to_the_present(store: Store, clock: FixedClock) -> None:
    right_ms = clock.now_ms()
    clock.advance(365 * 86_400)
    wrong_ms = clock.now_ms()
    pause(store, "/a", wrong_ms + HOUR_MS)
    clock.at_ms = right_ms
    assert paused_scopes(store) == {"/a"}

    move_to_now(store)
    move_to_now(store)

    assert pauses_of(store, "/a") == [(wrong_ms, wrong_ms + HOUR_MS), (right_ms, right_ms + HOUR_MS)]
    clock.advance(1800)
    assert resume(store, "/a") == right_ms + HOUR_MS
    assert pauses_of(store, "/a")[1] == (right_ms, right_ms + HOUR_MS // 2)
    assert paused_scopes(store) == frozenset()


def test_a_pause_without_an_end_that_was_begun_by_such_a_clock_does_not_return(store: Store, clock: FixedClock) -> None:
    right_ms = clock.now_ms()
    clock.advance(365 * 86_400)
    wrong_ms = clock.now_ms()
    pause(store, "", FOREVER_MS)
    clock.at_ms = right_ms

    move_to_now(store)
    assert paused_scopes(store)
    clock.advance(60)
    resume(store, "")

    assert pauses_of(store, None) == [(wrong_ms, wrong_ms + 24 * HOUR_MS), (right_ms, right_ms + 60_000)]


def test_a_pause_that_is_ended_after_the_clock_was_set_back_a_little_leaves_no_gap(
    store: Store, clock: FixedClock
) -> None:
    pause(store, "/a", FOREVER_MS)
    clock.advance(-2)

    move_to_now(store)
    clock.advance(1)
    resume(store, "/a")

    assert pauses_of(store, "/a") == [(clock.now_ms() - 1_000, clock.now_ms())]


def test_a_pause_that_continues_is_one(store: Store, clock: FixedClock) -> None:
    began_at = clock.now_ms()
    pause(store, "/a", began_at + HOUR_MS)
    clock.advance(60)
    pause(store, "/a", began_at + 2 * HOUR_MS)

    assert pauses_of(store, "/a") == [(began_at, began_at + 2 * HOUR_MS)]


def test_pauses_go_with_a_project_that_is_merged(store: Store, clock: FixedClock) -> None:
    until_ms = clock.now_ms() + HOUR_MS
    pause(store, "/old", until_ms)

    with store.transaction() as tx:
        move_pauses(tx, "/old", "/new")

    assert pauses_of(store, "/old") == []
    assert pauses_of(store, "/new") == [(clock.now_ms(), until_ms)]


@pytest.mark.parametrize(("is_newer", "end"), [(True, 2 * HOUR_MS), (False, HOUR_MS)])
def test_of_two_memories_the_newer_knows_the_end(
    store: Store, clock: FixedClock, tmp_path: Path, is_newer: bool, end: int
) -> None:
    now = clock.now_ms()
    pause(store, "/a", now + HOUR_MS)
    with open_store(tmp_path / "other" / "memory.db", clock=clock) as other:
        pause(other, "/a", now + 2 * HOUR_MS)
        pause(other, "/b", now + HOUR_MS)

        with store.transaction() as tx:
            carry_pauses(tx, other, is_newer=is_newer)

    assert pauses_of(store, "/a") == [(now, now + end)]
    assert pauses_of(store, "/b") == [(now, now + HOUR_MS)]
