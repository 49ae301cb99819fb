"""Finds what starts the processes of a memory folder, or what could."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence

from engram.errors import ServiceError
from engram.reports.processes import OtherProcess, processes_of_other_code
from engram.services.background import Background
from engram.services.launchd import Launchd
from engram.services.protocol import ServiceSystem, SystemName
from engram.services.systemd import Systemd
from engram.services.tools import wait_until
from engram.settings import Settings

#: How long a process of another version has for a clean end, and after that for any, in seconds.
END_SECONDS = 20.0


def installed_system(settings: Settings, arguments: Sequence[str] = ()) -> ServiceSystem:
    """What starts the processes of this memory folder: launchd or systemd if its files are there, else a supervisor.

    Args:
        settings: whose memory folder counts.
        arguments: global flags for a supervisor's processes.
    """
    for system in (Launchd(settings), Systemd(settings)):
        if any(change.path.exists() for change in system.files()) and _has_command(system.name):
            return system
    return Background(settings, arguments)


def best_system(settings: Settings) -> ServiceSystem:
    """The best system that this machine has: launchd on macOS, systemd on Linux, else a supervisor."""
    if sys.platform == "darwin":
        launchd = Launchd(settings)
        return launchd if launchd.is_available() else Background(settings)
    systemd = Systemd(settings)
    return systemd if systemd.is_available() else Background(settings)


def system_by_name(name: SystemName, settings: Settings) -> ServiceSystem:
    """The system of a name."""
    systems: dict[SystemName, type[Launchd] | type[Systemd] | type[Background]] = {
        SystemName.LAUNCHD: Launchd,
        SystemName.SYSTEMD: Systemd,
        SystemName.BACKGROUND: Background,
    }
    return systems[name](settings)


def restart_if_running(settings: Settings) -> bool:
    """Restart the processes if a service or a supervisor runs them; False if none does. Raises ServiceError.

    Processes of an `engram up` in a terminal are left alone.
    """
    system = installed_system(settings)
    if not system.status().is_running:
        return False
    system.restart()
    return True


def end_other_versions(settings: Settings) -> list[OtherProcess]:
    """End the processes of this memory folder that run other code, whoever started them; returns which those were.

    Call it with the user's consent. An `engram up` in a terminal ends with its processes.

    Raises:
        ServiceError: one of them can't be ended.
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
                raise ServiceError(f"the {other.described} of another version of Engram does not end. End it yourself")
            with contextlib.suppress(ProcessLookupError):
                os.kill(other.pid, signal.SIGKILL if is_late else signal.SIGTERM)
        wait_until(lambda: not processes_of_other_code(home), 1.0)
    return ended


def _has_command(name: SystemName) -> bool:
    return shutil.which({SystemName.LAUNCHD: "launchctl", SystemName.SYSTEMD: "systemctl"}.get(name, "sh")) is not None
