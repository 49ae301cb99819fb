"""What a tool call needs: the open memory, the settings, and the project that Claude works in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram import settings as settings_module
from engram.errors import NotFound, StoreError
from engram.ingest.folder import scope_of_folder
from engram.log import start_logging
from engram.models.episodes import Episode, find_episode, is_episode_id, may_see
from engram.models.replacement import is_replaced, using_database
from engram.models.sessions import ProjectRow, find_project, known_values
from engram.models.stages import note_failure
from engram.models.store import Store
from engram.recollection.searching import NO_PROJECT
from engram.redaction.display import fence_safe, one_line
from engram.settings import Settings
from engram.worker.client import ask_worker


@dataclass(frozen=True, slots=True)
class View:
    """What one call may see: the memories of one project and the global ones, or the global ones alone."""

    #: None where no project is known for Claude's folder.
    project: ProjectRow | None
    #: True where the caller named another project than that of Claude's folder.
    is_elsewhere: bool = False

    @property
    def project_id(self) -> int:
        """Row id of the project; one that no project has where there is none."""
        return NO_PROJECT if self.project is None else self.project.id

    @property
    def note(self) -> str:
        """What the answer says of the view; "" where it is that of the folder's own project."""
        if self.project is None:
            return "no project is known for this folder: global memories alone"
        return f"of project {shown_name(self.project.name)}, not of this folder's" if self.is_elsewhere else ""

    def is_own(self, episode: Episode) -> bool:
        """True where a memory was made in this project, or in none."""
        return episode.project_id in (None, self.project_id)

    def require(self, store: Store, episode_id: str) -> Episode:
        """The memory of an id, if this view may see it.

        Raises:
            NotFound: it does not exist, or belongs to another project; the message does not say which.
        """
        episode = find_episode(store, episode_id) if is_episode_id(episode_id) else None
        if episode is None or not may_see(episode, self.project_id):
            raise NotFound(
                f"there is no memory {episode_id[:40]!r} here; memory_recall and memory_timeline print ids, "
                "and project= opens those of another project"
            )
        return episode


@dataclass(frozen=True, slots=True)
class Access:
    """One server's view of the memory. The connection is made and closed with each call, on its own thread."""

    settings: Settings
    #: The folder that Claude Code started the server in.
    folder: str
    #: Claude Code's session, where it names one; "" otherwise.
    session_id: str = ""

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        """The open memory for one call.

        Raises:
            StoreError: there is no memory yet, or it cannot be opened.
        """
        path = self.settings.places.memory_db
        if not path.parent.is_dir() or not (path.exists() or is_replaced(path)):
            raise StoreError(
                f"there is no memory at {path} yet: the user starts Engram with 'engram up'; tell them, and go on without"
            )
        with using_database(path) as damage:
            store = Store(path, driver=self.settings.sqlite_driver)
            try:
                store.open()
                if damage:
                    note_failure(store, "memory", damage)
                yield store
            finally:
                store.close()

    def redact(self, store: Store, text: str) -> str:
        """Take secrets out, also those that this session's ``.env`` lines named."""
        from engram.redaction import redact

        return redact(text, known_values(store, self.session_id) if self.session_id else ())

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The worker's answer; None where no worker runs."""
        return ask_worker(self.settings.places, request)

    def view(self, store: Store, name: str | None = None) -> View:
        """What may be seen: the project that the caller names, or that of Claude's folder, and global memories.

        Raises:
            NotFound: there is no project of that name; the message names no other.
        """
        own = scope_of_folder(store, self.settings, self.folder).project
        if not name:
            return View(own)
        named = find_project(store, name)
        if named is None:
            raise NotFound(
                f"there is no project {name[:60]!r}; ask the user for its name ('engram status --json' lists them)"
            )
        return View(named, is_elsewhere=own is None or own.id != named.id)


def shown_name(name: str) -> str:
    """A project's name as it may stand in an answer."""
    return fence_safe(one_line(name, 60))


def _redact(text: str) -> str:
    # Not above: the rules take a while to load, and the server's first answer needs none.
    from engram.redaction import redact

    return redact(text)


def open_access() -> Access:
    """The view of this process: settings from the environment, the folder that it was started in."""
    folder = os.environ.get("CLAUDE_PROJECT_DIR") or str(Path.cwd())
    settings = settings_module.load().settings
    start_logging(settings.places.logs, "mcp", settings.log_level, _redact)
    return Access(settings, folder, os.environ.get("CLAUDE_CODE_SESSION_ID", ""))
