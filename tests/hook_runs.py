"""Hooks run as Claude Code runs them, and what they leave behind."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from processes import wait_until_group_gone

from engram.paths import Home

#: No hook may take longer than this, in seconds; far above its own watchdog, so that a busy machine fails no test.
LONGEST_SECONDS = 60.0
#: What a pipe takes without anybody reading, in bytes.
PIPE_BYTES = 60_000


Answer = Callable[[bytes], bytes]


def sent_before(data: bytes) -> int:
    """The reading end of a pipe that holds ``data`` (at most ``PIPE_BYTES``) and is closed at its other end.

    Claude Code writes at once; a test that writes after the start may be late on a busy machine, and the hook is
    silent then.
    """
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


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
        is_short = len(data) <= PIPE_BYTES
        stdin = sent_before(data) if is_short else subprocess.PIPE
        hook = subprocess.Popen(
            ["/bin/sh", "-c", self.commands[event]],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | ({"CLAUDE_CODE_SESSION_ID": session} if session else {}) | more,
            start_new_session=True,
        )
        if is_short:
            os.close(stdin)
        output, errors = hook.communicate(None if is_short else data, timeout=LONGEST_SECONDS)
        if "& )" in self.commands[event]:
            wait_until_group_gone(hook.pid)
        return HookRun(hook.returncode, output, errors)

    def start(self, event: str, *, session: str = "", stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
        """One hook; its stdin stays open where it is a pipe of this process."""
        return subprocess.Popen(
            ["/bin/sh", "-c", self.commands[event]],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment | ({"CLAUDE_CODE_SESSION_ID": session} if session else {}),
        )


#: Starts a server on engram.sock that answers every request by a function.
Serve = Callable[[Home, Answer], None]
#: A recorded payload of Claude Code by its name.
Payload = Callable[[str], dict[str, Any]]
