"""Run a command with a text on its standard input, limit its time and output, and leave no process behind."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.extraction.model import call_guard

#: Maximum size of the standard output, in bytes; a command that writes more is ended.
MAX_OUTPUT_BYTES = 8_000_000
#: Maximum size of the standard error that is kept, in bytes; the rest is read and dropped.
MAX_ERROR_BYTES = 64_000
#: How much longer than the command the guard may run, and how long ending the command may take, in seconds.
_GUARD_SECONDS, _END_SECONDS = 5.0, 3.0
_CHUNK_BYTES = 65_536
#: Number of chunks to read from a pipe after the command has ended; more than a pipe can hold.
_MAX_LAST_CHUNKS = 32


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended."""

    #: The command's exit code: 128 + n if signal n ended it, 127 if it could not be started.
    exit_code: int
    #: At most ``MAX_OUTPUT_BYTES``.
    output: bytes
    #: At most ``MAX_ERROR_BYTES``.
    errors: bytes
    #: True if it ran out of time or was cancelled.
    has_timed_out: bool = False
    #: True if it wrote more than ``MAX_OUTPUT_BYTES``.
    has_overflowed: bool = False


def run_bounded(
    command: Sequence[str],
    text: bytes,
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    cancelled: threading.Event | None = None,
) -> Finished:
    """Run a command until it ends, or kill it with every process in its group.

    A guard process runs the command and ends it if this process is killed. A process that the command leaves behind
    with its output still open does not delay the return.

    Args:
        text: the standard input of the command.
        environment: the complete environment of the command.
        seconds: how long the command may run.
        cancelled: an event that, when set, ends the command within a fraction of a second.
    """
    ours, theirs = socket.socketpair()
    guard = [sys.executable, "-I", "-S", str(Path(call_guard.__file__)), f"{seconds:.3f}", str(theirs.fileno())]
    with ours, theirs:
        process = subprocess.Popen(
            [*guard, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(environment),
            pass_fds=(theirs.fileno(),),
            start_new_session=True,
        )
        theirs.close()
        try:
            exchange = _Exchange(process, ours, text, time.monotonic() + seconds + _GUARD_SECONDS, cancelled)
            has_overflowed = not exchange.run()
        finally:
            _end(process, ours)
    code = exchange.exit_code
    return Finished(
        exit_code=code,
        output=bytes(exchange.output),
        errors=bytes(exchange.errors),
        has_timed_out=code == call_guard.EXIT_TIMEOUT or exchange.was_cut,
        has_overflowed=has_overflowed,
    )


class _Exchange:
    """Writes the input and collects output and errors until the guard reports that the command has ended."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        guard: socket.socket,
        text: bytes,
        deadline: float,
        cancelled: threading.Event | None,
    ) -> None:
        self.output = bytearray()
        self.errors = bytearray()
        #: The exit code that the guard reported; that of a killed command if the guard reported none.
        self.exit_code = 128 + signal.SIGKILL
        self._guard = guard
        #: True if the deadline passed or the caller cancelled.
        self.was_cut = False
        self._has_ended = False
        self._process = process
        self._left = memoryview(text)
        self._deadline = deadline
        self._cancelled = cancelled

    def run(self) -> bool:
        """Exchange data until the command has ended; return False if the command wrote too much."""
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        with selectors.DefaultSelector() as selector:
            os.set_blocking(process.stdin.fileno(), False)
            selector.register(process.stdin, selectors.EVENT_WRITE)
            selector.register(process.stdout, selectors.EVENT_READ, self.output)
            selector.register(process.stderr, selectors.EVENT_READ, self.errors)
            selector.register(self._guard, selectors.EVENT_READ)
            while not self._has_ended:
                if time.monotonic() > self._deadline or (self._cancelled is not None and self._cancelled.is_set()):
                    self.was_cut = True
                    return True
                for key, _ in selector.select(call_guard.POLL_SECONDS):
                    if key.fileobj is process.stdin:
                        self._write(selector)
                    elif key.fileobj is self._guard:
                        self._take_report(selector)
                        break
                    else:
                        self._read(selector, key)
                if len(self.output) > MAX_OUTPUT_BYTES:
                    return False
        return True

    def _write(self, selector: selectors.BaseSelector) -> None:
        stream = self._process.stdin
        assert stream is not None
        try:
            written = os.write(stream.fileno(), self._left[:_CHUNK_BYTES]) if self._left else 0
        except BlockingIOError:
            return
        except OSError:
            # The command does not read its input; its exit code shows why.
            written = len(self._left)
        self._left = self._left[written:]
        if not self._left:
            selector.unregister(stream)
            with contextlib.suppress(OSError):
                stream.close()

    def _take_report(self, selector: selectors.BaseSelector) -> None:
        """Read the rest of the output. The command has ended, but another process may keep the pipes open."""
        report = self._guard.recv(16)
        if report.isdigit():
            self.exit_code = int(report)
        self._has_ended = True
        for key in list(selector.get_map().values()):
            if key.data is not None:
                os.set_blocking(key.fd, False)
                with contextlib.suppress(BlockingIOError, KeyError):
                    for _ in range(_MAX_LAST_CHUNKS):
                        self._read(selector, selector.get_key(key.fileobj))

    def _read(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, _CHUNK_BYTES)
        if not data:
            selector.unregister(key.fileobj)
        elif key.data is self.output or len(self.errors) < MAX_ERROR_BYTES:
            key.data.extend(data)


def _end(process: subprocess.Popen[bytes], guard: socket.socket) -> None:
    """Let the guard end the command and itself; kill its group if it does not."""
    deadline = time.monotonic() + _END_SECONDS
    with contextlib.suppress(OSError):
        guard.shutdown(socket.SHUT_WR)
        while (left := deadline - time.monotonic()) > 0:
            guard.settimeout(left)
            if not guard.recv(16):
                break
    # The guard has not been reaped yet, so no other group has its number.
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with contextlib.suppress(OSError):
                stream.close()
