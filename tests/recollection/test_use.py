"""What sessions were shown and never used falls behind, and what was used, judged or edited does not; in memory.db."""

from __future__ import annotations

import re

import pytest
from recollecting import PROMPT, Scene

from engram.enums import Actor, Judgement
from engram.memories.correct import judge_memory, take_back_judgement
from engram.memories.save import edit_memory
from engram.models.memories.judgements import MIN_UNUSED_SESSIONS
from engram.models.memories.memory_changes import note_access
from engram.models.memories.memory_records import Memory, find_memory
from engram.redaction import redact


def shown(memory: Scene, session: str) -> list[str]:
    """Ids of the bites that a new session gets for the prompt."""
    memory.clock.advance(60)
    return re.findall(r"ep_[0-9a-f]{12}", memory.ask(PROMPT, session=session))


def show_unused(memory: Scene) -> tuple[str, str]:
    """Show the first of two equal memories to enough sessions; returns it, and the other one."""
    ids = {memory.keep().episode_id, memory.keep().episode_id}
    told = [shown(memory, f"unused-{number}") for number in range(MIN_UNUSED_SESSIONS)]
    (first,) = told[0]
    assert told == [[first]] * MIN_UNUSED_SESSIONS
    (other,) = ids - {first}
    return first, other


def test_a_memory_that_nobody_uses_falls_behind_its_equal(memory: Scene) -> None:
    _, other = show_unused(memory)

    assert shown(memory, "next") == [other]


@pytest.mark.parametrize("event", ["used", "helpful", "edited", "counted anew"])
def test_a_memory_that_was_used_judged_helpful_edited_or_counted_again_stays_ahead(memory: Scene, event: str) -> None:
    first, _ = show_unused(memory)
    memory.clock.advance(60)
    if event == "used":
        note_access(memory.store, first, session_id="unused-2")
    elif event == "helpful":
        judge_memory(memory.store, first, Judgement.HELPFUL, "it helped", redact, actor=Actor.AGENT)
    elif event == "edited":
        found = find_memory(memory.store, first)
        assert found is not None
        edit_memory(memory.store, first, redact, summary=f"{found.summary.rstrip('.')}!", actor=Actor.USER)
    else:
        take_back_judgement(memory.store, first, actor=Actor.USER)

    assert shown(memory, "next") == [first]


def test_a_memory_that_is_judged_wrong_is_not_shown_until_that_is_withdrawn(memory: Scene) -> None:
    first: Memory = memory.keep()
    assert shown(memory, "before") == [first.episode_id]
    judge_memory(memory.store, first.episode_id, Judgement.WRONG, "no PID file either", redact, actor=Actor.AGENT)
    assert shown(memory, "wrong") == []

    take_back_judgement(memory.store, first.episode_id, actor=Actor.USER)

    assert shown(memory, "after") == [first.episode_id]
