"""The report counts what was read, kept, shown and opened; its line is said once a week, whoever races."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from transcript_lines import say

from engram.cli.main import engram as root_command
from engram.enums import Actor
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes
from engram.models.memories.memory_records import Memory
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.sessions import sessions
from engram.models.shown import injections
from engram.models.shown.injections import Injection
from engram.redaction import redact
from engram.reports.use_report import report_of_days
from engram.settings import Settings
from engram.system.clock import DAY_MS, FixedClock

USED = "ep_0000000000b1"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    return made


@pytest.fixture
def clock() -> FixedClock:
    return FixedClock(at_ms=1_771_545_600_000)


@pytest.fixture
def store(settings: Settings, clock: FixedClock, tmp_path: Path) -> Iterator[Store]:
    """Two sessions of this week in two projects, of which one has a memory, which was shown twice and opened."""
    with open_store(settings.places.memory_db, clock=clock) as opened:
        found = {}
        for name, prompts in (("alpha", 2), ("beta", 1)):
            session = str(uuid.uuid4())
            path = settings.projects_folder / name / f"{session}.jsonl"
            for number in range(prompts):
                at = "2026-02-19T10:00:00.000Z"
                say(path, "user", f"Prompt {number} of {name}, please.", cwd=str(tmp_path / name), at=at)
                say(path, "assistant", "Done.", cwd=str(tmp_path / name), at=at)
            ingest_path(opened, path, settings=settings, redact=redact, close=True)
            row = sessions.find_session(opened, session)
            assert row is not None
            found[name] = row.project_id
        with opened.transaction() as tx:
            memory = Memory(
                episode_id=USED,
                kind="fact",
                extractor="openai-m",
                summary="The cache lives in SQLite",
                content="",
                project_id=found["alpha"],
                created_at_ms=clock.now_ms() - DAY_MS,
            )
            memory_changes.add_memory(tx, memory, [], actor=Actor.MODEL)
            for channel in ("prompt", "tool", injections.AT_START):
                given = Injection("s-1", channel, channel, USED, 0.5, 5, "shown", clock.now_ms() - DAY_MS)
                injections.add_injections(tx, [given])
        memory_changes.note_access(opened, USED, session_id="s-1")
        yield opened


def project(store: Store, name: str) -> int:
    project = projects.find_project(store, name)
    assert project is not None
    return project.id


def test_the_report_counts_the_days_it_covers(store: Store, clock: FixedClock) -> None:
    usage = report_of_days(store, 7)

    assert (usage.sessions, usage.prompts, usage.memories, usage.shown, usage.opened) == (2, 3, 1, 3, 1)
    assert usage.projects_with_none == ("beta",)
    assert usage.most_used is not None
    assert (usage.most_used.summary, usage.most_used.project) == ("The cache lives in SQLite", "alpha")
    clock.advance(30 * 86_400)
    later = report_of_days(store, 7)
    assert (later.sessions, later.prompts, later.memories, later.shown, later.opened) == (0, 0, 0, 0, 0)
    assert later.most_used is None


def test_the_command_names_the_memory_and_the_projects(store: Store) -> None:
    days = str(report_days_until_now(store))

    def engram(*words: str) -> str:
        result = CliRunner().invoke(root_command, ["report", "--days", days, *words])
        assert result.exit_code == 0, (result.output, result.exception)
        return result.stdout

    text, found = engram(), json.loads(engram("--json"))

    assert f"used most        The cache lives in SQLite ({USED}, alpha, 4 times)" in text
    assert "nothing kept in  “beta”" in text
    assert (found["prompts"], found["most_used"]["episode_id"]) == (3, USED)


def test_a_history_that_was_just_read_is_not_called_nothing(store: Store) -> None:
    text = CliRunner().invoke(root_command, ["report", "--days", "1"]).stdout

    assert "before that      2 sessions, 3 prompts\n" in text


def report_days_until_now(store: Store) -> int:
    """Days that reach from the present back to what the fixture made."""
    import time

    return int((time.time() * 1000 - store.now_ms()) / DAY_MS) + 8
