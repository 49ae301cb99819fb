"""The real Claude Code for tests that need it, and a server on this machine that answers in the model's place."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

#: Gives the tool that is called next and its input, or "" and a text, for a request.
Script = Callable[[dict[str, Any]], tuple[str, dict[str, Any] | str]]
Event = tuple[str, dict[str, Any]]
_NUMBERS = itertools.count(1)

#: Names the binary where it is not to be installed for the tests.
VARIABLE = "ENGRAM_TEST_CLAUDE"
#: Names one that loads mods.
MODS_VARIABLE = "ENGRAM_TEST_CLAUDE_WITH_MODS"
#: The version that these tests were written with; another may ask a server for other things.
_VERSION = "2.1.197"
#: The version that the tests of the mod were written with.
_VERSION_WITH_MODS = "2.1.332"
_INSTALL_SECONDS = 150


def find_real_claude() -> str:
    """Return the path of a real ``claude``: a named one, or one that npm installs once outside the checkout.

    Skips the test where it can't be had.
    """
    return _find(VARIABLE, _VERSION)


def find_claude_with_mods() -> str:
    """Return the path of a real ``claude`` that loads mods; skips the test where it can't be had."""
    return _find(MODS_VARIABLE, _VERSION_WITH_MODS)


def _find(variable: str, version: str) -> str:
    if named := os.environ.get(variable):
        return named
    command, reason = _install(version)
    if reason:
        pytest.skip(f"{reason}; {variable} may name a claude")
    return command


@functools.cache
def _install(version: str) -> tuple[str, str]:
    """Path of the command, and why it can't be had; tried once a run, since npm may wait long for a network."""
    folder = Path(tempfile.gettempdir()) / f"engram-test-claude-{os.getuid()}" / version
    within, package = Path("node_modules", ".bin", "claude"), f"@anthropic-ai/claude-code@{version}"
    if (folder / within).exists():
        return str(folder / within), ""
    npm = shutil.which("npm")
    if npm is None:
        return "", "there is no npm to install Claude Code with"
    folder.parent.mkdir(exist_ok=True)
    # Installed elsewhere and then renamed: another process of this run never sees half of it.
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        command = [npm, "install", "--prefix", scratch, "--no-audit", "--no-fund", package]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_INSTALL_SECONDS)
        except (subprocess.SubprocessError, OSError) as error:
            return "", f"Claude Code can't be installed here ({error})"
        (installed := Path(scratch) / "installed").mkdir()
        for entry in Path(scratch).iterdir():
            if entry != installed:
                entry.rename(installed / entry.name)
        # Renaming onto a folder that holds something fails: then another process was first.
        with contextlib.suppress(OSError):
            installed.rename(folder)
    return str(folder / within), ""


class StandInServer:
    """Answers ``/v1/messages`` as a model that calls ``StructuredOutput`` with a fixed answer, or as a script says."""

    def __init__(self, answer: dict[str, Any], script: Script | None = None) -> None:
        """``script`` gives the name and input of the tool that is called next, or "" and a text to end with."""
        self.requests: list[dict[str, Any]] = []
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: Any) -> None:
                pass

            def do_HEAD(self) -> None:
                self.send_response(200)
                self.end_headers()

            def do_GET(self) -> None:
                self.send_response(404)
                self.end_headers()

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                if not self.path.startswith("/v1/messages") or "count_tokens" in self.path:
                    self.do_GET()
                    return
                request = json.loads(body)
                owner.requests.append(request)
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                events = _events(request, answer) if script is None else _scripted(request, *script(request))
                for name, event in events:
                    self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **event})}\n\n".encode())

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def _events(request: dict[str, Any], answer: dict[str, Any]) -> list[Event]:
    has_tool = any(tool.get("name") == "StructuredOutput" for tool in request.get("tools", []))
    return _scripted(request, *(("StructuredOutput", answer) if has_tool else ("", json.dumps(answer))))


def _scripted(request: dict[str, Any], tool: str, content: dict[str, Any] | str) -> list[Event]:
    """The events of a message that calls a tool, or of a text if there is no tool."""
    usage = {"input_tokens": 1000, "output_tokens": 1, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": f"msg_{next(_NUMBERS)}",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    if tool:
        block = {"type": "tool_use", "id": f"toolu_{next(_NUMBERS)}", "name": tool, "input": {}}
        delta: dict[str, Any] = {"type": "input_json_delta", "partial_json": json.dumps(content)}
    else:
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": content}
    stop = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    return [
        ("message_start", {"message": message}),
        ("content_block_start", {"index": 0, "content_block": block}),
        ("content_block_delta", {"index": 0, "delta": delta}),
        ("content_block_stop", {"index": 0}),
        ("message_delta", {"delta": stop, "usage": {"output_tokens": 50}}),
        ("message_stop", {}),
    ]
