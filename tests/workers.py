"""What tests need that run the worker as a process."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from transcript_lines import say

from engram.paths import Home
from engram.settings import Settings
from engram.system.socketpath import socket_address
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


@contextlib.contextmanager
def stand_in(settings: Settings, answer: bytes) -> Iterator[None]:
    """Give the next request to engram.sock, once it was read whole, this answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(settings.places.recall_socket))
        listener.listen(1)

        def reply() -> None:
            connection, _ = listener.accept()
            with connection:
                while connection.recv(65_536):
                    pass
                connection.sendall(answer)

        thread = threading.Thread(target=reply)
        thread.start()
        yield
        thread.join(60)


def ask_hook(settings: Settings, prompt: str, session: str, folder: str, **fields: Any) -> str:
    """Send a prompt to engram.sock, as Claude Code's hook does; returns the answer."""
    payload = {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": folder, "prompt": prompt} | fields
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(60)
        with socket_address(settings.places.recall_socket) as address:
            connection.connect(address)
        connection.sendall(json.dumps(payload).encode())
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b"")).decode()
