"""Prompts whose transcripts are gone are read from Claude Code's history: once, as the user's, and as nothing more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from growing_transcript import Ingest, MakeTranscript

from engram.enums import Actor
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.forgetting.whole_project import forget_project
from engram.ingest.read_sources import ingest_all
from engram.ingest.session_project import named_project
from engram.models.engine.transaction import Store
from engram.models.rescue.soundness import find_all_damage
from engram.models.sessions.sessions import list_sessions
from engram.models.sessions.stored_turns import turns_of_session
from engram.models.work.work import pause
from engram.redaction import redact
from engram.reports.session_report import Activity, find_activity
from engram.search.searcher import Query, Searcher
from engram.settings import Settings
from engram.transcripts.turns import Role

AT_MS = 1_767_225_600_000
GONE = "94384aab-e85f-45e3-8f92-75b1405840d8"


class History:
    """A history.jsonl that grows."""

    def __init__(self, store: Store, settings: Settings) -> None:
        """An empty one."""
        self.store, self.settings = store, settings
        self.path = settings.claude_folder / "history.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.count = 0

    def add(self, display: str, session: str | None = GONE, **fields: Any) -> None:
        """Write a line, a second after the one before."""
        self.count += 1
        line = {"display": display, "pastedContents": {}, "timestamp": AT_MS + 1000 * self.count, "project": "/dev/lab"}
        line |= fields | ({} if session is None else {"sessionId": session})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def read(self, **changes: Any) -> list[str]:
        """Read everything there is; returns the prompts that are stored, by time."""
        ingest_all(self.store, settings=replace(self.settings, **changes), redact=redact)
        assert find_all_damage(self.store) == ""
        return self.prompts()

    def prompts(self) -> list[str]:
        """Return the words of persons that are stored, by time."""
        return [block.text for block in self.blocks() if block.role is Role.USER]

    def blocks(self) -> list[Any]:
        """Return all texts that are stored, by time."""
        turns = [one.turn for session in list_sessions(self.store) for one in turns_of_session(self.store, session.id)]
        return [block for turn in sorted(turns, key=lambda turn: turn.started_at_ms or 0) for block in turn.said]

    def found(self, question: str) -> list[str]:
        """Return the passages that a search by words finds."""
        searcher = Searcher(self.store, self.settings)
        return [hit.text for hit in searcher.search(Query(question, limit=20))]


@pytest.fixture
def history(store: Store, settings: Settings) -> History:
    """An empty history beside no transcript."""
    return History(store, settings)


def test_what_was_typed_is_the_users_and_is_found(history: History) -> None:
    history.add("why does the harbor crane stop\nat noon")
    history.add("/review the crane's brakes")
    history.add("# the crane needs two operators")

    assert history.read() == [
        "why does the harbor crane stop\nat noon",
        "/review the crane's brakes",
        "the crane needs two operators",
    ]
    assert any("brakes" in text for text in history.found("brakes of the crane"))
    (session,) = list_sessions(history.store)
    assert (session.agent, session.cwd) == ("claude-code-history", "/dev/lab")


def test_a_session_whose_transcript_is_gone_is_over(history: History, make_transcript: MakeTranscript) -> None:
    history.add("why does the harbor crane stop", timestamp=history.store.now_ms() - 2 * 3_600_000)
    history.read()
    (session,) = list_sessions(history.store)

    assert find_activity(history.store, session, history.settings) is Activity.OVER


@pytest.mark.parametrize(
    "display",
    [
        *["/cost", "/clear ", "/engram how is it held", "/engram wrong 1"],
        *["!echo hello", "", "   ", "#", "<task-notification>x</task-notification>"],
    ],
)
def test_what_asks_nothing_is_not_a_prompt(history: History, display: str) -> None:
    history.add(display)
    assert history.read() == []


@pytest.mark.parametrize("is_cached", [False, True])
def test_pasted_text_is_found_and_is_not_the_users(history: History, is_cached: bool) -> None:
    pasted = "line 7 of the log: winch overload at 40 tons"
    content: dict[str, Any] = {"id": 1, "type": "text", "content": pasted}
    if is_cached:
        content = {"id": 1, "type": "text", "contentHash": "9dc2fa3272cff766"}
        cache = history.path.parent / "paste-cache"
        cache.mkdir()
        (cache / "9dc2fa3272cff766.txt").write_text(pasted)
    history.add("look at this: [Pasted text #1 +11 lines]", pastedContents={"1": content})

    assert history.read() == ["look at this: [Pasted text #1 +11 lines]"]
    assert [block.role for block in history.blocks() if block.text == pasted] == [Role.CONTEXT]
    assert pasted in history.found("winch overload")


@pytest.mark.parametrize("content", [None, "text", {"1": None}, {"1": {"type": "text", "contentHash": "../../etc"}}])
def test_a_paste_that_is_gone_or_broken_costs_nothing(history: History, content: object) -> None:
    history.add("look: [Pasted text #1 +11 lines]", pastedContents=content)
    assert history.read() == ["look: [Pasted text #1 +11 lines]"]


def test_what_a_transcript_tells_is_not_told_again(
    history: History, make_transcript: MakeTranscript, ingest: Ingest
) -> None:
    transcript = make_transcript(GONE, cwd="/dev/lab")
    transcript.user("why does the harbor crane stop")
    history.add("why does the harbor crane stop")
    history.add("and the winch?", session="another")

    assert history.read() == ["why does the harbor crane stop", "and the winch?"]
    transcript.path.unlink()
    history.add("a line that its transcript had, too")
    assert history.read() == ["why does the harbor crane stop", "and the winch?"]


def test_without_a_session_the_time_tells_what_is_stored(
    history: History, make_transcript: MakeTranscript, ingest: Ingest
) -> None:
    transcript = make_transcript("s1", cwd="/dev/lab")
    transcript.user("why does the harbor crane stop")
    (asked,) = history.read()
    at_ms = next(block.at_ms for block in history.blocks())
    history.add(asked, session=None, timestamp=at_ms + 400)
    history.add("an older one", session=None, timestamp=at_ms - 3_600_000)

    assert history.read() == ["an older one", asked]


def test_a_history_that_grows_or_is_pruned_doubles_and_loses_nothing(history: History) -> None:
    for word in ("anchor", "winch", "rudder"):
        history.add(f"where is the {word}")
    assert len(history.read()) == 3
    lines = history.path.read_text().splitlines(keepends=True)
    history.path.write_text("".join(lines[1:]))
    history.add("where is the capstan")
    with history.path.open("a") as file:
        file.write('{"display": "half a li')

    asked = [f"where is the {word}" for word in ("anchor", "winch", "rudder", "capstan")]
    assert history.read() == asked
    assert history.read() == asked


@pytest.mark.parametrize(
    "line", ["", "no json", "[]", '{"display": 3}', '{"display": "x", "timestamp": "now"}', "{" * 9000]
)
def test_broken_lines_cost_only_themselves(history: History, line: str) -> None:
    history.add("before")
    with history.path.open("a") as file:
        file.write(line + "\n")
    history.add("after the line")
    assert history.read() == ["before", "after the line"]


def test_it_never_makes_a_memory(history: History) -> None:
    history.add("From now on always use pnpm in this repository, never npm.")
    history.read()
    (session,) = list_sessions(history.store)

    extract_session(
        history.store, session.session_id, extractor=LocalExtractor(), embedder=None, settings=history.settings
    )

    assert history.store.value("SELECT COUNT(*) FROM episode") == 0
    assert history.store.value("SELECT COUNT(*) FROM turn WHERE extracted_revision < revision") == 0


def test_secrets_are_masked_before_they_are_stored(history: History) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    history.add(f"use {secret} [Pasted text #1 +1 lines]", pastedContents={"1": {"type": "text", "content": secret}})
    history.read()
    history.store.checkpoint()

    assert all(secret not in block.text for block in history.blocks())
    assert secret.encode() not in history.store.path.read_bytes()


@pytest.mark.parametrize("how", ["switched off", "excluded", "paused", "everything paused", "not read"])
def test_nothing_is_stored_of_what_is_not_to_be_read(history: History, how: str) -> None:
    history.add("why does the harbor crane stop")
    changes: dict[str, Any] = {}
    if how == "switched off":
        changes = {"prompt_history": False}
    elif how == "excluded":
        changes = {"exclude": ("/dev/lab",)}
    elif how == "not read":
        changes = {"capture": False}
    else:
        scope = "" if how == "everything paused" else "/dev/lab"
        pause(history.store, scope, history.store.now_ms() + 1_000_000)
    assert history.read(**changes) == []


def test_what_was_forgotten_does_not_come_back(history: History) -> None:
    history.add("why does the harbor crane stop")
    history.read()
    forget_project(history.store, history.settings.places, named_project(history.store, "lab"), actor=Actor.USER)
    history.path.write_text(history.path.read_text() + "\n")

    assert history.read() == []
    assert history.found("harbor crane") == []


def test_a_session_in_progress_is_left_to_its_transcript(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    from engram.transcripts.claude_code import history as module

    monkeypatch.setattr(module, "QUIET_MS", 10**14)
    history.add("why does the harbor crane stop")
    assert history.read() == []


def test_the_lines_of_a_real_history_are_read(store: Store, settings: Settings, shared: Path) -> None:
    sample = shared / "fixtures" / "history-2.1.332.jsonl"
    if not sample.is_file():
        pytest.skip("the sample of a history is not at hand")
    settings.claude_folder.mkdir(parents=True)
    (settings.claude_folder / "history.jsonl").write_bytes(sample.read_bytes())
    history = History(store, settings)

    assert history.read() == [
        "plain prompt about the queue",
        "look at this: one line of pasted text",
        "look at this: [Pasted text #1 +11 lines]",
        "look at this: [Pasted text #2 +119 lines]",
        "first line\nsecond line",
        "remember this",
    ]
    assert any(block.text.startswith("line 0 of the pasted log") for block in history.blocks())
