"""Where everything lies: the names inside ENGRAM_HOME and on Claude Code's side."""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from engram.atomic import make_private_folder
from engram.causes import explain_error
from engram.errors import HomeError

#: A session id as Claude Code writes it. Use with fullmatch only.
_SESSION_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,127}")


def is_session_id(text: object) -> bool:
    """True for a text that may name a session; such a text is safe as a part of a file name."""
    return isinstance(text, str) and _SESSION_ID.fullmatch(text) is not None


def default_home() -> Path:
    """``ENGRAM_HOME``, or ``~/.claude-memory``."""
    named = os.environ.get("ENGRAM_HOME", "")
    return Path(named).expanduser().absolute() if named else Path.home() / ".claude-memory"


def default_claude_folder() -> Path:
    """``CLAUDE_CONFIG_DIR``, or ``~/.claude``."""
    named = os.environ.get("CLAUDE_CONFIG_DIR", "")
    return Path(named).expanduser().absolute() if named else Path.home() / ".claude"


@dataclass(frozen=True, slots=True)
class Home:
    """The memory folder: every place in it by name."""

    root: Path

    @property
    def memory_db(self) -> Path:
        """The truth."""
        return self.root / "memory.db"

    @property
    def queue_db(self) -> Path:
        """The doorbell; may be deleted at any time."""
        return self.root / "queue.db"

    @property
    def recall_socket(self) -> Path:
        """Where the worker answers recalls."""
        return self.root / "engram.sock"

    @property
    def wake_socket(self) -> Path:
        """A datagram here says: look at the queue."""
        return self.root / "wake.sock"

    @property
    def watcher_lock(self) -> Path:
        """Held (flock) by the one watcher."""
        return self.root / "watcher.lock"

    @property
    def worker_lock(self) -> Path:
        """Held (flock) by the one worker."""
        return self.root / "worker.lock"

    @property
    def python_link(self) -> Path:
        """A link to the interpreter for the hooks that need the standard library only."""
        return self.root / "python"

    @property
    def config_file(self) -> Path:
        """The user's settings."""
        return self.root / "config.toml"

    @property
    def env_file(self) -> Path:
        """KEY=VALUE lines such as an API key; refused unless 0600."""
        return self.root / ".env"

    @property
    def recollections(self) -> Path:
        """Bites that wait to be handed over."""
        return self.root / "recollections"

    @property
    def notes(self) -> Path:
        """Markdown notes."""
        return self.root / "notes"

    @property
    def memory_note(self) -> Path:
        """The note that graduated memories go to."""
        return self.notes / "MEMORY.md"

    @property
    def daily_notes(self) -> Path:
        """One Markdown file a day."""
        return self.notes / "daily"

    @property
    def saved_notes(self) -> Path:
        """Notes that were saved on purpose, by day; Engram only ever adds to them."""
        return self.notes / "saved"

    @property
    def archive_notes(self) -> Path:
        """Old sections by month."""
        return self.notes / "archive"

    @property
    def logs(self) -> Path:
        """Rotated logs."""
        return self.root / "logs"

    @property
    def models(self) -> Path:
        """Compiled embedding models."""
        return self.root / "models"

    @property
    def backups(self) -> Path:
        """Daily copies of memory.db, two kept."""
        return self.root / "backups"

    @property
    def call_folder(self) -> Path:
        """Empty working folder for calls of a language model's command."""
        return self.root / "calls"

    def prepare(self) -> Home:
        """Make the folders that are missing (0700) and check that nobody else can enter.

        Raises:
            HomeError: the folder belongs to somebody else, is open to others and cannot be closed, or cannot be made.
        """
        try:
            notes = (self.notes, self.daily_notes, self.saved_notes, self.archive_notes)
            for folder in (self.root, self.recollections, *notes, self.logs):
                make_private_folder(folder)
            check_private(self.root)
        except OSError as error:
            raise HomeError(f"cannot use the memory folder {self.root}: {explain_error(error)}") from error
        return self


def check_private(folder: Path) -> None:
    """Close ``folder`` to other users; raise HomeError where it belongs to another user."""
    facts = folder.stat()
    if facts.st_uid != os.geteuid():
        raise HomeError(f"the memory folder {folder} belongs to another user")
    if stat.S_IMODE(facts.st_mode) & 0o077:
        os.chmod(folder, 0o700)
