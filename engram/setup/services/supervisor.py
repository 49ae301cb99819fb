"""The watcher and the worker as child processes: start, restart and stop them together."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from engram.errors import AlreadyRunning, ServiceError
from engram.extraction.model.claude_provider import drop_keys_beside_login, drop_session
from engram.log import start_logging
from engram.models.engine.database import check_missing, is_deleted
from engram.redaction import redact
from engram.reports.processes import holder_of, is_held, parent_of, signal_holder
from engram.settings import Settings
from engram.setup.edits.install_steps import FileChange
from engram.setup.services.service_definition import (
    ServiceStatus,
    SystemName,
    folder_variables,
    last_lines,
    process_command,
    wait_until,
    wait_until_working,
)
from engram.system.process_lock import EXIT_RESTART, MAX_SILENCE_SECONDS, ProcessLock
from engram.version import code_version
from engram.worker.worker_client import announce_worker

#: Minimum time between two starts of a child that failed, in seconds.
THROTTLE_SECONDS = 5.0
#: Maximum time between two starts of a child that keeps failing, for example because of a wrong setting, in seconds.
MAX_THROTTLE_SECONDS = 60.0
#: Number of consecutive failures, each soon after a start, after which a child is given up on, unless ``is_kept``.
MAX_FAILURES = 5
#: A child that has run for this long, in seconds, did not fail at startup.
STEADY_SECONDS = 60.0
#: How long children may take to stop cleanly before they are killed, in seconds.
STOP_SECONDS = 15.0
#: Exit codes of failures that a restart would only repeat: an expected error, and a wrong command line.
_LASTING_FAILURES = (1, 2)


@dataclass(slots=True)
class Child:
    name: str
    command: Sequence[str]
    #: Restart it forever; otherwise it is given up on after some failures, and not restarted after a clean exit.
    is_kept: bool = False
    #: The lock that it holds while it works, and touches at every heartbeat; None if it has none.
    lock: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    #: Our end of the pipe; the child sees it closed once this process has exited.
    lifeline: int | None = None
    errors: IO[bytes] | None = None
    started_seconds: float = 0.0
    starts: int = 0
    failures: int = 0
    #: When it will be restarted, by the monotonic clock; None while it runs, or if it will not be restarted.
    again_seconds: float | None = None
    #: Why it has stopped for good; "" while it runs or will be restarted.
    ended: str = ""
    #: The last line that it printed before it exited; "" if it has never exited, or printed nothing.
    last_words: str = ""
    #: True if it was given up on after too many failures.
    has_failed: bool = False
    #: The time of the last heartbeat, and when it was first seen, by the monotonic clock.
    _beat_ns: int = 0
    _beat_seen_seconds: float = 0.0

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start the child in its own group, so that Ctrl-C reaches only this process, which stops the child cleanly."""
        ours, theirs = os.pipe()[::-1]
        self._drop_errors()
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - read after the process has exited
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
        """Restart the process if it has exited or hangs; if it is not to be restarted, record why it exited."""
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
            # Another process is doing its work, such as `engram up` in a terminal.
            self.again_seconds = now + THROTTLE_SECONDS
            return
        # If it can't be started, such as when its environment was moved, the next attempt must wait.
        self.again_seconds = now + THROTTLE_SECONDS
        self.start()
        self.again_seconds = None

    def _end_if_silent(self) -> None:
        """Kill a process whose heartbeat has stopped. SIGABRT makes it print its threads' stacks."""
        if self.lock is None or self.process is None:
            return
        now = time.monotonic()
        with contextlib.suppress(OSError):
            beat_ns = self.lock.stat().st_mtime_ns
            # Don't compare it with the time of day: on a laptop that has slept, every file would seem old.
            if beat_ns != self._beat_ns:
                self._beat_ns, self._beat_seen_seconds = beat_ns, now
        if now - self._beat_seen_seconds > MAX_SILENCE_SECONDS:
            self.process.send_signal(signal.SIGABRT)
            self.wait(1.0)

    def _note_end(self, code: int) -> None:
        """Decide what to do about a process that exited: restart it now, later, or not at all."""
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
            # A killed child is restarted after the same short pause every time.
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
        """Wait for the process to exit; if that takes too long, kill it with its group and return False."""
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
    """All child processes, which are managed together."""

    children: list[Child] = field(default_factory=list)

    def start(self) -> None:
        for child in self.children:
            child.start()

    def look(self) -> bool:
        """Check each child once; return False if none is running or will run again, or if one was given up on."""
        for child in self.children:
            child.look()
        return not any(child.has_failed for child in self.children) and not all(child.ended for child in self.children)

    def stop(self) -> bool:
        """Stop all children together, and wait for them; return False if one had to be killed."""
        until = time.monotonic() + STOP_SECONDS
        for child in self.children:
            child.ask_to_stop()
        were_clean = [child.wait(until - time.monotonic()) for child in self.children]
        return all(were_clean)


# -- The supervisor in the background, one for each memory folder, which keeps the worker and the watcher running.

logger = logging.getLogger(__name__)

#: Time between two checks of the children, in seconds.
LOOK_SECONDS = 1.0


def run_supervisor(settings: Settings, arguments: Sequence[str] = ()) -> int:
    """Run until SIGTERM, SIGINT or SIGHUP, or until the memory folder is deleted; call it from the main thread.

    Returns:
        0 after a clean stop, 1 if a child had to be killed.

    Raises:
        AlreadyRunning: a supervisor is already running for this memory folder.
        HomeError: the memory folder can't be used.
    """
    os.umask(0o077)
    home = settings.places.prepare()
    try:
        lock = ProcessLock(home.supervisor_lock, code_version())
    except AlreadyRunning as error:
        raise AlreadyRunning(f"a supervisor is already running for {home.root}; this one exits") from error
    start_logging(home.logs, "supervisor", settings.log_level, redact)
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: stopping.set())
    locks = {"watch": home.watcher_lock, "work": home.worker_lock}
    supervisor = Supervisor(
        [Child(name, process_command(arguments, name), is_kept=True, lock=path) for name, path in locks.items()]
    )
    logger.info("action=start pid=%d", os.getpid())
    try:
        _keep_running(supervisor, lock, stopping, home.memory_db)
    finally:
        was_clean = supervisor.stop()
        if stopping.is_set():
            lock.note_end()
        # The lock is held until the process has exited, so waiting for the lock means waiting for all three processes.
        logger.info("action=end clean=%s", was_clean)
    return 0 if was_clean else 1


def _keep_running(supervisor: Supervisor, lock: ProcessLock, stopping: threading.Event, memory_db: Path) -> None:
    """Check on the children every second.

    If the lock file is missing, the memory folder was deleted, so nothing is recreated. A memory.db that was deleted
    while its backups remain is not recreated either: the children would exit and be restarted forever.
    """
    supervisor.start()
    starts = dict.fromkeys((child.name for child in supervisor.children), 1)
    while not stopping.wait(LOOK_SECONDS) and lock.is_in_place() and not is_deleted(memory_db):
        lock.touch()
        try:
            supervisor.look()
        except OSError as error:
            # This machine has run out of processes or file descriptors: try again.
            logger.warning("action=look failed=%s", error)
        for child in supervisor.children:
            if child.starts != starts[child.name]:
                starts[child.name] = child.starts
                logger.warning(
                    "action=restart process=%s starts=%d said=%s", child.name, child.starts, child.last_words
                )


# -- A supervisor in the background, for machines without launchd and systemd: containers, WSL without systemd.

#: Environment variables that concern the process that starts the supervisor, not the supervisor itself.
_DROPPED = frozenset({"ENGRAM_DISABLE", "NOTIFY_SOCKET"})
#: The folder that Engram was loaded from.
_OWN_FOLDER = str(Path(__file__).resolve().parents[3])


class Background:
    """The supervisor of a memory folder. It outlives the terminal or session that starts it, but not a reboot."""

    name = SystemName.BACKGROUND

    def __init__(self, settings: Settings, arguments: Sequence[str] = ()) -> None:
        self._settings = settings
        self._home = settings.places
        self._command = process_command(arguments)
        self._output = self._home.logs / "supervisor.service.log"
        self._child_locks = (self._home.worker_lock, self._home.watcher_lock)

    def files(self) -> tuple[FileChange, ...]:
        """Return (): nothing outside the memory folder starts it. See the ``start_with_session`` setting."""
        return ()

    def start(self) -> None:
        self.launch()
        wait_until_working(self._home, lambda: self.output(1))

    def launch(self) -> None:
        """Start the supervisor if none is running, without waiting for it.

        Raises:
            MissingDatabase: memory.db was deleted, but there are backups of it.
            ServiceError, HomeError: it can't be started.
        """
        if is_held(self._home.supervisor_lock):
            return
        check_missing(self._home.memory_db)
        self._home.prepare()
        environ = _own_environment(drop_keys_beside_login(self._settings, os.environ))
        environ |= {"ENGRAM_HOME": str(self._settings.home), **folder_variables(self._settings)}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            output = os.open(self._output, flags, 0o600)
            try:
                subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    cwd=self._home.root,
                    env=environ,
                    start_new_session=True,
                )
            finally:
                os.close(output)
        except OSError as error:
            raise ServiceError(f"can't start the supervisor: {error}") from error

    def stop(self) -> None:
        """Stop the supervisor, which stops both processes, and wait until all three have exited."""
        pid = holder_of(self._home.supervisor_lock)
        children = [lock for lock in self._child_locks if pid is not None and parent_of(holder_of(lock) or 0) == pid]
        if not self._signal(signal.SIGTERM, STOP_SECONDS + 10.0):
            # Its children exit automatically once it has exited.
            self._signal(signal.SIGKILL, 10.0)
            wait_until(lambda: not any(map(is_held, children)), STOP_SECONDS)
        if is_held(self._home.supervisor_lock):
            raise ServiceError(f"the supervisor (pid {holder_of(self._home.supervisor_lock)}) does not stop")

    def _signal(self, number: signal.Signals, seconds: float) -> bool:
        """Send a signal to the supervisor; return False if it is still running after ``seconds``."""
        lock = self._home.supervisor_lock
        signal_holder(lock, number)
        return wait_until(lambda: not is_held(lock), seconds)

    def restart(self) -> None:
        announce_worker(self._home)
        self.stop()
        self.start()

    def status(self) -> ServiceStatus:
        """Return the status according to the locks."""
        pid = holder_of(self._home.supervisor_lock)
        details = {}
        for name, lock in zip(("work", "watch"), self._child_locks, strict=True):
            child = holder_of(lock) if pid is not None else None
            is_own = child is not None and parent_of(child) == pid
            details[name] = f"running, pid {child}" if is_own else "not running"
        return ServiceStatus(
            system=self.name,
            is_installed=self._settings.start_with_session,
            is_running=pid is not None,
            details=details,
        )

    def output(self, lines: int) -> str:
        """Return the last lines that the supervisor printed."""
        return last_lines(self._output, lines)


def _own_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without variables that concern the session or terminal that starts the supervisor.

    A project's PYTHON… variables may lead to its own modules. They are kept only if Engram itself is found through
    them, as when it is run from a checkout.
    """
    is_found_by_path = _OWN_FOLDER in environ.get("PYTHONPATH", "").split(os.pathsep)
    return {
        name: value
        for name, value in drop_session(environ).items()
        if name not in _DROPPED and (is_found_by_path or not name.startswith("PYTHON"))
    }
