"""What had replaced a memory goes: the memory comes back. Nothing is ever superseded by nothing."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from memory_states import current_row, states_of

from bench.storing import content_digest
from engram.consolidation.consolidation_run import consolidate, join_pairs
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Importance, Kind, Scope, Status
from engram.forgetting.forget import forget_memory
from engram.forgetting.purge import plan_named, purge
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.memories import memory_changes, memory_history, memory_records, tombstones
from engram.models.memories.memory_changes import supersede
from engram.models.memories.memory_records import Evidence, Memory
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock

DAY = 86_400
Keep = Callable[..., Memory]


def chain(store: Store, *memories: Memory) -> None:
    for old, new in pairwise(memories):
        with store.transaction() as tx:
            supersede(tx, current_row(store, old), new, "replaced", actor=Actor.USER)


def archive(store: Store, memory: Memory, run_id: int | None = None) -> None:
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx,
            current_row(store, memory),
            "age",
            "not used",
            run_id=run_id,
            status=Status.ARCHIVED,
            actor=Actor.TIDYING,
        )


def forget(store: Store, settings: Settings, memory: Memory) -> tuple[str, ...]:
    plan = forget_memory(store, settings.places, memory.episode_id, actor=Actor.USER).plan
    return tuple(memory.episode_id for memory in plan.restored)


def test_a_forgotten_successor_gives_its_predecessor_back(store: Store, settings: Settings, keep: Keep) -> None:
    old, new = keep("the cache is Redis"), keep("the cache is SQLite")
    chain(store, old, new)

    restored = forget(store, settings, new)

    assert states_of(store, old) == [("active", "")]
    assert current_row(store, old).valid_to_ms is None
    assert restored == (old.episode_id,)
    told = store.rows("SELECT before, after, reason FROM history WHERE episode_id = ?", (old.episode_id,))
    assert new.episode_id not in str(told)


def test_a_provisional_predecessor_comes_back_as_provisional(store: Store, settings: Settings, keep: Keep) -> None:
    old, new = keep("the cache is Redis", status=Status.PROVISIONAL), keep("the cache is SQLite")
    chain(store, old, new)

    forget(store, settings, new)

    assert states_of(store, old) == [("provisional", "")]


def test_of_a_chain_the_last_link_comes_back(store: Store, settings: Settings, keep: Keep) -> None:
    first, second, third = keep("Redis"), keep("SQLite"), keep("Postgres")
    chain(store, first, second, third)

    forget(store, settings, third)

    assert states_of(store, first, second) == [("superseded", second.episode_id), ("active", "")]
    forget(store, settings, second)
    assert states_of(store, first) == [("active", "")]


def test_a_link_that_goes_leaves_its_successor_to_its_predecessor(store: Store, settings: Settings, keep: Keep) -> None:
    first, second, third = keep("Redis"), keep("SQLite"), keep("Postgres")
    chain(store, first, second, third)

    assert forget(store, settings, second) == ()

    assert states_of(store, first, third) == [("superseded", third.episode_id), ("active", "")]


def test_archiving_the_successor_restores_it_and_the_undo_reverts_that(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    old, new = keep("the cache is Redis", importance=Importance.HIGH), keep("the cache is SQLite")
    chain(store, old, new)
    before = content_digest(store)
    clock.advance((settings.archive_days + 1) * DAY)

    run_id = consolidate(store, settings, is_forced=True).run_id

    assert states_of(store, old, new) == [("active", ""), ("archived", "")]
    undo_run(store, settings, run_id, actor=Actor.USER)
    assert states_of(store, old, new) == [("superseded", new.episode_id), ("active", "")]
    assert content_digest(store) == before


def test_a_successor_that_was_merged_still_stands_for_it(store: Store, settings: Settings, keep: Keep) -> None:
    old, new, kept = keep("the cache is Redis"), keep("the cache is SQLite"), keep("the cache lives in SQLite")
    chain(store, old, new)
    with store.transaction() as tx:
        memory_changes.change_memory(
            tx,
            current_row(store, new),
            "archive",
            "merged",
            status=Status.ARCHIVED,
            superseded_by=kept.episode_id,
            actor=Actor.TIDYING,
        )
    assert states_of(store, old) == [("superseded", new.episode_id)]

    archive(store, kept)

    assert states_of(store, old) == [("active", "")]


def test_a_purged_successor_gives_it_back(store: Store, keep: Keep) -> None:
    old, new, newest = keep("Redis"), keep("SQLite"), keep("Postgres")
    chain(store, old, new, newest)

    purge(store, plan_named(store, [new.episode_id]), actor=Actor.USER)
    assert states_of(store, old) == [("superseded", newest.episode_id)]
    archive(store, newest)
    assert states_of(store, old) == [("active", "")]


def test_nothing_is_superseded_by_nothing_whatever_goes(store: Store, settings: Settings, keep: Keep) -> None:
    memories = [keep(f"the cache number {number}") for number in range(8)]
    chain(store, *memories[:4])
    chain(store, *memories[4:])
    chain(store, memories[3], memories[6])
    for going in (memories[1], memories[6], memories[3], memories[7]):
        forget(store, settings, going)

        orphans = store.rows(
            "SELECT e.summary FROM episode e WHERE e.status = 'superseded' AND NOT EXISTS "
            "(SELECT 1 FROM episode s WHERE s.episode_id = e.superseded_by)"
        )
        assert orphans == []


def test_an_earlier_run_can_be_undone_after_its_successor_was_forgotten(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    old = keep("we deploy with helm", valid_from_ms=1)
    new = keep("we deploy with kustomize instead of helm", valid_from_ms=2)
    pairs = [(old.id, new.id, 0.8)]
    run_id = consolidate(
        store, settings, similar=lambda least, _: iter([p for p in pairs if p[2] >= least]), is_forced=True
    ).run_id
    assert states_of(store, old) == [("superseded", new.episode_id)]
    forget(store, settings, new)

    undo_run(store, settings, run_id, actor=Actor.USER)

    assert states_of(store, old) == [("active", "")]


def test_tombstones_and_an_old_database_leave_no_orphan(store: Store, keep: Keep) -> None:
    old = keep("the cache is Redis", status=Status.SUPERSEDED, superseded_by="ep_0000000000ff")

    with store.transaction() as tx:
        forget_memories.apply_tombstones(tx, actor=Actor.TIDYING)

    assert states_of(store, old) == [("active", "")]


# -- runs of extractions and saves


def test_what_an_extraction_joined_and_replaced_is_a_run_that_can_be_undone(
    store: Store, settings: Settings, clock: FixedClock, keep: Keep
) -> None:
    old, same = keep("Decided: the cache lives in Redis"), keep("the queue is SQLite", kind=Kind.FACT)
    clock.advance(3600)
    new = keep("Decided: the cache lives in SQLite instead of Redis")
    twin = keep("SQLite holds the queue", kind=Kind.FACT, evidence=[Evidence("other", "s2")], session_id="")
    before = content_digest(store)
    pairs = [(twin.id, same.id, 0.95), (new.id, old.id, 0.7)]

    lines = join_pairs(store, settings, pairs, duplicate_cosine=0.92)

    assert len(lines) == 2
    (run,) = memory_history.list_runs(store)
    assert (run.kind, run.state, run.report["lines"]) == ("extract", "done", lines)
    undo_run(store, settings, run.id, actor=Actor.USER)
    assert content_digest(store) == before
    assert join_pairs(store, settings, pairs, duplicate_cosine=0.92) == []


def test_an_extraction_that_changes_nothing_older_leaves_no_run(store: Store, settings: Settings, keep: Keep) -> None:
    keep("new")
    join_pairs(store, settings, [], duplicate_cosine=0.92)

    assert memory_history.list_runs(store) == []


def test_a_save_that_replaces_is_a_run_that_can_be_undone(store: Store, settings: Settings, keep: Keep) -> None:
    old = keep("Deploy on Friday")
    new = save_memory(
        store, "Deploy on Tuesday", redact, scope=Scope.GLOBAL, supersedes=old.episode_id, actor=Actor.AGENT
    )
    (run,) = memory_history.list_runs(store)
    assert run.kind == "save"

    undo_run(store, settings, run.id, actor=Actor.USER)

    assert states_of(store, old, new) == [("active", ""), ("archived", "")]


# -- purge and forget


def test_a_purge_and_a_forget_leave_different_tombstones(
    store: Store, settings: Settings, keep: Keep, tmp_path: Path
) -> None:
    purged = keep("purged", status=Status.ARCHIVED, slot="a" * 32)
    forgotten = keep("forgotten", slot="b" * 32)

    purge(store, plan_named(store, [purged.episode_id]), actor=Actor.USER)
    forget(store, settings, forgotten)

    assert not tombstones.is_memory_gone(store, purged.episode_id, with_purged=False)
    assert tombstones.is_memory_gone(store, forgotten.episode_id, with_purged=False)
    for one in (purged, forgotten):
        assert one.slot is not None
        assert tombstones.is_memory_gone(store, one.episode_id)
        assert tombstones.is_slot_gone(store, one.slot)
    barred = tombstones.barred_entries(store, [f"uuid of {one.episode_id}" for one in (purged, forgotten)])
    assert barred == {f"uuid of {forgotten.episode_id}"}
    with store.transaction() as tx:
        again = [memory_changes.add_memory(tx, one, [], actor=Actor.MODEL) for one in (purged, forgotten)]
    with store.transaction() as tx:
        forget_memories.apply_tombstones(tx, actor=Actor.TIDYING)
    assert [memory_records.find_memory(store, one.episode_id) is not None for one in again] == [True, False]


@pytest.mark.parametrize("status", ["archived", "superseded"])
def test_purging_leaves_the_words(store: Store, keep: Keep, status: str) -> None:
    purged = keep("purged", status=status)

    purge(store, plan_named(store, [purged.episode_id]), actor=Actor.USER)

    assert store.rows("SELECT 1 FROM tombstone WHERE kind IN ('words', 'evidence', 'entry', 'turn')") == []
