"""How far behind a stage is: what is older than the installation did not wait for it."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest
from peewee import fn
from transcript_lines import say

from engram.ingest.read_sources import ingest_path
from engram.models import tables
from engram.models.engine.meta import put_meta
from engram.models.engine.migrations import MADE_AT
from engram.models.engine.transaction import Store
from engram.models.work.work import WorkState, fail, list_work, make_due
from engram.redaction import redact
from engram.reports.health import MAX_LAG_SECONDS, take_health, take_vitals
from engram.reports.task_report import rows_of_work
from engram.settings import Settings
from engram.setup.edits.journal import Journal, Phase, save_journal
from engram.system.clock import SYSTEM_CLOCK, Clock

HOUR = 3600
WEEK = 7 * 24 * HOUR


@pytest.fixture
def clock() -> Clock:
    """The times of files are real ones."""
    return SYSTEM_CLOCK


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return replace(settings, codex_folder=settings.home / "codex", gemini_folder=settings.home / "gemini")


def write_transcript(settings: Settings, age: float) -> None:
    path = settings.projects_folder / "boats" / "0b0a0000-0000-4000-8000-000000000001.jsonl"
    say(path, "user", "Why is the mast bent?", cwd="/work/boats", at="2026-02-19T10:00:00.000Z")
    at = SYSTEM_CLOCK.now_ms() / 1000 - age
    os.utime(path, (at, at))


def make_work(store: Store, age: float) -> None:
    with store.transaction() as tx:
        make_due(tx, "extract", "s1", store.now_ms() - int(age * 1000), reason="messages")


def made_before(store: Store, seconds: float) -> None:
    with store.transaction() as tx:
        put_meta(tx, MADE_AT, str(store.now_ms() - int(seconds * 1000)))


def test_the_command_that_starts_both_processes_is_the_one_of_this_machine(store: Store, settings: Settings) -> None:
    advice = {trouble.about: trouble.advice for trouble in take_vitals(store, settings).troubles()}
    assert advice["worker"] == advice["watcher"] == "start both with: engram up"

    save_journal(settings.places, Journal(phase=Phase.INSTALLED))

    vitals = take_vitals(store, settings)
    assert vitals.start_command == "engram service start"
    assert vitals.troubles()[0].advice == "start both with: engram service start"


def test_after_an_installation_nothing_is_a_week_behind(store: Store, settings: Settings) -> None:
    write_transcript(settings, WEEK)
    make_work(store, WEEK)

    vitals = take_vitals(store, settings)

    assert vitals.unread.files == 1
    assert all(stage.lag_seconds < MAX_LAG_SECONDS for stage in vitals.stages.values())
    assert not [trouble for trouble in vitals.troubles() if "behind" in trouble.text]


def test_what_must_not_be_read_is_never_behind(store: Store, settings: Settings) -> None:
    made_before(store, 4 * WEEK)
    write_transcript(settings, WEEK)
    path = next(settings.projects_folder.rglob("*.jsonl"))

    (result,) = ingest_path(store, path, settings=replace(settings, exclude=("/work/boats",)), redact=redact)

    assert result.skipped == "excluded"
    assert take_vitals(store, settings).unread.files == 0
    assert "boats" not in str(store.fetch_value(tables.MetaValue.select(fn.GROUP_CONCAT(tables.MetaValue.value))))
    say(path, "user", "And the keel?", cwd="/work/boats", at="2026-02-19T10:01:00.000Z")
    assert take_vitals(store, settings).unread.files == 1


def test_after_a_later_installation_beside_an_old_memory_neither(store: Store, settings: Settings) -> None:
    made_before(store, 4 * WEEK)
    write_transcript(settings, WEEK)
    make_work(store, WEEK)
    save_journal(settings.places, Journal(Phase.INSTALLED))

    assert not [trouble for trouble in take_vitals(store, settings).troubles() if "behind" in trouble.text]


@pytest.mark.parametrize("since", ["memory", "installation"])
def test_what_waited_since_then_is_behind(store: Store, settings: Settings, since: str) -> None:
    made_before(store, 2 * HOUR if since == "memory" else 4 * WEEK)
    if since == "installation":
        save_journal(settings.places, Journal(Phase.INSTALLED))
        at = SYSTEM_CLOCK.now_ms() / 1000 - 2 * HOUR
        os.utime(settings.places.install_journal, (at, at))
    write_transcript(settings, WEEK)
    make_work(store, WEEK)

    behind = {trouble.about: trouble.text for trouble in take_vitals(store, settings).troubles()}

    assert behind["ingest"] == behind["extract"] == "is 2.0 h behind"


def test_what_came_later_is_not_older_than_it_is(store: Store, settings: Settings) -> None:
    made_before(store, 4 * WEEK)
    write_transcript(settings, HOUR)
    make_work(store, HOUR)

    stages = take_vitals(store, settings).stages

    assert stages["ingest"].lag_seconds == pytest.approx(HOUR, abs=MAX_LAG_SECONDS / 2)
    assert stages["extract"].lag_seconds == pytest.approx(HOUR, abs=MAX_LAG_SECONDS / 2)


def test_the_pending_tasks_are_counted_as_they_are_listed(store: Store, settings: Settings) -> None:
    assert take_health(store, settings).pending == ""
    with store.transaction() as tx:
        for key, seconds in (("now", -1), ("later", HOUR), ("tomorrow", 24 * HOUR), ("failed", -1)):
            make_due(tx, "extract", key, store.now_ms() + seconds * 1000)
    (work,) = (piece for piece in list_work(store) if piece.key == "failed")
    fail(store, work, "no answer")

    states = Counter(row["state"] for row in rows_of_work(store, (WorkState.DUE,)))

    assert states == {"pending": 1, "scheduled": 2, "failed": 1}
    assert take_health(store, settings).pending == "1 task, 2 scheduled, 1 failed"
    (work,) = (piece for piece in list_work(store) if piece.key == "failed")
    fail(store, work, "no answer", max_attempts=1)
    assert take_health(store, settings).tasks == "1 task, 2 scheduled, 1 given up"
