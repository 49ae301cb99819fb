"""Find out from the locks whether the watcher and the worker are running, and how much memory they use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.errors import ServiceError
from engram.paths import Home
from engram.settings import Settings
from engram.system.atomic import read_regular
from engram.system.process_limits import ask_ps, rss_mb_of
from engram.system.process_lock import MAX_SILENCE_SECONDS, is_process_alive, process_space
from engram.vaults import settings_around
from engram.version import code_version

#: How long a process may take to write its id into a lock file that it holds, in seconds.
_NAMING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ProcessState:
    is_alive: bool
    #: None if unknown.
    pid: int | None = None
    #: Resident memory in MB; None if unknown.
    rss_mb: float | None = None
    #: Version of the code that it runs (``code_version``); "" if unknown.
    code: str = ""
    #: Seconds since its last heartbeat; None if unknown.
    silent_seconds: float | None = None
    #: True if it runs in another container, where its process id is valid.
    is_elsewhere: bool = False

    @property
    def hangs(self) -> bool:
        """True if it has shown no heartbeat for too long."""
        return self.silent_seconds is not None and self.silent_seconds > MAX_SILENCE_SECONDS

    @property
    def described(self) -> str:
        """Its process id and, if not here, where it is valid, for a message."""
        return f"pid {self.pid or '?'}{' in another container' * self.is_elsewhere}"

    def as_json(self) -> dict[str, object]:
        return {"alive": self.is_alive, "pid": self.pid, "rss_mb": self.rss_mb}


def process_state(lock: Path) -> ProcessState:
    holder = _read_holder(lock)
    if holder is None:
        return ProcessState(False)
    pid, code = holder
    has_left = is_elsewhere(lock)
    return ProcessState(
        is_alive=True,
        pid=pid,
        rss_mb=None if pid is None or has_left else rss_mb_of(pid),
        code=code,
        silent_seconds=_silent_seconds(lock),
        is_elsewhere=has_left,
    )


@dataclass(frozen=True, slots=True)
class OtherProcess:
    """An Engram process that runs different code from this one."""

    #: ``worker``, ``watcher`` or ``supervisor``.
    name: str
    lock: Path
    #: None if unknown.
    pid: int | None
    #: Version of its code; "" if its lock file contains none.
    code: str

    @property
    def described(self) -> str:
        """Name, id and version of the process, for a message."""
        return f"{self.name} (pid {self.pid or '?'}, {self.code or 'unknown version'})"


def processes_of_other_code(
    home: Home, names: Sequence[str] = ("worker", "watcher", "supervisor")
) -> list[OtherProcess]:
    """Return the processes of a memory folder that run different code from this one, such as an earlier version."""
    locks = {"worker": home.worker_lock, "watcher": home.watcher_lock, "supervisor": home.supervisor_lock}
    own = code_version()
    found = []
    for name in names:
        holder = _read_holder(locks[name])
        if holder is not None and holder[0] != os.getpid() and holder[1] != own:
            found.append(OtherProcess(name, locks[name], *holder))
    return found


def is_held(lock: Path) -> bool:
    """Return True if a process holds the lock. Tries to take a shared lock and releases it at once."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def holder_of(lock: Path) -> int | None:
    """Return the id of the process that holds the lock, if any."""
    holder = _read_holder(lock)
    return None if holder is None else holder[0]


def is_elsewhere(lock: Path) -> bool:
    """Return True if the lock's holder runs in another container; its process id then means nothing in this one."""
    _, _, space, _ = _read_lock(lock)
    return bool(space) and space != process_space()


def signal_holder(lock: Path, number: signal.Signals) -> None:
    """Send a signal to the process that holds the lock, if one does.

    Raises:
        ServiceError: it runs in another container that uses the same memory folder.
    """
    pid = holder_of(lock)
    if pid is None:
        return
    if is_elsewhere(lock):
        raise ServiceError(f"process {pid} of {lock.name} runs in another container, so it must be stopped there")
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _read_holder(lock: Path) -> tuple[int | None, str] | None:
    """Return the holder's process id and code version; None if no process holds the lock.

    A process takes the lock before it writes its id. Until then, the file is empty or contains a previous holder's id.
    """
    until = time.monotonic() + _NAMING_SECONDS
    while is_held(lock):
        pid, code, *_ = _read_lock(lock)
        if (pid is not None and (is_elsewhere(lock) or is_process_alive(pid))) or time.monotonic() > until:
            return pid, code
        time.sleep(0.005)
    return None


def _read_lock(lock: Path) -> tuple[int | None, str, str, str]:
    """Return the process id, code version, namespace and last beat in a lock file; None or "" for what is missing."""
    lines = (read_regular(lock, 200) or b"").decode("ascii", "replace").splitlines()
    pid, code, space, beat = [*lines[:4], "", "", "", ""][:4]
    return int(pid) if pid.isdigit() else None, code, space, beat


def _silent_seconds(lock: Path) -> float | None:
    """Return the seconds since the holder's last beat, without sleep of the machine; None if unknown.

    Earlier versions write no beat, and a restart of the machine resets the clock.
    """
    try:
        silent_seconds = time.monotonic() - float(_read_lock(lock)[3])
    except ValueError:
        return None
    # A current beat may have been rounded up; one that is further ahead is from before the machine restarted.
    return max(silent_seconds, 0.0) if silent_seconds > -1 else None


def terminal_run(home: Home) -> int | None:
    """Return the process id of the `engram up` that started the worker or the watcher; None if there is none.

    Its children belong to its terminal, so no supervisor, launchd or systemd can restart them.
    """
    for lock in (home.worker_lock, home.watcher_lock):
        pid = holder_of(lock)
        parent = None if pid is None or is_elsewhere(lock) else parent_of(pid)
        if parent is not None and "up" in ask_ps(parent, "args").split():
            return parent
    return None


def parent_of(pid: int) -> int | None:
    """Return the id of a process's parent; None if unknown."""
    parent = ask_ps(pid, "ppid")
    return int(parent) if parent.isdecimal() else None


def start_command(settings: Settings) -> str:
    """Return the command that starts the worker and the watcher on this machine."""
    return "engram service start" if settings_around(settings).places.install_journal.is_file() else "engram up"
