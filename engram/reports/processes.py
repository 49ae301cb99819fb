"""Whether the watcher and the worker run, by the locks they hold, and how much memory they take."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import read_regular

#: Longest that ``ps`` may take, in seconds.
_PS_SECONDS = 5


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One of the two long-lived processes."""

    is_alive: bool
    #: None where it is not known.
    pid: int | None = None
    #: Resident memory in MB; None where it is not known.
    rss_mb: float | None = None

    def as_json(self) -> dict[str, object]:
        """For scripts."""
        return {"alive": self.is_alive, "pid": self.pid, "rss_mb": self.rss_mb}


def process_state(lock: Path) -> ProcessState:
    """The state of the process that holds ``lock``; a lock file without a holder means that none runs."""
    if not is_held(lock):
        return ProcessState(False)
    pid = _pid_in(lock)
    return ProcessState(True, pid, None if pid is None else rss_mb(pid))


def is_held(lock: Path) -> bool:
    """True where some process holds the lock; asks for a shared lock and gives it back at once."""
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
    """Resident memory of a process in MB; None where it cannot be told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        finished = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, timeout=_PS_SECONDS, check=True
        )
        return round(int(finished.stdout) * 1024 / 1e6, 1)
    return None
