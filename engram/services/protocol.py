"""What every way to keep the processes running can do, and the status that it reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from engram.install.changes import FileChange


class SystemName(StrEnum):
    """What starts the processes."""

    LAUNCHD = "launchd"
    SYSTEMD = "systemd"
    #: A supervisor of Engram's own, in the background.
    BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """What the system says about the two processes."""

    system: SystemName
    #: True if the processes start by themselves: at login, or with a Claude Code session.
    is_installed: bool
    #: True if the system runs at least one of them, or tries to.
    is_running: bool
    #: work and watch → what the system says, such as ``running, pid 312``.
    details: Mapping[str, str]


class ServiceSystem(Protocol):
    """Starts and stops the two processes. Each method may be called in any state."""

    name: SystemName

    def files(self) -> tuple[FileChange, ...]:
        """The files that make the system start the processes at login; nothing is written."""
        ...

    def start(self) -> None:
        """Start both processes and wait until they run; does nothing if they do. Raises ServiceError."""
        ...

    def stop(self) -> None:
        """Stop both processes and wait until they have ended. Raises ServiceError."""
        ...

    def restart(self) -> None:
        """Stop and start both processes, which then run the installed code. Raises ServiceError."""
        ...

    def status(self) -> ServiceStatus:
        """Ask the system. Raises ServiceError if it can't be asked."""
        ...

    def output(self, lines: int) -> str:
        """The last lines that the processes printed outside of their own logs, and what the system says of them."""
        ...
