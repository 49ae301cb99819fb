"""A session is not told what it said itself, not even what is extracted or joined while a question is answered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import pytest
from recollecting import FACT, Scene

from engram.enums import Actor, Kind, Scope
from engram.memories.correct import correct_memory
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory, merge_evidence
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.sessions.sessions import ensure_session, note_copied_history
from engram.recollection import past_fixes, session_briefing
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.hits import Hit
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.search.support import Floor, Support

TASK = "Find out why the watcher holds a flock and no PID file, and report the reason."
OWN = "s1"


@dataclass
class InterruptedSearcher:
    """A search during which something else is stored: after the question was asked, before memories are read."""

    searcher: Searcher
    meanwhile: list[Callable[[], object]] = field(default_factory=list)

    def recall(self, query: Query) -> Sequence[Hit]:
        while self.meanwhile:
            self.meanwhile.pop()()
        return self.searcher.recall(query)

    def support(self, query: Query, hits: Sequence[Hit]) -> Support:
        return self.searcher.support(query, hits)

    def quotable(self, query: Query, floor: Floor | None = None) -> tuple[Sequence[Hit], Support]:
        return self.searcher.quotable(query, floor)


@dataclass
class Echo:
    """A memory whose search is interrupted."""

    memory: Scene
    searcher: InterruptedSearcher

    def extract(self, session: str = OWN, **fields: object) -> Memory:
        """What an extraction stores of a session."""
        self.know(session)
        made = Memory(
            new_memory_id(),
            Kind.DECISION,
            FACT,
            FACT,
            session_id=session,
            project_id=self.memory.project.id,
            quality=0.75,
            extractor="openai-m",
            entities=("watcher.py",),
        )
        with self.memory.store.transaction() as tx:
            uuid = f"{new_memory_id()} of {session}"
            return add_memory(tx, made, [Evidence(uuid, session)], actor=Actor.MODEL)

    def know(self, session: str) -> None:
        with self.memory.store.transaction() as tx:
            ensure_session(
                tx,
                session,
                agent="claude-code",
                project_id=self.memory.project.id,
                is_global=False,
                cwd="/dev/lab/proj",
                at_ms=self.memory.clock.now_ms(),
            )

    def join(self, host: Memory) -> None:
        """What tidying does with a memory of the session that says the same as one of another session."""
        made = self.extract()
        with self.memory.store.transaction() as tx:
            merge_evidence(tx, host, made, actor=Actor.TIDYING)
            tx.run("UPDATE episode SET status = 'archived' WHERE id = ?", [made.id])

    def fork(self, source: str) -> None:
        """What reading the transcript of a fork notes."""
        with self.memory.store.transaction() as tx:
            note_copied_history(tx, OWN, source, self.memory.clock.now_ms() + 1)


@pytest.fixture
def echo(memory: Scene) -> Echo:
    searcher = InterruptedSearcher(Searcher(memory.store, memory.settings))
    memory.service = RecollectionService(memory.store, searcher, memory.settings)
    return Echo(memory, searcher)


def extracted(echo: Echo) -> Callable[[], object]:
    return echo.extract


def joined(echo: Echo) -> Callable[[], object]:
    return partial(echo.join, echo.extract("elsewhere"))


def read_as_a_fork(echo: Echo) -> Callable[[], object]:
    echo.extract("source")
    return partial(echo.fork, "source")


def saved(echo: Echo) -> Callable[[], object]:
    return lambda: save_memory(
        echo.memory.store,
        FACT,
        redact,
        project_id=echo.memory.project.id,
        session_id=OWN,
        actor=Actor.AGENT,
        kind=Kind.DECISION,
    )


def corrected(echo: Echo) -> Callable[[], object]:
    wrong = echo.memory.keep("The build needs an hour", scope=Scope.GLOBAL)
    return lambda: correct_memory(
        echo.memory.store, wrong.episode_id, FACT, "it was looked up", redact, session_id=OWN, actor=Actor.AGENT
    )


WAYS = [extracted, joined, read_as_a_fork, saved, corrected]


def prompt(echo: Echo) -> str:
    return echo.memory.ask()


def late_bite(echo: Echo) -> str:
    echo.memory.type_prompt()
    echo.memory.service.recollect(OWN)
    return echo.memory.waiting()


def refreshed_bite(echo: Echo) -> str:
    interruption = list(echo.searcher.meanwhile)
    echo.searcher.meanwhile.clear()
    echo.memory.ask()
    echo.searcher.meanwhile += interruption
    echo.memory.service.refresh(OWN)
    return echo.memory.waiting()


def tool_call(echo: Echo) -> str:
    interruption = list(echo.searcher.meanwhile)
    echo.searcher.meanwhile.clear()
    echo.memory.ask("Please look at the third task of the list of tasks.")
    echo.searcher.meanwhile += interruption
    echo.memory.service.about_tool(OWN, files=["/dev/lab/proj/watcher.py"])
    return echo.memory.waiting()


def subagent(echo: Echo) -> str:
    base = {"session_id": OWN, "cwd": "/dev/lab/proj"}
    given = {"description": "look", "prompt": TASK, "subagent_type": "Explore"}
    echo.memory.answer(base | {"hook_event_name": "PreToolUse", "tool_name": "Agent", "tool_input": given})
    return echo.memory.answer(base | {"hook_event_name": "SubagentStart", "agent_id": "a1", "agent_type": "Explore"})


CHANNELS = [prompt, late_bite, refreshed_bite, tool_call]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("channel", CHANNELS)
def test_what_the_session_said_is_barred_though_it_comes_while_the_search_runs(
    echo: Echo, way: Callable[[Echo], Callable[[], object]], channel: Callable[[Echo], str]
) -> None:
    echo.searcher.meanwhile.append(way(echo))

    assert FACT not in channel(echo)
    assert echo.searcher.meanwhile == []


@pytest.mark.parametrize("channel", CHANNELS)
def test_what_another_session_said_meanwhile_is_told(echo: Echo, channel: Callable[[Echo], str]) -> None:
    echo.searcher.meanwhile.append(partial(echo.extract, "elsewhere"))

    assert FACT in channel(echo)


def test_a_subagent_is_told_what_its_parent_said_since_it_starts_with_an_empty_context(echo: Echo) -> None:
    echo.extract()

    assert FACT in subagent(echo)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", ["startup", "missed"])
def test_a_briefing_is_not_told_it_either(
    echo: Echo, monkeypatch: pytest.MonkeyPatch, way: Callable[[Echo], Callable[[], object]], source: str
) -> None:
    def interrupted(store: Store, **choice: object) -> list[Memory]:
        while echo.searcher.meanwhile:
            echo.searcher.meanwhile.pop()()
        return read(store, **choice)  # type: ignore[arg-type]

    read = session_briefing.latest_memories
    monkeypatch.setattr(session_briefing, "latest_memories", interrupted)
    echo.memory.keep("The port of the page is 7411", extractor="manual", source="manual")
    echo.searcher.meanwhile.append(way(echo))
    if source == "missed":
        echo.memory.service.never_asked(
            {"hook_event_name": "SessionStart", "session_id": OWN, "cwd": "/dev/lab/proj", "source": "startup"}
        )
        text = echo.memory.ask("What is the next task on the list, please?")
    else:
        text = echo.memory.start(source)

    assert "7411" in text
    assert FACT not in text
    assert echo.searcher.meanwhile == []


def test_a_fork_that_is_not_read_yet_is_told_nothing_of_failures_its_context_may_hold(
    echo: Echo, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(past_fixes, "earlier_failures", lambda *_: asked.append("asked") or [])
    failure = {
        "hook_event_name": "PostToolUseFailure",
        "cwd": "/dev/lab/proj",
        "tool_name": "Bash",
        "tool_input": {"command": "go test ./..."},
        "error": "Exit code 1\npanic: runtime error: invalid memory address or nil pointer dereference\nFAIL",
    }
    echo.memory.start("fork", session="new fork")
    echo.memory.answer(failure | {"session_id": "new fork"})
    assert asked == []

    echo.memory.start("startup", session="plain")
    echo.memory.answer(failure | {"session_id": "plain"})
    assert asked == ["asked"]
