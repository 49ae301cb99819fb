"""Judgements: the last one that was not withdrawn counts, and a project only sees its own and global ones."""

from __future__ import annotations

from collections.abc import Callable

from engram.enums import Actor, Judgement, Scope, Status
from engram.models.engine.transaction import Store
from engram.models.memories import judgements, memory_changes
from engram.models.memories.memory_history import JUDGEMENT_ACTIONS, TAKE_BACK, history_of
from engram.models.memories.memory_records import Memory, find_memory
from engram.system.clock import FixedClock
from tests.models.conversations import store_project

Keep = Callable[..., Memory]


def judge(store: Store, memory: Memory, judgement: Judgement, why: str = "") -> None:
    changes: dict[str, object] = {
        Judgement.WRONG: {"is_lowered": True},
        Judgement.OUTDATED: {"status": Status.ARCHIVED},
        Judgement.HELPFUL: {"weight": 1.1},
    }[judgement]
    act(store, memory, JUDGEMENT_ACTIONS[judgement], why, **changes)


def act(store: Store, memory: Memory, action: str, why: str = "", **changes: object) -> None:
    with store.transaction() as tx:
        now = find_memory(tx, memory.episode_id)
        assert now is not None
        memory_changes.change_memory(tx, now, action, why, actor=Actor.USER, **changes)


def test_undone_steps_are_left_out(store: Store, keep: Keep) -> None:
    memory = keep("judged twice")
    judge(store, memory, Judgement.HELPFUL)
    judge(store, memory, Judgement.WRONG)
    act(store, memory, TAKE_BACK, is_lowered=False)

    standing = judgements.standing_judgements(history_of(store, memory.episode_id))

    assert [judgements.judgement_of(change) for change in standing] == [Judgement.HELPFUL]
    act(store, memory, TAKE_BACK, weight=1.0)
    act(store, memory, TAKE_BACK, weight=0.9)
    assert judgements.standing_judgements(history_of(store, memory.episode_id)) == []


def test_wrong_and_outdated_memories_are_listed_with_their_reason_and_time(
    store: Store, clock: FixedClock, keep: Keep
) -> None:
    wrong = keep("wrong", created_at_ms=1)
    outdated = keep("outdated", created_at_ms=2)
    helpful = keep("helpful", created_at_ms=3)
    keep("archived by tidying", created_at_ms=4, status=Status.ARCHIVED)
    clock.advance(60)
    judge(store, wrong, Judgement.WRONG, "the port is another")
    judge(store, outdated, Judgement.OUTDATED, "moved in March")
    judge(store, helpful, Judgement.HELPFUL)

    listed = judgements.judged_memories(store, None)

    assert [(one.memory.summary, one.judgement, one.reason, one.at_ms) for one in listed] == [
        ("wrong", Judgement.WRONG, "the port is another", store.now_ms()),
        ("outdated", Judgement.OUTDATED, "moved in March", store.now_ms()),
    ]


def test_a_lowered_memory_without_a_judgement_counts_as_wrong(store: Store, keep: Keep) -> None:
    keep("lowered elsewhere", is_lowered=True)

    (listed,) = judgements.judged_memories(store, None)

    assert (listed.judgement, listed.reason, listed.at_ms) == (Judgement.WRONG, "", 0)


def test_judgements_of_another_project_are_not_seen(store: Store, keep: Keep) -> None:
    here, there = store_project(store, "a"), store_project(store, "b")
    for project in (here, there):
        judge(store, keep(f"of {project.name}", project_id=project.id, scope=Scope.PROJECT), Judgement.WRONG)
    judge(store, keep("everyone's"), Judgement.WRONG)

    listed = judgements.judged_memories(store, here.id)

    assert {one.memory.summary for one in listed} == {"of a", "everyone's"}
