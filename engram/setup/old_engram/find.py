"""Find the earlier Engram on this machine: what starts it, which of its processes are running, and what it left. Only
``set_earlier_aside`` and ``bring_back_earlier`` change files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from engram.errors import StoreError
from engram.models.engine.database import (
    APPLICATION_ID,
    ASIDE_NAME,
    UNINSTALLED_NAME,
    free_name,
    move_aside,
    owning_database,
)
from engram.models.rescue.foreign_database import ForeignDatabase, reading_foreign
from engram.notes.note_index import earlier_notes
from engram.paths import Home, absolute_path
from engram.settings import Settings
from engram.setup.old_engram.old_processes import (
    MAX_SHOWN_CHARACTERS,
    Listener,
    RunningProcess,
    find_listener,
    find_processes,
)
from engram.setup.old_engram.signs import (
    LaunchAgent,
    SettingsEntry,
    find_launch_agents,
    find_settings_entries,
    is_own_command,
)
from engram.system.atomic import locked_folder, read_regular

# -- Databases of the earlier Engram, recognised by their tables: memory.db, and those that were moved aside.

#: Columns of memories in its second version; its first version has the table ``chunks`` instead.
MEMORY_COLUMNS = frozenset({"id", "session_id", "summary", "created_at"})
#: Names that its database may have in the memory folder.
PATTERNS = ("memory.db", "memory.v2*.db")


@dataclass(frozen=True, slots=True)
class EarlierDatabase:
    path: Path
    #: 1: indexed notes only. 2: memories.
    version: int
    #: Number of memories; 0 if they cannot be counted.
    memories: int


def find_databases(folder: Path, scratch: Path) -> list[EarlierDatabase]:
    """Return the earlier Engram's databases in a folder.

    Args:
        scratch: an existing folder for temporary copies of the databases.
    """
    found = []
    for pattern in PATTERNS:
        for path in sorted(folder.glob(pattern)):
            if path.is_file() and not _has_own_mark(path):
                database = _look_at(path, scratch)
                if database is not None:
                    found.append(database)
    return found


def _has_own_mark(path: Path) -> bool:
    """Return True for this program's database, by its header: a large one need not be copied for this check."""
    header = read_regular(path, 100) or b""
    return int.from_bytes(header[68:72], "big") == APPLICATION_ID


def _look_at(path: Path, scratch: Path) -> EarlierDatabase | None:
    with contextlib.suppress(StoreError), reading_foreign(path, scratch) as database:
        version = version_of(database)
        if version:
            return EarlierDatabase(path, version, _count(database) if version == 2 else 0)
    return None


def version_of(database: ForeignDatabase) -> int:
    """Return 2 or 1, by its tables, for a database of the earlier Engram; 0 for another program's."""
    if database.columns("episodes") >= MEMORY_COLUMNS:
        return 2
    return int(bool(database.columns("chunks")) and bool(database.columns("fts")))


def _count(database: ForeignDatabase) -> int:
    try:
        return database.count("episodes")
    except StoreError:
        return 0


def _is_earlier(path: Path) -> bool:
    is_candidate = path.is_file() and not _has_own_mark(path)
    return is_candidate and _look_at(path, path.parent) is not None


def set_earlier_aside(folder: Path) -> None:
    """Move the earlier Engram's memory.db aside, and move back this program's own that an uninstallation left."""
    path = Home(folder).memory_db
    if not folder.is_dir():
        return
    with locked_folder(folder):
        if _is_earlier(path):
            move_aside(path, free_name(path, ASIDE_NAME))
        own = path.with_name(UNINSTALLED_NAME)
        if own.is_file() and not os.path.lexists(path):
            move_aside(own, path)


def bring_back_earlier(folder: Path) -> None:
    """Restore the earlier Engram's memory.db to its name, for an uninstallation; this program's own is moved aside.

    Raises:
        AlreadyRunning: a process of this program has memory.db open.
    """
    path = Home(folder).memory_db
    aside = path.with_name(ASIDE_NAME)
    if not _is_earlier(aside):
        return
    with contextlib.ExitStack() as held:
        if path.is_file():
            if not _has_own_mark(path):
                return
            held.enter_context(owning_database(path))
        held.enter_context(locked_folder(folder))
        if path.is_file():
            move_aside(path, free_name(path, UNINSTALLED_NAME))
        move_aside(aside, path)


#: Other files that it leaves in its folder. (``recollections`` is shared.)
STATE_FILES = ("engram-state.json", "engram.pid", "engram.stdout.log", "engram.stderr.log")


@dataclass(frozen=True, slots=True)
class EarlierEngram:
    launch_agents: tuple[LaunchAgent, ...] = ()
    processes: tuple[RunningProcess, ...] = ()
    #: The process that listens on engram.sock, if it is not one of this program's workers; None if there is none.
    listener: Listener | None = None
    entries: tuple[SettingsEntry, ...] = ()
    databases: tuple[EarlierDatabase, ...] = ()
    notes: tuple[Path, ...] = ()
    state_files: tuple[Path, ...] = ()

    @property
    def is_active(self) -> bool:
        """True if it is running, is started by something, or takes part in Claude Code's sessions."""
        return bool(self.launch_agents or self.processes or self.listener or self.entries)

    @property
    def files(self) -> tuple[Path, ...]:
        """Its files in the memory folder. No uninstallation of this program deletes them, even with ``--purge``."""
        databases = (
            side
            for database in self.databases
            for suffix in ("", "-wal", "-shm")
            if (side := database.path.with_name(database.path.name + suffix)).exists()
        )
        return (*databases, *self.notes, *self.state_files)

    def lines(self) -> list[str]:
        return [
            *(f"LaunchAgent {agent.label}: {agent.path}" for agent in self.launch_agents),
            *(f"process {process.pid}: {process.command[:MAX_SHOWN_CHARACTERS]}" for process in self.processes),
            *([f"{self.listener.described} listens on {self.listener.path}"] if self.listener else []),
            *(_line_of_entry(entry) for entry in self.entries),
            *(f"database {database.path}: {database.memories} memories" for database in self.databases),
            *([f"{len(self.notes)} notes in {self.notes[0].parent}"] if self.notes else []),
        ]


def find_earlier(
    settings: Settings, *, projects: Iterable[Path] = (), user_home: Path | None = None, worker_pid: int = 0
) -> EarlierEngram:
    """Find the earlier Engram from file contents and listening sockets, whatever its name and location.

    Args:
        settings: the source of the memory folder and Claude Code's folder.
        projects: folders whose own settings are also read.
        user_home: the user's home folder, if not this user's.
        worker_pid: the running worker of that memory folder, which may listen there; 0 if none is running.
    """
    home = absolute_path("~") if user_home is None else user_home
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
    """Return the existing folders where it may have kept its memory: this program's folder, and its own fixed one."""
    return [folder for folder in dict.fromkeys((settings.home, user_home / ".claude-memory")) if folder.is_dir()]


def _is_foreign(listener: Listener, worker_pid: int, processes: dict[int, RunningProcess]) -> bool:
    """Return True if a listener is not a worker of this program. Without a pid, a running worker counts as it."""
    if listener.pid:
        # Another memory folder of this program also has a worker.
        is_ours = listener.pid == worker_pid or is_own_command(listener.command)
        return listener.pid in processes or not is_ours
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
