"""A session both ways: which one is taken, what the one call sends and costs, and that trying keeps nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_llm
import pytest
from transcript_lines import commit, say

from engram.consolidation.undo import undo_run
from engram.enums import Actor, ComparisonAnswer
from engram.errors import BudgetReached, Conflict, ExtractionError
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.compare_extractors import (
    Comparison,
    Offer,
    answer_of,
    compare,
    estimate_call,
    find_offer,
    keep,
    note_answer,
)
from engram.extraction.model.model_request import MAX_REQUEST_CHARACTERS
from engram.extraction.model.openai_provider import OpenAIExtractor
from engram.extraction.model.provider import Budget
from engram.extraction.model.second_chance import PART_TURNS
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import history_of, list_runs
from engram.models.memories.memory_records import all_memories
from engram.models.projects.projects import list_projects
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import note_model_reading, turns_of_session, waiting_sessions
from engram.models.work.spend import spending
from engram.models.work.work import pause
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from tests.empty_memory import open_empty

SESSION = "11111111-2222-3333-4444-555555555555"
OTHER = "22222222-3333-4444-5555-666666666666"
NOW_MS = 1_780_000_000_000
CAUSE = (
    "`CacheKey` leaves out the branch name, so two branches share one entry in `cache.py` and the "
    "second one reads stale results."
)
BETTER = "Stale results: `CacheKey` left out the branch name, so two branches shared one entry in `cache.py`"
#: Prompts and answers of a session, long enough to be shown.
TALK = (
    ("user", "why is the cache stale after I change the branch? it was right yesterday, on the same machine"),
    ("assistant", CAUSE),
    ("user", "then add the branch to the key, and keep the old entries until the next release, not longer"),
    (
        "assistant",
        "The key has the branch now, and entries of the old form are read until release 3.0 "
        "comes; after that `cache.py` deletes them when it opens the folder for the first time.",
    ),
    ("commit", CAUSE),
)


class Desk:
    """A memory whose sessions the local extractor has read, and a model's server."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.server = fake_llm.FakeLanguageModel(lambda body: fake_llm.chat(fake_llm.answer()))
        self.settings = replace(settings, llm_base_url=self.server.base_url, claude_command="/no/such/claude")

    def read(
        self,
        *texts: tuple[str, str],
        session: str = SESSION,
        folder: str = "demo",
        at: str = "2026-05-01",
        is_extracted: bool = True,
    ) -> None:
        """Read texts as a session; extracted locally unless it is left."""
        path = self.settings.projects_folder / f"-work-{folder}" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        for number, (role, text) in enumerate(texts):
            place = {"cwd": f"/work/{folder}", "at": f"{at}T10:{number // 60:02d}:{number % 60:02d}.000Z"}
            if role == "commit":
                commit(path, "key entries by branch", text, **place)
            else:
                say(path, role, text, **place)
        ingest_path(self.store, path, settings=self.settings, redact=redact)
        if is_extracted:
            extract_session(self.store, session, extractor=LocalExtractor(), embedder=None, settings=self.settings)

    def answer(self, *memories: dict[str, Any]) -> None:
        self.server.reply = lambda body: fake_llm.chat(fake_llm.answer(*memories))

    def offer(self, **changes: Any) -> Offer | None:
        return find_offer(self.store, replace(self.settings, **changes))

    def extractor(self, **changes: Any) -> OpenAIExtractor:
        settings = replace(self.settings, **changes)
        return OpenAIExtractor(settings, Budget(self.store, settings), LocalExtractor(), api_key="sk-test")

    def compare(self, extractor: OpenAIExtractor | None = None) -> Comparison:
        offer = self.offer()
        assert offer is not None
        return compare(self.store, extractor or self.extractor(), offer)

    def kept(self) -> dict[str, tuple[str, str]]:
        return {e.episode_id: (e.summary, e.status) for e in all_memories(self.store)}


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", extract_first_messages=1)
    settings.places.prepare()
    with open_empty(settings.places.memory_db, clock=FixedClock(NOW_MS)) as store:
        desk = Desk(store, settings)
        yield desk
        desk.server.close()


def talk(prompts: int, words: str = "the cache keeps what nobody asks for") -> list[tuple[str, str]]:
    """A session of so many prompts."""
    return [
        line
        for number in range(prompts)
        for line in (("user", f"question {number}: why is it that {words}?"), ("assistant", f"Because {words}. " * 3))
    ]


def test_the_session_of_which_one_request_holds_most_is_taken(desk: Desk) -> None:
    desk.read(*talk(4), session=OTHER, at="2026-05-02")
    desk.read(*talk(12))

    offer = desk.offer()

    assert offer is not None
    assert (offer.part.session.session_id, offer.prompts, offer.is_whole) == (SESSION, 12, True)
    assert (offer.provider, offer.day, offer.project) == ("openai", "2026-05-01", "demo")
    assert offer.title == "question 0: why is it that the cache keeps…"
    assert desk.server.received == []


def test_a_session_that_fits_goes_before_the_beginning_of_a_longer_one(desk: Desk) -> None:
    desk.read(*talk(PART_TURNS + 5), session=OTHER)
    longer = desk.offer()
    desk.read(*talk(5))
    whole = desk.offer()

    assert longer is not None
    assert whole is not None
    assert (longer.prompts, longer.is_whole) == (PART_TURNS, False)
    assert (whole.part.session.session_id, whole.is_whole) == (SESSION, True)


def test_what_is_longer_than_a_request_is_cut_at_a_turn_so_that_one_call_is_enough(desk: Desk) -> None:
    desk.read(*talk(19, "the log of the build says this and that about the cache " * 90))

    comparison = desk.compare()

    assert 2 <= comparison.offer.prompts < 19
    assert not comparison.offer.is_whole
    (sent,) = desk.server.received
    assert len(sent) < 1.5 * MAX_REQUEST_CHARACTERS


@pytest.mark.parametrize(
    "texts",
    [
        pytest.param(TALK[:2], id="one prompt"),
        pytest.param(
            [("user", "hi"), ("assistant", "Hello."), ("user", "bye"), ("assistant", "Bye.")], id="small talk"
        ),
        pytest.param([("assistant", CAUSE)] * 6, id="nobody asked"),
    ],
)
def test_a_session_that_shows_nothing_is_not_taken(desk: Desk, texts: list[tuple[str, str]]) -> None:
    desk.read(*texts)

    assert desk.offer() is None


def test_what_was_not_read_yet_or_is_not_to_be_read_is_not_taken(desk: Desk) -> None:
    desk.read(*TALK, is_extracted=False)
    assert desk.offer() is None

    desk.read(("user", "thanks"))
    assert desk.offer() is not None

    for excluded in ("/work/demo", "/work/*", "**/demo"):
        assert desk.offer(exclude=(excluded,)) is None
    assert desk.offer(exclude=("/work/other",)) is not None
    # It may still go on.
    last = find_session(desk.store, SESSION)
    assert last is not None
    going_on = (NOW_MS - last.last_at_ms) // 1_000 + 1
    assert desk.offer(idle_seconds=going_on) is None


def test_what_was_forgotten_is_not_sent(desk: Desk) -> None:
    desk.read(("user", "from now on, call the staging host blue heron in every script of the cache"), *TALK)
    forgotten = next(memory for memory in all_memories(desk.store) if "heron" in memory.summary)
    forget_memory(desk.store, desk.settings.places, forgotten.episode_id, actor=Actor.USER)

    desk.compare()

    (sent,) = desk.server.received
    assert b"stale" in sent
    assert b"heron" not in sent


@pytest.mark.parametrize("is_everything", [True, False])
def test_during_a_pause_nothing_is_taken(desk: Desk, is_everything: bool) -> None:
    desk.read(*TALK)
    (project,) = list_projects(desk.store)

    pause(desk.store, "" if is_everything else project.identity, NOW_MS + 60_000)

    assert desk.offer() is None


def test_what_a_model_has_read_is_not_taken_again(desk: Desk) -> None:
    desk.read(*TALK)
    session = find_session(desk.store, SESSION)
    assert session is not None
    with desk.store.transaction() as tx:
        note_model_reading(tx, turns_of_session(desk.store, session.id))

    assert desk.offer() is None


@pytest.mark.parametrize("changes", [{"extractor": "openai"}, {"extractor": "off"}, {"llm_base_url": ""}])
def test_nothing_is_offered_where_a_model_writes_already_or_there_is_none(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str]
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    desk.read(*TALK)

    assert desk.offer(**changes) is None


def test_both_ways_are_shown_and_trying_keeps_nothing(desk: Desk) -> None:
    secret = "ghp_" + "a1B2c3D4" * 4 + "e5F6"
    desk.read(("user", f"my token is {secret}, use it to look at the stale cache in the build"), *TALK)
    before, waiting = desk.kept(), waiting_sessions(desk.store)
    desk.answer(
        fake_llm.memory(BETTER, "e3", kind="fix", title="Stale cache across branches"),
        fake_llm.memory("Engines are painted blue by the harbour master every spring", "e1"),
    )

    comparison = desk.compare()

    assert [memory.sentence for memory in comparison.by_model] == [BETTER]
    assert comparison.by_model[0].title == "Stale cache across branches"
    assert [memory.sentence for memory in comparison.without] == [summary for summary, _ in before.values()]
    assert all(memory.title for memory in comparison.without)
    (sent,) = desk.server.received
    assert secret.encode() not in sent
    assert b"stale cache in the build" in sent
    # Nothing is kept but what the call cost.
    assert (desk.kept(), waiting_sessions(desk.store)) == (before, waiting)
    assert all(len(history_of(desk.store, name)) == 1 for name in before)
    assert [row.calls for row in spending(desk.store, 0)] == [1]
    session = find_session(desk.store, SESSION)
    assert session is not None
    assert session.rolling_summary == ""
    assert answer_of(desk.store) is None
    assert json.loads(json.dumps(comparison.to_json()))["by_model"][0]["kind"] == "fix"


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param(lambda body: fake_llm.chat("I have read it. There is nothing more to say."), id="prose"),
        pytest.param(lambda body: fake_llm.chat('{"memories": [{"kind":'), id="half"),
        pytest.param(lambda body: fake_llm.chat({"things": []}), id="another form"),
        pytest.param(lambda body: fake_llm.http("busy", "503 Service Unavailable"), id="busy"),
        pytest.param(lambda body: fake_llm.http("{}", "401 Unauthorized"), id="wrong key"),
        pytest.param(lambda body: None, id="no answer"),
    ],
)
def test_a_call_that_fails_is_not_made_again(desk: Desk, reply: Callable[[dict[str, Any]], bytes | None]) -> None:
    desk.read(*TALK)
    before = desk.kept()
    desk.server.reply = reply

    with pytest.raises(ExtractionError):
        desk.compare()

    assert len(desk.server.received) == 1
    assert desk.kept() == before


@pytest.mark.parametrize("cap", ["dollars_per_day", "dollars_per_hour", "calls_per_hour", "tokens_per_day"])
def test_at_a_cap_nothing_is_sent(desk: Desk, cap: str) -> None:
    desk.read(*TALK)
    price = ("gpt-4.1-nano=5/20",)

    with pytest.raises(BudgetReached):
        desk.compare(desk.extractor(**{f"llm_{cap}": 0, "llm_prices": price}))

    assert desk.server.received == []


def test_after_the_switch_what_was_shown_is_kept_without_another_call_and_can_be_undone(desk: Desk) -> None:
    desk.read(*TALK)
    before = desk.kept()
    desk.answer(fake_llm.memory(BETTER, "e2", kind="fix"))
    extractor = desk.extractor()
    comparison = desk.compare(extractor)

    part = keep(desk.store, desk.settings, extractor, comparison)

    assert part.new == 1
    current = [memory for memory in all_memories(desk.store) if memory.is_current]
    assert BETTER in {memory.summary for memory in current}
    assert not {memory.episode_id for memory in current} & set(before)
    assert waiting_sessions(desk.store) == []
    assert len(desk.server.received) == 1

    undo_run(desk.store, desk.settings, list_runs(desk.store)[0].id, actor=Actor.USER)

    assert {e.episode_id for e in all_memories(desk.store) if e.is_current} == set(before)


def test_nothing_is_kept_of_a_session_that_grew_meanwhile(desk: Desk) -> None:
    desk.read(*TALK)
    desk.answer(fake_llm.memory(BETTER, "e2", kind="fix"))
    extractor = desk.extractor()
    comparison = desk.compare(extractor)
    desk.read(("assistant", "One more thing: the release is 3.1 now, since 3.0 was withdrawn by the maintainers."))
    before = desk.kept()

    with pytest.raises(Conflict):
        keep(desk.store, desk.settings, extractor, comparison)

    assert desk.kept() == before


@pytest.mark.parametrize("answer", list(ComparisonAnswer))
def test_the_answer_is_remembered(desk: Desk, answer: ComparisonAnswer) -> None:
    assert answer_of(desk.store) is None

    note_answer(desk.store, answer)

    assert answer_of(desk.store) is answer


def test_the_price_of_a_call_is_known_before_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    text = "x" * 40_000

    haiku = estimate_call(settings, "claude", text)
    other = estimate_call(replace(settings, claude_model="opus"), "claude", text)
    named = estimate_call(replace(settings, llm_model="gpt-4.1-nano"), "openai", text)
    unknown = estimate_call(
        replace(settings, llm_model="new", llm_base_url="https://llm.example.com/v1"), "openai", text
    )
    own = estimate_call(replace(settings, llm_model="new", llm_base_url="http://localhost:1/v1"), "openai", text)

    assert (haiku.input_tokens, haiku.output_tokens, haiku.max_output_tokens) == (10_540, 1_250, 3_250)
    assert haiku.low_dollars == pytest.approx((10_540 * 0.13 + 1_250 * 0.65) / 1e6)
    assert haiku.high_dollars == pytest.approx((10_540 + 3_250 * 5) / 1e6)
    assert (haiku.reserved_dollars, other.reserved_dollars) == (0.2, 0.2)
    assert other.low_dollars is None
    assert named.low_dollars == pytest.approx((10_000 * 0.10 + 1_250 * 0.40) / 1e6)
    # As it is reserved: no token is shorter than a byte.
    assert named.reserved_dollars == pytest.approx((41_000 * 0.10 + 8_000 * 0.40) / 1e6)
    assert (unknown.low_dollars, own.low_dollars, own.reserved_dollars) == (None, 0.0, 0.0)
    assert unknown.reserved_dollars > 0.3
