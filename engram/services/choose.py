"""Finds what starts the processes of a memory folder, or what could."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence

from engram.services.background import Background
from engram.services.launchd import Launchd
from engram.services.protocol import ServiceSystem, SystemName
from engram.services.systemd import Systemd
from engram.settings import Settings


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


def _has_command(name: SystemName) -> bool:
    return shutil.which({SystemName.LAUNCHD: "launchctl", SystemName.SYSTEMD: "systemctl"}.get(name, "sh")) is not None
