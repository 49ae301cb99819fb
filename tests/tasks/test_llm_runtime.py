"""A worker with a language model: keys, the work table's back-off, what the session is about, and the way back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path

import fake_llm
import pytest
from transcript_lines import say

from engram.enums import Actor
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.openai_provider import OpenAIExtractor
from engram.extraction.model.provider import ModelRequest, NotServed
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import change_memory
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.models.sessions.sessions import find_session
from engram.models.work.task_runs import STAGES_OF_SETTINGS, list_stages, note_failure
from engram.models.work.work import WorkState, find_work
from engram.paths import Home
from engram.redaction import redact
from engram.reports.health import take_vitals
from engram.settings import Settings
from engram.system.clock import FixedClock, moment_of
from engram.tasks.runtime import Runtime, make_runtime, make_vault_runtime, set_runtime
from engram.tasks.session_tasks import run_extract
from engram.tasks.upkeep_tasks import tidy

SESSION = "11111111-2222-3333-4444-555555555555"


class Bench:
    """A runtime whose extractor asks a fake server, and one growing session."""

    def __init__(self, tmp_path: Path, clock: FixedClock, store: Store) -> None:
        self.store, self.clock = store, clock
        self.server = fake_llm.FakeLanguageModel(lambda body: fake_llm.chat(fake_llm.answer()))
        self.settings = Settings(
            home=tmp_path / "home",
            claude_folder=tmp_path / "claude",
            embedding_model="hashed",
            extractor="openai",
            llm_base_url=self.server.base_url,
        )
        self.runtime = make_runtime(self.settings, store)
        self.path = self.settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)

    def say(self, role: str, text: str) -> None:
        say(self.path, role, text, at="2026-01-01T00:00:00.000Z")
        ingest_path(self.store, self.path, settings=self.settings, redact=redact)

    def extract(self) -> None:
        run_extract(self.runtime, SESSION)
        assert self.runtime.model_executor.wait(60)

    def attempts(self) -> tuple[WorkState, int]:
        work = find_work(self.store, "extract", SESSION)
        assert work is not None
        return work.state, work.attempts

    def sent(self) -> list[str]:
        bodies = [json.loads(one.partition(b"\r\n\r\n")[2]) for one in self.server.received]
        return [str(body["messages"][1]["content"]) for body in bodies]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    Home(tmp_path / "home").prepare()
    clock = FixedClock()
    with open_store(tmp_path / "home" / "memory.db", clock=clock) as store:
        made = Bench(tmp_path, clock, store)
        yield made
        made.server.close()
        set_runtime(None)


def test_what_the_session_is_about_is_kept_and_told_the_next_time(bench: Bench) -> None:
    memory = fake_llm.memory("keep the cache in sqlite", "e1")
    bench.server.reply = lambda body: fake_llm.chat(fake_llm.answer(memory, rolling_summary="a cache in sqlite"))
    bench.say("user", "Let us keep the cache in sqlite")
    bench.say("assistant", "Done.")
    bench.extract()
    bench.say("user", "And the queue?")
    bench.extract()

    session = find_session(bench.store, SESSION)
    assert session is not None
    assert session.rolling_summary == "a cache in sqlite"
    assert "so far: nothing" in bench.sent()[0]
    assert "so far: a cache in sqlite" in bench.sent()[1]
    assert [e.extractor for e in all_memories(bench.store)] == ["openai-1"]
    assert bench.store.value("SELECT project_id FROM spend LIMIT 1") == session.project_id


def test_a_memory_that_took_up_another_stays_when_its_own_turn_grows(bench: Bench) -> None:
    memory = fake_llm.memory("keep the cache in sqlite", "e1")
    bench.server.reply = lambda body: fake_llm.chat(fake_llm.answer(memory))
    bench.say("user", "Let us keep the cache in sqlite")
    bench.extract()
    (kept,) = all_memories(bench.store)
    with bench.store.transaction() as tx:
        change_memory(
            tx,
            kept,
            "merge",
            "took up ep_0123456789ab",
            summary="keep the cache in sqlite | really",
            actor=Actor.TIDYING,
        )
    bench.server.reply = lambda body: fake_llm.chat(fake_llm.answer())
    bench.say("assistant", "Done.")

    bench.extract()

    assert [(e.summary, e.status) for e in all_memories(bench.store)] == [
        ("keep the cache in sqlite | really", "active")
    ]


def test_while_the_server_is_down_everything_stays_due_and_nothing_is_lost(bench: Bench) -> None:
    bench.server.reply = lambda body: fake_llm.http("{}", "503 Down")
    bench.say("user", "Let us keep the cache in sqlite")
    for number in range(1, 6):
        bench.extract()
        assert bench.attempts() == (WorkState.DUE, number)
        bench.clock.advance(300)
    bench.say("user", "And the queue in sqlite too")
    memory = fake_llm.memory("keep the cache in sqlite", "e1")
    bench.server.reply = lambda body: fake_llm.chat(fake_llm.answer(memory))

    bench.extract()

    assert bench.attempts() == (WorkState.DONE, 0)
    assert "keep the cache in sqlite" in bench.sent()[-1]
    assert "And the queue in sqlite too" in bench.sent()[-1]
    assert len(all_memories(bench.store)) == 1


def test_at_the_cap_the_local_extractor_keeps_and_is_named(bench: Bench) -> None:
    bench.settings = dataclasses.replace(bench.settings, llm_calls_per_hour=0)
    bench.runtime = make_runtime(bench.settings, bench.store)
    bench.say("user", "From now on always use pnpm instead of npm in this repository, never npm.")
    bench.say("assistant", "Understood.")

    bench.extract()

    assert bench.server.received == []
    assert {e.extractor for e in all_memories(bench.store)} == {LocalExtractor.name}
    assert "cap of 0 calls an hour" in next(s.last_error for s in list_stages(bench.store) if s.name == "llm")


def test_what_was_kept_at_the_cap_is_distilled_again_once_there_is_room(bench: Bench) -> None:
    bench.settings = dataclasses.replace(bench.settings, llm_calls_per_hour=0)
    bench.runtime = make_runtime(bench.settings, bench.store)
    bench.say("user", "From now on always use pnpm instead of npm in this repository, never npm.")
    bench.say("assistant", "Understood.")
    bench.extract()
    (kept,) = all_memories(bench.store)
    better = fake_llm.memory("always use pnpm in this repository, never npm", "e1", kind="preference")
    bench.server.reply = lambda body: fake_llm.chat(fake_llm.answer(better))
    bench.runtime = make_runtime(dataclasses.replace(bench.settings, llm_calls_per_hour=5), bench.store)

    tidy(bench.runtime)

    old, new = all_memories(bench.store)
    assert (old.episode_id, old.superseded_by) == (kept.episode_id, new.episode_id)
    assert (new.summary, new.extractor) == ("always use pnpm in this repository, never npm", "openai-1")
    assert bench.store.value("SELECT count(*) FROM spend WHERE task = 'extract'") == 1


def test_a_day_after_the_cap_was_reached_the_worker_asks_again(bench: Bench) -> None:
    settings = dataclasses.replace(
        bench.settings, llm_prices=(f"{bench.settings.llm_model}=5/20",), llm_dollars_per_day=0.5
    )
    settings = dataclasses.replace(settings, llm_dollars_per_hour=9.0)
    bench.runtime = make_runtime(settings, bench.store)
    bench.server.reply = lambda body: fake_llm.chat(fake_llm.answer(), tokens=(1_000, 8_000))
    for number in range(5):
        bench.say("user", f"From now on always name the tests of part {number} after it.")
        bench.say("assistant", "Understood.")
        bench.extract()
        bench.clock.advance(3_600)
    tidy(bench.runtime)
    assert bench.store.value("SELECT sum(dollars) FROM spend") == pytest.approx(2 * 0.165)

    bench.clock.advance(86_400)
    tidy(bench.runtime)

    assert bench.store.value("SELECT sum(dollars) FROM spend") == pytest.approx(3 * 0.165)
    assert all(f"part {number} after it" in bench.sent()[-1] for number in (2, 3, 4))
    assert not [stage.name for stage in list_stages(bench.store) if "cap" in stage.last_error]


@pytest.mark.parametrize(
    ("reply", "stages", "seconds"),
    [
        (fake_llm.http("{}", "401 Unauthorized"), {"llm"}, 14_400),
        (fake_llm.http("{}", "429 Too Many Requests"), {"llm", "extract"}, 15),
        (fake_llm.http("{}", "500 Internal Server Error"), {"llm", "extract"}, 15),
        (fake_llm.chat("I had rather not."), {"llm"}, 14_400),
    ],
    ids=["401", "429", "500", "prose"],
)
def test_it_is_said_when_a_failing_model_is_asked_again(
    bench: Bench, reply: bytes, stages: set[str], seconds: int
) -> None:
    tidy(bench.runtime)
    bench.server.reply = lambda body: reply
    bench.say("user", "From now on always use pnpm instead of npm in this repository, never npm.")
    bench.say("assistant", "Understood.")

    bench.extract()
    asked = len(bench.server.received)
    bench.extract()

    assert len(bench.server.received) == asked <= 2
    again = f"it is retried automatically on {moment_of(bench.store.now_ms() + seconds * 1000):%Y-%m-%d at %H:%M}"
    troubles = take_vitals(bench.store, bench.settings, with_files=False).troubles()
    said = {trouble.about: trouble.remedy for trouble in troubles if trouble.about in ("llm", "extract")}
    assert {name: said.get(name) for name in stages} == dict.fromkeys(stages, again)


def made_by(settings: Settings, store: Store) -> Runtime:
    return make_runtime(settings, store)


def test_without_a_key_openai_is_not_asked_and_status_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = dataclasses.replace(bench.settings, llm_base_url="")

    assert isinstance(made_by(settings, bench.store).extractor, LocalExtractor)
    assert {stage.name for stage in list_stages(bench.store) if "OPENAI_API_KEY" in stage.last_error} == {"llm"}
    env = settings.places.env_file
    env.touch(0o600)
    env.write_text("OPENAI_API_KEY=sk-test\n")
    assert isinstance(made_by(settings, bench.store).extractor, OpenAIExtractor)
    assert not any(stage.last_error for stage in list_stages(bench.store))


def test_a_worker_that_extracts_locally_loads_no_client(tmp_path: Path) -> None:
    import subprocess
    import sys

    program = (
        "import sys; from pathlib import Path; from engram.models.open_memory import open_store; "
        "from engram.settings import Settings; from engram.tasks.runtime import make_runtime; import "
        "engram.tasks.session_tasks, engram.extraction.extracting, engram.consolidation.consolidation_run; "
        f"s = Settings(home=Path({str(tmp_path)!r}), embedding_model='hashed'); "
        "make_runtime(s, open_store(s.places.memory_db)); "
        "print([n for n in ('openai', 'httpx2', 'pydantic') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(("model", "failing"), [("hashed", ["ingest"]), ("/no/such/model", ["embed", "ingest"])])
def test_a_start_forgets_failures_of_earlier_settings_and_no_others(
    tmp_path: Path, model: str, failing: list[str]
) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model=model)
    settings.places.prepare()
    with open_store(settings.places.memory_db) as store:
        for stage in (*STAGES_OF_SETTINGS, "ingest"):
            note_failure(store, stage, "no answer")

        make_runtime(settings, store)

        assert [stage.name for stage in list_stages(store) if stage.last_error] == failing


def test_a_stopping_worker_ends_the_calls_of_its_vaults_too(tmp_path: Path, store: Store) -> None:
    settings = Settings(home=tmp_path / "home", embedding_model="hashed", extractor="claude")
    outer = make_runtime(settings, store)
    inner = make_vault_runtime(outer, settings, store)
    assert inner.language_model is not None

    outer.stop_executors()

    with pytest.raises(NotServed, match="stopping"):
        inner.language_model.provider.complete(ModelRequest("extract", "system", "user", {}, 10))
