"""A supervisor in the background, for machines without launchd and systemd: containers, WSL without systemd."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from engram.errors import MissingDatabase, ServiceError
from engram.extraction.claude_command import drop_session
from engram.install.changes import FileChange
from engram.models.file_checks import is_deleted
from engram.reports.processes import holder_of, is_held
from engram.services.definition import engram_command, folder_variables
from engram.services.protocol import ServiceStatus, SystemName
from engram.services.supervisor import STOP_SECONDS
from engram.services.tools import last_lines, wait_until, wait_until_working
from engram.settings import Settings

#: Variables that concern the process that starts the supervisor, not the supervisor.
_DROPPED = frozenset({"ENGRAM_DISABLE", "NOTIFY_SOCKET"})


class Background:
    """The supervisor of a memory folder. It outlives the terminal or session that starts it, but no reboot."""

    name = SystemName.BACKGROUND

    def __init__(self, settings: Settings, arguments: Sequence[str] = ()) -> None:
        """Nothing is run yet. ``arguments`` are global flags for the processes."""
        self._settings = settings
        self._home = settings.places
        self._command = (*engram_command(arguments, "service"), "run")
        self._output = self._home.logs / "supervisor.service.log"

    def files(self) -> tuple[FileChange, ...]:
        """None: nothing outside the memory folder starts it. See the setting ``start_with_session``."""
        return ()

    def start(self) -> None:
        """Start the supervisor and wait until both processes run."""
        self.launch()
        wait_until_working(self._home, lambda: self.output(1))

    def launch(self) -> None:
        """Start the supervisor if none runs, without waiting for it.

        Raises:
            MissingDatabase: memory.db was deleted, and there are backups of it.
            ServiceError, HomeError: it can't be started.
        """
        if is_held(self._home.supervisor_lock):
            return
        if is_deleted(self._home.memory_db):
            raise MissingDatabase()
        self._home.prepare()
        environ = {name: value for name, value in drop_session(os.environ).items() if name not in _DROPPED}
        environ |= {"ENGRAM_HOME": str(self._settings.home), **folder_variables(self._settings)}
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
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
        """Stop the supervisor, which stops both processes; waits until all three have ended."""
        if not self._signal(signal.SIGTERM, STOP_SECONDS + 10.0):
            # Its children end by themselves when it is gone.
            self._signal(signal.SIGKILL, 10.0)
        if is_held(self._home.supervisor_lock):
            raise ServiceError(f"the supervisor (pid {holder_of(self._home.supervisor_lock)}) does not end")

    def _signal(self, number: signal.Signals, seconds: float) -> bool:
        """Send a signal to the supervisor; False if it still runs after ``seconds``."""
        lock = self._home.supervisor_lock
        pid = holder_of(lock)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return wait_until(lambda: not is_held(lock), seconds)

    def restart(self) -> None:
        """Stop the supervisor and start it again."""
        self.stop()
        self.start()

    def status(self) -> ServiceStatus:
        """What the locks say."""
        locks = {"work": self._home.worker_lock, "watch": self._home.watcher_lock}
        pid = holder_of(self._home.supervisor_lock)
        details = {}
        for name, lock in locks.items():
            child = holder_of(lock) if pid is not None else None
            details[name] = f"running, pid {child}" if child is not None else "not running"
        return ServiceStatus(
            system=self.name,
            is_installed=self._settings.start_with_session,
            is_running=pid is not None,
            details=details,
        )

    def output(self, lines: int) -> str:
        """The last lines that the supervisor printed."""
        return last_lines(self._output, lines)
