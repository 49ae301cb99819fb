"""``engram tasks``: what runs, how long it took, and the traceback of what failed, as a worker recorded it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import wait_for

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.work.task_runs import KEPT_RUNS, NOTHING, RunState, begin_task_run, end_task_run
from engram.models.work.work import make_due
from engram.paths import Home
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.tasks.runtime import Runtime, run_guarded

Run = Callable[..., Any]
SESSION = "11111111-2222-3333-4444-555555555555"
SECRET = "sk-ant-api03-" + "Ab3" * 30

#: A worker that runs one task, which never ends.
PROGRAM = """
import pathlib, sys, time
from engram.log import start_logging
from engram.models.open_memory import open_store
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import load
from engram.tasks.runtime import run_guarded
from engram.tasks.runtime import Runtime

def action():
    pathlib.Path({mark!r}).touch()
    time.sleep(600)

settings = load().settings
start_logging(settings.places.logs, "worker", "info", str)
store = open_store(settings.places.memory_db)
searcher = Searcher(store, settings)
runtime = Runtime(settings, store, searcher, RecollectionService(store, searcher, settings))
run_guarded(runtime, "extract", {session!r}, action)
"""


def run_task(store: Store, home: Home, kind: str, key: str, action: Callable[[], str]) -> None:
    """Run one task as a worker does, in this process."""
    settings = Settings(home=home.root)
    searcher = Searcher(store, settings)
    runtime = Runtime(settings, store, searcher, RecollectionService(store, searcher, settings))
    run_guarded(runtime, kind, key, action)


@pytest.fixture
def store(home: Home) -> Iterator[Store]:
    """An empty memory."""
    home.prepare()
    with open_store(home.memory_db) as opened:
        yield opened


def record(store: Store, kind: str, outcome: str = "", *, state: RunState = RunState.DONE) -> None:
    """Record a run that took three milliseconds."""
    run_id = begin_task_run(store, kind, "")
    end_task_run(store, run_id, kind, state, duration_ms=3, outcome=outcome)


@pytest.mark.parametrize(("kind", "key"), [("extract", SESSION), ("scan", ""), ("recollect", SESSION)])
def test_a_failure_is_found_with_its_redacted_traceback(
    run: Run, run_json: Run, store: Store, home: Home, kind: str, key: str
) -> None:
    if key:
        with store.transaction() as tx:
            make_due(tx, kind, key, store.now_ms())

    def fail() -> str:
        raise ValueError(f"the key is {SECRET}")

    run_task(store, home, kind, key, fail)

    shown = run_json("tasks", "show", key or kind)
    assert "Traceback" in shown["failure"]["traceback"]
    assert "ValueError" in shown["failure"]["traceback"]
    assert SECRET not in str(shown)
    assert "Traceback" in run("tasks", "show", key or kind).stdout
    if key:
        (task,) = run_json("tasks", "list")["tasks"]
        assert task["state"] == "failed"
        assert run_json("tasks", "show", task["id"])["failure"] == shown["failure"]


def test_a_failure_of_up_once_is_found(run: Run, run_json: Run, home: Home) -> None:
    model = ("--set", "extractor=claude", "--set", "claude_command=/bin/false")
    run(*model, "up", "--once", "--json")

    task = run_json("tasks", "list")["tasks"][0]
    failure = run_json("tasks", "show", task["id"])["failure"]

    assert task["error"] in failure["traceback"]
    assert "Traceback" in failure["traceback"]


def test_a_running_task_is_shown_as_running_and_after_a_kill_as_interrupted(
    run: Run, run_json: Run, store: Store, home: Home, tmp_path: Path
) -> None:
    with store.transaction() as tx:
        make_due(tx, "extract", SESSION, store.now_ms())
    mark = tmp_path / "it runs"
    environment = os.environ | {"ENGRAM_HOME": str(home.root), "CLAUDE_CONFIG_DIR": str(tmp_path / "claude")}
    code = PROGRAM.format(mark=str(mark), session=SESSION)

    worker = subprocess.Popen([sys.executable, "-c", code], env=environment)
    try:
        wait_for(mark.exists)

        (task,) = run_json("tasks", "list")["tasks"]
        assert (task["state"], task["name"], task["args"]) == ("running", "extract", [SESSION])
        assert task["running_seconds"] >= 0
        assert "running" in run("tasks").stdout
        (running,) = run_json("tasks", "runs", SESSION)["runs"]
        assert (running["state"], running["pid"]) == ("running", worker.pid)
    finally:
        worker.kill()
        worker.wait(60)

    assert [task["state"] for task in run_json("tasks", "list")["tasks"]] == ["pending"]
    assert [task["state"] for task in run_json("tasks", "runs")["runs"]] == ["interrupted"]


def test_runs_have_start_duration_and_outcome(run: Run, run_json: Run, store: Store, home: Home) -> None:
    run_task(store, home, "embed", "", lambda: "7 rows embedded")

    (shown,) = run_json("tasks", "runs", "embed")["runs"]

    assert shown["state"] == "done"
    assert shown["outcome"] == "7 rows embedded"
    assert shown["started_at"]
    assert shown["duration_ms"] >= 0
    assert "7 rows embedded" in run("tasks", "runs").stdout
    assert run_json("tasks", "runs", "--failed")["runs"] == []


def test_days_of_scans_that_find_nothing_are_one_line(run: Run, run_json: Run, store: Store) -> None:
    record(store, "scan", "2 tasks enqueued")
    for _ in range(2_000):
        record(store, "scan", NOTHING)
    record(store, "scan", "1 task enqueued")

    runs = run_json("tasks", "runs", "scan")["runs"]

    assert [(run["outcome"], run["times"]) for run in runs] == [
        ("1 task enqueued", 1),
        (NOTHING, 2_000),
        ("2 tasks enqueued", 1),
    ]
    assert "2000" in run("tasks", "runs").stdout


def test_the_record_is_bounded_and_failures_outlive_successes(run_json: Run, store: Store) -> None:
    record(store, "extract", "no answer", state=RunState.FAILED)
    for number in range(KEPT_RUNS * 3):
        record(store, "extract", f"run {number}")

    runs = run_json("tasks", "runs", "--limit", "1000")["runs"]

    assert len(runs) == KEPT_RUNS + 1
    assert runs[0]["outcome"] == f"run {KEPT_RUNS * 3 - 1}"
    assert (runs[-1]["state"], runs[-1]["outcome"]) == ("failed", "no answer")


def test_a_task_that_nobody_knows_is_an_error(run: Run) -> None:
    assert "no task 'nonsense'" in run("tasks", "show", "nonsense", code=1).stderr
    assert "no work '999'" in run("tasks", "show", "999", code=1).stderr


@pytest.mark.parametrize("words", [("list",), ("runs",), ("show", "scan"), ("show", "extract")])
def test_a_person_reads_local_times_and_a_script_those_of_utc(store: Store, run: Run, words: tuple[str, ...]) -> None:
    with store.transaction() as tx:
        make_due(tx, "extract", SESSION, due_at_ms=store.now_ms() + 3_600_000)
    run_id = begin_task_run(store, "scan", "")
    end_task_run(store, run_id, "scan", RunState.FAILED, duration_ms=5, outcome="no", error="Traceback")

    told, raw = run("tasks", *words).output, run("tasks", *words, "--json").output

    assert re.search(r"\d{4}-\d\d-\d\d \d\d:\d\d", told)
    assert not re.search(r"\dT\d\d:\d\d:\d\dZ", told)
    assert re.search(r"\dT\d\d:\d\d:\d\dZ", raw)
