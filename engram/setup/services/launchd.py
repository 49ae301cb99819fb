"""launchd (macOS): load, start and stop this user's two agents."""

from __future__ import annotations

import os
import plistlib
import re
import time
from collections.abc import Sequence
from pathlib import Path

from engram.errors import ServiceError
from engram.paths import user_home
from engram.settings import Settings
from engram.setup.edits.install_steps import FileChange
from engram.setup.services.service_definition import (
    OPEN_FILES,
    STOP_SECONDS,
    THROTTLE_SECONDS,
    Finished,
    Service,
    ServiceStatus,
    SystemName,
    define_services,
    last_lines,
    run_command,
    wait_until,
    wait_until_working,
)
from engram.worker.worker_client import announce_worker

# -- launchd's files (macOS): one agent for the worker, one for the watcher. Rendered by plistlib.

#: launchd ignores agents that others may write to; by convention, others may read them.
_MODE = 0o644


def _agent_label(service: Service) -> str:
    """Return the label of a service's agent, such as ``recall.engram.work``."""
    return f"recall.engram.{service.name}{service.suffix}"


def _agent_path(service: Service, home: Path) -> Path:
    """Return the file of a service's agent; ``home`` is the user's home folder."""
    return home / "Library" / "LaunchAgents" / f"{_agent_label(service)}.plist"


def agent_files(services: Sequence[Service], home: Path) -> tuple[FileChange, ...]:
    return tuple(
        FileChange(_agent_path(service, home), content=plistlib.dumps(_agent(service)), mode=_MODE)
        for service in services
    )


def _agent(service: Service) -> dict[str, object]:
    """Return the content of an agent's file.

    ProcessType is Standard, because launchd throttles background processes, and a recall must answer within 250 ms.
    KeepAlive restarts only after a failure, because a second instance exits with 0 and must not be restarted forever.
    """
    return {
        "Label": _agent_label(service),
        "ProgramArguments": list(service.command),
        "EnvironmentVariables": dict(service.environment),
        "WorkingDirectory": "/",
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": THROTTLE_SECONDS,
        "ExitTimeOut": STOP_SECONDS,
        "ProcessType": "Standard",
        "SoftResourceLimits": {"NumberOfFiles": OPEN_FILES},
        "HardResourceLimits": {"NumberOfFiles": OPEN_FILES},
        "StandardOutPath": str(service.output),
        "StandardErrorPath": str(service.output),
        "Umask": 0o077,
    }


#: How long a load is retried, in seconds. After an unload, launchd refuses to load for about five seconds.
BOOTSTRAP_SECONDS = 20.0
#: Time between two attempts, in seconds.
RETRY_SECONDS = 0.5
#: Exit codes of ``launchctl bootstrap`` while the same agent is still being unloaded or loaded.
_BUSY_CODES = frozenset({5, 37})


class Launchd:
    """The two agents of a memory folder. Their files must be in place before ``start``."""

    name = SystemName.LAUNCHD

    def __init__(self, settings: Settings) -> None:
        self._home = settings.places
        self._user_home = user_home()
        self._services = define_services(settings)
        self._domain = f"gui/{os.getuid()}"

    def files(self) -> tuple[FileChange, ...]:
        """Return the agents, for ~/Library/LaunchAgents."""
        return agent_files(self._services, self._user_home)

    def is_available(self) -> bool:
        """Return True if this user is logged in to a desktop, where agents run."""
        try:
            return run_command(["launchctl", "print", self._domain]).code == 0
        except ServiceError:
            return False

    def start(self) -> None:
        """Load the agents that aren't loaded, start those that aren't running, and wait for both."""
        for service in self._services:
            # The user may have disabled the agent; loading it would then fail without giving a reason.
            self._launchctl("enable", self._target(service))
            if not self._is_loaded(service):
                self._load(service)
            elif _pid_in(self._print(service)) is None:
                self._launchctl("kickstart", self._target(service))
        wait_until_working(self._home, lambda: self.output(1))

    def stop(self) -> None:
        """Unload both agents and wait until launchd has stopped them. They are loaded again at the next login."""
        for service in self._services:
            self._launchctl("bootout", self._target(service))
        # A bootout returns before the process has exited.
        if not wait_until(lambda: not any(map(self._is_loaded, self._services)), STOP_SECONDS + 10.0):
            raise ServiceError("launchd did not stop Engram's agents. Try again: engram service stop")

    def restart(self) -> None:
        """Stop and start both processes, loading agents that are not loaded."""
        announce_worker(self._home)
        for service in self._services:
            if self._is_loaded(service):
                self._launchctl("kickstart", "-k", self._target(service))
        self.start()

    def status(self) -> ServiceStatus:
        printed = {service.name: self._print(service) for service in self._services}
        return ServiceStatus(
            system=self.name,
            is_installed=all(_agent_path(service, self._user_home).is_file() for service in self._services),
            is_running=any(_pid_in(finished) is not None for finished in printed.values()),
            details={name: _describe(finished) for name, finished in printed.items()},
        )

    def output(self, lines: int) -> str:
        """Return the last lines of the files to which launchd writes the processes' output."""
        return "".join(last_lines(service.output, lines) for service in self._services)

    def _load(self, service: Service) -> None:
        path = _agent_path(service, self._user_home)
        if not path.is_file():
            raise ServiceError(f"{path} does not exist. Run: engram install")
        until = time.monotonic() + BOOTSTRAP_SECONDS
        while True:
            finished = self._launchctl("bootstrap", self._domain, str(path))
            if finished.code == 0 or self._is_loaded(service):
                return
            if finished.code not in _BUSY_CODES or time.monotonic() > until:
                raise ServiceError(f"launchd did not load {path}: {finished.last_line}")
            time.sleep(RETRY_SECONDS)

    def _is_loaded(self, service: Service) -> bool:
        return self._print(service).code == 0

    def _print(self, service: Service) -> Finished:
        return self._launchctl("print", self._target(service))

    def _target(self, service: Service) -> str:
        return f"{self._domain}/{_agent_label(service)}"

    def _launchctl(self, *arguments: str) -> Finished:
        return run_command(["launchctl", *arguments])


def _pid_in(printed: Finished) -> int | None:
    """Return the process id in the output of ``launchctl print``; None if it is not running."""
    found = re.search(r"^\s*pid = (\d+)$", printed.text, re.MULTILINE) if printed.code == 0 else None
    return int(found[1]) if found else None


def _describe(printed: Finished) -> str:
    if printed.code != 0:
        return "not loaded"
    pid = _pid_in(printed)
    if pid is not None:
        return f"running, pid {pid}"
    code = re.search(r"^\s*last exit code = (.+)$", printed.text, re.MULTILINE)
    return f"loaded, not running, last exit code {code[1]}" if code else "loaded, not running"
