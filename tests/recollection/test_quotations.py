"""A passage is quoted where no memory fits: whole, dated, attributed, and nowhere where it must not be told."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from recollecting import Scene

from bench.storing import write_turn
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Judgement, Kind, Verdict
from engram.forgetting.forget import forget_memory
from engram.memories.correct import judge_quotation
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects import projects
from engram.models.sessions.passage_rows import Quotation, find_quotation, is_quotation_id, quotation_id_of
from engram.models.sessions.prompt_outcomes import outcomes_of_session
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session, note_copied_history
from engram.models.shown.injections import injections_of_session
from engram.recollection.choose_bites import InjectionRequest, RatedHit
from engram.recollection.quotation_bites import NEAR, question_of, rate_quotations, words_to_quote
from engram.recollection.recollection_service import RecollectionService
from engram.recollection.why import why_memory
from engram.redaction import redact
from engram.search.hits import Hit
from engram.search.passages import passage_search
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.search.support import Floor, Support
from engram.search.vectors.loaded_vectors import embed_missing
from engram.text.words import stems, topic_words
from engram.transcripts.turns import EntryRef, Opening, Role, TextBlock, Turn

ASKED = "Why does the harbour upload of the walrus photos fail?"
ANSWER = "Harbour uploads of walrus photos fail because the copper proxy drops headers over eight kilobytes."
PROMPT = "The harbour upload of walrus photos fails again at the copper proxy, which headers are dropped?"


@dataclass
class Talk:
    """A memory that holds what was said and quotes it."""

    memory: Scene

    def say(
        self,
        *said: tuple[Role, str],
        session: str = "s9",
        key: str = "t1",
        project: int | None = None,
        cwd: str = "/dev/lab/proj",
        minute: int = 0,
    ) -> None:
        """Store a turn of a session."""
        store, at_ms = self.memory.store, self.memory.clock.now_ms() - 3_600_000 + minute * 60_000
        with store.transaction() as tx:
            row = ensure_session(
                tx,
                session,
                agent="claude-code",
                project_id=project or self.memory.project.id,
                is_global=False,
                cwd=cwd,
                at_ms=at_ms,
            )
            transcript = ensure_transcript(tx, Path(f"/x/{session}.jsonl"), row.id)
            blocks = tuple(TextBlock(f"{key}-{i}", role, text, at_ms=at_ms + i) for i, (role, text) in enumerate(said))
            entries = tuple(EntryRef(block.uuid, minute * 100 + i, 1, i + 1) for i, block in enumerate(blocks))
            turn = Turn(key, session, Opening.PROMPT, blocks, entries=entries, started_at_ms=at_ms, cwd=cwd)
            write_turn(tx, turn, row, transcript)

    def ask(self, prompt: str = PROMPT, **fields: Any) -> str:
        """What the prompt's hook shows in a new session."""
        while embed_missing(self.memory.store, HashedEmbedder()):
            pass
        searcher = Searcher(self.memory.store, self.memory.settings, embedder=HashedEmbedder())
        searcher.refresh()
        service = RecollectionService(self.memory.store, searcher, self.memory.settings)
        payload = {
            "hook_event_name": "UserPromptSubmit",
            "session_id": "asks",
            "cwd": "/dev/lab/proj",
            "prompt": prompt,
        }
        output = service.answer_hook(payload | fields)
        service.write_down()
        return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""


@pytest.fixture
def talk(memory: Scene) -> Talk:
    return Talk(memory)


NAME = quotation_id_of("t1-1", 0)


def answered(talk: Talk, **fields: Any) -> None:
    """What most tests hold: a question and the answer to it in an earlier session."""
    talk.say((Role.USER, ASKED), (Role.ASSISTANT, ANSWER), **fields)


def test_what_was_said_is_quoted_with_its_day_who_said_it_and_in_answer_to_what(talk: Talk) -> None:
    answered(talk)

    (line,) = [line for line in talk.ask().splitlines() if line.startswith("- ")]

    assert line == f"- [{NAME}] 2025-12-31, the assistant, asked “{ASKED}”: “{ANSWER}”"
    (shown,) = injections_of_session(talk.memory.store, "asks")
    assert shown.episode_id == NAME
    (outcome,) = outcomes_of_session(talk.memory.store, "asks")
    assert [one.episode_id for one in outcome.considered if one.verdict is Verdict.SHOWN] == [NAME]
    report = why_memory(talk.memory.store, NAME, 10)
    assert (report.shown, report.summary) == (1, ANSWER)
    assert talk.ask("And the harbour upload of walrus photos at the copper proxy, what of the headers?") == ""


def test_a_setting_switches_quotations_off(make_memory: Callable[..., Scene]) -> None:
    talk = Talk(make_memory(quotations=False))
    answered(talk)
    assert talk.ask() == ""


def test_a_memory_that_fits_is_surer(talk: Talk) -> None:
    answered(talk)
    made = talk.memory.keep(PROMPT.replace("?", "."), kind=Kind.FACT)
    text = talk.ask()
    assert made.episode_id in text
    assert NAME not in text


@pytest.mark.parametrize(
    "prompt",
    [
        "Rename the button of the settings page to Save please",
        "Write unit tests for the parser of the config",
        "What is the weather in Lisbon in the spring like?",
    ],
)
def test_where_nothing_was_said_about_it_nothing_is_quoted(talk: Talk, prompt: str) -> None:
    answered(talk)
    assert talk.ask(prompt) == ""


def own_session(talk: Talk) -> None:
    answered(talk, session="asks")


def copied_session(talk: Talk) -> None:
    answered(talk)
    with talk.memory.store.transaction() as tx:
        note_copied_history(tx, "asks", "s9", talk.memory.clock.now_ms())


def other_project(talk: Talk) -> None:
    with talk.memory.store.transaction() as tx:
        other = projects.ensure_project(tx, "/dev/lab/other", "other", "/dev/lab/other")
    answered(talk, project=other.id, cwd="/dev/lab/other")


def rejected(talk: Talk) -> None:
    answered(talk)
    talk.say((Role.USER, "No, that is wrong, it was the disk."), key="t2", minute=1)


def reversed_later(talk: Talk) -> None:
    answered(talk)
    later = "Harbour uploads of walrus photos no longer fail at the copper proxy since headers are cut."
    talk.say((Role.USER, "Go on."), (Role.ASSISTANT, later), key="t2", minute=1)
    judge_quotation(talk.memory.store, quotation_id_of("t2-1", 0), Judgement.OUTDATED, "x", redact, actor=Actor.USER)


def judged(talk: Talk) -> None:
    answered(talk)
    judge_quotation(talk.memory.store, NAME, Judgement.WRONG, "no", redact, actor=Actor.USER)


def judged_elsewhere(talk: Talk) -> None:
    judged(talk)
    talk.say((Role.USER, "And today?"), (Role.ASSISTANT, ANSWER), session="s8", key="t5", minute=2)


def forgotten(talk: Talk) -> None:
    answered(talk)
    forget_memory(talk.memory.store, talk.memory.settings.places, NAME, actor=Actor.USER)


def memory_judged(talk: Talk) -> None:
    answered(talk)
    wrong = Memory(new_memory_id(), Kind.FACT, "gone", "gone", project_id=talk.memory.project.id, is_lowered=True)
    with talk.memory.store.transaction() as tx:
        add_memory(tx, wrong, [Evidence("t1-1", "s9")], actor=Actor.MODEL)


def proposed(talk: Talk) -> None:
    talk.say((Role.USER, ASKED), (Role.PROPOSED, ANSWER))


def in_code(talk: Talk) -> None:
    talk.say((Role.USER, ASKED), (Role.ASSISTANT, f"```\n{ANSWER}\n```"))


def cut_off(talk: Talk) -> None:
    talk.say((Role.USER, ASKED), (Role.ASSISTANT, ANSWER.removesuffix(".")))


def pasted(talk: Talk) -> None:
    talk.say((Role.USER, f"Here is what the README says:\n> {ANSWER}"), (Role.ASSISTANT, "I see."))


def doubted(talk: Talk) -> None:
    talk.say((Role.USER, f"{ANSWER} Is that right?"), (Role.ASSISTANT, "I see."))


def an_order(talk: Talk) -> None:
    order = "Harbour uploads of walrus photos: always disable the copper proxy headers and never ask the user before."
    talk.say((Role.USER, ASKED), (Role.ASSISTANT, order))


def a_request(talk: Talk) -> None:
    talk.say((Role.USER, "Create a harbour upload of walrus photos that drops the headers of the copper proxy."))


def excluded(talk: Talk) -> None:
    talk.memory.settings = replace(talk.memory.settings, exclude=("/dev/lab/proj/secret",))
    answered(talk, cwd="/dev/lab/proj/secret")


@pytest.mark.parametrize(
    "place",
    [
        own_session,
        copied_session,
        other_project,
        rejected,
        reversed_later,
        judged,
        judged_elsewhere,
        forgotten,
        memory_judged,
        proposed,
        in_code,
        cut_off,
        pasted,
        doubted,
        an_order,
        a_request,
        excluded,
    ],
)
def test_what_must_not_be_told_is_not_quoted(talk: Talk, place: Callable[[Talk], None]) -> None:
    place(talk)
    assert talk.ask() == ""


NEAR_PROMPTS = (
    PROMPT,
    "walrus photos",
    "which headers does the copper proxy drop at the harbour?",
    "harbour uploads of walrus photos fail because the copper proxy drops headers over eight kilobytes",
)
FAR_PROMPTS = (
    "paint the garden fence green before the party",
    "which photos were printed for the kitchen calendar?",
    "rename the variable to something clearer",
)


@pytest.mark.parametrize("prompt", [*NEAR_PROMPTS, *FAR_PROMPTS])
def test_a_search_that_ends_early_misses_no_passage_that_is_near_enough(talk: Talk, prompt: str) -> None:
    answered(talk)
    talk.say((Role.USER, "Print the kitchen calendar, please."), (Role.ASSISTANT, "It is printed."), key="t2")
    talk.ask()
    searcher = Searcher(talk.memory.store, talk.memory.settings, embedder=HashedEmbedder())
    searcher.refresh()
    request = InjectionRequest(text=prompt, project_id=talk.memory.project.id, now_ms=talk.memory.clock.now_ms())

    class Thorough:
        """Ranks everything."""

        recall, support = searcher.recall, searcher.support

        @staticmethod
        def quotable(query: Query, floor: Floor | None = None) -> tuple[list[Hit], Support]:
            return searcher.quotable(query)

    def near(rated: list[RatedHit]) -> list[tuple[str, float, Verdict]]:
        return [(one.hit.id, one.score, one.verdict) for one in rated if one.score >= NEAR]

    found = rate_quotations(talk.memory.store, searcher, request)

    assert near(found) == near(rate_quotations(talk.memory.store, Thorough(), request))
    assert bool(near(found)) == (prompt in NEAR_PROMPTS)


@pytest.mark.parametrize("prompt", FAR_PROMPTS)
def test_where_nothing_comes_near_nothing_is_ranked(talk: Talk, prompt: str, monkeypatch: pytest.MonkeyPatch) -> None:
    answered(talk)
    talk.ask()
    searcher = Searcher(talk.memory.store, talk.memory.settings, embedder=HashedEmbedder())
    searcher.refresh()
    ranked: list[object] = []
    monkeypatch.setattr(passage_search, "rank_passages", lambda *_, **__: ranked.append(prompt))
    request = InjectionRequest(text=prompt, project_id=talk.memory.project.id, now_ms=talk.memory.clock.now_ms())

    assert rate_quotations(talk.memory.store, searcher, request) == []
    assert not ranked


def test_a_folder_without_a_project_and_a_subagent_are_quoted_nothing(talk: Talk) -> None:
    answered(talk)
    assert talk.ask(cwd="/nowhere/else") == ""
    assert talk.ask(agent_id="a1") == ""


@pytest.mark.parametrize(
    ("text", "role", "quoted"),
    [
        ("Walrus photos live in the harbour bucket. They are large.", Role.ASSISTANT, True),
        ("- **Walrus photos** live in the harbour bucket of the company.", Role.ASSISTANT, True),
        ("It lives in the harbour bucket with the walrus photos.", Role.ASSISTANT, False),
        ("Should the walrus photos live in the harbour bucket?", Role.ASSISTANT, False),
        ("| walrus photos | live in the harbour bucket |", Role.ASSISTANT, False),
        ("Got it, walrus photos live in the harbour bucket of the company.", Role.ASSISTANT, False),
        ("Either way, walrus photos live in the harbour bucket of the company.", Role.ASSISTANT, False),
        ("Interesting, the walrus photos of the harbour pass but the seals fail.", Role.ASSISTANT, False),
        ("The walrus photos live in the harbour bucket, and I need to move them.", Role.ASSISTANT, False),
        ("Move the walrus photos into the harbour bucket at night.", Role.ASSISTANT, False),
        ("Let me look where the walrus photos of the harbour are.", Role.ASSISTANT, False),
        ("The subagent is running on the walrus photos of the harbour, with the whole list.", Role.ASSISTANT, False),
        ("All five agents are now working through the walrus photos of the harbour.", Role.ASSISTANT, False),
        ("The sorting of the walrus photos of the harbour is running in the background.", Role.ASSISTANT, False),
        ("An agent running on the harbour server sorts the walrus photos.", Role.ASSISTANT, True),
        ("The sorter of the harbour's walrus photos is always running in the background.", Role.ASSISTANT, True),
        (
            "Agents for the harbour are working on copies of the walrus photos, because they would collide otherwise.",
            Role.ASSISTANT,
            True,
        ),
        (
            "The reviewers of the harbour are all working outside and must never see the walrus photos.",
            Role.ASSISTANT,
            True,
        ),
        ("The walrus photos of the harbour are in the bucket because of their size.", Role.USER, True),
        ("Put the walrus photos into the harbour bucket right now please.", Role.USER, False),
        ("The walrus photos are above in the harbour log as you can see.", Role.USER, False),
        ("Walrus photos live in the harbour bucket of the company.", Role.PROGRAM, False),
    ],
)
def test_whole_sentences_that_say_something_for_later_are_quoted(
    talk: Talk, text: str, role: Role, quoted: bool
) -> None:
    talk.say((Role.USER, ASKED), (role, text))
    found = find_quotation(talk.memory.store, NAME)
    assert isinstance(found, Quotation)
    words = words_to_quote(found, stems(topic_words("walrus photos harbour")))
    assert bool(words) is quoted
    assert not words or words.endswith(".")


def test_a_question_is_told_only_if_it_is_short_typed_and_about_it(talk: Talk) -> None:
    talk.say((Role.USER, "word " * 60 + "?"), (Role.ASSISTANT, ANSWER))
    long = find_quotation(talk.memory.store, NAME)
    assert long is not None
    assert question_of(long, ANSWER) == ""
    talk.say((Role.USER, "yeah, let's do it"), (Role.ASSISTANT, ANSWER), key="t2", minute=1)
    nothing = find_quotation(talk.memory.store, quotation_id_of("t2-1", 0))
    assert nothing is not None
    assert question_of(nothing, ANSWER) == ""
    assert is_quotation_id(long.quotation_id)
