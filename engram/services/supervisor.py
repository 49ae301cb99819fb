"""Watcher and worker as child processes: start, restart and stop them together."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from engram.heartbeat import MAX_SILENCE_SECONDS
from engram.process_lock import EXIT_RESTART
from engram.reports.processes import is_held

#: Shortest time between two starts of a child that failed, in seconds.
THROTTLE_SECONDS = 5.0
#: Longest time between two starts of a child that is refused again and again, such as by a wrong setting, in seconds.
MAX_THROTTLE_SECONDS = 60.0
#: Failures in a row, each soon after a start, after which a child is given up, unless it is never given up.
MAX_FAILURES = 5
#: A child that ran for this long did not fail at its start, in seconds.
STEADY_SECONDS = 60.0
#: How long children may take to stop cleanly before they are killed, in seconds.
STOP_SECONDS = 15.0
#: Exit codes of failures that a new start would only repeat: an expected error, and a wrong command line.
_LASTING_FAILURES = (1, 2)


@dataclass(slots=True)
class Child:
    """One child process and its state."""

    name: str
    command: Sequence[str]
    #: Restart it forever; otherwise it is given up after some failures, and left alone after a clean end.
    is_kept: bool = False
    #: The lock that it holds while it works, and touches with every heartbeat; None if it has none.
    lock: Path | None = None
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
    #: The last line that it printed before it ended; "" if it never ended or printed nothing.
    last_words: str = ""
    #: True if it was given up after too many failures.
    has_failed: bool = False
    #: The time of the last heartbeat, and when it was first seen by the steady clock.
    _beat_ns: int = 0
    _beat_seen_seconds: float = 0.0

    @property
    def is_running(self) -> bool:
        """True while the process is running."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the process in its own group: Ctrl-C then reaches only this process, which stops the child cleanly."""
        ours, theirs = os.pipe()[::-1]
        self._drop_errors()
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
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self.lifeline = ours
        self.starts += 1
        self.started_seconds = self._beat_seen_seconds = time.monotonic()

    def look(self) -> None:
        """Restart the process if it has ended or hangs; otherwise record why it ended."""
        if self.is_running:
            self._end_if_silent()
        if self.ended or self.is_running:
            return
        if self.again_seconds is None:
            self._note_end(self.process.returncode if self.process else 0)
        now = time.monotonic()
        if self.again_seconds is None or now < self.again_seconds:
            return
        if self.lock is not None and is_held(self.lock):
            # Somebody else does its work, such as `engram up` in a terminal.
            self.again_seconds = now + THROTTLE_SECONDS
            return
        self.again_seconds = None
        self.start()

    def _end_if_silent(self) -> None:
        """Kill a process whose heartbeat stopped. SIGABRT makes it print where its threads are."""
        if self.lock is None or self.process is None:
            return
        now = time.monotonic()
        with contextlib.suppress(OSError):
            beat_ns = self.lock.stat().st_mtime_ns
            # Not compared with the time of day: a laptop that slept finds every file old.
            if beat_ns != self._beat_ns:
                self._beat_ns, self._beat_seen_seconds = beat_ns, now
        if now - self._beat_seen_seconds > MAX_SILENCE_SECONDS:
            self.process.send_signal(signal.SIGABRT)
            self.wait(1.0)

    def _note_end(self, code: int) -> None:
        """Decide what an ended process means: restart it now, restart it later, or leave it."""
        self._let_go()
        self.last_words = self._read_last_words()
        if code == EXIT_RESTART:
            self.again_seconds = 0.0
        elif code == 0:
            if self.is_kept:
                self.again_seconds = self.started_seconds + THROTTLE_SECONDS
            else:
                self.ended = self.last_words or "ended"
        else:
            self._note_failure(code)

    def _note_failure(self, code: int) -> None:
        ran_seconds = time.monotonic() - self.started_seconds
        self.failures = 1 if ran_seconds > STEADY_SECONDS else self.failures + 1
        if self.is_kept:
            # One that was killed is back as fast as the first time, however often that happens.
            doublings = min(self.failures - 1, 10) if code in _LASTING_FAILURES else 0
            pause_seconds = min(MAX_THROTTLE_SECONDS, THROTTLE_SECONDS * 2**doublings)
            self.again_seconds = self.started_seconds + pause_seconds
            return
        self.has_failed = self.failures >= MAX_FAILURES or code in _LASTING_FAILURES
        if self.has_failed:
            self.ended = self.last_words or f"failed with exit code {code}"
        else:
            self.again_seconds = self.started_seconds + THROTTLE_SECONDS

    def _read_last_words(self) -> str:
        if self.errors is None:
            return ""
        self.errors.seek(0)
        lines = self.errors.read(100_000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _let_go(self) -> None:
        if self.lifeline is not None:
            os.close(self.lifeline)
            self.lifeline = None

    def _drop_errors(self) -> None:
        if self.errors is not None:
            self.errors.close()
            self.errors = None

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
