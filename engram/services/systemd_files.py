"""The files of systemd (Linux): one user unit for the worker, one for the watcher, and the links that start them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from engram.heartbeat import MAX_SILENCE_SECONDS
from engram.install.changes import FileChange
from engram.services.definition import OPEN_FILES, START_SECONDS, STOP_SECONDS, THROTTLE_SECONDS, Service

#: Units hold no secrets; by convention, others may read them.
_MODE = 0o644


def unit_name(service: Service) -> str:
    """The name of a service's unit, such as ``engram-work.service``."""
    return f"engram-{service.name}{service.suffix}.service"


def unit_folder(environ: Mapping[str, str]) -> Path:
    """The folder of the user's own units."""
    configuration = environ.get("XDG_CONFIG_HOME", "")
    home = Path(environ.get("HOME") or Path.home())
    return (Path(configuration) if configuration.startswith("/") else home / ".config") / "systemd" / "user"


def unit_files(services: Sequence[Service], folder: Path) -> tuple[FileChange, ...]:
    """The units of both services, and the links by which ``systemctl enable`` starts them at login."""
    units = tuple(
        FileChange(folder / unit_name(service), content=unit_text(service).encode(), mode=_MODE) for service in services
    )
    wanted = folder / "default.target.wants"
    links = tuple(FileChange(wanted / unit.path.name, link_target=str(unit.path)) for unit in units)
    return units + links


def unit_text(service: Service) -> str:
    """The text of a unit; it means the same as the launchd agent.

    The process says when it is ready and then sends a heartbeat, so that systemd restarts one that hangs.
    """
    command = " ".join(_quoted(part).replace("$", "$$") for part in service.command)
    environment = "\n".join(f"Environment={_quoted(f'{key}={value}')}" for key, value in service.environment.items())
    return f"""\
[Unit]
Description={service.description}
StartLimitIntervalSec=0

[Service]
Type=notify
ExecStart={command}
{environment}
Restart=on-failure
RestartSec={THROTTLE_SECONDS}
TimeoutStartSec={START_SECONDS}
TimeoutStopSec={STOP_SECONDS}
WatchdogSec={MAX_SILENCE_SECONDS}
KillMode=mixed
MemoryHigh={service.memory_mb}M
MemoryMax={2 * service.memory_mb}M
LimitNOFILE={OPEN_FILES}
LimitCORE=0
UMask=0077
NoNewPrivileges=yes

[Install]
WantedBy=default.target
"""


def _quoted(text: str) -> str:
    """A quoted word of a line. ``%`` is doubled, since systemd expands it everywhere."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'
