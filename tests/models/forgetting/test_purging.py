"""What a purge may take, what it frees, and the log that says which consolidation can no longer be undone."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Scope, Status
from engram.models.engine.transaction import Store
from engram.models.forgetting import forget_memories
from engram.models.memories import memory_changes
from engram.models.memories.memory_history import add_run
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.memories.tombstones import is_memory_gone, is_slot_gone
from engram.models.search.vector_rows import put_vectors
from engram.system.clock import FixedClock
from tests.models.conversations import store_project

Keep = Callable[..., Memory]


def purge(store: Store, *memories: Memory) -> int:
    with store.transaction() as tx:
        run_id = add_run(tx, "purge")
        forget_memories.purge_memories(tx, run_id, memories, actor=Actor.USER)
        return run_id


def test_what_was_used_or_changed_since_is_not_untouched(store: Store, clock: FixedClock, keep: Keep) -> None:
    project = store_project(store, "a")
    old, used, changed = (keep(name, status=Status.ARCHIVED) for name in ("old", "used", "changed"))
    own = keep("own", status=Status.ARCHIVED, project_id=project.id, scope=Scope.PROJECT)
    clock.advance(100)
    memory_changes.note_access(store, used.episode_id)
    with store.transaction() as tx:
        memory_changes.change_memory(tx, changed, "edit", actor=Actor.USER, summary="other words")
    since_ms = store.now_ms() - 50_000

    untouched = forget_memories.untouched_since(store, Status.ARCHIVED, since_ms)

    assert [memory.summary for memory in untouched] == [old.summary, own.summary]
    assert [
        memory.summary for memory in forget_memories.untouched_since(store, Status.ARCHIVED, since_ms, project.id)
    ] == ["own"]
    assert forget_memories.untouched_since(store, Status.SUPERSEDED, since_ms) == []


def test_words_vectors_and_history_are_counted_in_bytes(store: Store, keep: Keep) -> None:
    memory = keep("é" * 10, content="")
    words = forget_memories.bytes_of(store, memory)

    with store.transaction() as tx:
        put_vectors(tx, "m", [("e", memory.id, 0, b"\0" * 64)])
    with_vector = forget_memories.bytes_of(store, memory)
    with store.transaction() as tx:
        memory_changes.change_memory(tx, memory, "pin", "w" * 1_000, actor=Actor.USER, is_pinned=True)

    assert words >= 20
    assert words + 32 <= with_vector <= words + 64
    assert forget_memories.bytes_of(store, memory) >= with_vector + 1_000


def test_a_purged_memory_is_gone_but_was_not_forgotten(store: Store, keep: Keep) -> None:
    memory = keep("goes", slot="slot of it")
    stays = keep("stays")

    purge(store, memory)

    assert find_memory(store, memory.episode_id) is None
    assert find_memory(store, stays.episode_id) == stays
    assert is_memory_gone(store, memory.episode_id)
    assert is_slot_gone(store, "slot of it")
    assert not is_memory_gone(store, memory.episode_id, with_purged=False)
    assert not is_slot_gone(store, "slot of it", with_purged=False)


def test_the_log_names_memories_and_the_runs_that_had_changed_them(store: Store, clock: FixedClock, keep: Keep) -> None:
    changed, other = keep("changed"), keep("other")
    with store.transaction() as tx:
        consolidation = add_run(tx, "consolidate")
        memory_changes.change_memory(
            tx, changed, "archive", actor=Actor.TIDYING, run_id=consolidation, status=Status.ARCHIVED
        )

    first = purge(store, other)
    clock.advance(10)
    second = purge(store, changed)

    latest, earlier = forget_memories.list_purges(store)
    assert (earlier.id, earlier.episode_ids, earlier.touched_runs) == (first, (other.episode_id,), ())
    assert (latest.id, latest.episode_ids, latest.touched_runs) == (second, (changed.episode_id,), (consolidation,))
    (ended,) = [purge for purge in forget_memories.list_purges(store) if consolidation in purge.touched_runs]
    assert ended.id == second


def test_a_purge_in_slices_is_one_entry_of_the_log(store: Store, keep: Keep) -> None:
    memories = [keep(name) for name in ("one", "two")]

    with store.transaction() as tx:
        run_id = add_run(tx, "purge")
    for memory in memories:
        with store.transaction() as tx:
            forget_memories.purge_memories(tx, run_id, [memory], actor=Actor.USER)

    (logged,) = forget_memories.list_purges(store)
    assert logged.episode_ids == tuple(memory.episode_id for memory in memories)
