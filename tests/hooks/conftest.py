"""Hooks as Claude Code runs them: their commands through /bin/sh, against a small real socket server."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from processes import wait_until_group_gone

from engram.paths import Home
from engram.socketpath import socket_address
from engram_hooks.block import link_interpreter, settings_block

#: No hook may take longer than this, in seconds; far above its own watchdog, so that a busy machine fails no test.
LONGEST_SECONDS = 60.0

Answer = Callable[[bytes], bytes]


@dataclass
class HookRun:
    """What a hook left behind."""

    status: int
    output: bytes
    errors: bytes

    @property
    def context(self) -> str:
        """The text that Claude would read; fails where the output is not the one object."""
        found = json.loads(self.output)
        assert list(found) == ["hookSpecificOutput"]
        assert set(found["hookSpecificOutput"]) == {"hookEventName", "additionalContext"}
        text = found["hookSpecificOutput"]["additionalContext"]
        assert isinstance(text, str)
        return text

    @property
    def is_silent(self) -> bool:
        """True where nothing was said and nothing went wrong."""
        return (self.status, self.output, self.errors) == (0, b"", b"")


@dataclass
class Hooks:
    """Runs hooks in a home of their own."""

    home: Home
    commands: dict[str, str]
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, event: str, payload: bytes | dict[str, Any] = b"", *, session: str = "", **more: str) -> HookRun:
        """One hook with its payload on stdin; of a detached one, until its background has ended too."""
        data = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
        hook = subprocess.Popen(
            ["/bin/sh", "-c", self.commands[event]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | ({"CLAUDE_CODE_SESSION_ID": session} if session else {}) | more,
            start_new_session=True,
        )
        output, errors = hook.communicate(data, timeout=LONGEST_SECONDS)
        if "& )" in self.commands[event]:
            wait_until_group_gone(hook.pid)
        return HookRun(hook.returncode, output, errors)

    def start(self, event: str, *, session: str = "") -> subprocess.Popen[bytes]:
        """One hook whose stdin stays open."""
        return subprocess.Popen(
            ["/bin/sh", "-c", self.commands[event]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | ({"CLAUDE_CODE_SESSION_ID": session} if session else {}),
        )


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
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return Hooks(home, commands, kept | {"ENGRAM_HOME": str(root)})


@pytest.fixture
def serve() -> Iterator[Callable[[Home, Answer], None]]:
    """Answers at a home's engram.sock in a thread until the test ends."""
    listeners: list[socket.socket] = []

    def start(home: Home, answer: Answer) -> None:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket_address(home.recall_socket) as address:
            listener.bind(address)
        listener.listen(16)
        listeners.append(listener)
        threading.Thread(target=_serve, args=(listener, answer), daemon=True).start()

    yield start
    for listener in listeners:
        listener.close()


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
