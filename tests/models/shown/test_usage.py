"""Figures of a time count what happened in it, and its weekly line is said once, whoever asks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from showing import show

from engram.enums import Channel, Refusal, Scope, Verdict
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.memories.memory_writes import set_accessed
from engram.models.sessions.prompt_outcomes import Outcome, add_outcomes
from engram.models.shown import usage
from engram.models.shown.injections import AT_START
from engram.reports.use_report import late_of_days, refused_text
from engram.system.clock import FixedClock
from engram.transcripts.turns import Opening
from tests.models.conversations import make_turn, store_project, store_turn

WEEK_MS = 604_800_000


def test_only_what_happened_in_the_time_is_counted(store: Store, keep: Callable[..., Memory]) -> None:
    store_turn(store, make_turn("t1", "early", session_id="s1", at_ms=99), "a")
    store_turn(store, make_turn("t2", "late", session_id="s2", at_ms=100), "b")
    store_turn(store, make_turn("t3", "", "on", session_id="s2", at_ms=101, opening=Opening.CONTINUATION), "b")
    store_turn(store, make_turn("t4", "late", session_id="s3", at_ms=100), "c")
    early = keep("early", created_at_ms=99, project_id=store_project(store, "b").id)
    with store.transaction() as tx:
        tx.run("UPDATE episode SET kept_at_ms = 99 WHERE episode_id = ?", (early.episode_id,))
    keep("said early, imported now", created_at_ms=99)
    kept = keep("late", created_at_ms=100, project_id=store_project(store, "c").id, scope=Scope.PROJECT)
    show(store, kept.episode_id, at_ms=99)
    show(store, kept.episode_id, at_ms=100)
    show(store, kept.episode_id, at_ms=100, channel=AT_START)
    show(store, kept.episode_id, at_ms=100, state="pending")

    figures = usage.usage_since(store, 100)

    assert (figures.sessions, figures.prompts, figures.memories, figures.shown) == (2, 2, 2, 2)
    assert (figures.earlier_sessions, figures.earlier_prompts) == (1, 1)
    assert figures.oldest_ms == 99
    assert figures.projects_with_none == ("b",)


def test_late_answers_are_counted_by_cause_and_day_for_a_month(store: Store, clock: FixedClock) -> None:
    for days, cause in enumerate(["busy"] * 40):
        with store.transaction() as tx:
            usage.note_late(tx, cause)
            if days == 39:
                usage.note_late(tx, "embedding")
                usage.note_late(tx, "embedding")
        clock.advance(86_400)

    now_ms = store.now_ms()
    assert usage.late_since(store, now_ms - WEEK_MS) == {"busy": 7, "embedding": 2}
    assert usage.late_since(store, now_ms - 86_400_000) == {"embedding": 2, "busy": 1}
    assert usage.late_since(store, 0)["busy"] == usage.MAX_LATE_DAYS
    assert usage.late_since(store, now_ms) == {}


@pytest.mark.parametrize(("late", "asked", "prompts"), [(4, 0, 4), (2, 5, 5), (0, 0, 0)])
def test_only_prompts_that_a_hook_asked_about_are_counted_as_in_time_or_late(
    store: Store, late: int, asked: int, prompts: int
) -> None:
    """A prompt that was only read from its transcript had no answer that could be late."""
    store_turn(store, make_turn("t0", "said", at_ms=store.now_ms()))
    outcome = Outcome("s1", Channel.PROMPT, Verdict.NOTHING_NEAR, store.now_ms())
    with store.transaction() as tx:
        add_outcomes(tx, [outcome, *(replace(outcome, duration_ms=3) for _ in range(asked))])
        for _ in range(late):
            usage.note_late(tx, "busy")

    by_cause, count = late_of_days(store)

    assert (sum(by_cause.values()), count) == (late, prompts)


def test_refused_proposals_are_counted_by_reason_and_told(store: Store, clock: FixedClock) -> None:
    with store.transaction() as tx:
        usage.note_refused(tx, [Refusal.NOT_SAID, Refusal.OUTPUT, Refusal.NOT_SAID])
        usage.note_refused(tx, [])
    clock.advance(86_400)

    refused = usage.usage_since(store, store.now_ms() - WEEK_MS).refused

    assert refused == {"not-said": 2, "output": 1}
    assert refused_text(refused) == "2: was not said in the session; 1: says only what a command printed"
    assert all(refused_text({reason.value: 1}) != f"1: {reason.value}" for reason in Refusal)
    assert usage.usage_since(store, store.now_ms()).refused == {}


def test_the_most_used_memory_counts_what_was_shown_and_opened(store: Store, keep: Callable[..., Memory]) -> None:
    shown, opened = keep("shown twice"), keep("shown and opened", suspect="odd")
    show(store, shown.episode_id, at_ms=100)
    for _ in range(2):
        show(store, opened.episode_id, at_ms=100)
    with store.transaction() as tx:
        set_accessed(tx, opened.episode_id, 150, is_use=True)

    most_used = usage.usage_since(store, 100).most_used

    assert most_used is not None
    assert (most_used.summary, most_used.uses) == ("shown and opened", 3)
    assert usage.usage_since(store, 200).most_used is None


def test_what_nobody_was_shown_is_not_the_most_used(store: Store, keep: Callable[..., Memory]) -> None:
    opened, told, early, waiting = keep("opened by a person"), keep("told"), keep("shown early"), keep("waiting")
    show(store, told.episode_id, at_ms=100, channel=AT_START)
    show(store, early.episode_id, at_ms=99)
    show(store, waiting.episode_id, at_ms=100, state="pending")
    with store.transaction() as tx:
        for memory in (opened, told, early, waiting):
            set_accessed(tx, memory.episode_id, 150, is_use=True)

    assert usage.usage_since(store, 100).most_used is None

    show(store, told.episode_id, at_ms=100)
    most_used = usage.usage_since(store, 100).most_used
    assert most_used is not None
    assert (most_used.summary, most_used.uses) == ("told", 2)


def test_every_total_of_what_was_shown_is_the_same(store: Store, keep: Callable[..., Memory]) -> None:
    store_turn(store, make_turn("t1", "ask", session_id="s1", at_ms=100), "a")
    kept = keep("kept", project_id=store_project(store, "a").id)
    for channel in (AT_START, "prompt", "tool", "tool"):
        show(store, kept.episode_id, at_ms=100, channel=channel)
    show(store, kept.episode_id, at_ms=100, state="pending")

    assert usage.usage_since(store, 0).shown == 4
    assert usage.count_totals(store).injections == 4
    assert usage.count_sessions(store, ["s1"])["s1"].shown == 4
    assert usage.counts_since(store, 0).shown == 4
    assert usage.shown_by_day(store, [(0, 50), (50, 200)]) == [0, 4]
