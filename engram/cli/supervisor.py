"""Watcher and worker as child processes: start, restart and stop them together."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO

from engram.cli import exits

#: Shortest time between two starts of a child that failed, in seconds.
THROTTLE_SECONDS = 5.0
#: Failures in a row, each soon after a start, after which a child is given up.
MAX_FAILURES = 5
#: A child that ran for this long did not fail at its start, in seconds.
STEADY_SECONDS = 60.0
#: How long children may take to stop cleanly before they are killed, in seconds.
STOP_SECONDS = 15.0


@dataclass(slots=True)
class Child:
    """One child process and its state."""

    name: str
    command: Sequence[str]
    process: subprocess.Popen[bytes] | None = None
    #: Our end of the pipe whose closing tells the child that this process has ended.
    lifeline: int | None = None
    errors: IO[bytes] | None = None
    started_seconds: float = 0.0
    starts: int = 0
    failures: int = 0
    #: When it is restarted, by the steady clock; None while it runs or if it will not be.
    again_seconds: float | None = None
    #: Why it no longer runs; "" while it runs or will be restarted.
    ended: str = ""
    #: True if it was given up after too many failures.
    has_failed: bool = False

    @property
    def is_running(self) -> bool:
        """True while the process is running."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process in its own group: Ctrl-C then reaches only this process, which stops the child cleanly."""
        ours, theirs = os.pipe()[::-1]
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - read after the process has ended
        try:
            self.process = subprocess.Popen(
                [*self.command, "--lifeline", str(theirs)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,
                pass_fds=(theirs,),
                process_group=0,
            )
        finally:
            os.close(theirs)
        self.lifeline = ours
        self.starts += 1
        self.started_seconds = time.monotonic()

    def look(self) -> None:
        """Restart the process if it has ended and should run; otherwise record why it ended."""
        if self.ended or self.is_running:
            return
        if self.again_seconds is None:
            self._note_end(self.process.returncode if self.process else exits.OK)
        if self.again_seconds is not None and time.monotonic() >= self.again_seconds:
            self.again_seconds = None
            self.start()

    def _note_end(self, code: int) -> None:
        """Decide what an ended process means: restart it now, restart it later, or leave it."""
        self._let_go()
        ran_seconds = time.monotonic() - self.started_seconds
        if code == exits.OK:
            self.ended = self._last_words() or "ended"
        elif code == exits.RESTART:
            self.again_seconds = 0.0
        else:
            self.failures = 1 if ran_seconds > STEADY_SECONDS else self.failures + 1
            self.has_failed = self.failures >= MAX_FAILURES or code in (exits.FAILED, exits.USAGE)
            if self.has_failed:
                self.ended = self._last_words() or f"failed with exit code {code}"
            else:
                self.again_seconds = self.started_seconds + THROTTLE_SECONDS

    def _last_words(self) -> str:
        if self.errors is None:
            return ""
        self.errors.seek(0)
        lines = self.errors.read(100_000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _let_go(self) -> None:
        if self.lifeline is not None:
            os.close(self.lifeline)
            self.lifeline = None

    def ask_to_stop(self) -> None:
        """Send SIGTERM; the process finishes its current work."""
        if self.is_running and self.process is not None:
            self.process.send_signal(signal.SIGTERM)

    def wait(self, seconds: float) -> bool:
        """Wait for the end, and kill the process with its group after too long. False if it was killed."""
        if self.process is None:
            return True
        try:
            self.process.wait(max(0.1, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            return False
        finally:
            self._let_go()
        return True


@dataclass(slots=True)
class Supervisor:
    """All children."""

    children: list[Child] = field(default_factory=list)

    def start(self) -> None:
        """Start all children."""
        for child in self.children:
            child.start()

    def look(self) -> bool:
        """Check each child once. False if none runs or will run again, or if one was given up."""
        for child in self.children:
            child.look()
        return not any(child.has_failed for child in self.children) and not all(child.ended for child in self.children)

    def stop(self) -> bool:
        """Stop all children together and wait for them. False if one had to be killed."""
        until = time.monotonic() + STOP_SECONDS
        for child in self.children:
            child.ask_to_stop()
        were_clean = [child.wait(until - time.monotonic()) for child in self.children]
        return all(were_clean)


def engram_command(arguments: Sequence[str], name: str) -> list[str]:
    """The command line of ``engram NAME`` with the same global flags and the same interpreter."""
    return [sys.executable, "-P", "-m", "engram.cli.main", *arguments, name]
