"""What was judged wrong or outdated is not kept again, by a language model or by rules, and a correction of it is."""

from __future__ import annotations

import re

import pytest

from engram.enums import Actor, Judgement
from engram.extraction.candidate import is_said_again, says_the_same
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.memories.correct import judge_memory, take_back_judgement
from engram.models.memories.judgements import JudgedMemory
from engram.models.memories.memory_records import Memory, all_memories
from engram.redaction import redact
from tests.extraction.test_apply_answer import NEW, OLD, Desk, desk, memory

__all__ = ["desk"]

PLAIN = r"\[m1\] 2026-05-01 decision, in force: "
ENDED = [Judgement.WRONG, Judgement.OUTDATED]


def judge(desk: Desk, memory: Memory, judgement: Judgement) -> None:
    judge_memory(desk.store, memory.episode_id, judgement, "the queue uses NATS", redact, actor=Actor.USER)


@pytest.mark.parametrize("judgement", ENDED)
def test_a_request_shows_a_near_memory_as_judged_with_the_reason(desk: Desk, judgement: Judgement) -> None:
    old = desk.keep("Where does the cache live?", OLD)
    desk.extract(desk.session("Is the cache still in Redis?", "Yes, the queue needs Redis."))
    before = desk.scribe.requests[-1].user
    assert re.search(PLAIN, before)

    judge(desk, old, judgement)
    desk.extract(desk.session("Is the cache still in Redis?", "Yes, the queue needs Redis."))

    line = f"[m1] 2026-05-01 decision, judged {judgement} (the queue uses NATS), not to be kept again: {OLD}"
    assert line in desk.scribe.requests[-1].user
    assert desk.scribe.requests[-1].system == desk.scribe.requests[0].system


def test_a_request_without_a_judged_memory_near_to_it_is_the_same_to_the_byte(desk: Desk) -> None:
    far = desk.keep("How are invoices numbered?", "Invoices are numbered by year and counter")
    judged_away = desk.keep("Who approves holidays?", "Holidays are approved by the team lead on Mondays")
    desk.keep("Where does the cache live?", OLD)
    session = desk.session("Is the cache still in Redis?", "Yes, the queue needs Redis.", day=9)
    desk.extract(session)
    before = desk.scribe.requests[-1].user

    judge(desk, far, Judgement.WRONG)
    judge(desk, judged_away, Judgement.OUTDATED)
    desk.extract(desk.session("Is the cache still in Redis?", "Yes, the queue needs Redis.", day=9))

    assert desk.scribe.requests[-1].user == before


@pytest.mark.parametrize("judgement", ENDED)
def test_a_model_that_says_it_again_keeps_nothing(desk: Desk, judgement: Judgement) -> None:
    old = desk.keep("Where does the cache live?", OLD)
    judge(desk, old, judgement)

    desk.extract(desk.session("Is the cache still in Redis?", OLD), memory(OLD, evidence=["e2"]))

    assert [kept.episode_id for kept in all_memories(desk.store)] == [old.episode_id]


def test_a_model_that_calls_a_wrong_memory_the_same_does_not_confirm_it(desk: Desk) -> None:
    old = desk.keep("Where does the cache live?", OLD)
    judge(desk, old, Judgement.WRONG)
    before = desk.now(old)

    desk.extract(desk.session("Is it in Redis?", OLD), memory(OLD, action="same", target="m1", evidence=["e2"]))

    assert desk.now(old) == before


def test_a_correction_of_a_wrong_memory_is_kept(desk: Desk) -> None:
    old = desk.keep("Where does the cache live?", OLD)
    judge(desk, old, Judgement.WRONG)

    new = desk.keep("Move the cache out of Redis", NEW, action="corrects", target="m1")

    assert new.summary == NEW
    assert desk.now(old).superseded_by == new.episode_id


RULE = "Never push to main on Fridays, nobody can repair it."


@pytest.mark.parametrize("judgement", ENDED)
def test_the_local_extractor_does_not_keep_the_same_statement_again(desk: Desk, judgement: Judgement) -> None:
    def extract() -> list[Memory]:
        session = desk.session(RULE, "Understood.")
        extract_session(desk.store, session, extractor=LocalExtractor(), embedder=None, settings=desk.settings)
        return [memory for memory in all_memories(desk.store) if "Fridays" in memory.summary]

    (old,) = extract()
    judge(desk, old, judgement)
    assert extract() == [desk.now(old)]

    take_back_judgement(desk.store, old.episode_id, actor=Actor.USER)

    assert len(extract()) == 2


def test_statements_are_the_same_only_if_nothing_is_exchanged_denied_or_counted() -> None:
    said = "The cache lives in Redis because the queue needs it anyway"

    assert says_the_same(said, "the cache lives in Redis, because queue needs it anyway.")
    assert says_the_same(said, f"{said} too")
    assert not says_the_same(said, said.replace("Redis", "Postgres"))
    assert not says_the_same(said, said.replace("needs", "no longer needs"))
    assert not says_the_same(said, f"{said} not")
    assert not says_the_same("Port 8080 is taken", "Port 8081 is taken")
    assert not says_the_same(said, f"{said} since 2026")
    assert not says_the_same("", "")


def test_what_somebody_says_later_may_hold_again() -> None:
    def new(voice: str, at_ms: int) -> Memory:
        return Memory("ep_000000000002", "fact", OLD, "", voice=voice, created_at_ms=at_ms)  # type: ignore[arg-type]

    old = Memory("ep_000000000001", "fact", OLD, "")  # type: ignore[arg-type]
    wrong, outdated = (JudgedMemory(old, judgement, "why", 1_000) for judgement in ENDED)

    assert is_said_again(new("assistant", 2_000), wrong)
    assert is_said_again(new("user", 500), wrong)
    assert not is_said_again(new("user", 2_000), wrong)
    assert is_said_again(new("assistant", 500), outdated)
    assert not is_said_again(new("assistant", 2_000), outdated)
