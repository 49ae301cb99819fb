"""What a tool call needs: the open memory, the settings, and the project that Claude works in."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram import settings as settings_module
from engram.errors import StoreError
from engram.ingest.folder import named_project, scope_of_folder
from engram.models.replacement import is_replaced, using_database
from engram.models.sessions import ProjectRow, known_values
from engram.models.store import Store
from engram.models.work import note_failure
from engram.recollection.client import ask_worker
from engram.redaction import redact
from engram.settings import Settings


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
        return redact(text, known_values(store, self.session_id) if self.session_id else ())

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        """The worker's answer; None where no worker runs."""
        return ask_worker(self.settings.places, request)

    def project(self, store: Store, name: str | None, cwd: str | None = None) -> ProjectRow | None:
        """The project that is named, or that of ``cwd``, or that of Claude's folder; None for a root folder."""
        if name:
            return named_project(store, name)
        return scope_of_folder(store, self.settings, cwd or self.folder).project


def open_access() -> Access:
    """The view of this process: settings from the environment, the folder that it was started in."""
    folder = os.environ.get("CLAUDE_PROJECT_DIR") or str(Path.cwd())
    return Access(settings_module.load().settings, folder, os.environ.get("CLAUDE_CODE_SESSION_ID", ""))
