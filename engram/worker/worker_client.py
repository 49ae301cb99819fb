"""The client of engram.sock: one JSON object in each direction. A missing worker is not an error."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engram.errors import HomeError
from engram.paths import Home
from engram.system.socketpath import socket_address
from engram.vaults import own_vault

#: Maximum size of an answer, in bytes.
MAX_ANSWER_BYTES = 16_000_000
#: How long the worker may take to accept a connection, and between two signs of life while it prepares an answer, in
#: seconds. One that runs sends ten signs a second; one that was stopped or hangs sends none.
SILENT_SECONDS = 1.5
#: Precedes a request and lets the worker send spaces, as signs of life, before the answer.
TAKES_SIGNS = b"\n"
#: Timeout for the worker's status, in seconds.
STATUS_SECONDS = 5.0
#: Timeout for the answer to a wake-up call, in seconds; the worker receives the call even if this time runs out.
WAKE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The worker's status. Its field names are the JSON keys."""

    pid: int
    #: Resident memory in MB; 0 if unknown.
    rss_mb: float
    uptime_seconds: float
    #: Id of the embedding model; None if it is not loaded.
    model: str | None
    #: The library that runs the model; "text only" without a model.
    runtime: str
    #: Why the model does not run as it should; "" if it runs normally.
    reason: str
    #: Memory used by the vectors, in MB.
    index_mb: float
    is_busy: bool
    #: Number of tasks waiting for a thread.
    waiting: int
    #: ``config_state`` of the config.toml that it read; None for a worker of an earlier version, which doesn't say.
    config: str | None = None

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> WorkerStatus:
        """Return the status that ``to_json`` wrote; unknown keys are ignored. Raises KeyError."""
        wanted = [field.name for field in dataclasses.fields(cls) if field.name in values or field.name != "config"]
        return cls(**{name: values[name] for name in wanted})


def announce_worker(home: Home) -> None:
    """Announce that a worker will answer soon, so that prompts wait for it instead of failing.

    Call this before stopping a worker to restart it; the new worker withdraws the announcement.
    """
    with contextlib.suppress(OSError):
        home.worker_coming.unlink(missing_ok=True)
        os.close(os.open(home.worker_coming, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def ask_worker(home: Home, request: Mapping[str, Any], *, timeout_seconds: float = 5.0) -> dict[str, Any] | None:
    """Return the worker's answer to a request such as ``{"op": "recall", "query": …}``; None if no worker answers.

    A vault has no worker of its own; the worker of the memory folder that contains it answers for the vault.

    Args:
        request: becomes one JSON object of at most 1 MB.
        timeout_seconds: the timeout for the whole answer; a worker without a sign of life is not waited for.
    """
    with contextlib.suppress(OSError, ValueError, RecursionError, HomeError):
        vault = own_vault(home)
        if vault is not None:
            home, request = Home(vault.around), {**request, "vault": vault.folder.name}
        answer = json.loads(_exchange(home, TAKES_SIGNS + json.dumps(request).encode(), timeout_seconds))
        return answer if isinstance(answer, dict) else None
    return None


def ask_status(home: Home) -> WorkerStatus | None:
    """Return the worker's status; None if no worker answers."""
    answer = ask_worker(home, {"op": "status"}, timeout_seconds=STATUS_SECONDS)
    try:
        return None if answer is None else WorkerStatus.from_json(answer)
    except KeyError:
        # The worker is a different version, or it reported an error.
        return None


def wake_worker(home: Home) -> None:
    """Notify a running worker that memories have changed. A worker that starts later checks for changes itself."""
    ask_worker(home, {"op": "wake"}, timeout_seconds=WAKE_SECONDS)


def _exchange(home: Home, data: bytes, timeout_seconds: float) -> bytes:
    until = time.monotonic() + timeout_seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(min(SILENT_SECONDS, timeout_seconds))
        with socket_address(home.recall_socket) as address:
            connection.connect(address)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        parts: list[bytes] = []
        size = 0
        while chunk := connection.recv(65_536):
            parts.append(chunk)
            size += len(chunk)
            if (left := until - time.monotonic()) <= 0:
                raise TimeoutError
            connection.settimeout(min(SILENT_SECONDS, left))
            if size > MAX_ANSWER_BYTES:
                raise ValueError("the answer is too large")
        return b"".join(parts)
