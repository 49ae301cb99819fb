"""Run a command for a limited time and leave no process of its group behind.

Run as a script, with only the standard library: ``python -I -S call_guard.py SECONDS FD COMMAND…``. The guard must lead
its own process group. ``FD`` is one end of a socket pair; the parent holds the other end open. The guard ends the whole
group, including itself, with SIGKILL when the command has ended, when the time is over, or when the parent's end of the
pair is closed, which the kernel does if the parent is killed. Just before that, it writes to ``FD`` how the command
ended: an exit code in decimal, ``EXIT_TIMEOUT`` or ``EXIT_NOT_STARTED``. On Linux, it also ends processes that have
left the group.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time

#: Exit codes of the guard itself, as used by ``timeout`` and the shell.
EXIT_TIMEOUT, EXIT_NOT_STARTED = 124, 127
#: Interval at which the command is checked, in seconds.
POLL_SECONDS = 0.1
#: Time between SIGTERM and SIGKILL when the command's time is over, in seconds.
GRACE_SECONDS = 0.5
#: The option of prctl that makes orphaned descendants children of this process (Linux).
_PR_SET_CHILD_SUBREAPER = 36
#: Maximum number of times that the guard looks for descendants, which may start others in the meantime.
_MAX_SCANS = 20


def main(arguments: list[str]) -> None:
    """Run the command and kill its group; return only if the guard doesn't lead a group."""
    deadline = time.monotonic() + float(arguments[0])
    parent_fd = int(arguments[1])
    os.set_inheritable(parent_fd, False)
    _adopt_orphans()
    code = _run(arguments[2:], parent_fd, deadline)
    _end_descendants()
    with contextlib.suppress(OSError):
        os.write(parent_fd, str(code).encode())
    if os.getpgid(0) == os.getpid():
        os.killpg(0, signal.SIGKILL)


def _run(command: list[str], parent_fd: int, deadline: float) -> int:
    try:
        child = subprocess.Popen(command)
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_NOT_STARTED
    while child.poll() is None:
        left = deadline - time.monotonic()
        if left <= 0:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_SECONDS)
            return EXIT_TIMEOUT
        is_parent_gone, _, _ = select.select([parent_fd], [], [], min(left, POLL_SECONDS))
        if is_parent_gone:
            return EXIT_TIMEOUT
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _adopt_orphans() -> None:
    """Keep processes that leave the group as descendants of the guard; do nothing on systems that can't."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_descendants() -> None:
    """Kill every descendant, including those in their own session; do nothing without /proc."""
    for _ in range(_MAX_SCANS):
        descendants = _descendants()
        if not descendants:
            return
        for pid in descendants:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def _descendants() -> set[int]:
    """Return the ids of the living descendants of this process."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, parent = file.read().rpartition(")")[2].split()[:2]
                if state != "Z":
                    children.setdefault(int(parent), []).append(int(name))
    descendants: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        more = children.get(waiting.pop(), [])
        descendants.update(more)
        waiting += more
    return descendants


if __name__ == "__main__":
    main(sys.argv[1:])
