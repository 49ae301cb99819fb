"""The protocol for reading an agent's sessions, and the values that a reader and ingest exchange.

See docs/agents.md.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Protocol

from engram.settings import Settings
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import Skipped, stamp_of
from engram.transcripts.turns import EntryRef, TextBlock, Turn, TurnUpdate

# -- The values that an agent's reader and ingest exchange: sources, cursors, and the results of one read.


@dataclass(frozen=True, slots=True)
class Source:
    """The place where an agent keeps one session: a file, or a part of one."""

    #: Name of the agent.
    agent: str
    path: Path
    #: Unique across all agents, and safe as a part of a file name (``engram.paths.is_session_id``).
    session_id: str
    #: A value that changes whenever the content changes. It is only compared with the stamp of the last read, never
    #: interpreted.
    stamp: str
    #: Size in bytes, to show how much is unread; None if unknown.
    size: int | None = None
    #: Last change in nanoseconds since 1970.
    changed_at_ns: int = 0
    #: The session's key within a file that contains several, such as a row id; "" if the file is one session.
    part: str = ""
    #: The session that started this one as a subagent; "" if none did.
    parent_id: str = ""
    #: True if everything that was read from it must be compared with its current content, even though nothing looks
    #: wrong.
    is_doubtful: bool = False

    @classmethod
    def of_file(
        cls, agent: str, path: Path, facts: os.stat_result, name: str, *, parent_id: str = "", stamp: str = ""
    ) -> Source:
        """Return the source for a file with one session.

        Args:
            name: the session's id, which follows the parent's in a subagent's id.
            stamp: ``stamp_of`` the file by default.
        """
        session_id = f"{parent_id}.{name}"[:128] if parent_id else name
        size, changed_at_ns = facts.st_size, facts.st_mtime_ns
        return cls(agent, path, session_id, stamp or stamp_of(facts), size, changed_at_ns, parent_id=parent_id)

    @property
    def place(self) -> Place:
        """The path and part that identify the source."""
        return Place(self.path, self.part)

    @property
    def is_subagent(self) -> bool:
        return bool(self.parent_id)


class Place(NamedTuple):
    """The identity of a source: the file, and the part of it."""

    path: Path
    part: str = ""


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a source has been read. Only its agent interprets it; both fields are "" before the first read."""

    #: The position: a byte offset, a row id, a digest, and anything else that the reader needs to continue. It contains
    #: no words from the source. If it begins with "{", it must be a JSON object, because checks for damage parse it.
    position: str = ""
    #: Reader state that may contain words, such as a branch name. Deleted when the project is forgotten.
    words: str = ""


class EntryTime(NamedTuple):
    """The id and time of an entry that was read."""

    #: Id, unique across all agents; "" if it has none.
    uuid: str
    #: Time in milliseconds since 1970; None if unknown.
    at_ms: int | None


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The position of a part of a source that could not be parsed; its text is not kept."""

    offset: int
    #: Size in the unit of ``offset``; a line is counted without its newline.
    length: int
    reason: str


class PullRequest(NamedTuple):
    """A pull request that a source mentions."""

    #: When it was mentioned, in milliseconds since 1970; 0 if that is unknown.
    at_ms: int
    #: Its web address.
    url: str


class TitleRank(IntEnum):
    """The priority of a session's title. A later title replaces one of the same or lower priority."""

    #: A summary of a conversation, which only older versions wrote.
    SUMMARY = 1
    #: Written by the agent's model.
    GENERATED = 2
    #: Given by the user, or shown to them as the name of the session.
    CUSTOM = 3
    #: The session's words were forgotten, so it no longer gets a title from the agent.
    FORGOTTEN = 9


class Title(NamedTuple):
    """A title that a source gives a session."""

    text: str
    rank: TitleRank
    #: An entry of the session to which the title belongs; "" for the source's own session.
    entry: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    #: Where the next read continues.
    cursor: Cursor
    #: Turns that are new or have changed, in the order of the source.
    updates: tuple[TurnUpdate, ...] = ()
    #: Keys of stored turns that turned out not to be turns; they are removed before the updates are written.
    withdrawn: tuple[str, ...] = ()
    #: The entries read, in order.
    entries: Sequence[EntryTime] = ()
    unreadable: tuple[Unreadable, ...] = ()
    #: First working directory recorded in an entry; "" if there is none.
    cwd: str = ""
    #: Latest time at which the session's context was compacted; None if it never was.
    compacted_at_ms: int | None = None
    #: Pull requests that the session mentions, in the order of the source.
    pull_requests: tuple[PullRequest, ...] = ()
    #: Titles of sessions, in the order of the source.
    titles: tuple[Title, ...] = ()
    #: Results of calls that showed an environment file. The values in them are secrets, and the texts are not stored.
    environment: tuple[str, ...] = ()
    #: Entries that are already stored, with their new positions in a rewritten source.
    moved: tuple[EntryRef, ...] = ()
    #: Other sessions with entries in this one's file, and what was read of each. Each has its own cursor, as a part of
    #: the file with its id.
    others: Sequence[tuple[str, Reading]] = ()
    #: ``Source.stamp`` and ``Source.size`` at the time of this read.
    stamp: str = ""
    size: int = 0
    #: Bytes and lines of the source read so far; 0 if the source has none.
    bytes_read: int = 0
    lines_read: int = 0
    #: True if the source was truncated or rewritten: nothing was read, and ``cursor`` starts from the beginning.
    is_restart: bool = False
    #: True if there may be more to read now.
    has_more: bool = False


class StoredTurns(Protocol):
    """The stored turns, as ingest makes them available to a reader."""

    def load(self, key: str) -> Turn | None:
        """Return a stored turn; None if there is none, or if it was forgotten."""

    def is_known(self, key: str) -> bool:
        """Return True if the turn with this key is stored or was forgotten."""

    def known_entries(self, uuids: Sequence[str]) -> Collection[str]:
        """Return the given entries that belong to a stored turn or were forgotten."""

    def other(self, session_id: str) -> tuple[Cursor, StoredTurns]:
        """Return how far another session in the same file has been read, and that session's stored turns."""

    def is_session_known(self) -> bool:
        """Return True if anything from the session being read is stored."""

    def holder(self, uuid: str) -> Turn | None:
        """Return the stored turn of this session to which an entry belongs; None if there is none."""

    def texts_of_session(self) -> Sequence[TextBlock]:
        """Return all stored text blocks of the session being read."""

    def is_stored(self, session_id: str) -> bool:
        """Return True if anything from the given session, which need not be the one being read, is stored."""

    def project_folders(self) -> Sequence[str]:
        """Return the folders of all known projects."""

    def prompt_times(self, from_ms: int, to_ms: int) -> Sequence[int]:
        """Return the times of the stored prompts of other sessions within a span, including both ends."""


# -- The protocol for reading an agent's sessions. See docs/agents.md.


class Agent(Protocol):
    """Finds and reads an agent's sessions. Only the agent's own package deals with their location and format."""

    @property
    def name(self) -> str:
        """The name stored with every session, such as ``claude-code``; it never changes."""

    @property
    def title(self) -> str:
        """The agent's display name, such as ``Claude Code``."""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Suffixes of files whose changes are worth checking."""

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return the shell command that resumes a session; "" if the agent has none.

        For a subagent's session, the command resumes the session that started it.

        Args:
            path: one of the session's sources, which may determine how it is resumed.
        """

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return who wrote the prompt at a byte offset; a person if it can no longer be read."""

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        """Return the folders to watch for changes; they need not exist."""

    def discover(self, settings: Settings) -> Iterator[Source]:
        """Yield every existing source; none for a folder that is missing or unreadable."""

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return the files in session folders that are not read, such as dangling links, each with the reason."""

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the sources in a file, or in a folder given by the user; none if it is not this agent's.

        Subagents are included; the registry leaves them out if they are not read.
        """

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read new content after ``cursor``, at most about ``max_bytes``.

        Reading the same content in different portions must yield the same turns. Nothing may be remembered between two
        calls except in the cursor and the stored turns.

        Raises:
            TranscriptError: the source is gone or cannot be read now.
        """

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """Return True if ``cursor`` was created from the current content of ``source``, a file that was moved.

        Raises:
            TranscriptError: as ``read``.
        """
