"""The service files for launchd (macOS) and systemd (Linux). They are rendered here, never installed."""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engram.errors import BadRequest
from engram.settings import Settings

#: Shortest time between two starts, in seconds.
THROTTLE_SECONDS = 5
#: Seconds from SIGTERM to SIGKILL; more than a worker needs to drain (``drain_seconds``).
STOP_SECONDS = 20
#: Files that one process may have open.
OPEN_FILES = 1024
#: Service → its description.
SERVICES: Mapping[str, str] = {
    "work": "Engram's worker: makes memories and answers the hooks",
    "watch": "Engram's watcher: follows Claude Code's transcripts",
}


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """One service file."""

    #: File name, such as ``recall.engram.work.plist``.
    name: str
    #: Folder where the system looks for it.
    folder: Path
    data: bytes


def launchd_files(settings: Settings, python: Path | None = None) -> list[ServiceFile]:
    """The launchd agents: one for the worker, one for the watcher."""
    folder = Path.home() / "Library" / "LaunchAgents"
    return [
        ServiceFile(f"{label(name)}.plist", folder, plistlib.dumps(agent(name, settings, python))) for name in SERVICES
    ]


def label(name: str) -> str:
    """The launchd label of a service."""
    return f"recall.engram.{name}"


def agent(name: str, settings: Settings, python: Path | None = None) -> dict[str, object]:
    """The content of an agent's plist.

    ProcessType is Standard: launchd throttles background processes, and a recall must answer within 250 ms. KeepAlive
    restarts after a failure only: a second instance exits with 0 and must not be restarted forever.
    """
    log = str(settings.places.logs / f"{name}.launchd.log")
    return {
        "Label": label(name),
        "ProgramArguments": _command(name, python),
        "EnvironmentVariables": _environment(settings),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": THROTTLE_SECONDS,
        "ExitTimeOut": STOP_SECONDS,
        "ProcessType": "Standard",
        "SoftResourceLimits": {"NumberOfFiles": OPEN_FILES},
        "HardResourceLimits": {"NumberOfFiles": OPEN_FILES},
        "StandardOutPath": log,
        "StandardErrorPath": log,
        "Umask": 0o077,
    }


def systemd_files(settings: Settings, python: Path | None = None) -> list[ServiceFile]:
    """The systemd user units: one for the worker, one for the watcher."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    return [ServiceFile(f"engram-{name}.service", folder, unit(name, settings, python).encode()) for name in SERVICES]


def unit(name: str, settings: Settings, python: Path | None = None) -> str:
    """The text of a systemd user unit; it means the same as the launchd agent."""
    environment = "\n".join(f"Environment={_quoted(f'{key}={value}')}" for key, value in _environment(settings).items())
    command = " ".join(_quoted(part).replace("$", "$$") for part in _command(name, python))
    return f"""\
[Unit]
Description={SERVICES[name]}
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={command}
{environment}
Restart=on-failure
RestartSec={THROTTLE_SECONDS}
TimeoutStopSec={STOP_SECONDS}
KillMode=mixed
LimitNOFILE={OPEN_FILES}
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def example_files() -> dict[str, bytes]:
    """Path in the repository → its content: example files for a user called "you"."""
    mac = Settings(home=Path("/Users/you/.claude-memory"), claude_folder=Path("/Users/you/.claude"))
    linux = Settings(home=Path("/home/you/.claude-memory"), claude_folder=Path("/home/you/.claude"))
    agents = launchd_files(mac, Path("/Users/you/engram/.venv/bin/python"))
    units = systemd_files(linux, Path("/home/you/engram/.venv/bin/python"))
    return {f"launchd/{file.name}": file.data for file in agents} | {
        f"systemd/{file.name}": file.data for file in units
    }


def _command(name: str, python: Path | None) -> list[str]:
    return [str(python or sys.executable), "-P", "-m", "engram.cli.main", name]


def _environment(settings: Settings) -> dict[str, str]:
    """The folders only. Keys belong in ``.env`` in the memory folder, never in a service file."""
    environment = {"ENGRAM_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(settings.claude_folder)}
    for name, value in environment.items():
        if any(ord(letter) < 32 for letter in value):
            raise BadRequest(
                f"{name} contains a control character, which a service file can't hold. Choose another folder."
            )
    return environment


def _quoted(text: str) -> str:
    """A quoted word of a systemd line. ``%`` is doubled, since systemd expands it everywhere."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
