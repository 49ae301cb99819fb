"""What happened lately: counts since a time, by day, and the latest prompts."""

from __future__ import annotations

from collections.abc import Callable

from showing import show

from engram.enums import Actor, Judgement, Scope
from engram.memories.correct import judge_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.shown.injections import note_shown
from engram.models.shown.usage import counts_since, kept_by_day, latest_turn_prompts, shown_by_day
from tests.models.conversations import make_turn, store_project, store_turn

DAY_MS = 86_400_000


def test_what_happened_since_a_time_is_counted_by_project(store: Store, keep: Callable[..., Memory]) -> None:
    now, harbor = store.now_ms(), store_project(store, "harbor")
    # What was said long ago and is kept today counts today; what was kept before does not.
    own = keep("own", project_id=harbor.id, scope=Scope.PROJECT, created_at_ms=now - 9 * DAY_MS)
    old = keep("old", kept_at_ms=now - 2 * DAY_MS)
    store_turn(store, make_turn("k", "ask", session_id="s1"), "harbor")
    show(store, own.episode_id, at_ms=now)
    show(store, old.episode_id, at_ms=now, tokens=7)
    show(store, old.episode_id, at_ms=now - 2 * DAY_MS)
    show(store, old.episode_id, "elsewhere", at_ms=now, tokens=3)
    note_shown(store, "s1", "briefing", 500)
    judge_memory(store, own.episode_id, Judgement.WRONG, "no", str, actor=Actor.USER)
    save_memory(store, "Better.", str, actor=Actor.USER, scope=Scope.GLOBAL, supersedes=old.episode_id)

    every, one = counts_since(store, now - DAY_MS), counts_since(store, now - DAY_MS, harbor.id)

    assert (every.shown, every.tokens, every.kept, every.replaced, every.wrong) == (3, 520, 2, 1, 1)
    assert (one.shown, one.tokens, one.kept, one.replaced, one.wrong) == (2, 517, 1, 0, 1)


def test_days_of_different_lengths_are_counted_apart(store: Store, keep: Callable[..., Memory]) -> None:
    """A day with the change to summer time has 23 hours."""
    start = 1_000_000_000_000
    ends = [start + 24 * 3_600_000, start + 47 * 3_600_000, start + 71 * 3_600_000]
    days = list(zip([start, *ends], ends, strict=False))
    for at_ms in (start, ends[0] - 1, ends[0], ends[1] - 1, ends[1], ends[2] - 1, start - 1, ends[2]):
        show(store, keep(f"at {at_ms}", kept_at_ms=at_ms).episode_id, at_ms=at_ms)

    assert kept_by_day(store, days) == [2, 2, 2]
    assert shown_by_day(store, days) == [2, 2, 2]
    assert kept_by_day(store, days, project_id=77) == shown_by_day(store, days, project_id=77) == [0, 0, 0]


def test_the_latest_prompts_come_first_and_are_cut(store: Store) -> None:
    for number, text in enumerate(("first", "second " * 200)):
        store_turn(store, make_turn(f"k{number}", text, "a reply", at_ms=number))

    prompts = latest_turn_prompts(store)

    assert [prompt.text[:6] for prompt in prompts] == ["second", "first"]
    assert len(prompts[0].text) == 300
    assert prompts[0].session_id == "s1"
