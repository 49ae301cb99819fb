"""Hints from the file system that a transcript may have changed; may fail, since the sweep finds everything anyway."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
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

logger = logging.getLogger(__name__)

#: Reading a file makes events of its own (opened, closed): only these count.
_WANTED = [FileModifiedEvent, FileCreatedEvent, FileMovedEvent, FileDeletedEvent]
_SUFFIX = ".jsonl"
#: How long ending the observer's threads may take, in seconds.
_JOIN_SECONDS = 2.0


class Events(FileSystemEventHandler):
    """Watches one folder and everything below it. ``keep_up`` starts it, again where it broke."""

    def __init__(self, folder: Path, hint: Callable[[Path], None]) -> None:
        """``hint`` is called from another thread with the path of a transcript that may have changed."""
        self._folder = folder
        self._real = ""
        self._hint = hint
        self._observer: Any = None
        self._watched: tuple[int, int] | None = None
        #: Why there are no events; "" where there are.
        self.error = "not started"

    def on_any_event(self, event: FileSystemEvent) -> None:
        """One event of the file system; names the path, and where it moved to."""
        for name in (event.src_path, event.dest_path):
            path = os.fsdecode(name) if name else ""
            if path.endswith(_SUFFIX):
                self._hint(self._as_configured(path))

    def _as_configured(self, path: str) -> Path:
        """The path below the folder as it is configured: some systems name it with links resolved."""
        if self._real and path.startswith(self._real + os.sep):
            return self._folder / path[len(self._real) + 1 :]
        return Path(path)

    def keep_up(self) -> bool:
        """Watch the folder, if it is there and is not watched already; True where it had to be started."""
        found = _identity(self._folder)
        if found is None:
            self.stop()
            self.error = f"there is no folder {self._folder} yet"
            return False
        if found == self._watched and self._is_alive():
            return False
        self.stop()
        return self._start(found)

    def _is_alive(self) -> bool:
        """True while events may come. A folder made anew may have the old one's inode; its emitter has ended then."""
        observer = self._observer
        return observer is not None and observer.is_alive() and all(emitter.is_alive() for emitter in observer.emitters)

    def _start(self, found: tuple[int, int]) -> bool:
        observer = Observer()
        self._real = os.path.realpath(self._folder)
        try:
            observer.schedule(self, str(self._folder), recursive=True, event_filter=_WANTED)
            observer.start()
        except (OSError, RuntimeError) as error:
            with contextlib.suppress(OSError, RuntimeError):
                observer.stop()
            if self.error != str(error):
                logger.warning("action=watch folder=%s error=%s", self._folder, error)
            self.error = str(error)
            return False
        self._observer, self._watched, self.error = observer, found, ""
        return True

    def stop(self) -> None:
        """Watch no longer."""
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
