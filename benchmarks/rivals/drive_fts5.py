"""Plain full-text search, the baseline."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from driver import Driver

_PROGRAM = Path(__file__).with_name("fts5_program.py")


class Fts5(Driver):
    """``fts5_program.py``, which is started once for each question."""

    name = "plain FTS5"
    configuration = "SQLite's full-text index over what was said, pieces of 60 words, OR of all words, bm25"
    unfair = ("against it: it has no tools, so it can't be asked by an agent without a shell",)
    agents = 1
    systems = "all"
    has_hook = False

    @property
    def _database(self) -> Path:
        return self.machine.folder / "fts5.db"

    def version(self) -> str:
        """Return SQLite's version."""
        return f"SQLite {sqlite3.sqlite_version}"

    def installed(self) -> Sequence[Path]:
        """Return only the script."""
        return [_PROGRAM]

    def stored(self) -> Sequence[Path]:
        """Return the database."""
        return [self._database]

    def read(self) -> None:
        """Index the transcripts."""
        self.machine.run([sys.executable, "-I", _PROGRAM, "index", self._database, self.machine.claude / "projects"])

    def answer(self, question: str, folder: Path) -> str:
        """Ask about the sessions of a folder."""
        command = [sys.executable, "-I", _PROGRAM, "ask", self._database, "--folder", folder]
        return self.machine.run(command, given=question).stdout.strip()
