"""Find the system that starts the processes of a memory folder, or that could start them."""

from __future__ import annotations

import shutil
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from engram.errors import ServiceError
from engram.paths import Home
from engram.reports.processes import OtherProcess, processes_of_other_code, signal_holder, terminal_run
from engram.settings import Settings
from engram.setup.edits.install_steps import Step
from engram.setup.services.launchd import Launchd
from engram.setup.services.service_definition import AGENT_FOLDERS, ServiceSystem, SystemName, is_working, wait_until
from engram.setup.services.supervisor import Background
from engram.setup.services.systemd import Systemd
from engram.worker.worker_client import announce_worker

#: Time limit, in seconds, for a process of another version to stop cleanly, and then again for it to stop at all.
END_SECONDS = 20.0


def installed_system(settings: Settings, arguments: Sequence[str] = ()) -> ServiceSystem:
    """Return the system that starts the processes: launchd or systemd if its files are there, else a supervisor.

    Args:
        arguments: global flags for a supervisor's processes.
    """
    for system in (Launchd(settings), Systemd(settings)):
        command = "launchctl" if system.name is SystemName.LAUNCHD else "systemctl"
        if any(change.path.exists() for change in system.files()) and shutil.which(command) is not None:
            return system
    return Background(settings, arguments)


def best_system(settings: Settings) -> ServiceSystem:
    """Return the best system that this machine has: launchd on macOS, systemd on Linux, else a supervisor."""
    if sys.platform == "darwin":
        launchd = Launchd(settings)
        return launchd if launchd.is_available() else Background(settings)
    systemd = Systemd(settings)
    return systemd if systemd.is_available() else Background(settings)


def system_by_name(name: SystemName, settings: Settings) -> ServiceSystem:
    systems: dict[SystemName, type[Launchd] | type[Systemd] | type[Background]] = {
        SystemName.LAUNCHD: Launchd,
        SystemName.SYSTEMD: Systemd,
        SystemName.BACKGROUND: Background,
    }
    return systems[name](settings)


def restart_if_running(settings: Settings) -> bool:
    """Restart the processes if a service or a supervisor runs them; return False if none does. Raises ServiceError.

    Processes of an `engram up` in a terminal are left alone.
    """
    system = installed_system(settings)
    if not system.status().is_running:
        return False
    system.restart()
    return True


def end_other_versions(settings: Settings) -> list[OtherProcess]:
    """Stop and return the processes of this memory folder that run another version's code, whoever started them.

    Call this only with the user's consent. An `engram up` in a terminal exits with its processes.

    Raises:
        ServiceError: one of them can't be stopped.
    """
    home = settings.places
    ended = processes_of_other_code(home)
    system = installed_system(settings)
    if ended and system.status().is_running:
        system.stop()
    until = time.monotonic() + END_SECONDS
    while others := processes_of_other_code(home):
        is_late = time.monotonic() > until
        for other in others:
            if other.pid is None or time.monotonic() > until + END_SECONDS:
                raise ServiceError(f"another version's {other.described} does not stop. Kill it yourself")
            signal_holder(other.lock, signal.SIGKILL if is_late else signal.SIGTERM)
        wait_until(lambda: not processes_of_other_code(home), 1.0)
    return ended


# -- The service as a step of an installation: its files, and the actions that start and stop it.


@dataclass(frozen=True, slots=True)
class StopServices:
    """Stops running processes before the files change; undone by restarting what was running if its files are back."""

    system: str
    home: str
    #: Setting of an agent's folder → the folder.
    folders: Mapping[str, str]
    was_running: bool
    kind: ClassVar[str] = "stop-services"

    def describe(self) -> str:
        return f"stop the worker and the watcher ({self.system}){'' if self.was_running else ', if they are running'}"

    def apply(self) -> None:
        """Stop both processes if the system runs them."""
        system = _system(self)
        if system.status().is_running:
            # Only an installation stops processes in this way, and it restarts the worker at the end.
            announce_worker(Home(Path(self.home)))
            system.stop()

    def verify(self) -> str:
        """Return "" once nothing is running."""
        running = _system(self).status().is_running
        return f"{self.system} is still running the worker or the watcher" if running else ""

    def undo(self) -> None:
        """Notify the system that the files are restored, and start what was running before."""
        system = _system(self)
        if isinstance(system, Systemd):
            system.reload()
        if self.was_running and (system.status().is_installed or self.system == SystemName.BACKGROUND):
            system.start()


@dataclass(frozen=True, slots=True)
class StartServices:
    """Starts the worker and the watcher; undone by stopping them."""

    system: str
    home: str
    #: Setting of an agent's folder → the folder.
    folders: Mapping[str, str]
    kind: ClassVar[str] = "start-services"

    def describe(self) -> str:
        return f"start the worker and the watcher ({self.system})"

    def apply(self) -> None:
        announce_worker(Home(Path(self.home)))
        _system(self).start()

    def verify(self) -> str:
        """Return "" if both processes are running."""
        if is_working(Home(Path(self.home))):
            return ""
        return "the worker or the watcher is not running. For details, run: engram service logs"

    def undo(self) -> None:
        _system(self).stop()


def plan_service(settings: Settings) -> Step:
    """Return the step that starts the processes, now and at login, with the best system on this machine.

    A supervisor of an earlier installation is stopped if launchd or systemd takes over.
    """
    system, present = best_system(settings), installed_system(settings)
    home, folders = str(settings.home), agent_folders(settings)
    before = tuple(
        StopServices(system=known.name.value, home=home, folders=folders, was_running=_is_running(known))
        for known in {known.name: known for known in (present, system)}.values()
    )
    return Step(
        name="service",
        summary=_SUMMARIES[system.name],
        changes=system.files(),
        before=before,
        after=(StartServices(system=system.name.value, home=home, folders=folders),),
        notes=_notes(system, settings),
    )


def agent_folders(settings: Settings) -> dict[str, str]:
    """Return the agents' folders in the form that an action stores."""
    return {name: str(getattr(settings, name)) for name in AGENT_FOLDERS}


_SUMMARIES = {
    SystemName.LAUNCHD: "Start the worker and the watcher at login (launchd)",
    SystemName.SYSTEMD: "Start the worker and the watcher at login (systemd user units)",
    SystemName.BACKGROUND: "Start the worker and the watcher in the background (there is no launchd or systemd)",
}


def _notes(system: ServiceSystem, settings: Settings) -> tuple[str, ...]:
    notes = []
    if (up := terminal_run(settings.places)) is not None and not processes_of_other_code(settings.places):
        notes.append(
            f"`engram up` (pid {up}) already runs them in a terminal, so the service waits. Press Ctrl-C there, then: "
            "engram service start"
        )
    if isinstance(system, Systemd) and system.is_lingering() is False:
        notes.append(
            "The worker and the watcher stop when you log out. To keep them running, run: loginctl enable-linger"
        )
    elif system.name is SystemName.BACKGROUND and settings.start_with_session:
        notes.append("After a restart of this machine, the next Claude Code session starts the worker and the watcher.")
    elif system.name is SystemName.BACKGROUND:
        notes.append(
            "After a reboot, type `engram service start`, or let Claude Code start it: "
            "engram config set start_with_session true"
        )
    return tuple(notes)


def _system(action: StopServices | StartServices) -> ServiceSystem:
    folders: dict[str, Any] = {name: Path(folder) for name, folder in action.folders.items() if name in AGENT_FOLDERS}
    return system_by_name(SystemName(action.system), replace(Settings(home=Path(action.home)), **folders))


def _is_running(system: ServiceSystem) -> bool:
    try:
        return system.status().is_running
    except ServiceError:
        return False
