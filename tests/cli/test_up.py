"""``engram up``: both processes run, are started again when they should be, and none is ever left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result
from processes import wait_for

from engram.cli.up_commands import SAMPLES
from engram.paths import Home
from engram.reports.processes import is_held, process_state
from engram.system.process_lock import ProcessLock

#: Longest wait for anything in these tests, in seconds.
PATIENCE_SECONDS = 60


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``engram up`` on the sample sessions, with both processes running."""
    environment = {**os.environ, "ENGRAM_EMBEDDING_MODEL": "hashed", "CLAUDE_CONFIG_DIR": str(SAMPLES)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "engram.cli.main", "up"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    home = Home(tmp_path / "home")
    try:
        wait_for(lambda: home.recall_socket.exists() and is_held(home.watcher_lock))
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        wait_for(lambda: not is_held(home.watcher_lock) and not is_held(home.worker_lock))


def test_ctrl_c_stops_both_cleanly(started: subprocess.Popen[bytes], home: Home) -> None:
    started.send_signal(signal.SIGINT)

    output, _ = started.communicate(timeout=PATIENCE_SECONDS)

    assert started.returncode == 0
    assert output.decode().rstrip().endswith("Stopped.")
    assert not process_state(home.worker_lock).is_alive
    assert not process_state(home.watcher_lock).is_alive


def test_no_process_outlives_an_up_that_was_killed(started: subprocess.Popen[bytes], home: Home) -> None:
    started.kill()

    wait_for(lambda: not is_held(home.watcher_lock) and not is_held(home.worker_lock))


def test_a_running_worker_answers_recall(
    started: subprocess.Popen[bytes], home: Home, run: Callable[..., object], run_json: Callable[..., object]
) -> None:
    def is_answered() -> bool:
        answer = run_json("recall", "the VAT is a cent too low")
        assert isinstance(answer, dict)
        return answer["by"] == "worker" and "vat_cents" in json.dumps(answer["hits"])

    wait_for(is_answered)


def test_up_with_a_running_service_says_so_and_starts_nothing(home: Home, run: Callable[..., Result]) -> None:
    home.prepare()
    locks = [ProcessLock(path) for path in (home.worker_lock, home.watcher_lock)]

    said = run("up").stderr

    for lock in locks:
        lock.release()
    assert said == "Engram is already running. `engram service status` shows what started it.\n"


@pytest.mark.parametrize(
    "deeper",
    ["projects/acme/-srv-harbor/one.jsonl", "projects/projects/-srv-harbor/one.jsonl", "acme/projects/-h/one.jsonl"],
)
def test_transcripts_a_folder_too_deep_are_named(tmp_path: Path, run: Callable[..., Result], deeper: str) -> None:
    folder = tmp_path / "copied sessions"
    place = folder / deeper
    place.parent.mkdir(parents=True)
    place.write_text((SAMPLES / "projects").glob("*/*.jsonl").__next__().read_text())

    said = run("--claude-folder", str(folder), "up", "--once").stderr

    projects = folder / "projects"
    assert said.splitlines()[0] == (
        f"There are no transcripts in {projects} yet. Some are a folder too deep, in {place.parent}: move that folder "
        f"into {projects}."
    )
    projects.mkdir(exist_ok=True)
    place.parent.rename(projects / "-srv-moved")
    assert "1 session" in run("--claude-folder", str(folder), "up", "--once").stdout
