"""Codex CLI as an agent: finds its rollouts and reads what is new in one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engram.settings import Settings
from engram.transcripts.agents import Cursor, Reading, Source, StoredTurns
from engram.transcripts.codex import AGENT
from engram.transcripts.codex.discover import SUFFIXES, find_rollouts, head_of, rollouts_at, session_folders
from engram.transcripts.codex.entry import RECORDS, Entry, Kind, parse_line
from engram.transcripts.codex.turn_builder import (
    Built,
    Identified,
    ReaderState,
    TurnBuilder,
    dump_cursor,
    identify,
    load_cursor,
)
from engram.transcripts.lines import parse_lines, storable_text, too_long_lines
from engram.transcripts.speaker import Speaker, codex_speaker
from engram.transcripts.tail import Position, holds_prefix, read_chunk
from engram.transcripts.transcript_files import Skipped, Walk
from engram.transcripts.turns import Role, TextBlock

#: How long after a text its copy in the other log may come, in milliseconds.
MAX_APART_MS = 10_000
#: Stands in a stored text for a secret, which the file still shows.
PLACEHOLDER = re.compile(r"\[(?:secret|opaque):")


class Codex:
    """Reads the rollouts of Codex CLI: one JSONL file a session, to which lines are appended."""

    name = AGENT
    title = "Codex"
    suffixes = SUFFIXES

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return the command that resumes a session; a subagent's id begins with that of its parent."""
        return f"codex resume {session_id.partition('.')[0]}"

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return who writes the prompts of a rollout, by its head."""
        return codex_speaker(head_of(path))

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        """Return the folders of current and of archived sessions."""
        return session_folders(settings.codex_folder)

    def discover(self, settings: Settings) -> Iterator[Source]:
        """Yield every rollout in Codex's folder."""
        return find_rollouts(settings.codex_folder, with_subagents=settings.subagents)

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return what is not read of Codex's folder although it is where rollouts are."""
        walk = Walk(settings.codex_folder)
        for _ in find_rollouts(settings.codex_folder, with_subagents=settings.subagents, walk=walk):
            pass
        return walk.skipped

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the rollout at a path, or the rollouts in a folder."""
        return rollouts_at(path, with_subagents=settings.subagents)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read the whole lines behind the cursor. Raises TranscriptError."""
        position, state = load_cursor(cursor)
        chunk = read_chunk(
            source.path,
            position,
            chunk_bytes=max_bytes,
            max_line_bytes=settings.line_limit_bytes,
            is_doubtful=source.is_doubtful,
            ends_whole=RECORDS.ends_whole,
        )
        if chunk.is_rewritten:
            return Reading(cursor=dump_cursor(Position(), state.restarted()), is_restart=True, has_more=True)
        if chunk.position.offset == position.offset and not chunk.is_damaged:
            return Reading(
                cursor=cursor,
                stamp=chunk.stamp,
                size=chunk.size,
                bytes_read=position.offset,
                lines_read=position.lines,
            )
        parsed, unreadable = parse_lines(chunk.lines, parse_line, RECORDS)
        if not position.offset and stored.is_session_known():
            state.is_reread = True
        known_as = StoredIds(stored).find if state.is_reread else None
        entries = list(identify(parsed, source.session_id, state.naming, known_as))
        built = _build(source, state, entries, stored)
        compactions = (entry.at_ms for entry in parsed if entry.kind is Kind.COMPACTION and entry.at_ms)
        return Reading(
            cursor=dump_cursor(chunk.position, state),
            updates=built.updates,
            withdrawn=built.withdrawn,
            entries=[entry for entry in entries if entry.uuid],
            unreadable=(*too_long_lines(chunk), *unreadable),
            cwd=next(filter(None, map(_folder_of, parsed)), ""),
            compacted_at_ms=max(compactions, default=None),
            moved=tuple(built.moved),
            stamp=chunk.stamp,
            size=chunk.size,
            bytes_read=chunk.position.offset,
            lines_read=chunk.position.lines,
            has_more=chunk.has_more,
        )

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """True if the file holds all that was read of the cursor's file: archiving moves or compresses a rollout."""
        return holds_prefix(source.path, load_cursor(cursor)[0])


def _build(source: Source, state: ReaderState, entries: list[Identified], stored: StoredTurns) -> Built:
    """Build the turns of the entries, on top of those that are stored."""
    known = set(stored.known_entries([entry.uuid for entry in entries if entry.uuid]))
    resumed = ((key, stored.load(key)) for key in state.turns_to_resume)
    builder = TurnBuilder(
        source.session_id,
        state=state,
        resume={key: turn for key, turn in resumed if turn is not None},
        is_known=known.__contains__,
        holder=stored.holder if state.is_reread else None,
        is_subagent=source.is_subagent,
        note_environment=stored.note_environment,
    )
    for entry in entries:
        builder.add(entry)
    return builder.finish()


class StoredIds:
    """Finds the id that a text has in the store: the number in it differs where a line before it was taken out."""

    def __init__(self, stored: StoredTurns) -> None:
        """Begin with the texts of the session."""
        self._stored = stored
        self._by_text: dict[tuple[Role, str], list[TextBlock]] = {}
        self._masked: dict[tuple[Role, int | None], TextBlock] = {}
        for block in stored.texts_of_session():
            if PLACEHOLDER.search(block.text):
                self._masked[block.role, block.at_ms] = block
            else:
                self._by_text.setdefault((block.role, block.text), []).append(block)

    def find(self, entry: Entry, uuid: str) -> str:
        """Return the id of the stored text that was said in the same words at about the same time, or ``uuid``.

        The other log of the rollout may have shown it a little earlier or later.
        """
        if self._stored.known_entries([uuid]):
            return uuid
        role = Role.USER if entry.kind is Kind.PROMPT else Role.ASSISTANT
        for block in self._by_text.get((role, entry.text), ()):
            if abs((block.at_ms or 0) - (entry.at_ms or 0)) <= MAX_APART_MS:
                return block.uuid
        masked = self._masked.get((role, entry.at_ms))
        return uuid if masked is None else masked.uuid


def _folder_of(entry: Entry) -> str:
    if entry.kind is Kind.META:
        return storable_text(entry.data.get("cwd"))
    return entry.text if entry.kind is Kind.FOLDER else ""
