"""Sessions of the local extractor are distilled again by a language model, and what people decided stays."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_llm
import pytest
from forked import run_forked
from transcript_lines import commit, say

from engram.consolidation.consolidation_run import consolidate
from engram.consolidation.undo import undo_run
from engram.enums import Actor, Status
from engram.errors import BudgetReached
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.openai_provider import OpenAIExtractor
from engram.extraction.model.provider import Budget
from engram.extraction.model.second_chance import STAGE, SecondChance
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_history import history_of, list_runs
from engram.models.memories.memory_records import Memory, all_memories, evidence_of, find_memory
from engram.models.open_memory import open_store
from engram.models.sessions.stored_turns import second_chances, waiting_sessions
from engram.models.work.task_runs import list_stages
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock

SESSION = "11111111-2222-3333-4444-555555555555"
NOW_MS = 1_780_000_000_000
FINDING = (
    "`CacheKey` leaves out the branch name, so two branches share one entry in `cache.py` and the "
    "second one reads stale results."
)
BETTER = "Stale results: `CacheKey` leaves out the branch name, so two branches share one entry in `cache.py`"


class Machine:
    """A memory whose sessions the local extractor has read, and a model's server."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.server = fake_llm.FakeLanguageModel(lambda body: fake_llm.chat(fake_llm.answer()))
        self.settings = replace(settings, llm_base_url=self.server.base_url)

    def read(
        self, *texts: tuple[str, str], session: str = SESSION, folder: str = "demo", at: str = "2026-05-01"
    ) -> None:
        """Read texts as a session, and extract them locally."""
        path = self.settings.projects_folder / f"-work-{folder}" / f"{session}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        for number, (role, text) in enumerate(texts):
            place = {"cwd": f"/work/{folder}", "at": f"{at}T10:00:{number:02d}.000Z"}
            if role == "commit":
                commit(path, "key entries by branch", text, **place)
            else:
                say(path, role, text, **place)
        ingest_path(self.store, path, settings=self.settings, redact=redact)
        extract_session(self.store, session, extractor=LocalExtractor(), embedder=None, settings=self.settings)

    def read_finding(self, **session: str) -> Memory:
        """Read a session about a stale cache; returns the local memory of its cause."""
        self.read(("user", "why is the cache stale?"), ("assistant", FINDING), ("commit", FINDING), **session)
        return next(e for e in reversed(all_memories(self.store)) if "CacheKey" in e.summary)

    def answer(self, *memories: dict[str, Any]) -> None:
        self.server.reply = lambda body: fake_llm.chat(fake_llm.answer(*memories))

    def chance(self, **changes: Any) -> SecondChance:
        settings = replace(self.settings, **changes)
        extractor = OpenAIExtractor(settings, Budget(self.store, settings), LocalExtractor(), api_key="sk-test")
        return SecondChance(self.store, settings, extractor)

    def now(self, memory: Memory) -> Memory:
        found = find_memory(self.store, memory.episode_id)
        assert found is not None
        return found

    def in_force(self) -> list[Memory]:
        return [memory for memory in all_memories(self.store) if memory.is_current]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", extract_first_messages=1)
    settings.places.prepare()
    with open_store(settings.places.memory_db, clock=FixedClock(NOW_MS)) as store:
        machine = Machine(store, settings)
        yield machine
        machine.server.close()


def test_a_local_memory_is_superseded_by_the_models_and_its_id_evidence_and_undo_stay(machine: Machine) -> None:
    local = machine.read_finding()
    rested_on = {entry.uuid for entry in evidence_of(machine.store, local.id)}
    machine.answer(fake_llm.memory(BETTER, "e2", kind="fix"))

    part = machine.chance().distill_next()

    assert part is not None
    (new,) = machine.in_force()
    old = machine.now(local)
    assert (new.summary, new.extractor) == (BETTER, "openai-1")
    assert (old.status, old.superseded_by) == (Status.SUPERSEDED, new.episode_id)
    assert "distilled again by openai-1" in history_of(machine.store, local.episode_id)[-1].reason
    assert rested_on <= {entry.uuid for entry in evidence_of(machine.store, new.id)}

    undo_run(machine.store, machine.settings, list_runs(machine.store)[0].id, actor=Actor.USER)

    assert [memory.episode_id for memory in machine.in_force()] == [local.episode_id]
    assert machine.chance().distill_next() is None


def test_what_the_model_does_not_keep_is_archived_unless_the_user_said_it(machine: Machine) -> None:
    local = machine.read_finding()
    machine.read(
        ("user", "Always write the failing test before the fix."),
        ("assistant", "Understood."),
        session=SESSION.replace("1", "2"),
    )
    typed = next(e for e in machine.in_force() if "failing test" in e.summary)

    while machine.chance().distill_next() is not None:
        pass

    assert machine.now(local).status == Status.ARCHIVED
    assert machine.now(typed).is_current


@pytest.mark.parametrize("action", ["edit", "pin", "bad", "helpful", "merge"])
def test_what_somebody_decided_stays(machine: Machine, action: str) -> None:
    local = machine.read_finding()
    changes: dict[str, Any] = {"edit": {"summary": "my words"}, "pin": {"is_pinned": True}}.get(action, {"weight": 0.7})
    with machine.store.transaction() as tx:
        change_memory(tx, local, action, "", actor=Actor.USER, **changes)
    before = [memory for memory in machine.in_force() if memory.id == local.id]
    machine.answer(fake_llm.memory(BETTER, "e2", kind="fix"))

    while machine.chance().distill_next() is not None:
        pass

    assert [memory for memory in machine.in_force() if memory.id == local.id] == before


def test_a_forgotten_memory_does_not_come_back_in_other_words(machine: Machine) -> None:
    machine.read(
        ("user", "why is the cache stale?"),
        ("assistant", FINDING),
        ("commit", FINDING),
        ("user", "and the sweeper?"),
        ("assistant", "`sweep.py` drops entries older than 7 days at start because the folder grew without bound."),
    )
    local = next(e for e in machine.in_force() if "CacheKey" in e.summary)
    forget_memory(machine.store, machine.settings.places, local.episode_id, actor=Actor.USER)
    machine.answer(
        fake_llm.memory("Two branches read each other's cached results: the key had no branch", "e2"),
        fake_llm.memory("`sweep.py` drops entries older than 7 days at start", "e2", "e4"),
    )

    while machine.chance().distill_next() is not None:
        pass

    assert not any("branch" in memory.summary for memory in all_memories(machine.store))
    assert not any(b"CacheKey" in sent for sent in machine.server.received)


def test_a_cap_pauses_and_status_says_so_and_it_continues_with_room(machine: Machine) -> None:
    local = machine.read_finding()
    machine.answer(fake_llm.memory(BETTER, "e2", kind="fix"))

    with pytest.raises(BudgetReached):
        machine.chance(llm_calls_per_hour=0).distill_next()

    assert machine.now(local).is_current
    assert second_chances(machine.store).waiting == 1
    assert any(s.name == STAGE and "cap of 0 calls an hour" in s.last_error for s in list_stages(machine.store))
    assert machine.chance().distill_next() is not None
    assert machine.now(local).superseded_by
    assert (second_chances(machine.store).done, second_chances(machine.store).waiting) == (1, 0)


def test_a_consolidation_distills_until_nothing_waits_and_a_dry_run_asks_nothing(machine: Machine) -> None:
    machine.read_finding()
    machine.read_finding(session=SESSION.replace("1", "2"))
    machine.answer(fake_llm.memory(BETTER, "e2", kind="fix"))

    dry = consolidate(machine.store, machine.settings, distilling=machine.chance(), is_dry=True)

    assert machine.server.received == []
    assert "distill 2 sessions again" in dry.lines
    consolidate(machine.store, machine.settings, distilling=machine.chance(), is_forced=True)
    assert waiting_sessions(machine.store) == []
    assert {memory.extractor for memory in machine.in_force()} == {"openai-1"}


def test_the_most_used_project_comes_first_then_the_newest_session(machine: Machine) -> None:
    sessions = [SESSION.replace("1", digit) for digit in "2345"]
    machine.read_finding(session=sessions[0], folder="rare", at="2026-05-09")
    for session, day in zip(sessions[1:], ("2026-05-01", "2026-05-08", "2026-05-03"), strict=True):
        machine.read_finding(session=session, folder="busy", at=day)

    assert waiting_sessions(machine.store) == [sessions[2], sessions[3], sessions[1], sessions[0]]


def test_a_text_that_the_model_cannot_read_keeps_its_local_memory_and_is_asked_about_once(machine: Machine) -> None:
    local = machine.read_finding()
    machine.server.reply = lambda body: fake_llm.chat('{"memories": [{"kind"')

    while machine.chance().distill_next() is not None:
        pass

    assert machine.now(local).is_current
    assert second_chances(machine.store).waiting == 0


def test_turns_that_the_model_extracted_itself_do_not_wait(machine: Machine) -> None:
    machine.read_finding()
    machine.answer(fake_llm.memory(BETTER, "e2", kind="fix"))
    path = machine.settings.projects_folder / "-work-other" / f"{SESSION.replace('1', '3')}.jsonl"
    path.parent.mkdir(parents=True)
    say(path, "user", "why is the cache stale?", cwd="/work/other")
    say(path, "assistant", FINDING, cwd="/work/other")
    ingest_path(machine.store, path, settings=machine.settings, redact=redact)

    extract_session(
        machine.store, path.stem, extractor=machine.chance().extractor, embedder=None, settings=machine.settings
    )

    assert waiting_sessions(machine.store) == [SESSION]


@pytest.mark.parametrize("point", ["proposed", "kept", "replaced", "committed"])
def test_a_kill_loses_nothing_and_doubles_nothing(machine: Machine, point: str) -> None:
    local = machine.read_finding()
    machine.answer(fake_llm.memory(BETTER, "e2", kind="fix"))

    def distill() -> None:
        with open_store(machine.settings.places.memory_db) as machine.store:
            while machine.chance().distill_next() is not None:
                pass

    machine.store.close()
    assert run_forked(distill, crash=f"second_chance.{point}") == -signal.SIGKILL
    with open_store(machine.settings.places.memory_db) as machine.store:
        assert machine.now(local).is_current is not (point == "committed")
    assert run_forked(distill) == 0

    with open_store(machine.settings.places.memory_db) as machine.store:
        (new,) = machine.in_force()
        assert (new.summary, machine.now(local).superseded_by) == (BETTER, new.episode_id)
        assert len(all_memories(machine.store)) == 2
