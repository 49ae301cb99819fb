"""Stop the earlier Engram: unregister its LaunchAgent, end its processes, and restore its memory.db on uninstall."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from engram.errors import InstallError, ServiceError
from engram.settings import Settings
from engram.setup.edits.install_steps import Action, FileChange, JsonEdit, Step
from engram.setup.old_engram.find import EarlierEngram, bring_back_earlier, set_earlier_aside
from engram.setup.old_engram.old_processes import MAX_SHOWN_CHARACTERS, find_process
from engram.setup.old_engram.signs import SettingsEntry
from engram.setup.services.service_definition import run_command, wait_until

#: Time limit, in seconds, for a process to exit after a signal (SIGTERM, then SIGKILL).
TERM_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class BootOut:
    """Unregister a LaunchAgent, so that launchd no longer runs it or starts it again; undo registers it again."""

    kind: ClassVar[str] = "earlier-boot-out"

    label: str
    #: The file that registers it, which is moved away afterwards.
    plist: str
    #: True if launchd had it registered when this was planned.
    was_loaded: bool

    def describe(self) -> str:
        return f"stop the LaunchAgent {self.label} and unregister it"

    def apply(self) -> None:
        """Unregister it. Raises InstallError if it is still registered afterwards."""
        if not _is_loaded(self.label):
            return
        said = _launchctl("bootout", f"{_domain()}/{self.label}")
        if not wait_until(lambda: not _is_loaded(self.label), TERM_SECONDS):
            raise InstallError(f"launchctl can't unregister {self.label}: {said or 'it is still there'}")

    def verify(self) -> str:
        """Return "" if it is no longer registered with launchd."""
        return f"launchd is still running {self.label}" if _is_loaded(self.label) else ""

    def undo(self) -> None:
        """Register it again, if it was registered before and its file is back. Raises InstallError."""
        if self.was_loaded and os.path.exists(self.plist) and not _is_loaded(self.label):
            said = _launchctl("bootstrap", _domain(), self.plist)
            if not _is_loaded(self.label):
                raise InstallError(f"launchctl can't register {self.label} again: {said or 'no reason given'}")


@dataclass(frozen=True, slots=True)
class EndProcess(Action):
    """End a process of the earlier Engram; undo starts nothing, because its LaunchAgent and Claude Code do that."""

    kind: ClassVar[str] = "earlier-end-process"

    pid: int
    #: When it started, because another process may have its pid by now.
    started: str
    command: str

    def describe(self) -> str:
        return f"end process {self.pid} ({self.command[:MAX_SHOWN_CHARACTERS]})"

    def apply(self) -> None:
        """End it, with SIGKILL if SIGTERM is not enough. Raises InstallError if it is still running after that."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                if self._is_running():
                    os.kill(self.pid, number)
            if wait_until(lambda: not self._is_running(), TERM_SECONDS):
                return
        raise InstallError(f"process {self.pid} of the earlier Engram could not be stopped")

    def verify(self) -> str:
        return f"process {self.pid} of the earlier Engram is still running" if self._is_running() else ""

    def _is_running(self) -> bool:
        process = find_process(self.pid)
        return process is not None and process.started == self.started


@dataclass(frozen=True, slots=True)
class SetDatabaseAside(Action):
    """Move the earlier Engram's memory.db out of the way; undo restores it, and moves this program's own aside."""

    kind: ClassVar[str] = "earlier-database"

    #: The memory folder.
    folder: str

    def describe(self) -> str:
        return f"move the earlier Engram's memory.db in {self.folder} to memory.v2.db"

    def apply(self) -> None:
        """Move it. Raises HomeError or OSError if that is not possible."""
        set_earlier_aside(Path(self.folder))

    def undo(self) -> None:
        bring_back_earlier(Path(self.folder))


def _is_loaded(label: str) -> bool:
    """Return True if a label is registered with launchd; False if there is no launchd."""
    try:
        return run_command(["launchctl", "print", f"{_domain()}/{label}"]).code == 0
    except ServiceError:
        return False


def _has_launchd() -> bool:
    """Return True on macOS, or if a ``launchctl`` is on PATH."""
    return sys.platform == "darwin" or any(
        os.access(os.path.join(folder, "launchctl"), os.X_OK) for folder in os.environ.get("PATH", "").split(os.pathsep)
    )


def _domain() -> str:
    return f"gui/{os.getuid()}"


def _launchctl(*arguments: str) -> str:
    """Run ``launchctl``; return its output on one line."""
    try:
        return " ".join(run_command(["launchctl", *arguments]).text.split())
    except ServiceError as error:
        return str(error)


# -- Plan how to retire the earlier Engram: stop and unregister it, and keep its files. The installer applies the plan.

#: Name of the step.
STEP_NAME = "earlier"


def plan_retirement(found: EarlierEngram, settings: Settings) -> Step:
    """Return the step that stops the earlier Engram and removes it from Claude Code. Its files are kept.

    First, the LaunchAgent that would start it again is unregistered, and then its running processes are stopped. The
    LaunchAgent's file is moved into the backup, and the earlier Engram's entries are removed from the settings files.
    Undo restores all of that.
    """
    before: list[Action] = []
    if _has_launchd():
        before += [BootOut(agent.label, str(agent.path), _is_loaded(agent.label)) for agent in found.launch_agents]
    before += [EndProcess(process.pid, process.started, process.command) for process in found.processes]
    if any(database.path.parent == settings.home for database in found.databases):
        before.append(SetDatabaseAside(str(settings.home)))
    changes = [FileChange(agent.path) for agent in found.launch_agents]
    changes += [FileChange(file, edit=edit) for file, edit in _edits(found.entries).items()]
    return Step(
        name=STEP_NAME,
        summary="Stop the earlier Engram and remove it from Claude Code; its files are kept",
        changes=tuple(changes),
        before=tuple(before),
        notes=_notes(found),
    )


def _edits(entries: tuple[SettingsEntry, ...]) -> Mapping[Path, JsonEdit]:
    edits = {}
    for file in dict.fromkeys(entry.file for entry in entries):
        of_file = [entry for entry in entries if entry.file == file]
        edits[file] = JsonEdit(
            remove=tuple(entry.removed for entry in of_file),
            add=tuple(entry.kept for entry in of_file if entry.kept is not None),
        )
    return edits


def _notes(found: EarlierEngram) -> tuple[str, ...]:
    notes = []
    if any(entry.approves_tools for entry in found.entries):
        notes.append("its hook approves every tool call without asking you; without it, Claude Code will ask you again")
    if found.listener is not None and found.listener.pid not in {process.pid for process in found.processes}:
        notes.append(
            f"{found.listener.described} listens on {found.listener.path}; stop it yourself if you did not start it"
        )
    return tuple(notes)
