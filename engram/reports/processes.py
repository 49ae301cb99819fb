"""Whether the watcher and the worker run, judged by their locks, and how much memory they use."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import read_regular

#: Time limit for ``ps``, in seconds.
_PS_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ProcessState:
    """The state of one of the two long-lived processes."""

    is_alive: bool
    #: None if unknown.
    pid: int | None = None
    #: Resident memory in MB; None if unknown.
    rss_mb: float | None = None

    def as_json(self) -> dict[str, object]:
        """The state for scripts."""
        return {"alive": self.is_alive, "pid": self.pid, "rss_mb": self.rss_mb}


def process_state(lock: Path) -> ProcessState:
    """The state of the process that holds ``lock``. A lock file without a holder means that none is running."""
    if not is_held(lock):
        return ProcessState(False)
    pid = _pid_in(lock)
    return ProcessState(True, pid, None if pid is None else rss_mb(pid))


def is_held(lock: Path) -> bool:
    """True if a process holds the lock. Asks for a shared lock and releases it at once."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def _pid_in(lock: Path) -> int | None:
    text = (read_regular(lock, 64) or b"").split()
    return int(text[0]) if text and text[0].isdigit() else None


def rss_mb(pid: int) -> float | None:
    """Resident memory of a process in MB; None if it can't be read."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        finished = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, timeout=_PS_SECONDS, check=True
        )
        return round(int(finished.stdout) * 1024 / 1e6, 1)
    return None
