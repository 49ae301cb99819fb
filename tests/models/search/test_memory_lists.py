"""Lists for people: the order they are read in, whose memories they show, and how many are hidden."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Scope, Status
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes
from engram.models.memories.memory_records import Memory
from engram.models.search import memory_lists
from engram.system.clock import FixedClock
from tests.models.conversations import store_project

Keep = Callable[..., Memory]


def summaries(memories: list[Memory]) -> list[str]:
    return [memory.summary for memory in memories]


def test_current_memories_of_a_project_come_oldest_first_with_global_ones(store: Store, keep: Keep) -> None:
    here, there = store_project(store, "a"), store_project(store, "b")
    keep("own, late", project_id=here.id, scope=Scope.PROJECT, created_at_ms=30)
    keep("everyone's", created_at_ms=20)
    keep("own, early", project_id=here.id, scope=Scope.PROJECT, created_at_ms=10)
    keep("another's", project_id=there.id, scope=Scope.PROJECT)
    keep("archived", project_id=here.id, scope=Scope.PROJECT, status=Status.ARCHIVED)

    assert summaries(memory_lists.current_memories(store, here.id)) == ["own, early", "everyone's", "own, late"]


def test_the_latest_come_first_until_a_time_and_up_to_a_number(store: Store, keep: Keep) -> None:
    here = store_project(store, "a")
    for at_ms in (10, 20, 30):
        keep(f"at {at_ms}", created_at_ms=at_ms, project_id=here.id, scope=Scope.PROJECT)
    keep("everyone's", created_at_ms=25)

    latest = memory_lists.latest_memories

    assert summaries(latest(store, project_id=here.id)) == ["at 30", "everyone's", "at 20", "at 10"]
    assert summaries(latest(store, project_id=here.id, with_global=False, limit=2)) == ["at 30", "at 20"]
    assert summaries(latest(store, before_ms=20)) == ["at 20", "at 10"]


def test_around_a_time_half_is_before_and_half_after(store: Store, keep: Keep) -> None:
    for at_ms in range(10, 100, 10):
        keep(f"at {at_ms}", created_at_ms=at_ms)

    assert summaries(memory_lists.memories_around(store, 50, limit=4)) == ["at 40", "at 50", "at 60", "at 70"]
    assert summaries(memory_lists.memories_around(store, 0, limit=4)) == ["at 10", "at 20"]


def test_memories_are_related_by_the_rarest_shared_names(store: Store, keep: Keep) -> None:
    here, there = store_project(store, "a"), store_project(store, "b")
    memory = keep("about both", entities=("rare", "common"))
    keep("shares the common", entities=("common",))
    keep("shares the rare", entities=("rare",))
    keep("shares nothing", entities=("other",))
    keep("lowered", entities=("rare",), is_lowered=True)
    keep("suspect", entities=("rare",), suspect="an instruction")
    keep("another's", entities=("rare",), project_id=there.id, scope=Scope.PROJECT)
    for number in range(4):
        keep(f"common too {number}", entities=("common",))

    related = memory_lists.related_memories(store, memory, here.id)

    assert summaries(related)[0] == "shares the rare"
    assert set(summaries(related)[1:]) == {"shares the common", *(f"common too {number}" for number in range(3))}


def test_what_a_project_may_see_is_counted_and_the_rest_too(store: Store, keep: Keep) -> None:
    here, there = store_project(store, "a"), store_project(store, "b")
    for name in ("one", "two"):
        keep(name, project_id=here.id, scope=Scope.PROJECT)
    keep("everyone's")
    keep("another's", project_id=there.id, scope=Scope.PROJECT)

    seen, hidden = memory_lists.count_memories(store, here.id)

    assert {(count.scope, count.number) for count in seen} == {("project", 2), ("global", 1)}
    assert hidden == 1


def test_only_what_nobody_touched_since_and_is_not_packed_yet_is_old(
    store: Store, clock: FixedClock, keep: Keep
) -> None:
    old, used, packed = keep("old"), keep("used"), keep("packed")
    keep("without content", content="")
    clock.advance(100)
    memory_changes.note_access(store, used.episode_id)
    with store.transaction() as tx:
        memory_changes.pack_old_content(tx, packed, "old", actor=Actor.TIDYING)
    keep("new")

    assert summaries(memory_lists.unpacked_before(store, store.now_ms() - 50_000)) == [old.summary]


def test_suspects_are_current_and_not_judged_wrong(store: Store, keep: Callable[..., Memory]) -> None:
    older, newer = (keep(name, suspect="order", created_at_ms=at) for name, at in (("older", 1), ("newer", 2)))
    keep("judged", suspect="order", is_lowered=True)
    keep("archived", suspect="order", status=Status.ARCHIVED)
    trusted = keep("trusted")

    assert [one.episode_id for one in memory_lists.suspect_memories(store)] == [newer.episode_id, older.episode_id]
    assert (trusted.id, None, "trusted") in memory_lists.current_summaries(store)
