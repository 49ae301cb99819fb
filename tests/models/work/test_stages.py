"""The health of a stage: counts add up, and a failure is known from when it began until the stage works again."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.work.task_runs import (
    Stage,
    clear_old_failure,
    is_damage_noted,
    list_stages,
    note_damage,
    note_failure,
    note_success,
)
from engram.models.work.work import MAX_ERROR_CHARS
from engram.system.clock import FixedClock


def test_counts_add_up(store: Store, clock: FixedClock) -> None:
    note_success(store, "embed", seen=3, done=2)
    note_success(store, "embed", seen=1, done=1)

    assert list_stages(store) == [Stage("embed", 4, 3, clock.now_ms(), "", None)]


def test_a_failure_is_known_since_it_began_and_by_its_last_error(store: Store, clock: FixedClock) -> None:
    began_at = clock.now_ms()
    note_failure(store, "embed", "first")
    clock.advance(10)
    note_failure(store, "embed", "x" * 2 * MAX_ERROR_CHARS)

    (stage,) = list_stages(store)
    assert (stage.last_error, stage.last_error_ms) == ("x" * MAX_ERROR_CHARS, began_at)

    note_success(store, "embed")
    (stage,) = list_stages(store)
    assert (stage.last_error, stage.last_error_ms) == ("", None)


def test_only_an_old_failure_is_cleared(store: Store, clock: FixedClock) -> None:
    note_failure(store, "backup", "disk full")
    clock.advance(59)
    clear_old_failure(store, "backup", 60)
    assert list_stages(store)[0].last_error == "disk full"

    clock.advance(1)
    clear_old_failure(store, "backup", 60)

    assert list_stages(store)[0].last_error == ""


def test_damage_is_noted_until_the_memory_proves_sound(store: Store) -> None:
    assert not is_damage_noted(store)

    note_damage(store)
    assert is_damage_noted(store)

    note_success(store, "memory")
    assert not is_damage_noted(store)
