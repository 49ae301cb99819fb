"""The watcher as a process: one a home, a clean stop, and new lines read by events."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import WAIT_SECONDS, wait_for
from transcript_lines import line

from engram.models.open_memory import open_store
from engram.reports.processes import holder_of
from engram.settings import Settings
from engram.version import code_version

RUN = (
    "from engram.settings import load\nfrom engram.watcher.watch import run_watcher\nraise "
    "SystemExit(run_watcher(load().settings))"
)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], subprocess.Popen[str]]]:
    """Starts watchers over one home; all are ended."""
    started: list[subprocess.Popen[str]] = []

    def begin() -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", RUN], stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def test_it_reads_new_lines_stops_cleanly_and_is_alone(
    start: Callable[[], subprocess.Popen[str]], tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    transcript = settings.projects_folder / "-work-demo" / "s1.jsonl"
    transcript.parent.mkdir(parents=True)
    first = start()
    wait_for(lambda: holder_of(settings.places.watcher_lock))
    wait_for(settings.places.memory_db.exists)
    second = start()
    _, said = second.communicate(timeout=WAIT_SECONDS)
    assert (second.returncode, said.count("\n")) == (0, 1)
    assert "already running" in said

    with open_store(settings.places.memory_db) as store:
        for number in range(3):
            with transcript.open("a", encoding="utf-8") as file:
                file.write(line("user", f"prompt {number}", session="s1"))
            wait_for(lambda number=number: store.value("SELECT count(*) FROM turn") == number + 1)

    os.kill(first.pid, signal.SIGTERM)
    first.communicate(timeout=WAIT_SECONDS)
    assert first.returncode == 0
    assert settings.places.watcher_lock.read_text().splitlines()[:2] == [str(first.pid), code_version()]
