"""The service as a step of an installation: its files, and the actions that start and stop it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from engram.errors import ServiceError
from engram.install.changes import Step
from engram.paths import Home
from engram.services.choose import best_system, installed_system, system_by_name
from engram.services.definition import AGENT_FOLDERS
from engram.services.protocol import ServiceSystem, SystemName
from engram.services.systemd import Systemd
from engram.services.tools import is_working
from engram.settings import Settings


@dataclass(frozen=True, slots=True)
class StopServices:
    """Stops what runs, before the files change; undone by starting it again if it ran and its files are back."""

    system: str
    home: str
    #: Setting of an agent's folder → the folder.
    folders: Mapping[str, str]
    was_running: bool
    kind: ClassVar[str] = "stop-services"

    def describe(self) -> str:
        """What it will do."""
        return f"stop the worker and the watcher ({self.system})"

    def apply(self) -> None:
        """Stop both processes if the system runs them."""
        system = _system(self)
        if system.status().is_running:
            system.stop()

    def verify(self) -> str:
        """ "" once nothing runs."""
        running = _system(self).status().is_running
        return f"{self.system} still runs the worker or the watcher" if running else ""

    def undo(self) -> None:
        """Let the system see that the files are as before, and start what ran before."""
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
        """What it will do."""
        return f"start the worker and the watcher ({self.system})"

    def apply(self) -> None:
        """Start both processes and wait until they run."""
        _system(self).start()

    def verify(self) -> str:
        """ "" if both processes run."""
        if is_working(Home(Path(self.home))):
            return ""
        return "the worker or the watcher does not run. See: engram service logs"

    def undo(self) -> None:
        """Stop both processes."""
        _system(self).stop()


def plan_service(settings: Settings) -> Step:
    """The step that makes the processes start at login and starts them now, with the best system of this machine.

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
        notes=_notes(system),
    )


def agent_folders(settings: Settings) -> dict[str, str]:
    """The agents' folders as an action stores them."""
    return {name: str(getattr(settings, name)) for name in AGENT_FOLDERS}


_SUMMARIES = {
    SystemName.LAUNCHD: "Start the worker and the watcher at login (launchd)",
    SystemName.SYSTEMD: "Start the worker and the watcher at login (systemd user units)",
    SystemName.BACKGROUND: "Start the worker and the watcher in the background (no launchd or systemd here)",
}


def _notes(system: ServiceSystem) -> tuple[str, ...]:
    if isinstance(system, Systemd) and system.is_lingering() is False:
        return ("They stop when you log out. To keep them running, run: loginctl enable-linger",)
    if system.name is SystemName.BACKGROUND:
        return (
            "They do not start again after a restart of this machine. Run `engram service start` then, or let Claude "
            "Code's sessions start them: engram config set start_with_session true",
        )
    return ()


def _system(action: StopServices | StartServices) -> ServiceSystem:
    folders: dict[str, Any] = {name: Path(folder) for name, folder in action.folders.items() if name in AGENT_FOLDERS}
    return system_by_name(SystemName(action.system), replace(Settings(home=Path(action.home)), **folders))


def _is_running(system: ServiceSystem) -> bool:
    try:
        return system.status().is_running
    except ServiceError:
        return False
