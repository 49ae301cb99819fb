"""The last change of a memory is taken back with what went with it, and the undo is taken back in its turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.storing import content_digest
from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.undo import plan_undo, undo_last_change, undo_run
from engram.enums import Actor, Importance, Judgement, Kind, Scope, Status, Voice
from engram.errors import BadRequest, NotFound
from engram.forgetting.forget import forget_memory
from engram.memories.correct import correct_memory, judge_memory, keep_both, keep_one, take_back_judgement
from engram.memories.save import edit_memory, pin_memory, revive_memory, save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history, memory_records
from engram.models.memories.judgements import judgement_of, open_contradictions, standing_judgements
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import Evidence, Memory
from engram.settings import Settings
from engram.system.clock import FixedClock
from tests.meanwhile import change_before_next_transaction

DAY = 86_400
Keep = Callable[..., Memory]
Act = Callable[[Store, str], object]


def plain(text: str) -> str:
    return text


def find(store: Store, episode_id: str) -> Memory:
    found = memory_records.find_memory(store, episode_id)
    assert found is not None
    return found


def undo(store: Store, settings: Settings, episode_id: str) -> list[str]:
    return undo_last_change(store, settings, episode_id, actor=Actor.USER).lines()


ACTS: dict[str, Act] = {
    "edit": lambda store, one: edit_memory(
        store, one, plain, summary="other", content="words", scope=Scope.GLOBAL, actor=Actor.USER
    ),
    "pin": lambda store, one: pin_memory(store, one, actor=Actor.USER),
    "bad": lambda store, one: judge_memory(store, one, Judgement.WRONG, "no", plain, actor=Actor.USER),
    "outdated": lambda store, one: judge_memory(store, one, Judgement.OUTDATED, "old", plain, actor=Actor.USER),
    "correct": lambda store, one: correct_memory(store, one, "right", "why", plain, actor=Actor.USER),
    "replace": lambda store, one: save_memory(
        store, "newer", plain, scope=Scope.GLOBAL, supersedes=one, actor=Actor.USER
    ),
}


@pytest.mark.parametrize("act", ACTS)
def test_every_change_is_undone_and_redone(store: Store, settings: Settings, keep: Keep, act: str) -> None:
    memory = keep("the mast is brown", is_pinned=act == "correct")
    before = find(store, memory.episode_id)
    ACTS[act](store, memory.episode_id)
    changed = content_digest(store)
    steps = len(history_of(store, memory.episode_id))

    undo(store, settings, memory.episode_id)
    now = find(store, memory.episode_id)
    assert now.is_current
    assert (now.summary, now.content, now.is_pinned, now.is_lowered, now.scope) == (
        before.summary,
        before.content,
        before.is_pinned,
        before.is_lowered,
        before.scope,
    )
    others = [one for one in memory_records.all_memories(store) if one.episode_id != memory.episode_id]
    assert [one.status for one in others] == [Status.ARCHIVED] * len(others)

    undo(store, settings, memory.episode_id)
    assert content_digest(store) == changed
    undone = history_of(store, memory.episode_id)[steps:]
    assert [step.actor for step in undone] == [Actor.USER] * 2
    assert undone[-1].undoes == undone[0].id


def test_a_new_memory_is_archived_and_comes_back(store: Store, settings: Settings) -> None:
    saved = save_memory(store, "use tabs", plain, scope=Scope.GLOBAL, actor=Actor.USER)

    assert undo(store, settings, saved.episode_id) == [f"undo save of {saved.episode_id}"]
    assert find(store, saved.episode_id).status is Status.ARCHIVED
    assert undo(store, settings, saved.episode_id) == [f"redo the undo of {saved.episode_id}"]
    assert find(store, saved.episode_id).status is Status.ACTIVE


def test_a_judgement_without_fields_stands_again_after_its_undo_was_undone(
    store: Store, settings: Settings, keep: Keep
) -> None:
    memory = keep("useful")
    judge_memory(store, memory.episode_id, Judgement.HELPFUL, "good", plain, actor=Actor.USER)

    for expected in ([], [Judgement.HELPFUL], []):
        undo(store, settings, memory.episode_id)
        standing = standing_judgements(history_of(store, memory.episode_id))
        assert [judgement_of(step) for step in standing] == expected
    judge_memory(store, memory.episode_id, Judgement.WRONG, "no", plain, actor=Actor.USER)
    take_back_judgement(store, memory.episode_id, actor=Actor.USER)
    undo(store, settings, memory.episode_id)
    assert find(store, memory.episode_id).is_lowered


def test_of_a_consolidation_only_what_belongs_together_is_undone(store: Store, settings: Settings, keep: Keep) -> None:
    first, second = keep("the port is open", kind=Kind.FACT), keep("open is the port", kind=Kind.FACT)
    third, fourth = keep("walls are white", kind=Kind.FACT), keep("white are walls", kind=Kind.FACT)
    pairs = [(first.id, second.id, 0.95), (third.id, fourth.id, 0.95)]

    def tidy() -> int:
        return consolidate(
            store, settings, similar=lambda least, _: iter(p for p in pairs if p[2] >= least), is_forced=True
        ).run_id

    untouched = content_digest(store)
    run_id = tidy()
    merged = content_digest(store)
    evidence = len(memory_records.evidence_of(store, first.id))

    lines = undo(store, settings, second.episode_id)

    assert {line.rpartition(" ")[2] for line in lines} == {first.episode_id, second.episode_id}
    assert [find(store, one.episode_id).is_current for one in (first, second, third, fourth)] == [True] * 3 + [False]
    assert (evidence, len(memory_records.evidence_of(store, first.id))) == (2, 1)
    undo(store, settings, first.episode_id)
    assert content_digest(store) == merged
    undo(store, settings, first.episode_id)
    tidy()
    assert find(store, second.episode_id).is_current  # it is not merged again
    undo_run(store, settings, run_id, actor=Actor.USER)  # the rest of the run
    assert content_digest(store) == untouched
    rest = memory_history.list_runs(store)[0]
    assert rest.kind == "undo"
    undo_run(store, settings, rest.id, actor=Actor.USER)
    assert [find(store, one.episode_id).is_current for one in (first, second, third, fourth)] == [True] * 3 + [False]


def test_a_run_whose_every_change_was_undone_is_undone(store: Store, settings: Settings, keep: Keep) -> None:
    keep("the same", content="word for word")
    copy = keep("the same", content="word for word")
    run_id = consolidate(store, settings, is_forced=True).run_id

    for state in ("undone", "done"):
        undo(store, settings, copy.episode_id)
        run = memory_history.find_run(store, run_id)
        assert run is not None
        assert run.state == state


@pytest.mark.parametrize("way", ["one", "both"])
def test_a_decision_is_open_again_and_decided_again(store: Store, settings: Settings, way: str) -> None:
    old = save_memory(store, "Deploy on Tuesdays.", plain, scope=Scope.GLOBAL, actor=Actor.USER)
    new = correct_memory(store, old.episode_id, "Deploy on Mondays.", "a guess", plain, actor=Actor.AGENT).made
    if way == "one":
        keep_one(store, old.episode_id, actor=Actor.USER)
    else:
        keep_both(store, old.episode_id, actor=Actor.USER)
    decided = content_digest(store)

    undo(store, settings, new.episode_id)
    assert [one.newer_id for one in open_contradictions(store)] == [new.episode_id]
    undo(store, settings, new.episode_id)
    assert open_contradictions(store) == []
    assert content_digest(store) == decided
    undo(store, settings, new.episode_id)
    assert len(open_contradictions(store)) == 1


def test_what_was_changed_since_is_never_overwritten(store: Store, settings: Settings, keep: Keep) -> None:
    old = keep("the mast is brown")
    new = correct_memory(store, old.episode_id, "the mast is white", "seen", plain, actor=Actor.USER).made
    judge_memory(store, new.episode_id, Judgement.OUTDATED, "painted", plain, actor=Actor.USER)
    before = content_digest(store)

    with pytest.raises(BadRequest, match=f"engram undo {new.episode_id}"):
        undo(store, settings, old.episode_id)

    assert content_digest(store) == before
    plan = plan_undo(store, find(store, new.episode_id))
    edit_memory(store, new.episode_id, plain, summary="the mast is grey", actor=Actor.USER)
    with pytest.raises(BadRequest, match="changed since"):
        undo_last_change(store, settings, new.episode_id, actor=Actor.USER, step=plan.change.id)
    with pytest.raises(NotFound):
        undo(store, settings, "ep_000000000000")


def test_ageing_and_packing_are_passed_over(store: Store, settings: Settings, clock: FixedClock, keep: Keep) -> None:
    memory = keep("hardly used", content="long " * 500)
    edit_memory(store, memory.episode_id, plain, summary="rarely used", actor=Actor.USER)
    clock.advance((settings.archive_days - 1) * DAY)
    consolidate(store, settings, is_forced=True)
    assert history_of(store, memory.episode_id)[-1].action in ("age", "pack")

    undo(store, settings, memory.episode_id)

    assert find(store, memory.episode_id).summary == "hardly used"


def test_the_line_of_memory_md_follows(store: Store, settings: Settings, clock: FixedClock, keep: Keep) -> None:
    memory = keep("always write tests", voice=Voice.USER, importance=Importance.HIGH, content="")
    clock.advance(15 * DAY)
    consolidate(store, settings, is_forced=True)
    assert history_of(store, memory.episode_id)[-1].action == "graduate"

    for is_there in (False, True):
        undo(store, settings, memory.episode_id)
        assert (memory.episode_id in settings.places.memory_note.read_text()) is is_there


def test_what_was_forgotten_is_final(store: Store, settings: Settings, keep: Keep) -> None:
    shared = Evidence("a" * 32, "s1")
    old = keep("first", evidence=[shared])
    new = save_memory(store, "second", plain, scope=Scope.GLOBAL, supersedes=old.episode_id, actor=Actor.USER)
    undo(store, settings, old.episode_id)
    undo(store, settings, old.episode_id)

    forget_memory(store, settings.places, new.episode_id, actor=Actor.USER)

    with pytest.raises(BadRequest, match="can't be undone"):
        undo(store, settings, old.episode_id)
    assert all(new.episode_id not in repr(step) for step in history_of(store, old.episode_id))
    assert new.episode_id not in repr(store.rows("SELECT * FROM run"))


def run_that_archives(store: Store, settings: Settings, keep: Keep) -> int:
    """A consolidation that archives one of two memories, because they say the same."""
    keep("the hull is blue", content="")
    keep("the hull is blue", content="", session_id="s2")
    return consolidate(store, settings, is_forced=True).run_id


def test_a_run_is_undone_only_if_nothing_was_changed_until_then(
    store: Store, settings: Settings, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_that_archives(store, settings, keep)
    (archived,) = [one for one in memory_records.all_memories(store) if not one.is_current]

    def restore() -> None:
        revive_memory(store, archived.episode_id, actor=Actor.USER)
        edit_memory(store, archived.episode_id, plain, summary="mine", actor=Actor.USER)

    change_before_next_transaction(monkeypatch, restore)
    with pytest.raises(BadRequest, match="was changed after that run"):
        undo_run(store, settings, run, actor=Actor.USER)


def test_a_run_is_undone_once_even_by_two_at_a_time(
    store: Store, settings: Settings, keep: Keep, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = run_that_archives(store, settings, keep)

    change_before_next_transaction(monkeypatch, lambda: undo_run(store, settings, run, actor=Actor.USER))
    with pytest.raises(BadRequest, match="already been undone"):
        undo_run(store, settings, run, actor=Actor.USER)
