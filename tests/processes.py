"""Wait, within bounds, for what other processes do."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from engram.watcher.watch import Watcher

Result = TypeVar("Result")

#: Longest wait, in seconds.
WAIT_SECONDS = 60.0


def wait_for(condition: Callable[[], Result]) -> Result:
    """Wait until ``condition`` returns something true, and return that; fail after ``WAIT_SECONDS``.

    It is asked ever less often: what is waited for needs the processor.
    """
    deadline, pause_seconds = time.monotonic() + WAIT_SECONDS, 0.01
    while not (result := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(pause_seconds)
        pause_seconds = min(1.2 * pause_seconds, 0.1)
    return result


def read_until(watcher: Watcher, condition: Callable[[], Result]) -> Result:
    """Let a watcher read whenever an event of the file system wakes it, until ``condition`` returns something true."""
    while not (result := condition()):
        assert select.select([watcher._pipe[0]], [], [], WAIT_SECONDS)[0], "no event came"
        os.read(watcher._pipe[0], 4096)
        watcher.step()
    return result


def is_running(pid: int) -> bool:
    """True where the process exists and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    return state != "Z"


def fall_silent(lock: Path, seconds: float) -> None:
    """Write into a lock file that its holder last beat some time ago."""
    facts = lock.read_text().splitlines()[:3]
    lock.write_text("\n".join([*facts, f"{time.monotonic() - seconds:015.3f}", ""]))


def wait_until_gone(*pids: int) -> None:
    wait_for(lambda: not any(map(is_running, pids)))


def read_pid(path: Path) -> int:
    return int(wait_for(lambda: path.exists() and path.read_text().strip()))


def members_of_group(group: int) -> list[int]:
    """Return the processes of a process group that are no zombies; without /proc, the group itself while it exists."""
    if not Path("/proc/self/stat").exists():
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return []
        return [group]
    members = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            members.append(int(folder.name))
    return members


def wait_until_group_gone(group: int) -> None:
    """Wait until no process of a group is left."""
    wait_for(lambda: not members_of_group(group))


def processes_of_home(home: Path) -> dict[int, list[str]]:
    """Return the processes of a memory folder that are no zombies: process id → its command line.

    Read from /proc; on a system without it, nothing is found.
    """
    found = {}
    wanted = f"ENGRAM_HOME={home}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            variables = (folder / "environ").read_bytes().split(b"\0")
            words = (folder / "cmdline").read_bytes().decode().split("\0")[:-1]
        except OSError:
            continue
        if wanted in variables and int(folder.name) != os.getpid() and is_running(int(folder.name)):
            found[int(folder.name)] = words
    return found


def end_processes_of_home(home: Path) -> None:
    """Kill whatever was started for a memory folder and still runs."""
    for pid in processes_of_home(home):
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)
