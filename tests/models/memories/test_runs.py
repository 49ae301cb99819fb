"""Runs: an interrupted one continues, one that changed nothing leaves no trace, and the digest sees every change."""

from __future__ import annotations

from collections.abc import Callable

from bench.storing import content_digest
from engram.enums import Actor, Status
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history
from engram.models.memories.memory_records import Memory
from engram.system.clock import FixedClock
from tests.models.conversations import make_turn, store_turn

Keep = Callable[..., Memory]


def test_an_interrupted_consolidation_continues_where_it_was(store: Store) -> None:
    begun = memory_history.begin_run(store)
    with store.transaction() as tx:
        memory_history.update_run(tx, begun, position="merge", report={"lines": ["one"]})

    resumed = memory_history.begin_run(store)

    assert (resumed.id, resumed.position, dict(resumed.report)) == (begun.id, "merge", {"lines": ["one"]})
    with store.transaction() as tx:
        done = memory_history.update_run(tx, resumed, position="", report=resumed.report, state="done")
    assert done.ended_at_ms == store.now_ms()
    assert memory_history.begin_run(store).id != begun.id


def test_a_run_that_changed_nothing_is_not_in_the_log(store: Store, keep: Keep) -> None:
    memory = keep("a memory")
    with store.transaction() as tx:
        idle, busy = memory_history.add_run(tx, "extract"), memory_history.add_run(tx, "extract")
        memory_changes.change_memory(tx, memory, "archive", actor=Actor.MODEL, run_id=busy, status=Status.ARCHIVED)
        memory_history.close_run(tx, idle, ["nothing"])
        memory_history.close_run(tx, busy, ["archived one"])

    assert memory_history.find_run(store, idle) is None
    kept = memory_history.find_run(store, busy)
    assert kept is not None
    assert (kept.kind, kept.state, dict(kept.report)) == ("extract", "done", {"lines": ["archived one"]})


def test_runs_are_listed_latest_first_and_a_purge_is_none_of_them(store: Store) -> None:
    with store.transaction() as tx:
        numbers = [memory_history.add_run(tx, kind) for kind in memory_history.UNDOABLE_KINDS]
        purge = memory_history.add_run(tx, "purge")

    assert [run.id for run in memory_history.list_runs(store)] == numbers[::-1]
    assert [run.id for run in memory_history.list_runs(store, limit=1)] == numbers[-1:]
    assert memory_history.find_run(store, purge) is None


def test_sessions_that_grew_since_are_named_longest_silent_first(store: Store, clock: FixedClock) -> None:
    store_turn(store, make_turn("t1", "early", session_id="early"))
    clock.advance(100)
    since_ms = store.now_ms()
    store_turn(store, make_turn("t2", "late", session_id="late", at_ms=20))
    store_turn(store, make_turn("t3", "silent", session_id="silent", at_ms=10))

    assert memory_history.sessions_grown_since(store, since_ms) == ["silent", "late"]


def test_the_digest_differs_with_words_and_packing_and_not_with_use(store: Store, keep: Keep) -> None:
    memory = keep("a memory", content="walrus " * 50)
    before = content_digest(store)

    memory_changes.note_access(store, memory.episode_id)
    after_use = content_digest(store)
    with store.transaction() as tx:
        memory_changes.pack_old_content(tx, memory, "old", actor=Actor.TIDYING)
    packed = content_digest(store)
    with store.transaction() as tx:
        memory_changes.change_memory(tx, memory, "edit", actor=Actor.USER, summary="other words")

    assert after_use == before
    assert len({before, packed, content_digest(store)}) == 3
