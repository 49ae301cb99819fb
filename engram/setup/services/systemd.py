"""systemd (Linux): start and stop the two user units."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from engram.errors import ServiceError
from engram.paths import user_home
from engram.settings import Settings
from engram.setup.edits.install_steps import FileChange
from engram.setup.services.service_definition import (
    OPEN_FILES,
    START_SECONDS,
    STOP_SECONDS,
    THROTTLE_SECONDS,
    Finished,
    Service,
    ServiceStatus,
    SystemName,
    define_services,
    run_command,
    wait_until_working,
    with_runtime_folder,
)
from engram.system.process_lock import MAX_SILENCE_SECONDS
from engram.worker.worker_client import announce_worker

# -- systemd's files (Linux): one user unit for the worker, one for the watcher, and the links that start them.

#: Units do not contain secrets; by convention, others may read them.
_MODE = 0o644


def _unit_name(service: Service) -> str:
    """Return the name of a service's unit, such as ``engram-work.service``."""
    return f"engram-{service.name}{service.suffix}.service"


def _unit_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own units."""
    configuration = environ.get("XDG_CONFIG_HOME", "")
    home = Path(environ.get("HOME") or user_home())
    return (Path(configuration) if configuration.startswith("/") else home / ".config") / "systemd" / "user"


def unit_files(services: Sequence[Service], folder: Path) -> tuple[FileChange, ...]:
    """Return the units of both services, and the links by which ``systemctl enable`` starts them at login."""
    units = tuple(
        FileChange(folder / _unit_name(service), content=unit_text(service).encode(), mode=_MODE)
        for service in services
    )
    wanted = folder / "default.target.wants"
    links = tuple(FileChange(wanted / unit.path.name, link_target=str(unit.path)) for unit in units)
    return units + links


def unit_text(service: Service) -> str:
    """Return the text of a unit, equivalent to the launchd agent.

    The process reports when it is ready, and then sends heartbeats, so that systemd can restart it if it hangs.
    """
    program, *arguments = service.command
    if set(program) & set("'\"\\$"):
        # systemd refuses quotation marks in the program's path. It starts the path as written, but expands "${X}" in
        # the name that it passes to the program, by which Python looks for its virtual environment.
        program, arguments = "/usr/bin/env", [program, *arguments]
    command = " ".join([quoted_word(program), *(quoted_word(part).replace("$", "$$") for part in arguments)])
    environment = "\n".join(
        f"Environment={quoted_word(f'{key}={value}')}" for key, value in service.environment.items()
    )
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


def quoted_word(text: str) -> str:
    """Return a word quoted for a unit file. ``%`` is doubled, because systemd expands it everywhere."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


#: Outputs of ``systemctl --user is-system-running`` that mean that the user has a service manager.
_AVAILABLE = frozenset({"initializing", "starting", "running", "degraded", "maintenance"})
_PROPERTIES = "Id,LoadState,ActiveState,SubState,MainPID,NRestarts"
#: Exit code of ``systemctl stop`` for a unit that does not exist.
_NOT_LOADED = 5


class Systemd:
    """The two units of a memory folder. Their files must be in place before ``start``."""

    name = SystemName.SYSTEMD

    def __init__(self, settings: Settings) -> None:
        self._home = settings.places
        self._services = define_services(settings)
        self._units = [_unit_name(service) for service in self._services]
        self._folder = _unit_folder(os.environ)
        self._environ = with_runtime_folder()

    def files(self) -> tuple[FileChange, ...]:
        """Return the units, and the links that start them at login."""
        return unit_files(self._services, self._folder)

    def is_available(self) -> bool:
        """Return True if a service manager runs for this user; most containers, and WSL without systemd, have none."""
        try:
            return self._systemctl("is-system-running").last_line in _AVAILABLE
        except ServiceError:
            return False

    def start(self) -> None:
        """Reload the units, start both, and wait until they are running."""
        missing = [unit for unit in self._units if not (self._folder / unit).is_file()]
        if missing:
            raise ServiceError(f"{self._folder / missing[0]} does not exist. Run: engram install")
        self.reload()
        self._change("start")

    def stop(self) -> None:
        """Stop both units, and wait until their processes have exited. They start again at the next login."""
        finished = self._systemctl("stop", *self._units)
        if finished.code not in (0, _NOT_LOADED):
            raise ServiceError(f"systemd did not stop Engram's units: {finished.last_line}")

    def restart(self) -> None:
        self.reload()
        announce_worker(self._home)
        self._change("restart")

    def reload(self) -> None:
        """Make systemd reread the unit files after they have been written or removed."""
        finished = self._systemctl("daemon-reload")
        if finished.code != 0:
            raise ServiceError(f"systemd did not read the units: {finished.last_line}")

    def status(self) -> ServiceStatus:
        finished = self._systemctl("show", f"--property={_PROPERTIES}", *self._units)
        if finished.code != 0:
            raise ServiceError(f"can't query systemd: {finished.last_line}")
        shown = {block.get("Id", ""): block for block in _blocks(finished.text)}
        blocks = {service.name: shown.get(unit, {}) for service, unit in zip(self._services, self._units, strict=True)}
        return ServiceStatus(
            system=self.name,
            is_installed=all((self._folder / "default.target.wants" / unit).exists() for unit in self._units),
            is_running=any(
                block.get("ActiveState") in ("active", "activating", "reloading") for block in blocks.values()
            ),
            details={name: _describe(block) for name, block in blocks.items()},
        )

    def output(self, lines: int) -> str:
        """Return the last lines of both units in systemd's journal."""
        units = [argument for unit in self._units for argument in ("--user-unit", unit)]
        command = ["journalctl", "--no-pager", "--output=short-iso", f"--lines={lines}", *units]
        try:
            finished = run_command(command, self._environ)
        except ServiceError as error:
            return f"{error}\n"
        return finished.text

    def is_lingering(self) -> bool | None:
        """Return True if this user's services run without a login; None if that is unknown."""
        try:
            finished = run_command(
                ["loginctl", "show-user", str(os.getuid()), "--property=Linger", "--value"], self._environ
            )
        except ServiceError:
            return None
        return {"yes": True, "no": False}.get(finished.last_line)

    def _change(self, verb: str) -> None:
        """Start or restart both units, and wait until their processes are running."""
        # This does not block, because the first start after an update may spend minutes migrating memory.db.
        finished = self._systemctl(verb, "--no-block", *self._units)
        if finished.code != 0:
            raise ServiceError(f"systemd did not {verb} Engram's units: {finished.last_line}")
        wait_until_working(self._home, lambda: self.output(1))

    def _systemctl(self, *arguments: str) -> Finished:
        return run_command(["systemctl", "--user", *arguments], self._environ)


def _blocks(text: str) -> list[dict[str, str]]:
    """Return the blocks of ``key=value`` lines that ``systemctl show`` prints, one for each unit."""
    return [
        dict(line.split("=", 1) for line in block.splitlines() if "=" in line) for block in text.strip().split("\n\n")
    ]


def _describe(block: dict[str, str]) -> str:
    if block.get("LoadState", "not-found") == "not-found":
        return "no such unit"
    pid, restarts = block.get("MainPID", "0"), block.get("NRestarts", "0")
    return ", ".join(
        [
            f"{block.get('ActiveState', '?')} ({block.get('SubState', '?')})",
            *([f"pid {pid}"] if pid != "0" else []),
            *([f"{restarts} restarts"] if restarts not in ("", "0") else []),
        ]
    )
