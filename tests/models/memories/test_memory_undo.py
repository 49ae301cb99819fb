"""Undoing a change: what was before is back, somebody is named for it, and later decisions stand in its way."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Status
from engram.models.engine.statement import unpack_text
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_undo
from engram.models.memories.memory_history import Change, add_run, changes_of_run, history_of
from engram.models.memories.memory_records import Evidence, Memory, evidence_of, find_memory
from engram.system.clock import FixedClock

Keep = Callable[..., Memory]


def begin(store: Store) -> int:
    with store.transaction() as tx:
        return add_run(tx, "decide")


def undo(store: Store, run_id: int) -> None:
    with store.transaction() as tx:
        for change in reversed(changes_of_run(store, run_id)):
            memory_undo.undo_change(tx, change, actor=Actor.USER)


def now(store: Store, memory: Memory) -> Memory:
    found = find_memory(store, memory.episode_id)
    assert found is not None
    return found


def test_changed_fields_are_as_before_and_the_user_is_named(store: Store, keep: Keep) -> None:
    memory, run_id = keep("first words", entities=("a.py",)), begin(store)
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx, memory, "archive", actor=Actor.TIDYING, run_id=run_id, status=Status.ARCHIVED, entities=()
        )

    undo(store, run_id)

    after = now(store, memory)
    assert (after.status, after.entities, after.summary) == (memory.status, ("a.py",), "first words")
    last = history_of(store, memory.episode_id)[-1]
    assert (last.action, last.reason, last.actor) == (memory_undo.UNDO, f"run {run_id}", Actor.USER)


def test_packed_content_is_unpacked_and_found_again(store: Store, keep: Keep) -> None:
    memory, run_id = keep("old", content="walrus " * 100), begin(store)
    with store.transaction() as tx:
        memory_changes.pack_old_content(tx, memory, "old", actor=Actor.TIDYING, run_id=run_id)

    undo(store, run_id)

    content = store.value("SELECT content FROM episode WHERE id = ?", (memory.id,))
    assert unpack_text(content) == memory.content
    assert store.rows("SELECT rowid FROM episode_fts WHERE episode_fts MATCH 'walrus'") == [(memory.id,)]


def test_added_entries_go_and_older_ones_stay(store: Store, keep: Keep) -> None:
    first, second = Evidence("a" * 32, "s1"), Evidence("b" * 32, "s1")
    memory, run_id = keep("it rests", evidence=[first]), begin(store)
    with store.transaction() as tx:
        memory_changes.add_evidence(tx, memory, [second], "said again", actor=Actor.MODEL, run_id=run_id)

    undo(store, run_id)

    assert evidence_of(store, memory.id) == [first]


def test_a_memory_that_the_run_made_is_archived(store: Store, keep: Keep) -> None:
    run_id = begin(store)
    template = keep("template")
    with store.transaction() as tx:
        made = memory_changes.add_memory(
            tx,
            Memory("ep_0123456789ab", template.kind, "made", "made"),
            [],
            actor=Actor.AGENT,
            action="save",
            run_id=run_id,
        )

    undo(store, run_id)

    assert now(store, made).status == Status.ARCHIVED


def test_a_memory_that_is_gone_is_passed_over(store: Store, keep: Keep) -> None:
    memory, run_id = keep("goes"), begin(store)
    with store.transaction() as tx:
        memory_changes.change_memory(tx, memory, "archive", actor=Actor.TIDYING, run_id=run_id, status=Status.ARCHIVED)
        (change,) = changes_of_run(tx, run_id)
        memory_changes.delete_memory(tx, memory, actor=Actor.USER)
        memory_undo.undo_change(tx, change, actor=Actor.USER)

    assert find_memory(store, memory.episode_id) is None
    assert history_of(store, memory.episode_id) == []


def change(number: int, action: str, run_id: int | None, field: str = "summary") -> Change:
    before = {field: "before"} if field else {}
    return Change(1, action, "", Actor.USER, run_id, before, {}, "ep_1", number)


def test_only_later_decisions_of_others_stand_in_the_way() -> None:
    undone = change(5, "supersede", 7)

    assert memory_undo.is_in_the_way(undone, change(6, "edit", None))
    assert memory_undo.is_in_the_way(undone, change(6, "archive", 8))
    assert not memory_undo.is_in_the_way(undone, change(4, "edit", None))
    assert not memory_undo.is_in_the_way(undone, change(6, "archive", 7))
    assert not memory_undo.is_in_the_way(undone, change(6, "move", None))
    assert not memory_undo.is_in_the_way(undone, change(6, "helpful", None, field=""))


def test_a_memory_whose_ageing_was_undone_ages_from_then_on(store: Store, clock: FixedClock, keep: Keep) -> None:
    memory = keep("aged")
    clock.advance(500)

    with store.transaction() as tx:
        memory_undo.restart_ageing(tx, memory.episode_id)

    assert (now(store, memory).accessed_at_ms, now(store, memory).access_count) == (store.now_ms(), 0)
