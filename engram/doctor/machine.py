"""What the checks look at: the settings, the open memory, and the environment of this process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from engram.errors import EngramError
from engram.models.store import Store
from engram.paths import Home
from engram.plugin.registered import Registration, find_registrations, read_documents
from engram.reports.health import Health
from engram.services.choose import installed_system
from engram.services.protocol import ServiceSystem
from engram.settings import Settings
from engram.transcripts.project import find_repository


@dataclass(frozen=True)
class Machine:
    """One look at this machine. Each part is read once, when a check first needs it."""

    settings: Settings
    #: The working folder, whose project may have settings of its own.
    folder: Path
    #: The open memory and its health; None if it can't be opened.
    store: Store | None = None
    health: Health | None = None
    #: Why the memory can't be opened; None if it is open.
    error: EngramError | None = None
    #: The database is looked at by SQLite alone.
    is_quick: bool = False
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    @property
    def home(self) -> Home:
        """The files of the memory folder."""
        return self.settings.places

    @cached_property
    def registrations(self) -> list[Registration]:
        """Every place where Claude Code is told to run Engram's hooks."""
        project = find_repository(self.folder) or self.folder
        return find_registrations(read_documents(self.settings.claude_folder, project))

    @cached_property
    def service(self) -> ServiceSystem:
        """What starts the processes of this memory folder."""
        return installed_system(self.settings)
