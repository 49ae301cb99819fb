"""Service files: the two processes under launchd (macOS) or systemd (Linux), rendered, never registered here."""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from engram.errors import BadRequest
from engram.settings import Settings

#: Least seconds between two starts.
THROTTLE_SECONDS = 5
#: Seconds from SIGTERM to SIGKILL; longer than a worker drains (``drain_seconds``).
STOP_SECONDS = 20
#: Files that one process may have open.
OPEN_FILES = 1024
#: Service → what it is for.
SERVICES: Mapping[str, str] = {
    "work": "Engram's worker: makes memories and answers the hooks",
    "watch": "Engram's watcher: follows Claude Code's transcripts",
}


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """One file as it is to be written."""

    #: Name of the file, such as ``recall.engram.work.plist``.
    name: str
    #: Where the system looks for it.
    folder: Path
    data: bytes


def launchd_files(settings: Settings, python: Path | None = None) -> list[ServiceFile]:
    """One launchd agent for the worker, one for the watcher."""
    folder = Path.home() / "Library" / "LaunchAgents"
    return [
        ServiceFile(f"{label(name)}.plist", folder, plistlib.dumps(agent(name, settings, python))) for name in SERVICES
    ]


def label(name: str) -> str:
    """The agent's name for launchd."""
    return f"recall.engram.{name}"


def agent(name: str, settings: Settings, python: Path | None = None) -> dict[str, object]:
    """The content of one agent's plist.

    ProcessType Standard: a background process is throttled, and a recall must answer in 250 ms. KeepAlive only after
    a failure: a second instance ends with 0 and is not started again for ever.
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
    """One systemd user unit for the worker, one for the watcher."""
    folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    return [ServiceFile(f"engram-{name}.service", folder, unit(name, settings, python).encode()) for name in SERVICES]


def unit(name: str, settings: Settings, python: Path | None = None) -> str:
    """The text of one systemd user unit, of the same meaning as the launchd agent."""
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
    """Path in the repository → what stands there: the files as they look for a user called you."""
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
    """Where things are, and no more: keys stand in ``.env`` in the memory folder, never in a service file."""
    environment = {"ENGRAM_HOME": str(settings.home), "CLAUDE_CONFIG_DIR": str(settings.claude_folder)}
    for name, value in environment.items():
        if any(ord(letter) < 32 for letter in value):
            raise BadRequest(f"{name} holds a control character, so that no service file can name it")
    return environment


def _quoted(text: str) -> str:
    """A word of a systemd line: quoted, with ``%``, which means something everywhere, doubled."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
