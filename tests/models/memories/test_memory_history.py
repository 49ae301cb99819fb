"""The history of memories: what a step tells, what undo reads of it, and what forgetting takes of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable

import pytest

from engram.enums import Actor, Importance, Kind, Status
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history
from engram.models.memories.memory_history import add_run
from engram.models.memories.memory_records import Memory
from engram.system.clock import FixedClock


def test_steps_are_told_in_order_with_time_actor_and_values(
    store: Store, clock: FixedClock, keep: Callable[..., Memory]
) -> None:
    memory = keep("first words")
    clock.advance(60)
    with store.transaction() as tx:
        memory_changes.change_memory(tx, memory, "edit", "typo", actor=Actor.USER, summary="other words")

    first, second = memory_history.history_of(store, memory.episode_id)

    assert (first.action, second.action, second.reason, second.actor) == ("add", "edit", "typo", Actor.USER)
    assert (dict(second.before), dict(second.after)) == ({"summary": "first words"}, {"summary": "other words"})
    assert second.at_ms - first.at_ms == 60_000
    assert (first.is_by_hand, second.is_by_hand) == (False, True)


def test_what_undo_reads_is_the_memory_as_it_was(keep: Callable[..., Memory]) -> None:
    memory = keep(
        "all fields",
        kind=Kind.FIX,
        importance=Importance.HIGH,
        status=Status.PROVISIONAL,
        facts=("a.py changed",),
        entities=("a.py", "pytest"),
        questions=("Why?",),
    )

    stored = json.loads(json.dumps(memory_history.snapshot(memory)))
    fields = memory_history.fields_of_snapshot(stored)

    assert dataclasses.replace(memory, **fields) == memory
    assert isinstance(fields["status"], Status)
    assert (fields["entities"], fields["questions"]) == (("a.py", "pytest"), ("Why?",))


@pytest.mark.parametrize("left_out", ["id", "revision", "updated_at_ms", "accessed_at_ms", "access_count"])
def test_what_tidying_and_use_change_is_not_part_of_it(keep: Callable[..., Memory], left_out: str) -> None:
    assert left_out not in memory_history.snapshot(keep("a memory"))


def test_the_steps_of_a_run_are_found_together_without_those_that_were_undone(
    store: Store, keep: Callable[..., Memory]
) -> None:
    one, other = keep("one"), keep("other")
    with store.transaction() as tx:
        run_id = add_run(tx, "decide")
        for memory in (one, other):
            memory_changes.change_memory(
                tx, memory, "archive", actor=Actor.TIDYING, run_id=run_id, status=Status.ARCHIVED
            )
        memory_changes.change_memory(tx, one, "pin", actor=Actor.USER, is_pinned=True)

    changes = memory_history.changes_of_run(store, run_id)
    with store.transaction() as tx:
        for undoes in (changes[0].id, changes[0].id + 3):  # the archiving, and then the undo of it
            memory_history.add_history(tx, one.episode_id, "undo", "", {}, {}, actor=Actor.USER, undoes=undoes)
    history = memory_history.history_of(store, one.episode_id)

    assert [change.episode_id for change in changes] == [one.episode_id, other.episode_id]
    assert [step.action for step in memory_history.standing_steps(history[:-1])] == ["add", "pin", "undo"]
    assert [step.action for step in memory_history.standing_steps(history)] == ["add", "archive", "pin", "undo"]


def test_the_history_of_one_memory_goes_alone(store: Store, keep: Callable[..., Memory]) -> None:
    one, other = keep("one"), keep("other")

    with store.transaction() as tx:
        memory_history.drop_history(tx, one.episode_id)

    assert memory_history.history_of(store, one.episode_id) == []
    assert len(memory_history.history_of(store, other.episode_id)) == 1
