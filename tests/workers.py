"""What tests need that run the worker as a process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from transcript_lines import say

from engram.paths import Home
from engram.settings import Settings
from engram.worker.worker_client import ask_worker
from tests.fork_server import ForkedProcess

#: Python code of a worker with the settings of its environment.
RUN = (
    "from engram.settings import load\nfrom engram.worker.lifecycle import run_worker\nraise "
    "SystemExit(run_worker(load().settings))"
)
SESSION = "11111111-2222-3333-4444-555555555555"

#: Starts a worker from Python code and changes of its environment.
StartWorker = Callable[..., ForkedProcess]


def status(home: Home) -> dict[str, Any] | None:
    """Return the status of the worker of ``home``; None if none answers."""
    return ask_worker(home, {"op": "status"})


def write_rule(settings: Settings, session: str = SESSION) -> None:
    """Write a short session with a rule of the user: below every threshold."""
    path = settings.projects_folder / "-work-demo" / f"{session}.jsonl"
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    say(path, "user", "From now on always run make lint before every commit in this project.", at=now)
    say(
        path, "assistant", "Understood: make lint runs before every commit from now on, I added it to the hook.", at=now
    )
