"""A memory folder for workers, and workers that are ended with the test."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import RUN, StartWorker

from engram.settings import Settings
from engram.tasks.queue import huey
from tests.fork_server import ForkedProcess


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
    started: list[ForkedProcess] = []

    def begin(code: str = RUN, **environment: str) -> ForkedProcess:
        values = os.environ | {"ENGRAM_EMBEDDING_MODEL": "hashed", "OMP_NUM_THREADS": "1"} | environment
        started.append(ForkedProcess(code, values, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()
