"""The files of launchd (macOS): one agent for the worker, one for the watcher. Rendered by plistlib."""

from __future__ import annotations

import plistlib
from collections.abc import Sequence
from pathlib import Path

from engram.install.changes import FileChange
from engram.services.definition import OPEN_FILES, STOP_SECONDS, THROTTLE_SECONDS, Service

#: launchd ignores agents that others may write; by convention, others may read them.
_MODE = 0o644


def agent_label(service: Service) -> str:
    """The label of a service's agent, such as ``recall.engram.work``."""
    return f"recall.engram.{service.name}{service.suffix}"


def agent_path(service: Service, home: Path) -> Path:
    """The file of a service's agent; ``home`` is the user's own folder."""
    return home / "Library" / "LaunchAgents" / f"{agent_label(service)}.plist"


def agent_files(services: Sequence[Service], home: Path) -> tuple[FileChange, ...]:
    """The agents of both services."""
    return tuple(
        FileChange(agent_path(service, home), content=plistlib.dumps(_agent(service)), mode=_MODE)
        for service in services
    )


def _agent(service: Service) -> dict[str, object]:
    """The content of an agent's file.

    ProcessType is Standard: launchd throttles background processes, and a recall must answer within 250 ms. KeepAlive
    restarts after a failure only: a second instance exits with 0 and must not be restarted forever.
    """
    return {
        "Label": agent_label(service),
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
