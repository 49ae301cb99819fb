"""Run a service manager's own command, and wait for its effect."""

from __future__ import annotations

import os
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.errors import ServiceError
from engram.paths import Home
from engram.reports.processes import is_held

#: Maximum duration of a command, in seconds; a command that stops a service waits until the service has stopped.
COMMAND_SECONDS = 60.0
#: How long to wait for the processes to start, in seconds.
READY_SECONDS = 30.0
#: Time between two checks, in seconds.
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a command."""

    code: int
    #: Its output, standard output first.
    text: str

    @property
    def last_line(self) -> str:
        """The last line that it printed; its exit code if it printed nothing."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {self.code}"


def run_command(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Finished:
    """Run a command and wait for it to exit.

    Raises:
        ServiceError: it can't be run, or does not exit in time.
    """
    try:
        finished = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            env=None if environ is None else dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"can't run {' '.join(command)}: {error}") from error
    return Finished(finished.returncode, (finished.stdout + finished.stderr).decode("utf-8", "replace"))


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until ``condition`` is true; return False if that takes longer than ``seconds``."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def is_working(home: Home) -> bool:
    """Return True if both processes are running, whoever started them."""
    return is_held(home.worker_lock) and is_held(home.watcher_lock)


def wait_until_working(home: Home, read_reason: Callable[[], str]) -> None:
    """Wait until both processes are running.

    Args:
        read_reason: returns the processes' output, for the error message.

    Raises:
        ServiceError: a process is not running after ``READY_SECONDS``.
    """
    if wait_until(lambda: is_working(home), READY_SECONDS):
        return
    missing = [
        name for name, lock in (("worker", home.worker_lock), ("watcher", home.watcher_lock)) if not is_held(lock)
    ]
    reason = read_reason().strip().splitlines()
    told = f": {reason[-1]}" if reason else ""
    raise ServiceError(f"the {' and the '.join(missing)} did not start{told}. For details, run: engram service logs")


def last_lines(path: Path, lines: int) -> str:
    """Return the last lines of a text file; "" if it can't be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return "".join(deque(file, maxlen=lines))
    except OSError:
        return ""


def with_runtime_folder() -> dict[str, str]:
    """Return the environment; add the address of the user's service manager, which ``su`` and hooks may lack."""
    kept = dict(os.environ)
    folder = f"/run/user/{os.getuid()}"
    if not kept.get("XDG_RUNTIME_DIR") and os.path.isdir(folder):
        kept["XDG_RUNTIME_DIR"] = folder
    return kept
