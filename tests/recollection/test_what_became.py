"""What became of each prompt is recorded after the answer, and a dry run decides the same without any trace."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from recollecting import FACT, PROMPT, Scene

from engram.enums import Channel, Importance, Scope, Status, Verdict, Voice
from engram.errors import StoreError
from engram.models import tables
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.sessions import prompt_outcomes, sessions
from engram.models.sessions.prompt_outcomes import Outcome
from engram.models.shown import injections
from engram.models.work.work import pause
from engram.recollection.choose_bites import FEATURES, Bite
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher

#: Shares a word with the fact, and no more.
NEAR = "Rename the field of the invoice table, and let the watcher of the stock exchange know"
ELSEWHERE = "Please write a poem about the harbour of Lisbon in autumn"
ASKED = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "cwd": "/dev/lab/proj", "prompt": PROMPT}


def became(memory: Scene, session: str = "s1") -> list[Outcome]:
    return prompt_outcomes.outcomes_of_session(memory.store, session)


def verdicts(memory: Scene, session: str = "s1") -> list[tuple[Channel, Verdict]]:
    return [(outcome.channel, outcome.verdict) for outcome in became(memory, session)]


def fingerprint(memory: Scene) -> str:
    """A hash of every row of memory.db, and of every other file in the memory folder."""
    rows = [memory.store.rows(f'SELECT * FROM "{table._meta.table_name}"') for table in tables.ALL_TABLES]
    files = sorted(path for path in memory.settings.places.root.rglob("*") if path.is_file())
    names = [f"{path} {path.read_bytes().hex()}" for path in files if "memory.db" not in path.name]
    return hashlib.sha256(repr([rows, names]).encode()).hexdigest()


class TestRecord:
    def test_a_bite_is_recorded_with_its_relevance_its_floor_and_its_features(self, memory: Scene) -> None:
        kept = memory.keep()

        assert memory.ask(prompt_id="p1")

        (outcome,) = became(memory)
        (shown,) = [candidate for candidate in outcome.considered if candidate.verdict is Verdict.SHOWN]
        (injected,) = injections.injections_of_session(memory.store, "s1")
        assert (outcome.channel, outcome.verdict, outcome.prompt_key) == (Channel.PROMPT, Verdict.SHOWN, "p1")
        assert outcome.project_id == memory.project.id
        assert shown.episode_id == kept.episode_id == injected.episode_id
        assert shown.score == outcome.score == injected.score
        assert shown.score >= shown.floor == outcome.floor
        assert set(shown.features) == set(FEATURES)
        assert outcome.is_text_only

    def test_of_what_was_not_shown_the_best_is_recorded(self, memory: Scene) -> None:
        memory.keep()

        assert memory.ask(NEAR) == ""

        (outcome,) = became(memory)
        (candidate,) = outcome.considered
        assert outcome.verdict is candidate.verdict is Verdict.BELOW_FLOOR
        assert outcome.score is not None
        assert outcome.floor is not None
        assert 0 < outcome.score < outcome.floor

    def test_no_word_of_the_prompt_or_a_memory_is_stored(self, memory: Scene) -> None:
        memory.keep()
        memory.ask(prompt_id="p1")

        rows = memory.store.fetch(tables.Outcome.select()) + memory.store.fetch(tables.OutcomeCandidate.select())

        assert rows
        assert not {word for word in (PROMPT + FACT).lower().split() if len(word) > 4} & set(
            str(rows).lower().replace("'", " ").split()
        )

    @pytest.mark.parametrize(
        ("fields", "verdict"),
        [
            ({"prompt": "yes"}, Verdict.TOO_SHORT),
            ({"prompt": "/clear"}, Verdict.TOO_SHORT),
            ({"prompt": "<task-notification>flock</task-notification>"}, Verdict.NOT_TYPED),
            ({"prompt": None}, Verdict.NOT_TYPED),
            ({"source": "loop_wakeup"}, Verdict.NOT_TYPED),
            ({"agent_id": "a1"}, Verdict.SUBAGENT),
            ({"cwd": "/dev/lab/unknown"}, Verdict.NOTHING_NEAR),
        ],
    )
    def test_a_silence_says_why(self, memory: Scene, fields: dict[str, Any], verdict: Verdict) -> None:
        memory.keep()

        assert memory.ask(**fields) == ""

        assert verdicts(memory) == [(Channel.PROMPT, verdict)]

    @pytest.mark.parametrize(
        ("fields", "verdict"),
        [
            ({"suspect": "relayed"}, Verdict.SUSPECT),
            ({"status": Status.ARCHIVED}, Verdict.NOT_CURRENT),
            ({"is_lowered": True}, Verdict.NOT_CURRENT),
            ({"valid_to_ms": 5}, Verdict.NOT_CURRENT),
        ],
    )
    def test_a_memory_that_may_not_be_shown_says_why_not(
        self, memory: Scene, fields: dict[str, Any], verdict: Verdict
    ) -> None:
        memory.keep(**fields)

        assert memory.ask() == ""

        (outcome,) = became(memory)
        assert outcome.verdict is verdict
        assert [candidate.verdict for candidate in outcome.considered] == [verdict]

    def test_what_was_shown_before_and_what_stands_in_the_context_say_so(self, memory: Scene) -> None:
        memory.keep()
        memory.ask(prompt_id="p1")
        memory.ask("How is watcher.lock held, and since when is flock used for it?", prompt_id="p2")
        with memory.store.transaction() as tx:
            sessions.ensure_session(
                tx, "s2", agent="claude-code", project_id=memory.project.id, is_global=False, cwd="/x", at_ms=1
            )
        memory.keep(session_id="s2", created_at_ms=memory.clock.now_ms())
        memory.ask(session="s2")

        assert [outcome.verdict for outcome in became(memory)] == [Verdict.SHOWN, Verdict.ALREADY_SHOWN]
        (second,) = became(memory, "s2")
        assert Verdict.IN_CONTEXT in [candidate.verdict for candidate in second.considered]

    def test_the_topic_of_the_last_recollection_is_a_reason(self, memory: Scene) -> None:
        memory.keep()
        memory.ask("Why does the watcher hold a flock and no PID file?", prompt_id="p1")
        memory.ask("Why does the watcher hold a flock and no PID file??", prompt_id="p2")

        assert [outcome.verdict for outcome in became(memory)] == [Verdict.SHOWN, Verdict.SAME_TOPIC]

    def test_more_memories_than_bites_say_that_there_was_no_room(self, make_memory: Callable[..., Scene]) -> None:
        memory = make_memory(bites=1)
        memory.keep()
        memory.keep("flock is let go by the kernel: hold it for the life of a watcher process, not as a PID file")

        memory.ask()

        (outcome,) = became(memory)
        assert sorted(candidate.verdict for candidate in outcome.considered) == [Verdict.NO_ROOM, Verdict.SHOWN]

    def test_a_hook_that_is_registered_twice_is_recorded_once_and_the_same_words_again_are_not(
        self, memory: Scene
    ) -> None:
        memory.keep()
        memory.ask()
        memory.ask()
        memory.clock.advance(60)
        memory.ask()

        assert [outcome.verdict for outcome in became(memory)] == [Verdict.SHOWN, Verdict.ASKED_BEFORE]

    def test_switched_off_is_recorded_and_excluded_and_paused_folders_are_not(
        self, make_memory: Callable[..., Scene]
    ) -> None:
        memory = make_memory(inject=False)
        memory.ask()
        assert [outcome.verdict for outcome in became(memory)] == [Verdict.INJECT_OFF]
        excluded = make_memory(exclude=("/dev/lab/*",))
        for prompt in (PROMPT, "yes"):
            excluded.ask(prompt, session="s2")
        paused = make_memory()
        pause(paused.store, paused.project.identity, paused.clock.now_ms() + 1000)
        for prompt in (PROMPT, "yes"):
            paused.ask(prompt, session="s3")

        assert became(paused, "s2") == became(paused, "s3") == []

    def test_nothing_is_recorded_for_no_days_and_what_is_there_goes(self, make_memory: Callable[..., Scene]) -> None:
        make_memory().ask()

        memory = make_memory(outcome_days=0)
        memory.ask("Why no PID file in the watcher?", prompt_id="p2")
        memory.clock.advance(1)
        memory.service.tidy()

        assert became(memory) == []

    def test_what_is_older_than_its_days_goes_with_tidying(self, memory: Scene) -> None:
        memory.ask(prompt_id="p1")
        memory.clock.advance(memory.settings.outcome_days * 86_400 - 1)
        memory.ask(ELSEWHERE, prompt_id="p2")
        memory.service.tidy()
        assert len(became(memory)) == 2

        memory.clock.advance(2)
        memory.service.tidy()

        assert [outcome.prompt_key for outcome in became(memory)] == ["p2"]


class TestLateBites:
    def test_a_prompt_that_no_hook_asked_about_waits_and_is_shown(self, memory: Scene) -> None:
        memory.keep()
        memory.type_prompt()

        assert memory.service.recollect("s1")
        assert verdicts(memory) == [(Channel.TOOL, Verdict.PENDING)]
        memory.hand_over()
        memory.service.tidy()

        (outcome,) = became(memory)
        assert outcome.verdict is Verdict.SHOWN
        assert [candidate.verdict for candidate in outcome.considered] == [Verdict.SHOWN]

    def test_what_is_never_claimed_is_withdrawn(self, memory: Scene) -> None:
        memory.keep()
        memory.type_prompt()
        memory.service.recollect("s1")

        memory.ask(ELSEWHERE, prompt_id="p2")

        first, second = became(memory)
        assert (first.verdict, first.considered[0].verdict) == (Verdict.WITHDRAWN, Verdict.WITHDRAWN)
        assert second.verdict is Verdict.NOTHING_NEAR

    def test_a_silent_one_is_recorded_as_the_prompts_and_once(self, memory: Scene) -> None:
        memory.keep()
        memory.type_prompt(ELSEWHERE)
        at_ms = memory.clock.now_ms()
        memory.clock.advance(5)

        for _ in range(2):
            memory.service.recollect("s1")
        memory.service.tidy()

        assert [(outcome.channel, outcome.at_ms) for outcome in became(memory)] == [(Channel.PROMPT, at_ms)]

    @pytest.mark.parametrize("is_written", [False, True])
    def test_an_answer_that_came_too_late_says_so_and_waits(self, memory: Scene, is_written: bool) -> None:
        memory.keep()
        memory.service.answer_hook(ASKED)
        if is_written:
            memory.service.write_down()

        memory.service.came_too_late(ASKED)

        assert sorted(verdicts(memory)) == [(Channel.PROMPT, Verdict.TOO_LATE), (Channel.TOOL, Verdict.PENDING)]

    def test_a_call_that_a_shown_memory_names_is_recorded_once_and_other_calls_are_not(self, memory: Scene) -> None:
        kept = memory.keep("pyproject.toml pins torch, the newest breaks the exporter", entities=("pyproject.toml",))
        memory.ask("What pins torch in pyproject.toml, and what breaks the exporter?", prompt_id="p1")
        assert [candidate.episode_id for candidate in became(memory)[0].considered] == [kept.episode_id]

        for _ in range(2):
            memory.service.about_tool("s1", files=("/dev/lab/proj/pyproject.toml",))
            memory.service.about_tool("s1", files=("/dev/lab/proj/other.py",))
        memory.service.tidy()

        assert verdicts(memory)[1:] == [(Channel.TOOL, Verdict.ALREADY_SHOWN)]


class TestBriefing:
    def test_a_briefing_is_recorded_with_its_memories(self, memory: Scene) -> None:
        kept = memory.keep(is_pinned=True)

        assert memory.start()

        (outcome,) = became(memory)
        assert (outcome.channel, outcome.verdict) == (Channel.START, Verdict.SHOWN)
        assert [candidate.episode_id for candidate in outcome.considered] == [kept.episode_id]

    def test_one_that_came_too_late_says_so(self, memory: Scene) -> None:
        memory.keep(is_pinned=True)
        asked = {
            "hook_event_name": "SessionStart",
            "session_id": "s1",
            "cwd": "/dev/lab/proj",
            "source": "startup",
        }
        memory.service.answer_hook(asked)

        memory.service.came_too_late(asked)

        assert [outcome.verdict for outcome in became(memory)] == [Verdict.TOO_LATE]


class TestDryRun:
    @pytest.mark.parametrize("prompt", [PROMPT, ELSEWHERE, "yes", "/clear", "How is the lock of the watcher held?"])
    def test_it_decides_what_the_hook_decides_and_leaves_no_trace(self, memory: Scene, prompt: str) -> None:
        memory.keep()
        memory.keep("A PID file goes stale after a crash; the watcher then refused to start")
        memory.keep("flock watcher PID file: everywhere", scope=Scope.GLOBAL)
        memory.keep("flock watcher PID file: a suspect one", suspect="relayed")
        before = fingerprint(memory)

        dry = memory.service.explain(prompt, project=memory.project)
        memory.service.write_down()

        assert fingerprint(memory) == before
        real = memory.ask(prompt, prompt_id="p1")
        (outcome,) = became(memory)
        assert bool(dry.output) is bool(real)
        assert dry.outcome.considered == outcome.considered
        assert (dry.outcome.verdict, dry.outcome.score) == (outcome.verdict, outcome.score)

    def test_in_a_session_it_knows_what_that_was_shown_and_takes_nothing_from_it(self, memory: Scene) -> None:
        memory.keep()
        memory.type_prompt()
        memory.service.recollect("s1")
        before, waiting = fingerprint(memory), memory.waiting()

        dry = memory.service.explain(PROMPT, session_id="s1")

        assert dry.outcome.verdict is Verdict.SHOWN
        assert (fingerprint(memory), memory.waiting()) == (before, waiting)
        memory.hand_over()
        memory.service.tidy()
        assert memory.service.explain(PROMPT, session_id="s1").outcome.verdict is not Verdict.SHOWN

    def test_it_sees_the_project_that_is_asked_about_and_no_other(self, memory: Scene) -> None:
        memory.keep()
        with memory.store.transaction() as tx:
            other = projects.ensure_project(tx, "/dev/lab/other", "other", "/dev/lab/other")

        assert memory.service.explain(PROMPT, project=memory.project).output
        for asked in (memory.service.explain(PROMPT, project=other), memory.service.explain(PROMPT)):
            assert (asked.output, asked.selection.rated) == (b"", ())

    def test_a_saved_memory_of_no_session_is_not_in_the_context_of_a_new_one(self, memory: Scene) -> None:
        memory.keep(session_id="")

        assert memory.service.explain(PROMPT, project=memory.project).outcome.verdict is Verdict.SHOWN

    def test_a_paused_project_says_so(self, memory: Scene) -> None:
        pause(memory.store, memory.project.identity, memory.clock.now_ms() + 1000)

        for prompt in (PROMPT, "yes"):
            assert memory.service.explain(prompt, project=memory.project).outcome.verdict is Verdict.PAUSED


class TestWriting:
    def test_an_answer_needs_no_write_lock_and_its_record_comes_with_the_next(self, memory: Scene) -> None:
        memory.keep()
        memory.store.rows("PRAGMA busy_timeout = 1")
        other = open_store(memory.store.path)

        with other.transaction():
            assert memory.service.answer_hook(ASKED)
            with pytest.raises(StoreError):
                memory.service.write_down()
        other.close()
        memory.service.tidy()

        assert [outcome.verdict for outcome in became(memory)] == [Verdict.SHOWN]
        assert len(injections.injections_of_session(memory.store, "s1")) == 1

    def test_while_one_thread_stores_the_others_leave_theirs_to_it(self, memory: Scene) -> None:
        memory.keep()
        ledger = memory.service._ledger
        seen: list[int] = []

        def answer_meanwhile() -> None:
            # Another hook is answered while this thread waits for the write lock.
            memory.service.answer_hook(ASKED | {"session_id": "s2"})
            memory.service.write_down()
            seen.append(len(became(memory, "s2")))

        ledger._writers.append(("", answer_meanwhile))
        memory.service.answer_hook(ASKED)
        memory.service.write_down()

        assert seen == [0], "the second thread did not wait"
        assert [len(became(memory, session)) for session in ("s1", "s2")] == [1, 1]
        assert [len(injections.injections_of_session(memory.store, session)) for session in ("s1", "s2")] == [1, 1]

    def test_no_more_than_so_many_wait_on_a_full_disk(self, memory: Scene) -> None:
        ledger = memory.service._ledger
        outcome = Outcome(session_id="s1", channel=Channel.PROMPT, verdict=Verdict.TOO_SHORT, at_ms=1)
        for number in range(1_100):
            ledger.record(replace(outcome, at_ms=number))

        memory.service.write_down()

        assert len(became(memory)) == 1_000
        assert became(memory)[0].at_ms == 100

    def test_bites_and_starts_that_wait_are_limited_too(self, memory: Scene) -> None:
        ledger = memory.service._ledger
        bite = Bite("ep_000000000001", "A line.", 0, Importance.NORMAL, Voice.ASSISTANT, 0.9, ())
        for number in range(1_100):
            ledger.note_shown(f"s{number}", "p1", [bite])
            ledger.note_context_start(f"s{number}")

        memory.service.write_down()

        assert not ledger._has_unwritten()
        assert [ledger.shown_ids(session) for session in ("s99", "s100")] == [set(), {bite.episode_id}]


def test_the_model_counts_as_such(memory: Scene) -> None:
    from engram.embedding.hashed import HashedEmbedder
    from engram.search.vectors.loaded_vectors import embed_missing

    embedder = HashedEmbedder()
    memory.keep()
    embed_missing(memory.store, embedder, 10)
    searcher = Searcher(memory.store, memory.settings, embedder=embedder)
    searcher.refresh()
    service = RecollectionService(memory.store, searcher, memory.settings, embedder=embedder)

    assert not service.explain(PROMPT, project=memory.project).outcome.is_text_only
    assert memory.service.explain(PROMPT, project=memory.project).outcome.is_text_only
