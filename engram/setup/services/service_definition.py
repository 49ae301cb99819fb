"""The two services: what each runs, in which environment and with how much memory; how a service manager is called."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from engram.errors import BadRequest, ServiceError
from engram.paths import Home, is_text, user_home
from engram.reports.processes import is_held
from engram.settings import Settings
from engram.setup.edits.install_steps import FileChange
from engram.system.atomic import closed_files, explain_closed, explain_disk

#: Minimum time between two starts, in seconds.
THROTTLE_SECONDS = 5
#: Seconds from SIGTERM to SIGKILL; more than a worker needs to drain (``drain_seconds``).
STOP_SECONDS = 20
#: How long a start may take before it counts as failed, in seconds; the first after an update migrates memory.db.
START_SECONDS = 1800
#: Maximum number of open files of a process.
OPEN_FILES = 1024
#: Service → its description.
DESCRIPTIONS: Mapping[str, str] = {
    "work": "Engram's worker: makes memories and answers the hooks",
    "watch": "Engram's watcher: follows the agents' transcripts",
}
#: Service → the process that it runs, as named by ``engram service run`` and in messages.
PROCESSES: Mapping[str, str] = {"work": "worker", "watch": "watcher"}
#: Memory that a watcher may use, in MB; above this, it is slowed down, and at twice this, it is killed. The longest
#: possible line takes 248 MB.
WATCHER_MB = 512
#: Memory that a worker's cgroup may use beyond ``limit_rss_mb``, in MB, because a language model's command counts
#: towards it, as do the vectors of a large memory, for which the worker raises its own limit.
WORKER_MORE_MB = 1536
#: Programs that the worker runs, so that its PATH must contain their folders.
PROGRAMS = ("node", "git")
#: Setting of an agent's folder → the environment variable for it. A service does not get a shell's variables.
AGENT_FOLDERS: Mapping[str, str] = {"claude_folder": "CLAUDE_CONFIG_DIR", "codex_folder": "CODEX_HOME"}
#: Variables with which a language model and a hub are reached through a proxy or with a company's certificates; each
#: may also be in lower case.
NETWORK_VARIABLES = (
    *("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS"),
)
#: The end of every PATH: folders where macOS and Linux keep programs.
COMMON_FOLDERS = ("~/.local/bin", "/opt/homebrew/bin", "/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin")


@dataclass(frozen=True, slots=True)
class Service:
    """One of the two processes, as a service manager starts it."""

    #: work or watch, by which the files and units of the service are named.
    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    #: Memory above which the system slows the process down, in MB; at twice that, it kills the process.
    memory_mb: int
    #: File for what the process prints before its own log is open.
    output: Path
    #: "" for the default memory folder, else ``-`` and a short hash of the folder, because each has its own services.
    suffix: str

    @property
    def description(self) -> str:
        return DESCRIPTIONS[self.name]


def define_services(
    settings: Settings, *, python: Path | None = None, environ: Mapping[str, str] | None = None
) -> tuple[Service, ...]:
    """Return the two services for a memory folder.

    Args:
        settings: the source of the folders and the memory limit.
        python: the interpreter; this one by default.
        environ: the source of PATH, HOME, proxies and certificates; this process's environment by default.

    Raises:
        BadRequest: a path is not allowed in a service file.
    """
    environ = os.environ if environ is None else environ
    home = Path(environ.get("HOME") or user_home())
    environment = {
        "HOME": str(home),
        "PATH": _service_path(settings, environ),
        "ENGRAM_HOME": str(settings.home),
        **folder_variables(settings),
        **{name: value for name, value in network_variables(environ).items() if not has_login(value)},
    }
    memory_mb = {"work": settings.limit_rss_mb + WORKER_MORE_MB, "watch": WATCHER_MB}
    services = tuple(
        Service(
            name=name,
            command=process_command((), name, python),
            environment=environment,
            memory_mb=memory_mb[name],
            output=settings.places.logs / f"{name}.service.log",
            suffix=_suffix(settings.home, home),
        )
        for name in DESCRIPTIONS
    )
    _refuse_unwritable([*services[0].command, *environment.values()])
    return services


def folder_variables(settings: Settings) -> dict[str, str]:
    """Return the agents' folders as environment variables of a process."""
    return {variable: str(getattr(settings, name)) for name, variable in AGENT_FOLDERS.items()}


def network_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for proxies and certificates that a service file could contain."""
    names = [*NETWORK_VARIABLES, *map(str.lower, NETWORK_VARIABLES)]
    return {name: value for name in names if (value := environ.get(name, "")) and value.isprintable()}


def has_login(address: str) -> bool:
    """Return True if a proxy's address contains a login, which no service file should contain."""
    return "@" in address


def process_command(arguments: Sequence[str], name: str = "", python: Path | None = None) -> tuple[str, ...]:
    """Return the command line that runs a service (work or watch), or the supervisor of both.

    It uses the interpreter's absolute path, includes the global flags ``arguments``, and ignores the current folder.
    """
    process = (PROCESSES[name],) if name else ()
    return (str(python or sys.executable), "-P", "-m", "engram.cli.main", *arguments, "service", "run", *process)


def _service_path(settings: Settings, environ: Mapping[str, str]) -> str:
    """Return a PATH for a service: the current folders of the programs that the worker runs, then the common folders.

    This shell's PATH is not used as a whole, because a service should not depend on an activated environment or a
    project's folder.
    """
    home = Path(environ.get("HOME") or user_home())
    search = os.pathsep.join(folder for folder in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(folder))
    found = [shutil.which(program, path=search or os.devnull) for program in (settings.claude_command, *PROGRAMS)]
    folders = [os.path.dirname(path) for path in found if path is not None and os.path.isabs(path)]
    folders += [str(home) + folder[1:] if folder.startswith("~") else folder for folder in COMMON_FOLDERS]
    return os.pathsep.join(dict.fromkeys(folders))


def _suffix(memory_folder: Path, home: Path) -> str:
    if memory_folder == home / ".claude-memory":
        return ""
    return "-" + hashlib.blake2b(os.fsencode(memory_folder), digest_size=4).hexdigest()


def _refuse_unwritable(values: Iterable[str]) -> None:
    """Raise BadRequest for a path that is not allowed in a service file: a line break would add a line to it."""
    for value in values:
        if any(ord(letter) < 32 for letter in value) or not is_text(value):
            raise BadRequest(
                f"{value!r} contains a control character or a byte that is not UTF-8, which service files do not "
                "allow. Choose another folder."
            )


# -- The interface of every service manager, and the status that it reports.


class SystemName(StrEnum):
    """The system that starts the processes."""

    LAUNCHD = "launchd"
    SYSTEMD = "systemd"
    #: Engram's own supervisor, in the background.
    BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """The system's report on the two processes."""

    system: SystemName
    #: True if the processes start automatically: at login, or with a Claude Code session.
    is_installed: bool
    #: True if the system is running at least one of them, or trying to.
    is_running: bool
    #: work and watch → the state that the system reports, such as ``running, pid 312``.
    details: Mapping[str, str]


class ServiceSystem(Protocol):
    """Starts and stops the two processes. Each method may be called in any state."""

    name: SystemName

    def files(self) -> tuple[FileChange, ...]:
        """Return the files that make the system start the processes at login; nothing is written."""

    def start(self) -> None:
        """Start both processes and wait until they are running; do nothing if they already are. Raises ServiceError."""

    def stop(self) -> None:
        """Stop both processes and wait until they have exited. Raises ServiceError."""

    def restart(self) -> None:
        """Stop and start both processes, which then run the installed code. Raises ServiceError."""

    def status(self) -> ServiceStatus:
        """Query the system. Raises ServiceError if that fails."""

    def output(self, lines: int) -> str:
        """Return the last lines that the processes printed outside their logs, and the system's messages about them."""


# -- Run a service manager's own command, and wait for its effect.

#: Maximum duration of a command, in seconds; a command that stops a service waits until the service has stopped.
COMMAND_SECONDS = 60.0
#: How long to wait for the processes to start, in seconds.
READY_SECONDS = 30.0
#: Time between two checks, in seconds.
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Finished:
    code: int
    #: Its output, standard output first.
    text: str

    @property
    def last_line(self) -> str:
        """The last line that it printed; its exit code if it printed nothing."""
        lines = self.text.strip().splitlines()
        return lines[-1].strip() if lines else f"exit code {self.code}"


def run_command(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Finished:
    """Run a command and wait for it to exit.

    Raises:
        ServiceError: it can't be run, or does not exit in time.
    """
    try:
        finished = subprocess.run(
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=COMMAND_SECONDS,
            env=None if environ is None else dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ServiceError(f"can't run {' '.join(command)}: {error}") from error
    return Finished(finished.returncode, (finished.stdout + finished.stderr).decode("utf-8", "replace"))


def wait_until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait until ``condition`` is true; return False if that takes longer than ``seconds``."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


def is_working(home: Home) -> bool:
    """Return True if both processes are running, whoever started them."""
    return is_held(home.worker_lock) and is_held(home.watcher_lock)


def wait_until_working(home: Home, read_reason: Callable[[], str]) -> None:
    """Wait until both processes are running.

    Args:
        read_reason: returns the processes' output, for the error message.

    Raises:
        ServiceError: a process is not running after ``READY_SECONDS``.
    """
    if wait_until(lambda: is_working(home), READY_SECONDS):
        return
    missing = [
        name for name, lock in (("worker", home.worker_lock), ("watcher", home.watcher_lock)) if not is_held(lock)
    ]
    # If the disk is full or a file belongs to another user, the processes can't log the reason.
    reason = (
        explain_disk(home.root)
        or next(map(explain_closed, closed_files(home.root)), "")
        or (read_reason().strip().splitlines() or [""])[-1]
    )
    told = f": {reason}" if reason else ""
    raise ServiceError(f"the {' and the '.join(missing)} did not start{told}. For details, run: engram service logs")


def last_lines(path: Path, lines: int) -> str:
    """Return the last lines of a text file; "" if it can't be read."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return "".join(deque(file, maxlen=lines))
    except OSError:
        return ""


def with_runtime_folder() -> dict[str, str]:
    """Return the environment; add the address of the user's service manager, which ``su`` and hooks may lack."""
    kept = dict(os.environ)
    folder = f"/run/user/{os.getuid()}"
    if not kept.get("XDG_RUNTIME_DIR") and os.path.isdir(folder):
        kept["XDG_RUNTIME_DIR"] = folder
    return kept
