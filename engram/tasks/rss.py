"""Resident memory of this process."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

#: Longest that ``ps`` may take, in seconds.
_PS_SECONDS = 5


def rss_mb() -> float:
    """Resident memory in MB (10^6 bytes); 0 where it cannot be told."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        found = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(os.getpid())],
            capture_output=True, text=True, timeout=_PS_SECONDS, check=True,
        )  # fmt: skip
        return round(int(found.stdout) * 1024 / 1e6, 1)
    return 0.0
