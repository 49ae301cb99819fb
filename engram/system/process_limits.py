"""Limit the memory, threads and open files of this process, and decide which of its threads go first."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

#: glibc's ``mallopt`` parameter for the number of arenas.
_ARENA_MAX = -8
#: glibc's ``mallopt`` parameter for the size from which blocks are mapped separately, and that size in bytes; such
#: blocks are returned at once.
_MMAP_THRESHOLD, _MAPPED_BYTES = -3, 1 << 20
#: Number of open files that this process may need for databases, sockets and clients.
_FILES = 1024
#: How far the load may exceed the number of processors without any other program having to wait.
QUIET_LOAD = 0.5
#: Time limit for ``ps``, in seconds.
_PS_SECONDS = 5


def rss_mb() -> float:
    """Return the resident memory of this process in MB (10^6 bytes); 0 if it can't be determined."""
    return rss_mb_of(os.getpid()) or 0.0


def rss_mb_of(pid: int) -> float | None:
    """Return a process's resident memory in MB (10^6 bytes); None if it can't be determined."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
        return round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)
    kib = ask_ps(pid, "rss")
    return round(int(kib) * 1024 / 1e6, 1) if kib.isdecimal() else None


def ask_ps(pid: int, column: str) -> str:
    """Return one column of the output of ``ps`` for a process; "" if unknown."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        command = ["ps", "-o", f"{column}=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, timeout=_PS_SECONDS, check=True).stdout.strip()
    return ""


def is_quiet() -> bool:
    """Return True if two busy threads of this process would not slow down other programs.

    The load includes these threads, so there are still two of them when nothing else is running.
    """
    processors = os.cpu_count() or 1
    return processors > 1 and os.getloadavg()[0] <= processors + QUIET_LOAD


def give_back_memory() -> None:
    """Make the allocator (glibc) return unused memory to the system; a heavy task leaves a lot of it."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the garbage collector for short work that creates many objects but no cycles.

    This applies to all threads. If several threads pause the collector, the one that found it enabled enables it again.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def limit_arenas() -> None:
    """Make threads share two allocation arenas (glibc), because an arena keeps the memory that it once needed.

    Large blocks are mapped individually, so that the memory for a search over many vectors is returned immediately.
    """
    with contextlib.suppress(OSError, AttributeError):
        library = ctypes.CDLL(None)
        library.mallopt(_ARENA_MAX, 2)
        library.mallopt(_MMAP_THRESHOLD, _MAPPED_BYTES)


def limit_matrix_threads() -> None:
    """Make numpy multiply in one thread unless the user has set another number; call this before importing numpy.

    Its threads wait for one another by spinning. On a busy machine, that doubled the CPU time and took longer.
    """
    for name in ("OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


def raise_file_limit() -> None:
    """Raise the limit on open files as far as the system's hard limit allows, because macOS starts with 256."""
    with contextlib.suppress(OSError, ValueError):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# -- Threads that answer questions take precedence over threads that do background work.
#
# Lowering the priority of background threads would not help: one of them could hold the GIL while it waits for a
# processor. Instead, they pause at their next step.

#: Maximum pause before one step, in seconds. Work continues slowly however many questions there are.
MAX_PAUSE_SECONDS = 1.0

_nobody_asks = threading.Event()
_nobody_asks.set()
_lock = threading.Lock()
_asking = 0
_thread = threading.local()


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Mark that a question is being answered."""
    global _asking
    with _lock:
        _asking += 1
        _nobody_asks.clear()
    try:
        yield
    finally:
        with _lock:
            _asking -= 1
            if not _asking:
                _nobody_asks.set()


@contextlib.contextmanager
def giving_way() -> Iterator[None]:
    """Mark this thread's work as able to wait."""
    before = is_giving_way()
    _thread.gives_way = True
    try:
        yield
    finally:
        _thread.gives_way = before


def is_giving_way() -> bool:
    """Return True if this thread's work can wait."""
    return getattr(_thread, "gives_way", False)


def pause() -> None:
    """Wait while a question is being answered, if this thread's work can wait. Call this without holding a lock."""
    if is_giving_way():
        let_questions_pass()


def let_questions_pass() -> None:
    """Wait while a question is being answered, whatever this thread does. Call this without holding a lock."""
    _nobody_asks.wait(MAX_PAUSE_SECONDS)


# -- Load a library without the PostgreSQL drivers that it would import if they were installed.

#: Drivers that peewee and huey try to import. That costs 0.3 s and 15 MB, and only the hub service needs one.
DRIVERS = ("psycopg2cffi", "psycopg2", "psycopg")


def import_without_drivers(module: str) -> None:
    """Import a module as if the drivers were not installed. Nothing happens if the module is loaded already."""
    if module in sys.modules:
        return
    hidden = set(DRIVERS) - sys.modules.keys()
    # None makes an import fail; code that needs a driver imports it afterwards.
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        importlib.import_module(module)
    finally:
        for name in hidden:
            del sys.modules[name]
