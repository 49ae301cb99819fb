"""A memory is judged helpful, wrong or outdated, by whom and why stands in its history, and all of it is reverted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from memory_states import states_of
from showing import show

from engram.consolidation.undo import undo_last_change, undo_run
from engram.enums import Actor, Judgement, Scope, Status
from engram.errors import BadRequest, NotFound
from engram.forgetting.forget import forget_memory
from engram.memories.correct import correct_memory, judge_memory, take_back_judgement
from engram.memories.save import MAX_WHY_CHARACTERS, edit_memory, pin_memory, revive_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories.judgements import Usefulness, judged_memories, usefulness_of
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_history import history_of, list_runs
from engram.models.memories.memory_records import Memory, find_memory
from engram.models.open_memory import open_store
from engram.models.rescue.carry_over import recover_by_hand
from engram.redaction import redact
from engram.settings import Settings

Keep = Callable[..., Memory]


def now(store: Store, memory: Memory) -> Memory:
    found = find_memory(store, memory.episode_id)
    assert found is not None
    return found


def without_times(memory: Memory) -> Memory:
    return dataclasses.replace(memory, revision=0, updated_at_ms=0)


def judge(
    store: Store, memory: Memory, judgement: Judgement, why: str = "it was tried", *, actor: Actor = Actor.USER
) -> Memory:
    return judge_memory(store, memory.episode_id, judgement, why, redact, actor=actor)


def test_a_second_pin_changes_nothing_and_leaves_the_first_to_be_undone(store: Store, keep: Keep) -> None:
    memory = keep("Deploy on Tuesdays")
    pinned = pin_memory(store, memory.episode_id, actor=Actor.USER)

    assert pin_memory(store, memory.episode_id, actor=Actor.USER) == pinned
    assert pin_memory(store, memory.episode_id, actor=Actor.USER, is_pinned=False).revision == pinned.revision + 1


@pytest.mark.parametrize("actor", [Actor.USER, Actor.AGENT])
@pytest.mark.parametrize("judgement", list(Judgement))
def test_a_judgement_has_its_reason_and_actor_in_the_history_and_is_withdrawn_exactly(
    store: Store, keep: Keep, judgement: Judgement, actor: Actor
) -> None:
    memory = keep("The tide gate opens at six", status=Status.PROVISIONAL)

    judged = judge(store, memory, judgement, "  it was\n tried ", actor=actor)

    step = history_of(store, memory.episode_id)[-1]
    assert (step.reason, step.actor) == ("it was tried", actor)
    assert judged.is_lowered == (judgement is Judgement.WRONG)
    assert judged.status == (Status.ARCHIVED if judgement is Judgement.OUTDATED else Status.PROVISIONAL)
    assert (judged.valid_to_ms is not None) == (judgement is Judgement.OUTDATED)

    restored, what = take_back_judgement(store, memory.episode_id, actor=Actor.USER)

    assert what == f"the judgement as {judgement}"
    assert without_times(restored) == without_times(memory) == without_times(now(store, memory))
    assert history_of(store, memory.episode_id)[-1].reason == f"judged {judgement}: it was tried"


def test_an_earlier_judgement_counts_again_when_the_later_one_is_withdrawn(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    judge(store, memory, Judgement.WRONG)
    judge(store, memory, Judgement.HELPFUL)
    assert not now(store, memory).is_lowered

    take_back_judgement(store, memory.episode_id, actor=Actor.USER)

    assert now(store, memory).is_lowered
    take_back_judgement(store, memory.episode_id, actor=Actor.USER)
    assert not now(store, memory).is_lowered
    with pytest.raises(BadRequest, match="neither judged nor lowered"):
        take_back_judgement(store, memory.episode_id, actor=Actor.USER)


def test_the_same_judgement_again_changes_nothing(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    for judgement in Judgement:
        judge(store, memory, judgement)
        steps = len(history_of(store, memory.episode_id))

        judge(store, memory, judgement, "once more")

        assert len(history_of(store, memory.episode_id)) == steps


def test_what_an_outdated_memory_had_replaced_stays_replaced(store: Store, keep: Keep) -> None:
    older, newer = keep("The tide gate opens at five"), keep("The tide gate opens at six")
    with store.transaction() as tx:
        change_memory(
            tx,
            older,
            "supersede",
            actor=Actor.USER,
            status=Status.SUPERSEDED,
            superseded_by=newer.episode_id,
        )

    judge(store, newer, Judgement.OUTDATED)

    assert states_of(store, older, newer) == [("superseded", newer.episode_id), ("archived", "")]


@pytest.mark.parametrize("judgement", [Judgement.WRONG, Judgement.OUTDATED])
@pytest.mark.parametrize("own", ["pinned", "saved"])
def test_an_agent_ends_or_lowers_nothing_that_a_person_pinned_or_saved(
    store: Store, keep: Keep, own: str, judgement: Judgement
) -> None:
    if own == "saved":
        memory = save_memory(store, "Deploy on Tuesdays", redact, scope=Scope.GLOBAL, actor=Actor.USER)
    else:
        memory = pin_memory(store, keep("Deploy on Tuesdays").episode_id, actor=Actor.USER)

    with pytest.raises(
        BadRequest, match=f"ask the user, who can run `engram feedback {memory.episode_id} {judgement}`"
    ):
        judge(store, memory, judgement, actor=Actor.AGENT)

    assert now(store, memory) == memory
    assert judge(store, memory, judgement).revision == memory.revision + 1


def test_an_agent_does_not_overrule_the_users_judgement_and_the_user_does(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    judge(store, memory, Judgement.WRONG, actor=Actor.AGENT)
    judge(store, memory, Judgement.HELPFUL)

    with pytest.raises(BadRequest, match="the user judged"):
        judge(store, memory, Judgement.WRONG, actor=Actor.AGENT)

    assert not now(store, memory).is_lowered


@pytest.mark.parametrize("why", ["", " \n", "x" * (MAX_WHY_CHARACTERS + 1)])
def test_a_judgement_needs_a_reason_of_bounded_length(store: Store, keep: Keep, why: str) -> None:
    with pytest.raises(BadRequest, match="give a reason"):
        judge(store, keep("The tide gate opens at six"), Judgement.WRONG, why)


def test_the_reason_is_redacted_and_goes_with_the_memory(store: Store, settings: Settings, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    judge(store, memory, Judgement.WRONG, f"kingfisher: it needs {secret}")
    assert secret not in history_of(store, memory.episode_id)[-1].reason

    forget_memory(store, settings.places, memory.episode_id, also_source=False, actor=Actor.USER)

    store.close()
    for file in settings.home.rglob("*"):
        assert not file.is_file() or b"kingfisher" not in file.read_bytes(), file


def test_only_what_is_current_can_be_helpful_or_outdated(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six", status=Status.ARCHIVED)

    for judgement in (Judgement.HELPFUL, Judgement.OUTDATED):
        with pytest.raises(BadRequest, match="is already archived"):
            judge(store, memory, judgement)
    with pytest.raises(NotFound):
        judge_memory(store, "ep_0123456789ab", Judgement.WRONG, "why", redact, actor=Actor.USER)


def test_a_judgement_is_not_withdrawn_over_a_later_change_of_the_same_field(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    judged = judge(store, memory, Judgement.OUTDATED)
    edit_memory(store, memory.episode_id, redact, summary="The gate opens at six", actor=Actor.USER)
    with store.transaction() as tx:
        change_memory(tx, now(store, memory), "restore", actor=Actor.USER, status=Status.ACTIVE)

    with pytest.raises(BadRequest, match=r"changed since it was judged \(status\)"):
        take_back_judgement(store, memory.episode_id, actor=Actor.USER)

    assert now(store, memory).valid_to_ms == judged.valid_to_ms


def test_an_imported_memory_that_is_lowered_can_be_raised(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six", is_lowered=True)

    restored, what = take_back_judgement(store, memory.episode_id, actor=Actor.USER)

    assert (restored.is_lowered, what) == (False, "the judgement as wrong")


def test_a_memory_that_sank_is_counted_again_on_request(store: Store, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    for number in range(6):
        show(store, memory.episode_id, f"s{number}", at_ms=store.now_ms() - 1)
    assert usefulness_of(store, [memory.episode_id])[memory.episode_id] == Usefulness(shown=6, unused=6)

    _, what = take_back_judgement(store, memory.episode_id, actor=Actor.USER)

    assert what == "6 sessions without a use of it"
    assert usefulness_of(store, [memory.episode_id])[memory.episode_id] == Usefulness(shown=6)


def test_a_judgement_that_changes_no_field_does_not_keep_a_run_from_being_undone(
    store: Store, settings: Settings, keep: Keep
) -> None:
    memory = keep("The tide gate opens at six")
    made = correct_memory(store, memory.episode_id, "It opens at seven", "it was seen", redact, actor=Actor.USER).made
    (run,) = list_runs(store)
    judge(store, made, Judgement.HELPFUL)

    undo_run(store, settings, run.id, actor=Actor.USER)

    assert states_of(store, memory, made) == [("active", ""), ("archived", "")]


def test_a_recovery_carries_judgements_over_with_what_reverts_them(store: Store, tmp_path: Path, keep: Keep) -> None:
    memory = keep("The tide gate opens at six")
    judge(store, memory, Judgement.HELPFUL, "it helped", actor=Actor.AGENT)
    judge(store, memory, Judgement.OUTDATED, "at seven now")

    with open_store(tmp_path / "new" / "memory.db") as new:
        recover_by_hand(new, [store.path], actor=Actor.TIDYING, carry_more=carry_hubs)

        (judged,) = judged_memories(new, None)
        assert (judged.judgement, judged.reason) == (Judgement.OUTDATED, "at seven now")
        take_back_judgement(new, memory.episode_id, actor=Actor.USER)
        assert now(new, memory).status == Status.ACTIVE
        assert usefulness_of(new, [memory.episode_id])[memory.episode_id].judgement is Judgement.HELPFUL


def test_what_is_saved_again_after_it_was_judged_wrong_is_a_new_memory(store: Store) -> None:
    wrong = save_memory(store, "Use pnpm here.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
    judge_memory(store, wrong.episode_id, Judgement.WRONG, "it is npm", redact, actor=Actor.USER)

    again = save_memory(store, "Use pnpm here.", redact, actor=Actor.USER, scope=Scope.GLOBAL)

    assert (again.episode_id == wrong.episode_id, again.is_lowered) == (False, False)


def test_a_memory_that_was_outdated_and_restored_can_be_outdated_again(
    store: Store, settings: Settings, keep: Keep
) -> None:
    memory = keep("Deploy on Tuesdays")
    judge(store, memory, Judgement.OUTDATED)
    revive_memory(store, memory.episode_id, actor=Actor.USER)
    assert usefulness_of(store, [memory.episode_id]).get(memory.episode_id, Usefulness()).judgement is None

    undo_last_change(store, settings, memory.episode_id, actor=Actor.USER)
    assert now(store, memory).status is Status.ARCHIVED
    undo_last_change(store, settings, memory.episode_id, actor=Actor.USER)
    assert now(store, memory).status is Status.ACTIVE

    assert judge(store, memory, Judgement.OUTDATED, "really").status is Status.ARCHIVED
    take_back_judgement(store, memory.episode_id, actor=Actor.USER)
    assert now(store, memory).status is Status.ACTIVE
