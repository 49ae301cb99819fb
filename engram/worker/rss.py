"""Resident memory, threads and open files of this process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import subprocess
from pathlib import Path

#: glibc's name for the number of arenas.
_ARENA_MAX = -8
#: glibc's name for the size from which on memory is mapped by itself, and that size in bytes: it goes back at once.
_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 1 << 20
#: Open files that this process may need: databases, sockets and clients.
_FILES = 1024
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


def give_back_memory() -> None:
    """Let the allocator return what it holds unused, where it can (glibc): a heavy task leaves a lot behind."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def limit_arenas() -> None:
    """Let threads share few allocation arenas, where that can be set (glibc): each keeps what it once needed.

    Large pieces are mapped each by itself, so that what a search over many vectors needs is given back at once.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, 2)
        library.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)


def limit_matrix_threads() -> None:
    """Let numpy multiply in one thread, unless the user says otherwise; call before numpy is loaded.

    Its threads wait for one another by spinning: on a busy machine that took twice the processor time and longer.
    """
    for name in ("OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def raise_file_limit() -> None:
    """Allow more open files, where the system's hard limit does: macOS begins with 256."""
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
