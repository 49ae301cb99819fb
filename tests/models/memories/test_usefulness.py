"""How often a memory was shown and used is counted in sessions; only a use by a session that was shown it counts."""

from __future__ import annotations

import pytest
from showing import show

from engram.enums import Actor, Judgement
from engram.models.engine.transaction import Store
from engram.models.memories.judgements import (
    HELPFUL_LIFT,
    MAX_SINK,
    MIN_UNUSED_SESSIONS,
    SINK_STEP,
    Usefulness,
    ids_in,
    mark_used,
    usefulness_of,
)
from engram.models.memories.memory_changes import add_memory, change_alone, change_memory, note_access
from engram.models.memories.memory_history import JUDGEMENT_ACTIONS, TAKE_BACK
from engram.models.memories.memory_records import Memory, find_memory, new_memory_id
from engram.models.shown.injections import AT_START
from engram.system.clock import FixedClock

MINUTE_MS = 60_000


@pytest.fixture
def memory(store: Store) -> Memory:
    with store.transaction() as tx:
        made = Memory(new_memory_id(), "fact", "The tide gate opens at six", "")
        return add_memory(tx, made, [], actor=Actor.MODEL)


def show_in_turn(
    store: Store, clock: FixedClock, memory: Memory, *sessions: str, channel: str = "prompt", state: str = "shown"
) -> None:
    """Show a memory to sessions, a minute apart."""
    for session_id in sessions:
        clock.advance(60)
        show(store, memory.episode_id, session_id, channel=channel, state=state)
    clock.advance(60)


def uses(store: Store, memory: Memory) -> Usefulness:
    return usefulness_of(store, [memory.episode_id]).get(memory.episode_id, Usefulness())


def test_a_memory_that_was_never_shown_has_no_uses(store: Store, memory: Memory) -> None:
    assert usefulness_of(store, [memory.episode_id]) == usefulness_of(store, []) == {}


def test_a_briefing_counts_among_the_sessions_that_were_shown_it(
    store: Store, clock: FixedClock, memory: Memory
) -> None:
    show_in_turn(store, clock, memory, "s1", channel=AT_START)
    show_in_turn(store, clock, memory, "s1", "s2")

    assert (uses(store, memory).shown, uses(store, memory).sessions) == (2, 2)
    show_in_turn(store, clock, memory, "s3", channel=AT_START)
    assert (uses(store, memory).shown, uses(store, memory).sessions) == (2, 3)


def test_a_session_that_expands_what_it_was_shown_uses_it_once(store: Store, clock: FixedClock, memory: Memory) -> None:
    show_in_turn(store, clock, memory, "s1", "s2")

    for _ in range(2):
        note_access(store, memory.episode_id, session_id="s2")

    assert uses(store, memory) == Usefulness(shown=2, used=1)


def test_no_other_expand_is_a_use(store: Store, clock: FixedClock, memory: Memory) -> None:
    show_in_turn(store, clock, memory, "s1")
    show_in_turn(store, clock, memory, "s2", state="pending")

    note_access(store, memory.episode_id)  # a person
    note_access(store, memory.episode_id, session_id="s2")  # only pending there
    note_access(store, memory.episode_id, session_id="s3")  # not shown there
    with store.transaction() as tx:
        assert mark_used(tx, "s1", {memory.episode_id: clock.now_ms() - 10 * MINUTE_MS}) == 0  # before it was shown

    assert uses(store, memory) == Usefulness(shown=1, unused=1)
    now = find_memory(store, memory.episode_id)
    assert now is not None
    assert now.access_count == 3


def test_what_a_briefing_tells_counts_when_it_is_used_and_not_when_it_is_not(
    store: Store, clock: FixedClock, memory: Memory
) -> None:
    show_in_turn(store, clock, memory, "s1", "s2", channel=AT_START)

    note_access(store, memory.episode_id, session_id="s1")

    assert uses(store, memory) == Usefulness(used=1)


def test_several_showings_in_one_session_count_once(store: Store, clock: FixedClock, memory: Memory) -> None:
    show_in_turn(store, clock, memory, *["s1"] * 9)

    assert uses(store, memory) == Usefulness(shown=1, unused=1)
    assert uses(store, memory).sink == 0


def test_a_use_begins_the_count_of_unused_showings_anew(store: Store, clock: FixedClock, memory: Memory) -> None:
    show_in_turn(store, clock, memory, "s1", "s2", "s3")
    note_access(store, memory.episode_id, session_id="s3")

    show_in_turn(store, clock, memory, "s4")

    assert uses(store, memory) == Usefulness(shown=4, used=1, unused=1)


def test_an_edit_begins_the_count_anew_and_ageing_does_not(store: Store, clock: FixedClock, memory: Memory) -> None:
    show_in_turn(store, clock, memory, "s1", "s2")
    with store.transaction() as tx:
        aged = change_memory(tx, memory, "age", "old", actor=Actor.TIDYING, weight=0.7)
    assert uses(store, memory).unused == 2

    with store.transaction() as tx:
        change_memory(tx, aged, "edit", "by hand", actor=Actor.USER, summary="The tide gate opens at seven")

    assert uses(store, memory) == Usefulness(shown=2)


def test_the_sink_is_a_bounded_share_and_a_helpful_memory_rises_instead() -> None:
    assert Usefulness(shown=4, unused=MIN_UNUSED_SESSIONS - 1).factor == 1
    assert Usefulness(shown=5, unused=MIN_UNUSED_SESSIONS).sink == SINK_STEP
    assert Usefulness(shown=900, unused=900).sink == MAX_SINK == 0.15
    assert Usefulness(shown=900, unused=900).factor == pytest.approx(0.85)
    assert Usefulness(shown=900, unused=900, judgement=Judgement.HELPFUL).factor == 1 + HELPFUL_LIFT


def test_the_last_verdict_that_was_not_withdrawn_counts(store: Store, memory: Memory) -> None:
    def step(action: str) -> Judgement | None:
        with store.transaction() as tx:
            change_alone(tx, memory, action, "why", actor=Actor.USER)
        return uses(store, memory).judgement

    assert step(JUDGEMENT_ACTIONS[Judgement.HELPFUL]) is Judgement.HELPFUL
    assert step(JUDGEMENT_ACTIONS[Judgement.WRONG]) is Judgement.WRONG
    assert step(TAKE_BACK) is Judgement.HELPFUL
    assert step(TAKE_BACK) is None
    assert step(TAKE_BACK) is None


def test_ids_in_a_text_are_whole_ids() -> None:
    text = "As [ep_0123456789ab] and ep_0123456789ab say, unlike ep_0123456789abcd, xep_0123456789ac or ep_12."

    assert ids_in(text) == ["ep_0123456789ab"]
