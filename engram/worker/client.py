"""Ask the worker over engram.sock: one JSON object there, one back. No worker is an ordinary answer."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Mapping
from typing import Any

from engram.paths import Home
from engram.socketpath import socket_address

#: Longest answer that is read, in bytes.
ANSWER_LIMIT_BYTES = 16_000_000


def ask_worker(home: Home, request: Mapping[str, Any], *, timeout_seconds: float = 5.0) -> dict[str, Any] | None:
    """The worker's answer to a request such as ``{"op": "recall", "query": …}``; None where no worker answers.

    Args:
        home: the memory folder.
        request: becomes one JSON object of at most 1 MB.
        timeout_seconds: for each step of the exchange; the connection itself takes at most 2 s.
    """
    with contextlib.suppress(OSError, ValueError, RecursionError):
        answer = json.loads(_exchange(home, json.dumps(request).encode(), timeout_seconds))
        return answer if isinstance(answer, dict) else None
    return None


def _exchange(home: Home, data: bytes, timeout_seconds: float) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(min(2.0, timeout_seconds))
        with socket_address(home.recall_socket) as address:
            connection.connect(address)
        connection.settimeout(timeout_seconds)
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        parts: list[bytes] = []
        size = 0
        while chunk := connection.recv(65_536):
            parts.append(chunk)
            size += len(chunk)
            if size > ANSWER_LIMIT_BYTES:
                raise ValueError("the answer is too large")
        return b"".join(parts)
