"""Gemini CLI as an agent: finds its chats and reads one that changed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from engram.errors import TranscriptError
from engram.settings import Settings
from engram.transcripts.agents import Cursor, EntryTime, Reading, Source, StoredTurns, Unreadable
from engram.transcripts.gemini import AGENT
from engram.transcripts.gemini.chat import Chat
from engram.transcripts.gemini.discover import SUFFIXES, chats_at, chats_folder, find_chats, project_of
from engram.transcripts.messages import whole_turns
from engram.transcripts.speaker import Speaker
from engram.transcripts.transcript_files import Skipped, Walk, read_head

#: Largest chat that is read, in bytes: a chat is read whole, since any message may be written anew.
MAX_CHAT_BYTES = 50_000_000


class Gemini:
    """Reads the chats of Gemini CLI. A cursor is the digest of the content that was read."""

    name = AGENT
    title = "Gemini CLI"
    suffixes = SUFFIXES

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return the command that resumes a session; a subagent's id begins with that of its parent."""
        return f"gemini --resume {session_id.partition('.')[0]}"

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return a person: chats don't say who writes the prompts."""
        return Speaker.PERSON

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        """Return the folder of all projects' chats."""
        return (chats_folder(settings.gemini_folder),)

    def discover(self, settings: Settings) -> Iterator[Source]:
        """Yield every chat in Gemini CLI's folder."""
        return find_chats(settings.gemini_folder, with_subagents=settings.subagents)

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return what is not read of Gemini CLI's folder although it is where chats are."""
        walk = Walk(chats_folder(settings.gemini_folder))
        for _ in find_chats(settings.gemini_folder, with_subagents=settings.subagents, walk=walk):
            pass
        return walk.skipped

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the chat at a path, or the chats in a folder."""
        return chats_at(path, with_subagents=settings.subagents)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read the chat whole if it changed. Raises TranscriptError."""
        data = _read(source.path)
        after = Cursor(hashlib.sha256(data).hexdigest())
        if after == cursor:
            return Reading(cursor, stamp=source.stamp, size=len(data), bytes_read=len(data))
        chat = Chat(source.session_id)
        if len(data) > MAX_CHAT_BYTES:
            chat.unreadable.append(Unreadable(0, len(data), "too large"))
        elif source.path.suffix == ".json":
            chat.add_document(data)
        else:
            chat.add_lines(data)
        messages, cwd = chat.messages(), project_of(source.path)
        return Reading(
            cursor=after,
            updates=whole_turns(AGENT, source.session_id, cwd, messages, stored.note_environment),
            entries=[EntryTime(message.id, message.at_ms) for message in messages],
            unreadable=tuple(chat.unreadable),
            cwd=cwd,
            compacted_at_ms=chat.compacted_at_ms,
            stamp=source.stamp,
            size=len(data),
            bytes_read=len(data),
        )

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """True if the file holds what was read. Raises TranscriptError."""
        return cursor.position == hashlib.sha256(_read(source.path)).hexdigest()


def _read(path: Path) -> bytes:
    """Return the content; of one that is too large, one byte more than is read."""
    try:
        return read_head(path, MAX_CHAT_BYTES + 1)
    except OSError as error:
        raise TranscriptError(f"{path.name} can't be read: {error.strerror or error}") from error
