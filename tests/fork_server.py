"""Processes without the second that a new interpreter takes: forks of one that has everything imported and no thread.

``python tests/fork_server.py FD`` serves at a socket: it forks a process for a piece of Python code, and says how it
ended. Such a process has its own environment, folder, streams and state, and ends as an interpreter does; only its
command line is the server's. What depends on that, or on what a start imports, needs ``subprocess``.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO, Any

from engram.system import failpoint

REPO = Path(__file__).resolve().parent.parent
#: What the processes would import; the server does so once.
PRELOADED = (
    "engram.worker.lifecycle",
    "engram.worker.recall_client",
    "engram.watcher.watch",
    "engram.tasks.drain",
    "engram.tasks.session_tasks",
    "engram.tasks.upkeep_tasks",
    "engram.consolidation.consolidation_run",
    "engram.consolidation.tidying_steps",
    "engram.embedding.hashed",
    "engram.extraction.local.local_extractor",
    "engram.recollection.session_start",
    "engram.reports.session_report",
    "engram.search.passages.passage_search",
    "engram.transcripts.registry",
    "engram_mcp.catalog",
    "engram_mcp.session",
)
#: How much is read at a time, in bytes.
READ_BYTES = 1 << 16
#: How often somebody who waits looks, in seconds.
LOOK_SECONDS = 0.02


def serve(file: int) -> str:
    """Fork a process for each request until the client is gone; returns in such a process, with its code."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=file) as client:
        while True:
            data, files, _, _ = socket.recv_fds(client, READ_BYTES, 3)
            while data and not data.endswith(b"\n"):
                data += client.recv(READ_BYTES)
            if not data:
                sys.exit()
            request = json.loads(data)
            if not files:
                _tell(client, _status_of(request["pid"]))
                continue
            if (child := os.fork()) == 0:
                client.close()
                _become(request, files)
                return str(request["code"])
            for each in files:
                os.close(each)
            _tell(client, child)


def _tell(client: socket.socket, answer: int | None) -> None:
    client.sendall(json.dumps(answer).encode() + b"\n")


def _status_of(pid: int) -> int | None:
    """Exit code of a process that has ended; None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if ended else None


def _become(request: dict[str, Any], files: list[int]) -> None:
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.stdin, sys.stdout, sys.stderr = (open(number, mode) for number, mode in enumerate("rww"))  # noqa: SIM115
    os.environ.clear()
    os.environ.update(request["environment"])
    importlib.reload(failpoint)  # it reads the environment at its import
    os.chdir(request["folder"])


@functools.cache
def _server(owner: int) -> tuple[socket.socket, threading.Lock]:
    """The socket of the server of this process, which ends with it."""
    ours, its = socket.socketpair()
    paths = [str(REPO / name) for name in ("", "hooks", "mcp_server", "tests", "benchmarks")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
    with its:
        subprocess.Popen(
            [sys.executable, __file__, str(its.fileno())],
            env=environment,
            cwd=REPO,
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
        )
    return ours, threading.Lock()


class ForkedProcess:
    """A process that runs Python code; it is used as one of ``subprocess``."""

    def __init__(
        self,
        code: str,
        environment: dict[str, str] | None = None,
        folder: Path | None = None,
        *,
        stdout: int | None = None,
        stderr: int | None = None,
        text: bool = False,
    ) -> None:
        self.returncode: int | None = None
        request = {"code": code, "environment": dict(environment or os.environ), "folder": str(folder or Path.cwd())}
        with contextlib.ExitStack() as given:
            null = os.open(os.devnull, os.O_RDWR)
            given.callback(os.close, null)
            self.stdout, out = _stream(stdout, 1, null, text, given)
            self.stderr, error = _stream(stderr, 2, null, text, given)
            self.pid = int(self._ask(request, [null, out, error]))

    def _ask(self, request: dict[str, Any], files: list[int]) -> Any:
        connection, lock = _server(os.getpid())
        with lock:
            data = json.dumps(request).encode() + b"\n"
            sent = socket.send_fds(connection, [data], files) if files else 0
            connection.sendall(data[sent:])
            return json.loads(connection.recv(READ_BYTES))

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = self._ask({"pid": self.pid}, [])
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = time.monotonic() + timeout if timeout is not None else None
        while (code := self.poll()) is None:
            if until is not None and time.monotonic() > until:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0)
            time.sleep(LOOK_SECONDS)
        return code

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Read its streams to their end, first what it prints, and wait for its own."""
        said = [stream.read() if stream is not None and not stream.closed else None for stream in self._streams]
        for stream in self._streams:
            if stream is not None:
                stream.close()
        self.wait(timeout)
        return said[0], said[1]

    @property
    def _streams(self) -> tuple[IO[Any] | None, IO[Any] | None]:
        return self.stdout, self.stderr

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _stream(
    wanted: int | None, own: int, null: int, text: bool, given: contextlib.ExitStack
) -> tuple[IO[Any] | None, int]:
    """What the test reads, and the file that the process gets."""
    if wanted != subprocess.PIPE:
        return None, null if wanted == subprocess.DEVNULL else own
    reading, writing = os.pipe()
    given.callback(os.close, writing)
    return open(reading, "r" if text else "rb"), writing


if __name__ == "__main__":
    exec(compile(serve(int(sys.argv[1])), "<string>", "exec"), {"__name__": "__main__"})
