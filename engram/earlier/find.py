"""Find the earlier Engram on this machine: what starts it, what runs of it, what it left. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.earlier.databases import EarlierDatabase, find_databases
from engram.earlier.launch_agents import LaunchAgent, find_launch_agents
from engram.earlier.processes import MAX_SHOWN_CHARACTERS, Listener, RunningProcess, find_listener, find_processes
from engram.earlier.settings_files import SettingsEntry, find_settings_entries
from engram.notes.earlier_notes import earlier_notes
from engram.paths import Home
from engram.settings import Settings

#: Other files that it leaves in its folder. ``recollections`` is shared.
STATE_FILES = ("engram-state.json", "engram.pid", "engram.stdout.log", "engram.stderr.log")


@dataclass(frozen=True, slots=True)
class EarlierEngram:
    """What there is of the earlier Engram."""

    launch_agents: tuple[LaunchAgent, ...] = ()
    processes: tuple[RunningProcess, ...] = ()
    #: Who listens on engram.sock and is none of this program's workers; None for nobody.
    listener: Listener | None = None
    entries: tuple[SettingsEntry, ...] = ()
    databases: tuple[EarlierDatabase, ...] = ()
    notes: tuple[Path, ...] = ()
    state_files: tuple[Path, ...] = ()

    @property
    def is_active(self) -> bool:
        """It runs, is started by something, or takes part in Claude Code's sessions."""
        return bool(self.launch_agents or self.processes or self.listener or self.entries)

    @property
    def is_present(self) -> bool:
        """There is anything of it, if only its files."""
        return self.is_active or bool(self.databases or self.notes or self.state_files)

    @property
    def files(self) -> tuple[Path, ...]:
        """Its files in the memory folder. No uninstallation of this program deletes them, ``--purge`` included."""
        databases = (
            side
            for database in self.databases
            for suffix in ("", "-wal", "-shm")
            if (side := database.path.with_name(database.path.name + suffix)).exists()
        )
        return (*databases, *self.notes, *self.state_files)

    def lines(self) -> list[str]:
        """Tell what was found, a line each."""
        return [
            *(f"LaunchAgent {agent.label}: {agent.path}" for agent in self.launch_agents),
            *(f"process {process.pid}: {process.command[:MAX_SHOWN_CHARACTERS]}" for process in self.processes),
            *([f"{self.listener.described} listens on {self.listener.path}"] if self.listener else []),
            *(_line_of_entry(entry) for entry in self.entries),
            *(f"database {database.path}: {database.episodes} memories" for database in self.databases),
            *([f"{len(self.notes)} notes in {self.notes[0].parent}"] if self.notes else []),
        ]


def find_earlier(
    settings: Settings,
    *,
    projects: Iterable[Path] = (),
    user_home: Path | None = None,
    worker_pid: int = 0,
) -> EarlierEngram:
    """Look for the earlier Engram: by what files say and what listens, whatever it is called and wherever it lies.

    Args:
        settings: they name the memory folder and Claude Code's folder.
        projects: folders whose own settings are read too.
        user_home: the user's home folder, if not this user's.
        worker_pid: this program's running worker, which may listen on engram.sock; 0 if none runs.
    """
    home = Path.home() if user_home is None else user_home
    processes: dict[int, RunningProcess] = {}
    databases, notes, state_files = [], [], []
    listener = None
    for folder in memory_folders(settings, home):
        processes |= {process.pid: process for process in find_processes(folder, home)}
        databases += find_databases(folder, settings.home if settings.home.is_dir() else folder)
        notes += list(earlier_notes(folder))
        state_files += [path for name in STATE_FILES if (path := folder / name).is_file()]
        found = find_listener(Home(folder).recall_socket)
        if found is not None and _is_foreign(found, worker_pid, processes):
            listener = listener or found
    return EarlierEngram(
        launch_agents=tuple(find_launch_agents(home)),
        processes=tuple(processes[pid] for pid in sorted(processes)),
        listener=listener,
        entries=tuple(find_settings_entries(_settings_files(settings, home, projects), home)),
        databases=tuple(databases),
        notes=tuple(notes),
        state_files=tuple(state_files),
    )


def memory_folders(settings: Settings, user_home: Path) -> list[Path]:
    """Return the folders where it may have kept its memory: this program's, and the one it always used."""
    return [folder for folder in dict.fromkeys((settings.home, user_home / ".claude-memory")) if folder.is_dir()]


def _is_foreign(listener: Listener, worker_pid: int, processes: dict[int, RunningProcess]) -> bool:
    """Return True if a listener is no worker of this program. Where the system does not name it, its command counts."""
    if listener.pid:
        return listener.pid in processes or listener.pid != worker_pid
    return not worker_pid


def _settings_files(settings: Settings, user_home: Path, projects: Iterable[Path]) -> Iterator[Path]:
    """Yield every file in which Claude Code looks for hooks and MCP servers."""
    for folder in (settings.claude_folder, user_home / ".claude"):
        yield from (folder / "settings.json", folder / "settings.local.json")
    yield user_home / ".claude.json"
    yield settings.claude_folder / ".claude.json"
    for project in projects:
        yield from (project / ".claude" / "settings.json", project / ".claude" / "settings.local.json")
        yield project / ".mcp.json"


def _line_of_entry(entry: SettingsEntry) -> str:
    warning = ", which approves every tool call" if entry.approves_tools else ""
    what = f"{entry.kind} {entry.name}".strip()
    return f"{what} in {entry.file}{warning}: {entry.command[:MAX_SHOWN_CHARACTERS]}"
