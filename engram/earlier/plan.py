"""Plan how the earlier Engram is retired: stopped, unregistered, its files kept. The installer applies the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engram.earlier.actions import BootOut, EndProcess, SetDatabaseAside, has_launchd, is_loaded
from engram.earlier.find import EarlierEngram
from engram.earlier.settings_files import SettingsEntry
from engram.install.changes import Action, FileChange, JsonEdit, Step
from engram.settings import Settings

#: Name of the step.
STEP_NAME = "earlier"


def plan_retirement(found: EarlierEngram, settings: Settings) -> Step:
    """Return the step that stops the earlier Engram and takes it out of Claude Code. Its files stay.

    First its LaunchAgent is unregistered, which would start it again, then what runs is ended; the LaunchAgent's file
    moves into the backup, and its entries leave the settings files. Undo brings all of that back.
    """
    before: list[Action] = []
    if has_launchd():
        before += [BootOut(agent.label, str(agent.path), is_loaded(agent.label)) for agent in found.launch_agents]
    before += [EndProcess(process.pid, process.started, process.command) for process in found.processes]
    if any(database.path.parent == settings.home for database in found.databases):
        before.append(SetDatabaseAside(str(settings.home)))
    changes = [FileChange(agent.path) for agent in found.launch_agents]
    changes += [FileChange(file, edit=edit) for file, edit in _edits(found.entries).items()]
    return Step(
        name=STEP_NAME,
        summary="Stop the earlier Engram and take it out of Claude Code; its files stay",
        changes=tuple(changes),
        before=tuple(before),
        notes=_notes(found),
    )


def _edits(entries: tuple[SettingsEntry, ...]) -> Mapping[Path, JsonEdit]:
    """Return one edit for each file."""
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
        notes.append("its hook approves every tool call without asking you; without it, Claude Code asks again")
    if found.listener is not None and found.listener.pid not in {process.pid for process in found.processes}:
        notes.append(f"{found.listener.described} listens on {found.listener.path}; end it yourself if it is not yours")
    return tuple(notes)
