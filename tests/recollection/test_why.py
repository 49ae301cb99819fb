"""A session is told prompt by prompt: what became of each, in the words of its turn, and what of its tool calls."""

from __future__ import annotations

from recollecting import PROMPT, Scene

from engram.enums import Channel, Verdict
from engram.models.engine.meta import put_meta
from engram.models.engine.migrations import MADE_AT
from engram.models.sessions import sessions
from engram.models.sessions.sessions import SessionRow
from engram.recollection.why import Moment, why_memory, why_session
from engram.transcripts.turns import Opening

NEXT = "Does the queue survive a kill of the worker?"


def moments(memory: Scene) -> list[Moment]:
    session: SessionRow | None = sessions.find_session(memory.store, "s1")
    return list(why_session(memory.store, "s1", session).moments)


def told(memory: Scene) -> list[tuple[str, Verdict]]:
    return [(moment.prompt, moment.verdict) for moment in moments(memory)]


def test_each_prompt_has_its_words_and_what_became_of_it(memory: Scene) -> None:
    memory.keep()
    memory.ask(PROMPT, prompt_id="p1")
    memory.type_prompt(PROMPT)
    memory.clock.advance(60)
    memory.ask("yes", prompt_id="p2")
    memory.type_prompt("yes")
    memory.clock.advance(60)
    memory.ask(NEXT, prompt_id="p3")
    memory.type_prompt(NEXT)

    assert told(memory) == [(PROMPT, Verdict.SHOWN), ("yes", Verdict.TOO_SHORT), (NEXT, Verdict.NOTHING_NEAR)]


def test_a_prompt_that_waited_in_the_queue_is_found_by_its_words(memory: Scene) -> None:
    queued_at_ms = memory.clock.now_ms()
    memory.clock.advance(600)
    memory.ask(NEXT, prompt_id="p1")
    memory.type_prompt(NEXT, at_ms=queued_at_ms)

    assert told(memory) == [(NEXT, Verdict.NOTHING_NEAR)]


def test_the_same_words_twice_belong_to_the_nearer_prompt(memory: Scene) -> None:
    memory.keep()
    memory.type_prompt(PROMPT)
    memory.ask(PROMPT, prompt_id="p1")
    memory.clock.advance(3600)
    memory.type_prompt(PROMPT)
    memory.ask(PROMPT, prompt_id="p2")

    assert told(memory) == [(PROMPT, Verdict.SHOWN), (PROMPT, Verdict.SAME_TOPIC)]


def test_what_no_worker_answered_says_so_unless_there_was_nothing_to_answer(memory: Scene) -> None:
    memory.type_prompt(PROMPT)
    memory.clock.advance(60)
    memory.type_prompt("go on")
    memory.clock.advance(60)
    memory.type_prompt("the rest of it", opening=Opening.CONTINUATION)

    assert told(memory) == [(PROMPT, Verdict.BEFORE_ENGRAM), ("go on", Verdict.BEFORE_ENGRAM)]
    with memory.store.transaction() as tx:
        put_meta(tx, MADE_AT, "1")
    assert told(memory) == [(PROMPT, Verdict.NO_RECORD), ("go on", Verdict.TOO_SHORT)]


def test_a_late_bite_and_a_tool_call_stand_with_their_prompt(memory: Scene) -> None:
    memory.keep()
    kept = memory.keep("pyproject.toml pins torch, the newest breaks the exporter", entities=("pyproject.toml",))
    memory.type_prompt(PROMPT)
    memory.service.recollect("s1")
    memory.hand_over()
    memory.clock.advance(120)
    memory.service.about_tool("s1", files=("/dev/lab/proj/pyproject.toml",))
    memory.hand_over()
    memory.service.tidy()

    (moment,) = moments(memory)

    assert moment.verdict is Verdict.SHOWN
    assert [(outcome.channel, outcome.verdict) for outcome in moment.outcomes] == [(Channel.TOOL, Verdict.SHOWN)] * 2
    assert moment.outcomes[1].considered[0].episode_id == kept.episode_id


def test_a_briefing_is_a_separate_moment_and_a_prompt_that_was_not_read_has_no_words(memory: Scene) -> None:
    memory.keep(is_pinned=True)
    memory.start()
    memory.clock.advance(1)
    memory.ask(NEXT, prompt_id="p1")

    start, prompt = why_session(memory.store, "s1", None).moments

    assert (start.prompt, start.outcomes[0].channel, start.verdict) == ("", Channel.START, Verdict.SHOWN)
    assert (prompt.prompt, prompt.verdict) == ("", Verdict.NOTHING_NEAR)


def test_a_memory_says_when_it_was_shown_and_when_it_was_not(memory: Scene) -> None:
    kept = memory.keep()
    memory.ask(PROMPT, prompt_id="p1")
    memory.clock.advance(60)
    memory.ask("How is watcher.lock held, and since when is flock used for it?", prompt_id="p2")

    report = why_memory(memory.store, kept.episode_id, 10)

    assert [outcome.considered[0].verdict for outcome in report.outcomes] == [Verdict.ALREADY_SHOWN, Verdict.SHOWN]
    assert report.shown == 1
    assert report.to_json()["outcomes"][0]["memories"][0]["summary"] == kept.summary
