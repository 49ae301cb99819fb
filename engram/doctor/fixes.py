"""What ``engram doctor --fix`` does: only what is safe, inside the memory folder or to Engram's own processes."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping

from engram.doctor.machine import Machine
from engram.errors import EngramError
from engram.reports.checks import Check, State
from engram.services.choose import end_other_versions
from engram_hooks.block import link_interpreter


def close_folder(machine: Machine) -> str:
    """Let no other user read the memory folder. Links are not followed."""
    for path in (machine.home.root, *machine.home.root.rglob("*")):
        with contextlib.suppress(OSError):
            mode = path.lstat().st_mode
            if not stat.S_ISLNK(mode) and stat.S_IMODE(mode) & 0o077:
                os.chmod(path, stat.S_IMODE(mode) & 0o700)
    return f"closed {machine.home.root} to other users"


def link_python(machine: Machine) -> str:
    """Let the hooks use this interpreter."""
    link_interpreter(machine.home)
    return f"linked {machine.home.python_link} to this interpreter"


def start(machine: Machine) -> str:
    """Start the processes."""
    machine.service.start()
    return "started the worker and the watcher"


def restart(machine: Machine) -> str:
    """Restart the processes."""
    machine.service.restart()
    return "restarted the worker and the watcher"


def end_others(machine: Machine) -> str:
    """End the processes of another version, whoever started them, and start this version's."""
    ended = end_other_versions(machine.settings)
    machine.service.start()
    return f"ended {', '.join(other.described for other in ended)}; started the worker and the watcher"


#: Name of a fix, as findings give it → what it does; the text says what was done.
FIXES: Mapping[str, Callable[[Machine], str]] = {
    "close-folder": close_folder,
    "link-python": link_python,
    "start": start,
    "restart": restart,
    "end-others": end_others,
}


def apply_fixes(machine: Machine, findings: Iterable[Check]) -> list[str]:
    """Apply each fix that a finding names, once. Returns what was done, or why it could not be."""
    wanted = {finding.fix for finding in findings if finding.fix and finding.state is not State.OK}
    if "end-others" in wanted:
        wanted -= {"start", "restart"}
    if "restart" in wanted:
        wanted.discard("start")
    lines = []
    for name in FIXES:
        if name in wanted:
            try:
                lines.append(FIXES[name](machine))
            except EngramError as error:
                lines.append(f"could not {name.replace('-', ' ')}: {error}")
    return lines
