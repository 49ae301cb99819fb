"""The Model Context Protocol over stdin and stdout for a server that has tools only.

One JSON-RPC message is one line. Requests are answered in threads, so that a long tool call delays no other answer.
The official library takes a second and 60 MB to load, in each session of Claude Code, and does not start any faster
for a server without prompts, resources or HTTP.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

#: Revisions of the protocol that begin with ``initialize`` and mean the same for a server with tools only.
PROTOCOL_VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
#: Longest line that is read, in bytes; a longer one ends the server.
MAX_LINE_BYTES = 16_000_000
#: How long the end of the input waits for calls that are still running, in seconds.
MAX_END_SECONDS = 10.0
_PARSE_ERROR, _INVALID_REQUEST, _NO_METHOD, _INVALID_PARAMS = -32700, -32600, -32601, -32602

Message = Mapping[str, Any]
Handler = Callable[[Message], dict[str, Any]]


class InvalidParams(Exception):
    """The parameters of a request do not fit its method."""


class StdioServer:
    """Reads requests until the input ends, and writes their results."""

    def __init__(self, handlers: Mapping[str, Handler], output: BinaryIO | None = None) -> None:
        """``handlers`` gives for each method a function from its parameters to its result; it does not raise."""
        self._handlers = handlers
        self._output = output or sys.stdout.buffer
        self._writing = threading.Lock()
        self._calls: dict[str, threading.Thread] = {}
        self._cancelled: set[str] = set()

    def run(self, lines: BinaryIO | None = None) -> None:
        """Answer until the input ends, then wait for the calls that are running."""
        source = lines or sys.stdin.buffer
        while line := source.readline(MAX_LINE_BYTES):
            if not line.endswith(b"\n") and len(line) >= MAX_LINE_BYTES:
                return
            if line.strip():
                self.take(line)
        for thread in list(self._calls.values()):
            thread.join(MAX_END_SECONDS)

    def take(self, line: bytes) -> None:
        """Handle one message."""
        try:
            message = json.loads(line.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            self._fail(None, _PARSE_ERROR, "this is no JSON")
            return
        method = message.get("method") if isinstance(message, dict) else None
        if not isinstance(method, str):
            # The answer to a request of ours, which is never sent, needs none itself.
            if not isinstance(message, dict) or not ({"result", "error"} & set(message)):
                self._fail(None, _INVALID_REQUEST, "a request is an object with a method")
            return
        params = message.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" not in message:
            if method == "notifications/cancelled":
                self._cancelled.add(json.dumps(params.get("requestId")))
        elif handler := self._handlers.get(method):
            self._start(message["id"], handler, params)
        else:
            self._fail(message["id"], _NO_METHOD, f"there is no method {method[:80]}")

    def _start(self, request_id: Any, handler: Handler, params: Message) -> None:
        key = json.dumps(request_id)
        thread = threading.Thread(target=self._call, args=(key, request_id, handler, params), daemon=True)
        self._calls[key] = thread
        thread.start()

    def _call(self, key: str, request_id: Any, handler: Handler, params: Message) -> None:
        try:
            result = handler(params)
        except InvalidParams as error:
            self._fail(request_id, _INVALID_PARAMS, str(error))
        else:
            if key not in self._cancelled:
                self._write({"jsonrpc": "2.0", "id": request_id, "result": result})
        finally:
            self._calls.pop(key, None)
            self._cancelled.discard(key)

    def _fail(self, request_id: Any, code: int, message: str) -> None:
        self._write({"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": message}})

    def _write(self, message: Message) -> None:
        # ASCII: no separator of lines that some reader may know can occur in it.
        data = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        with self._writing:
            self._output.write(data)
            self._output.flush()


def negotiate(offered: object) -> str:
    """Return the protocol version to answer ``initialize`` with: that of the client if it is known, or the latest."""
    return offered if isinstance(offered, str) and offered in PROTOCOL_VERSIONS else PROTOCOL_VERSIONS[-1]
