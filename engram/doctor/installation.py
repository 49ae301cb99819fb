"""Checks of what the installer made: interpreters, service files, a half-done installation, the earlier Engram."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from engram.atomic import read_regular
from engram.doctor.machine import Machine
from engram.earlier.find import find_earlier
from engram.install.journal import explain_half_done
from engram.reports.checks import Check, State
from engram.reports.claude_checks import server_command
from engram.reports.processes import holder_of
from engram.services.choose import best_system
from engram.services.protocol import SystemName
from engram.services.systemd import Systemd

#: Service files larger than this are not read, in bytes.
_MAX_FILE_BYTES = 100_000
#: Lines of the earlier Engram that are listed; beyond, their number alone.
MAX_LISTED_LINES = 5


def check_interpreters(machine: Machine) -> Iterator[Check]:
    """Check that hooks and the MCP server run with the interpreter of this installation."""
    link = machine.home.python_link
    if not link.exists():
        yield Check(
            "hooks' interpreter",
            State.BAD,
            f"{link} is missing or a broken link, so hooks stay silent",
            "run: engram hooks",
            command="engram hooks",
            fix="link-python",
            public="missing or broken",
        )
    elif os.path.realpath(link) != os.path.realpath(sys.executable):
        yield Check(
            "hooks' interpreter",
            State.WARN,
            f"{link} leads to {os.path.realpath(link)}, and Engram runs with {os.path.realpath(sys.executable)}",
            "run: engram hooks",
            command="engram hooks",
            fix="link-python",
            public="another interpreter",
        )
    command = server_command(machine.settings)
    if command and Path(command).exists() and command != sys.executable:
        yield Check(
            "MCP server's interpreter",
            State.WARN,
            f"the server is registered with {command}, and this installation is {sys.executable}",
            "run: engram install",
            command="engram install",
            public="another interpreter",
        )


def check_service(machine: Machine) -> Iterator[Check]:
    """Check that something starts the processes, with this installation and these folders."""
    status = machine.service.status()
    if not status.is_installed:
        yield _check_start(machine, status.system)
    wanted = {
        "interpreter": sys.executable,
        "memory folder": str(machine.settings.home),
        "configuration folder of Claude Code": str(machine.settings.claude_folder),
    }
    for change in machine.service.files():
        text = (read_regular(change.path, _MAX_FILE_BYTES) or b"").decode("utf-8", "replace")
        differing = [what for what, value in wanted.items() if value not in text]
        if change.content is not None and differing:
            detail = f"{change.path} names another {' and another '.join(differing)}"
            yield Check(
                "service file",
                State.BAD if not text else State.WARN,
                detail if text else f"{change.path} is missing",
                "run: engram install",
                command="engram install",
                public=f"differs in {', '.join(differing)}",
            )
            return
    if status.is_installed:
        yield Check("service", State.OK, f"{status.system}", public=status.system)
        yield from _check_linger(machine)


def _check_start(machine: Machine, system: SystemName) -> Check:
    """The finding that nothing starts the processes, with what this machine can do about it."""
    if best_system(machine.settings).name is SystemName.BACKGROUND:
        detail = "the worker and the watcher do not start again after a restart: this machine has no launchd or systemd"
        command = "engram config set start_with_session true"
        advice = f"to let Claude Code's sessions start them, run: {command}"
    else:
        detail, command = "nothing starts the worker and the watcher when you log in", "engram install"
        advice = f"run: {command}"
    return Check("service", State.WARN, detail, advice, command=command, public=f"{system}, not installed")


def _check_linger(machine: Machine) -> Iterator[Check]:
    """Check that a service outlives an SSH session."""
    is_remote = bool(machine.environ.get("SSH_CONNECTION"))
    if is_remote and isinstance(machine.service, Systemd) and machine.service.is_lingering() is False:
        yield Check(
            "linger",
            State.WARN,
            "the worker and the watcher stop when you log out",
            "to keep them running, run: loginctl enable-linger",
            command="loginctl enable-linger",
            public="off",
        )


def check_half_done(machine: Machine) -> Iterator[Check]:
    """Check that no installation stopped half way."""
    told = explain_half_done(machine.home)
    if told is not None:
        what, advice = told
        command = "engram uninstall" if "uninstall` to finish" in advice else "engram install"
        yield Check("installation", State.BAD, what, advice, command=command, public="half done")


def check_earlier(machine: Machine) -> Iterator[Check]:
    """Check that the earlier Engram does not run beside this one."""
    worker = holder_of(machine.home.worker_lock) or 0
    earlier = find_earlier(machine.settings, projects=(machine.folder,), worker_pid=worker)
    if not earlier.is_active:
        return
    lines = earlier.lines()
    more = f"; {len(lines) - MAX_LISTED_LINES} more" if len(lines) > MAX_LISTED_LINES else ""
    yield Check(
        "earlier Engram",
        State.BAD,
        f"an earlier Engram is still active: {'; '.join(lines[:MAX_LISTED_LINES])}{more}",
        "run: engram install, which stops it, keeps its files and imports its memories",
        command="engram install",
        public="active",
    )
