"""The protocol behind which each agent's sessions are read. See docs/agents.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from engram.settings import Settings
from engram.transcripts.source import Cursor, Reading, Source, StoredTurns
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import Skipped


class Agent(Protocol):
    """Knows where an agent keeps its sessions and how to read them. Nothing outside its package knows either."""

    @property
    def name(self) -> str:
        """Stored with every session, such as ``claude-code``; never changes."""

    @property
    def title(self) -> str:
        """The agent's name for people, such as ``Claude Code``."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Endings of file names whose changes are worth a look."""

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return the shell command that resumes a session; "" if the agent has none.

        For the session of a subagent it resumes the session that started it.

        Args:
            session_id: the session.
            path: one of its sources, which may say how it has to be resumed.
        """

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return who wrote a prompt that was read there, in bytes; a person, where that can't be read any more."""

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        """Return the folders to watch for changes; they need not exist."""

    def discover(self, settings: Settings) -> Iterator[Source]:
        """Yield every source there is now. A folder that is missing or unreadable holds none."""

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return what is where sources are and is not read, such as a link that leads nowhere, with the reason."""

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the sources in a file, or in a folder that a person names; none if it is not this agent's."""

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read what is new behind ``cursor``, about ``max_bytes`` at most.

        The same content read in other portions must give the same turns. Nothing may be remembered between two calls
        but in the cursor and the stored turns.

        Raises:
            TranscriptError: the source is gone or cannot be read now.
        """

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """True if ``cursor`` was made from what ``source`` holds now: its file stood elsewhere before.

        Raises:
            TranscriptError: as ``read``.
        """
