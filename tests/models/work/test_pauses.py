"""What is paused now, and when what was paused."""

from __future__ import annotations

from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.work.work import carry_pauses, move_pauses, pause, paused_scopes, pauses_of, resume
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
