"""The report counts what was read, kept, shown and opened; its line is said once a week, whoever races."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from transcript_lines import say

from engram.clock import FixedClock
from engram.enums import Actor, Status
from engram.ingest.service import ingest_path
from engram.models import (
    episode_changes,
    injections,
    projects,
    sessions,
)
from engram.models.episodes import Episode, find_episode
from engram.models.injections import Injection
from engram.models.store import Store, open_store
from engram.recollection.briefing import build_briefing
from engram.redaction import redact
from engram.reports.usage import DAY_MS, report_of_days
from engram.settings import Settings

USED = "ep_0000000000b1"
LINE = "Engram in the last 7 days: 2 sessions and 3 prompts read, 1 memories kept, 3 shown, 1 opened"


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
            episode = Episode(
                episode_id=USED,
                kind="fact",
                extractor="openai-m",
                summary="The cache lives in SQLite",
                content="",
                project_id=found["alpha"],
                created_at_ms=clock.now_ms() - DAY_MS,
            )
            episode_changes.add_episode(tx, episode, [], actor=Actor.MODEL)
            for channel in ("prompt", "tool", injections.AT_START):
                given = Injection("s-1", channel, channel, USED, 0.5, 5, "shown", clock.now_ms() - DAY_MS)
                injections.add_injections(tx, [given])
        episode_changes.note_access(opened, USED, session_id="s-1")
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
        command = [sys.executable, "-P", "-m", "engram.cli.main", "report", "--days", days, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    text, found = engram(), json.loads(engram("--json"))

    assert f"used most        The cache lives in SQLite ({USED}, alpha, 4 times)" in text
    assert "nothing kept in  beta" in text
    assert (found["prompts"], found["most_used"]["episode_id"]) == (3, USED)


def report_days_until_now(store: Store) -> int:
    """Days that reach from the present back to what the fixture made."""
    import time

    return int((time.time() * 1000 - store.now_ms()) / DAY_MS) + 8


def test_one_line_is_said_once_a_week_and_names_nothing_of_another_project(
    store: Store, settings: Settings, clock: FixedClock
) -> None:
    with store.transaction() as tx:
        own = Episode(
            episode_id="ep_0000000000b2",
            kind="fact",
            extractor="openai-m",
            summary="Beta has a thing of its own",
            content="",
            project_id=project(store, "beta"),
            created_at_ms=clock.now_ms() - 300 * DAY_MS,
        )
        episode_changes.add_episode(tx, own, [], actor=Actor.MODEL)

    first = build_briefing(store, settings, project_id=project(store, "beta"))
    second = build_briefing(store, settings, project_id=project(store, "alpha"))

    assert LINE in first
    assert "SQLite" not in first
    assert "Engram in the last" not in second
    clock.advance(7 * 86_400 - 60)
    assert "Engram in the last" not in build_briefing(store, settings, project_id=project(store, "alpha"))


def test_the_line_names_the_most_used_memory_to_its_own_project(store: Store, settings: Settings) -> None:
    own = build_briefing(store, settings, project_id=project(store, "alpha"))

    assert f"{LINE}; used most: The cache lives in SQLite. `engram report`" in own


@pytest.mark.parametrize(
    "change",
    [{"is_lowered": True}, {"suspect": "an order"}, {"status": Status.SUPERSEDED}, {"status": Status.ARCHIVED}],
)
def test_the_line_never_names_what_is_not_shown_by_itself(
    store: Store, settings: Settings, change: dict[str, object]
) -> None:
    with store.transaction() as tx:
        used = find_episode(store, USED)
        assert used is not None
        episode_changes.change_episode(tx, used, "edit", "by hand", **change, actor=Actor.USER)
        other = dataclasses.replace(
            used, episode_id="ep_0000000000b3", summary="Tests run in a container", stable_id="", id=0
        )
        episode_changes.add_episode(tx, other, [], actor=Actor.MODEL)

    briefing = build_briefing(store, settings, project_id=project(store, "alpha"))

    assert "Engram in the last 7 days" in briefing
    assert "SQLite" not in briefing


def test_the_line_holds_no_secret_that_is_older_than_its_rule(store: Store, settings: Settings) -> None:
    token = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"
    with store.transaction() as tx:
        tx.run("UPDATE episode SET summary = ? WHERE episode_id = ?", (f"The cache needs {token}", USED))

    briefing = build_briefing(store, settings, project_id=project(store, "alpha"))

    assert "used most: The cache needs" in briefing
    assert token not in briefing


def test_it_waits_for_the_next_briefing_where_somebody_is_writing(
    store: Store, settings: Settings, clock: FixedClock
) -> None:
    alpha = project(store, "alpha")
    with open_store(settings.places.memory_db) as other, other.transaction():
        assert "Engram in the last" not in build_briefing(store, settings, project_id=alpha)

    assert "Engram in the last" in build_briefing(store, settings, project_id=alpha)


def test_of_sessions_that_race_one_is_told(store: Store, settings: Settings) -> None:
    code = (
        "import sys; from pathlib import Path; from engram.clock import FixedClock; "
        "from engram.settings import Settings\n"
        "from engram.models.store import open_store\n"
        "from engram.recollection.briefing import build_briefing\n"
        "from engram.models.projects import find_project\n"
        "with open_store(Path(sys.argv[1]) / 'memory.db', clock=FixedClock(at_ms=int(sys.argv[2]))) as store:\n"
        "    found = find_project(store, 'alpha').id; print('ready', flush=True); sys.stdin.read(1)\n"
        "    for _ in range(20):\n"
        "        text = build_briefing(store, Settings(home=Path(sys.argv[1])), project_id=found)\n"
        "        print('told' if 'Engram in the last' in text else 'silent', flush=True)\n"
    )
    command = [sys.executable, "-c", code, str(settings.home), str(store.now_ms())]
    racing = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ) for _ in range(4)
    ]
    for process in racing:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
    for process in racing:
        assert process.stdin is not None
        process.stdin.write(b"x")
        process.stdin.flush()
    said = b"".join(process.communicate()[0] for process in racing)

    assert said.count(b"told") == 1
    assert said.count(b"silent") == 79
