"""Contradictions wait for a decision once, ask only about memories in force, and are asked again after an undo."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Status
from engram.models.engine.transaction import Store
from engram.models.memories import judgements, memory_changes
from engram.models.memories.memory_history import add_run
from engram.models.memories.memory_records import Memory

Keep = Callable[..., Memory]


def note(store: Store, older: Memory, newer: Memory) -> int:
    with store.transaction() as tx:
        return judgements.note_contradiction(tx, older.episode_id, newer.episode_id, "both cannot hold")


def test_a_pair_is_asked_about_once_whichever_comes_first(store: Store, keep: Keep) -> None:
    older, newer = keep("older"), keep("newer")

    number = note(store, older, newer)

    assert number > 0
    assert note(store, newer, older) == 0
    (waiting,) = judgements.open_contradictions(store)
    assert (waiting.id, waiting.older_id, waiting.newer_id, waiting.reason, waiting.made_at_ms) == (
        number,
        older.episode_id,
        newer.episode_id,
        "both cannot hold",
        store.now_ms(),
    )


def test_only_current_pairs_wait_and_they_are_found_by_memory_and_number(store: Store, keep: Keep) -> None:
    first, second, third = keep("first"), keep("second"), keep("third")
    numbers = [note(store, first, second), note(store, second, third)]

    def waiting(**chosen: str | int) -> list[int]:
        return [one.id for one in judgements.open_contradictions(store, **chosen)]  # type: ignore[arg-type]

    assert waiting() == numbers
    assert waiting(episode_id=third.episode_id) == numbers[1:]
    assert waiting(number=numbers[0]) == numbers[:1]
    with store.transaction() as tx:
        memory_changes.change_memory(tx, first, "archive", actor=Actor.USER, status=Status.ARCHIVED)
    assert waiting() == numbers[1:]


def test_a_decision_ends_it_until_its_run_is_undone(store: Store, keep: Keep) -> None:
    older, newer = keep("older"), keep("newer")
    number = note(store, older, newer)
    with store.transaction() as tx:
        run_id = add_run(tx, "decide")
        judgements.note_decision(tx, number, newer.episode_id, run_id)

    assert judgements.open_contradictions(store) == []
    assert note(store, older, newer) == 0
    with store.transaction() as tx:
        judgements.reopen_contradictions(tx, run_id + 1)
    assert judgements.open_contradictions(store) == []
    with store.transaction() as tx:
        judgements.reopen_contradictions(tx, run_id)
    assert [one.id for one in judgements.open_contradictions(store)] == [number]
