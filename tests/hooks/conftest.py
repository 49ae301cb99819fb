"""Hooks as Claude Code runs them: their commands through /bin/sh, against a small real socket server."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hook_runs import Answer, Hooks

from engram.paths import Home
from engram.worker.request_reader import close_listener, open_listener
from engram_hooks.block import link_interpreter, settings_block


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    """Hooks of a fresh home with its interpreter link."""
    return _make_hooks(tmp_path / "home")


@pytest.fixture
def hooks_in() -> Callable[[Path], Hooks]:
    """Makes hooks of a home elsewhere."""
    return _make_hooks


def _make_hooks(root: Path) -> Hooks:
    """Hooks of a home at ``root``."""
    home = Home(root).prepare()
    link_interpreter(home)
    block = settings_block(interpreter=sys.executable)
    commands = {event: entries[0]["hooks"][0]["command"] for event, entries in block["hooks"].items()}
    commands["SessionStart(compact)"] = block["hooks"]["SessionStart"][1]["hooks"][0]["command"]
    commands["SessionStart(startup)"] = block["hooks"]["SessionStart"][2]["hooks"][0]["command"]
    commands["PreToolUse(Agent)"] = block["hooks"]["PreToolUse"][1]["hooks"][0]["command"]
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return Hooks(home, commands, kept | {"ENGRAM_HOME": str(root)})


@pytest.fixture
def serve() -> Iterator[Callable[[Home, Answer], None]]:
    """Answers at a home's engram.sock in a thread until the test ends."""
    with contextlib.ExitStack() as stack:

        def start(home: Home, answer: Answer) -> None:
            listener = open_listener(home.recall_socket)
            listener.listen(16)
            thread = threading.Thread(target=_serve, args=(listener, answer), daemon=True)
            thread.start()
            stack.callback(thread.join, 60)
            # This ends the wait of the thread, which would otherwise accept from whatever gets the same number later.
            stack.callback(close_listener, listener)

        yield start


def _serve(listener: socket.socket, answer: Answer) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            try:
                parts = []
                while chunk := connection.recv(65_536):
                    parts.append(chunk)
                connection.sendall(answer(b"".join(parts)))
            except OSError:
                continue


@pytest.fixture
def payload(shared: Path) -> Callable[[str], dict[str, Any]]:
    """A payload that Claude Code really sent, by the name of its file."""

    def load(name: str) -> dict[str, Any]:
        found = json.loads((shared / "fixtures" / "hooks-2.1.330" / f"{name}.json").read_text(encoding="utf-8"))
        assert isinstance(found, dict)
        return found

    return load
