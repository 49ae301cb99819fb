"""A memory folder for workers, and workers that are ended with the test."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import RUN, StartWorker

from engram.settings import Settings
from engram.tasks.queue import huey


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """The settings of a prepared memory folder."""
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    yield made
    huey.storage.close()


@pytest.fixture
def start(settings: Settings) -> Iterator[StartWorker]:
    """Starts workers over the one memory folder; all are ended."""
    started: list[subprocess.Popen[str]] = []

    def begin(code: str = RUN, **environment: str) -> subprocess.Popen[str]:
        values = os.environ | {"ENGRAM_EMBEDDING_MODEL": "hashed", "OMP_NUM_THREADS": "1"} | environment
        process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True, env=values)
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()
