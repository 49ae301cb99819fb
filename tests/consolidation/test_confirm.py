"""What makes a provisional memory active, and what does not."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from transcript_lines import say

from engram.consolidation.consolidation_run import consolidate
from engram.enums import Status
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_history import sessions_grown_since
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.text.subject import agrees

SESSION = "11111111-2222-3333-4444-555555555555"
Keep = Callable[..., Memory]


class Transcript:
    """One session's file, read after each line."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self.path: Path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
        self.path.parent.mkdir(parents=True)

    def add(self, role: str, content: object) -> str:
        entry = say(self.path, role, content, at="2026-01-01T10:00:00.000Z")
        ingest_path(self.store, self.path, settings=self.settings, redact=redact)
        return entry

    def ask(self, text: str) -> str:
        return self.add("user", text)

    def say(self, text: str) -> str:
        return self.add("assistant", [{"type": "text", "text": text}])

    def run(self, command: str, *, fails: bool = False) -> None:
        self.tool("Bash", {"command": command}, fails)

    def edit(self, file: str) -> None:
        self.tool("Edit", {"file_path": file, "old_string": "a", "new_string": "b"}, False)

    def tool(self, name: str, given: dict[str, str], fails: bool) -> None:
        call = f"toolu_{uuid.uuid4().hex}"
        self.add("assistant", [{"type": "tool_use", "id": call, "name": name, "input": given}])
        result = {
            "type": "tool_result",
            "tool_use_id": call,
            "content": "Exit code 1" if fails else "ok",
            "is_error": fails,
        }
        self.add("user", [result])

    def evidence(self, entry: str) -> list[Evidence]:
        turns = turns_of_session(self.store, 1)
        turn = next(t for t in turns if any(e.uuid == entry for e in t.turn.entries))
        return [Evidence(entry, SESSION, turn.id)]


@pytest.fixture
def transcript(store: Store, settings: Settings) -> Transcript:
    return Transcript(store, settings)


def status(store: Store, memory: Memory) -> str:
    found = memory_records.find_memory(store, memory.episode_id)
    assert found is not None
    return found.status


@pytest.mark.parametrize(
    "answer",
    [
        "yes",
        "Yes, do it",
        "exactly!",
        "ok go ahead",
        "sounds good",
        "LGTM",
        "perfect, thanks",
        "let's go with that",
        "sure",
    ],
)
def test_a_short_yes_agrees(answer: str) -> None:
    assert agrees(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "yes, but not in the worker",
        "no",
        "hm",
        "What about the cache?",
        "ok, wait, don't",
        "yesterday it failed",
        "right, however the test fails",
        "use redis",
        "",
    ],
)
def test_a_question_an_objection_or_a_yes_but_does_not(answer: str) -> None:
    assert not agrees(answer)


@pytest.mark.parametrize(("answer", "expected"), [("yes, do it", "active"), ("hm, why?", "provisional")])
def test_a_proposal_is_confirmed_when_the_next_prompt_agrees(
    store: Store, settings: Settings, transcript: Transcript, keep: Keep, answer: str, expected: str
) -> None:
    transcript.ask("Where should the cache live?")
    entry = transcript.say("I propose SQLite for the cache.")
    made = keep(
        "The cache lives in SQLite", status=Status.PROVISIONAL, session_id=SESSION, evidence=transcript.evidence(entry)
    )
    transcript.ask(answer)

    consolidate(store, settings, is_forced=True)

    assert status(store, made) == expected


def test_only_the_last_words_before_the_answer_are_agreed_to(
    store: Store, settings: Settings, transcript: Transcript, keep: Keep
) -> None:
    transcript.ask("Where should the cache live?")
    entry = transcript.say("Redis may be an option.")
    transcript.say("I propose SQLite for the cache.")
    made = keep(
        "Redis may be an option", status=Status.PROVISIONAL, session_id=SESSION, evidence=transcript.evidence(entry)
    )
    transcript.ask("yes")

    consolidate(store, settings, is_forced=True)

    assert status(store, made) == "provisional"


@pytest.mark.parametrize(
    ("command", "fails", "kind", "expected"),
    [
        ("pytest -q", False, "fix", "active"),
        ("npm run test", False, "fact", "active"),
        ("pytest -q", True, "fix", "provisional"),
        ("ls", False, "fix", "provisional"),
        ("pytest -q", False, "decision", "provisional"),
    ],
)
def test_a_fix_is_confirmed_when_a_test_passes_after_the_edit(
    store: Store,
    settings: Settings,
    transcript: Transcript,
    keep: Keep,
    command: str,
    fails: bool,
    kind: str,
    expected: str,
) -> None:
    transcript.ask("Fix the cache")
    entry = transcript.say("The lock was missing.")
    transcript.edit("/work/demo/cache.py")
    transcript.run(command, fails=fails)
    transcript.say("Done.")
    made = keep(
        "The lock was missing",
        kind=kind,
        status=Status.PROVISIONAL,
        session_id=SESSION,
        evidence=transcript.evidence(entry),
    )

    consolidate(store, settings, is_forced=True)

    assert status(store, made) == expected


def test_what_came_back_in_another_session_is_confirmed(
    store: Store, settings: Settings, transcript: Transcript, keep: Keep
) -> None:
    transcript.ask("Where?")
    entry = transcript.say("In SQLite.")
    both = [*transcript.evidence(entry), Evidence("other", "another session")]
    made = keep("In SQLite", status=Status.PROVISIONAL, session_id=SESSION, evidence=both)

    consolidate(store, settings, is_forced=True)

    assert status(store, made) == "active"


def test_a_suspect_memory_is_never_confirmed(
    store: Store, settings: Settings, transcript: Transcript, keep: Keep
) -> None:
    transcript.ask("Where?")
    entry = transcript.say("In SQLite.")
    made = keep(
        "In SQLite",
        status=Status.PROVISIONAL,
        suspect="orders",
        session_id=SESSION,
        evidence=transcript.evidence(entry),
    )
    transcript.ask("yes")

    consolidate(store, settings, is_forced=True)

    assert status(store, made) == "provisional"


def test_the_daily_log_tells_what_was_asked_decided_done_and_left_open(
    store: Store, settings: Settings, transcript: Transcript, keep: Keep
) -> None:
    transcript.ask("Where should the cache live?")
    entry = transcript.say("In SQLite.")
    transcript.edit("/work/demo/cache.py")
    transcript.run("pytest -q", fails=True)
    keep("The cache lives in SQLite", session_id=SESSION, evidence=transcript.evidence(entry))

    consolidate(store, settings, is_forced=True)

    (log,) = settings.places.daily_notes.glob("*.md")
    told = log.read_text()
    for part in ("Asked:", "Decided:\n- The cache lives in SQLite", "Changed:", "Left open:"):
        assert part in told
    store.clock.advance(DAY_SECONDS)  # type: ignore[attr-defined]
    assert sessions_grown_since(store, store.now_ms()) == []


DAY_SECONDS = 86_400


def test_turns_and_memories_outlive_the_transcript(
    store: Store, settings: Settings, transcript: Transcript, keep: Keep
) -> None:
    transcript.ask("Where should the cache live?")
    entry = transcript.say("In SQLite.")
    made = keep("The cache lives in SQLite", session_id=SESSION, evidence=transcript.evidence(entry))
    transcript.path.unlink()
    store.clock.advance(60 * DAY_SECONDS)  # type: ignore[attr-defined]
    ingest_path(store, transcript.path, settings=settings, redact=redact)

    for _ in range(3):
        consolidate(store, settings, is_forced=True)

    assert [said.text for t in turns_of_session(store, 1) for said in t.turn.said] == [
        "Where should the cache live?",
        "In SQLite.",
    ]
    found = memory_records.find_memory(store, made.episode_id)
    assert found is not None
    assert (found.status, found.content) == ("active", made.content)
