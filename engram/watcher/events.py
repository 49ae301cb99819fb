"""Hints from the file system that a source may have changed; may fail, since the sweep finds every change anyway."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from watchdog.events import (
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer

from engram.settings import Settings
from engram.transcripts.agent import Agent

logger = logging.getLogger(__name__)

#: Reading a file makes events of its own (opened, closed): only these count.
_WANTED = [FileModifiedEvent, FileCreatedEvent, FileMovedEvent, FileDeletedEvent]
#: How long ending the observer's threads may take, in seconds.
_JOIN_SECONDS = 2.0


class Events:
    """Watches the folders of all agents. ``keep_up`` starts it, and starts it again if it broke."""

    def __init__(self, agents: Iterable[Agent], settings: Settings, hint: Callable[[Path], None]) -> None:
        """``hint`` is called from another thread with the path of a file that may have changed."""
        self._folders = [
            FolderEvents(folder, agent.suffixes, hint) for agent in agents for folder in agent.folders(settings)
        ]

    def keep_up(self) -> bool:
        """Watch every folder that is there; True if one had to be started."""
        started = [folder.keep_up() for folder in self._folders]
        return any(started)

    @property
    def error(self) -> str:
        """Why there are no events; "" if all folders are watched."""
        return "; ".join(folder.error for folder in self._folders if folder.error)

    @property
    def error_of_present_folders(self) -> str:
        """Why there are no events from folders that exist: an agent that is not installed has none."""
        return "; ".join(folder.error for folder in self._folders if folder.error and folder.folder.is_dir())

    def stop(self) -> None:
        """Stop watching."""
        for folder in self._folders:
            folder.stop()


class FolderEvents(FileSystemEventHandler):
    """Watches one folder and everything below it."""

    def __init__(self, folder: Path, suffixes: tuple[str, ...], hint: Callable[[Path], None]) -> None:
        """Only files whose names end in one of ``suffixes`` count."""
        self.folder = folder
        self._suffixes = suffixes
        self._real = ""
        self._hint = hint
        self._observer: Any = None
        self._watched: tuple[int, int] | None = None
        #: Why there are no events; "" if there are.
        self.error = "not started"

    def on_any_event(self, event: FileSystemEvent) -> None:
        """Take an event of the file system, by its path and the path that the file moved to."""
        for name in (event.src_path, event.dest_path):
            path = os.fsdecode(name) if name else ""
            if path.endswith(self._suffixes):
                self._hint(self._as_configured(path))

    def _as_configured(self, path: str) -> Path:
        """Return the path below the folder as configured: some systems name it with links resolved."""
        if self._real and path.startswith(self._real + os.sep):
            return self.folder / path[len(self._real) + 1 :]
        return Path(path)

    def keep_up(self) -> bool:
        """Watch the folder if it is there and not watched yet; True if it had to be started."""
        identity = _identity(self.folder)
        if identity is None:
            self.stop()
            self.error = f"there is no folder {self.folder} yet"
            return False
        if identity == self._watched and self._is_alive():
            return False
        self.stop()
        return self._start(identity)

    def _is_alive(self) -> bool:
        """True while events may come. A folder that was made again may have the old inode, but its emitter has
        ended.
        """
        observer = self._observer
        return observer is not None and observer.is_alive() and all(emitter.is_alive() for emitter in observer.emitters)

    def _start(self, identity: tuple[int, int]) -> bool:
        observer = Observer()
        self._real = os.path.realpath(self.folder)
        try:
            observer.schedule(self, str(self.folder), recursive=True, event_filter=_WANTED)
            observer.start()
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(OSError, RuntimeError):
                observer.stop()
            if self.error != str(error):
                logger.warning("action=watch folder=%s error=%s", self.folder, error)
            self.error = str(error)
            return False
        self._observer, self._watched, self.error = observer, identity, ""
        return True

    def stop(self) -> None:
        """Stop watching."""
        observer, self._observer, self._watched = self._observer, None, None
        if observer is not None:
            with contextlib.suppress(OSError, RuntimeError, KeyError):
                observer.stop()
                observer.join(_JOIN_SECONDS)


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        facts = os.stat(folder)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino
