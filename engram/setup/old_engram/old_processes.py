"""Running processes of the earlier Engram, and the process that listens on the socket that both programs use."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.setup.old_engram.signs import is_earlier_process
from engram.system.atomic import read_regular
from engram.system.socketpath import socket_address

#: Time limit for ``ps``, in seconds.
PS_SECONDS = 5
#: Time limit for a connection to a listener, in seconds.
CONNECT_SECONDS = 1.0
#: Maximum number of characters of a command line that messages show.
MAX_SHOWN_CHARACTERS = 300
#: ``getsockopt`` level and name of the peer's process id on macOS (SOL_LOCAL, LOCAL_PEERPID).
_MACOS_PEER_PID = (0, 2)


@dataclass(frozen=True, slots=True)
class RunningProcess:
    pid: int
    #: When it started, as the system writes it; together with the pid, this identifies the process.
    started: str
    #: The program and its arguments, split at blanks if only ``ps`` shows them.
    words: tuple[str, ...]

    @property
    def command(self) -> str:
        return " ".join(self.words)


@dataclass(frozen=True, slots=True)
class Listener:
    """A process that accepts connections on a socket."""

    path: Path
    #: 0 if the system doesn't identify it.
    pid: int
    #: Its command line; "" if unknown.
    command: str = ""

    @property
    def described(self) -> str:
        """How messages refer to it."""
        if not self.pid:
            return "another program"
        return f"process {self.pid}" + (f" ({self.command[:MAX_SHOWN_CHARACTERS]})" if self.command else "")


def find_processes(folder: Path, user_home: Path) -> list[RunningProcess]:
    """Return the running processes of the earlier Engram, by process id.

    They are found by their command lines; the process in ``engram.pid`` counts if it runs a script.
    """
    named = (read_regular(folder / "engram.pid", 64) or b"").split()
    pid = int(named[0]) if named and named[0].isdigit() else 0
    own = {os.getpid(), os.getppid()}
    return [
        process
        for process in list_processes()
        if process.pid not in own
        and (is_earlier_process(process.words, user_home) or (process.pid == pid and _runs_daemon(process.words)))
    ]


def _runs_daemon(words: tuple[str, ...]) -> bool:
    """Return True for a script runtime that runs ``processor/index``, even by a relative path."""
    runtime = Path(words[0]).name if words else ""
    return runtime in ("bun", "node", "deno") and any("processor/index" in word for word in words[1:])


def find_listener(path: Path) -> Listener | None:
    """Return the process that listens on a socket; None if none does. Nothing is sent."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(CONNECT_SECONDS)
    try:
        with socket_address(path) as address:
            connection.connect(address)
        pid = _peer_pid(connection)
    except OSError:
        return None
    finally:
        connection.close()
    process = find_process(pid) if pid else None
    return Listener(path, pid, "" if process is None else process.command)


def _peer_pid(connection: socket.socket) -> int:
    with contextlib.suppress(OSError, struct.error):
        if hasattr(socket, "SO_PEERCRED"):
            data = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
            return int(struct.unpack("3i", data)[0])
        return int(struct.unpack("i", connection.getsockopt(*_MACOS_PEER_PID, struct.calcsize("i")))[0])
    return 0


def find_process(pid: int) -> RunningProcess | None:
    return next((process for process in list_processes(pid) if process.pid == pid), None)


def list_processes(pid: int | None = None) -> list[RunningProcess]:
    """Return the processes of this user, or only the one with the given id, from ``/proc`` or from ``ps``."""
    proc = Path("/proc")
    if (proc / "self" / "stat").exists():
        pids = [pid] if pid is not None else sorted(int(name.name) for name in proc.iterdir() if name.name.isdigit())
        return [process for process in map(_read_proc, pids) if process is not None]
    return list(_ask_ps(pid))


def _read_proc(pid: int) -> RunningProcess | None:
    folder = Path(f"/proc/{pid}")
    try:
        if folder.stat().st_uid != os.geteuid():
            return None
        words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
        # The name, in parentheses, may contain anything, so fields are counted only after it.
        fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    if fields[0] == "Z":
        return None
    return RunningProcess(pid, fields[19], tuple(word.decode("utf-8", "replace") for word in words))


def _ask_ps(pid: int | None) -> Iterator[RunningProcess]:
    chosen = ["-p", str(pid)] if pid is not None else ["-u", str(os.geteuid())]
    command = ["ps", "-ww", *chosen, "-o", "pid=,lstart=,command="]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        environment = {**os.environ, "LC_ALL": "C"}
        finished = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PS_SECONDS, env=environment, check=False
        )
        for line in finished.stdout.splitlines():
            # "PID Day Mon DD HH:MM:SS YYYY COMMAND"
            parts = line.split(None, 6)
            if len(parts) == 7 and parts[0].isdigit():
                yield RunningProcess(int(parts[0]), " ".join(parts[1:6]), tuple(parts[6].split()))
