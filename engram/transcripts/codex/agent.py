"""The agent Codex CLI: find its rollouts, and read the new lines of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from engram.errors import TranscriptError
from engram.settings import Settings
from engram.system.lazy_regex import lazy_regex
from engram.transcripts.agents import Cursor, EntryTime, Reading, Source, StoredTurns
from engram.transcripts.codex import AGENT
from engram.transcripts.codex.discover import (
    SUFFIXES,
    find_rollouts,
    head_of,
    rollouts_at,
    rollouts_beside,
    session_folders,
)
from engram.transcripts.codex.entry import RECORDS, Entry, Kind, parse_line
from engram.transcripts.codex.state import Identified, ReaderState, dump_cursor, identify, load_cursor
from engram.transcripts.codex.turn_builder import Built, TurnBuilder
from engram.transcripts.growing_file import Position, holds_prefix, read_chunk
from engram.transcripts.json_values import object_in, storable_id, storable_text
from engram.transcripts.line_parsing import chunk_of, parse_lines, reading_of, too_long_lines
from engram.transcripts.speaker import Speaker, codex_speaker
from engram.transcripts.transcript_files import Skipped, Walk, facts_of
from engram.transcripts.turns import Role, TextBlock

#: Maximum delay between a text and its copy in the other log, in milliseconds.
MAX_APART_MS = 10_000
#: Placeholder in stored text for a secret that is still present in the file.
PLACEHOLDER = lazy_regex(r"\[(?:secret|opaque):")


class Codex:
    """Reads the rollouts of Codex CLI: one JSONL file per session, to which lines are appended."""

    name = AGENT
    title = "Codex"
    suffixes = SUFFIXES

    def resume_command(self, session_id: str, path: Path | None = None) -> str:
        """Return the command that resumes a session; a subagent's id begins with that of its parent."""
        return f"codex resume {session_id.partition('.')[0]}"

    def speaker_at(self, path: Path, offset: int, length: int) -> Speaker:
        """Return who writes the prompts of a rollout, according to the head of the file."""
        return codex_speaker(head_of(path))

    def folders(self, settings: Settings) -> tuple[Path, ...]:
        return session_folders(settings.codex_folder)

    def discover(self, settings: Settings) -> Iterator[Source]:
        return find_rollouts(settings.codex_folder, with_subagents=settings.subagents)

    def skipped(self, settings: Settings) -> list[Skipped]:
        """Return the files in Codex's folders of rollouts that are not read."""
        walk = Walk(settings.codex_folder)
        for _ in find_rollouts(settings.codex_folder, with_subagents=settings.subagents, walk=walk):
            pass
        return walk.skipped

    def sources_at(self, path: Path, settings: Settings) -> Iterator[Source]:
        """Yield the rollout at a path, or the rollouts in a folder."""
        return rollouts_at(path)

    def read(
        self, source: Source, cursor: Cursor, stored: StoredTurns, *, settings: Settings, max_bytes: int
    ) -> Reading:
        """Read the complete lines after the cursor. Raises TranscriptError."""
        position, state = load_cursor(cursor)
        chunk = chunk_of(source, position, RECORDS, max_bytes, settings.line_limit_bytes)
        if chunk.is_rewritten:
            return Reading(cursor=dump_cursor(Position(), state.restarted()), is_restart=True, has_more=True)
        if chunk.position.offset == position.offset and not chunk.is_damaged:
            return reading_of(chunk, cursor, has_more=False)
        parsed, unreadable = parse_lines(chunk.lines, parse_line, RECORDS)
        if not position.offset:
            state.is_reread |= stored.is_session_known()
            state.standing = _standing_before(source.path, source.session_id)
        known_as = StoredIds(stored).find if state.is_reread else None
        entries = list(identify(parsed, source.session_id, state.naming, known_as))
        environment: list[str] = []
        built = _build(source, state, entries, stored, environment)
        compactions = (entry.at_ms for entry in parsed if entry.kind is Kind.COMPACTION and entry.at_ms)
        return reading_of(
            chunk,
            dump_cursor(chunk.position, state),
            updates=built.updates,
            withdrawn=built.withdrawn,
            entries=[EntryTime(uuid, entry.at_ms) for entry, uuid, _ in entries if uuid],
            unreadable=(*too_long_lines(chunk), *unreadable),
            cwd=next(filter(None, map(_folder_of, parsed)), ""),
            compacted_at_ms=max(compactions, default=None),
            moved=tuple(built.moved),
            environment=tuple(environment),
            has_more=chunk.has_more,
        )

    def is_moved(self, source: Source, cursor: Cursor) -> bool:
        """Return True if the file contains everything read from the cursor's file; archiving moves or compresses it."""
        return holds_prefix(source.path, load_cursor(cursor)[0])


def _build(
    source: Source, state: ReaderState, entries: list[Identified], stored: StoredTurns, environment: list[str]
) -> Built:
    known = set(stored.known_entries([entry.uuid for entry in entries if entry.uuid]))
    resumed = ((key, stored.load(key)) for key in state.turns_to_resume)
    builder = TurnBuilder(
        source.session_id,
        state=state,
        resume={key: turn for key, turn in resumed if turn is not None},
        is_known=known.__contains__,
        holder=stored.holder if state.is_reread else None,
        is_subagent=source.is_subagent,
        note_environment=environment.append,
    )
    for entry in entries:
        builder.add(entry)
    return builder.finish()


def _standing_before(path: Path, session_id: str) -> list[str]:
    """Return the keys of a session's prompts that a rollout continues, in order; [] for a session's first rollout."""
    standing: tuple[str, ...] = ()
    for base, end in reversed(_bases_of(path, session_id.rpartition(".")[2])):
        if (facts := facts_of(base)) is not None:
            stamp = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)
            standing = _standing_at(base, stamp, end, session_id, standing)
    return list(standing)


def _bases_of(path: Path, thread_id: str) -> list[tuple[Path, int]]:
    """Return the rollouts of the same session that a rollout continues, latest first, and how much of each counts.

    If the user goes back, Codex begins a new rollout for the same session. Its head names the earlier one and how much
    of that still counts, in bytes. A fork names a rollout of another session.
    """
    bases: dict[Path, int] = {}
    named: dict[str, tuple[Path, str]] | None = None
    while base := object_in(head_of(path).get("history_base")):
        named = rollouts_beside(path) if named is None else named
        found, end = named.get(storable_id(base.get("thread_id"))), base.get("end_byte_offset")
        if found is None or found[1] != thread_id or not isinstance(end, int) or found[0] in bases:
            break
        path = found[0]
        bases[path] = end
    return list(bases.items())


@lru_cache(maxsize=256)  # A session's next rollout continues one that continues the same ones.
def _standing_at(
    path: Path, stamp: tuple[int, ...], end: int, session_id: str, standing: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the keys of the prompts that stand after the first bytes of a rollout.

    Args:
        stamp: changes with the file.
        standing: the keys of those that stand at its beginning.
    """
    state = ReaderState(standing=list(standing))
    position = Position()
    builder = TurnBuilder(session_id, state=state, resume={})
    with contextlib.suppress(TranscriptError):
        while (chunk := read_chunk(path, position)).position != position:
            position = chunk.position
            parsed, _ = parse_lines((line for line in chunk.lines if line.offset < end), parse_line, RECORDS)
            for entry in identify(parsed, session_id, state.naming):
                builder.add(entry)
            if position.offset >= end or not chunk.has_more:
                break
    return tuple(state.standing)


class StoredIds:
    """Finds the id under which a text is stored.

    The computed id may differ, because a removed line changes the text's number.
    """

    def __init__(self, stored: StoredTurns) -> None:
        """Start with the session's texts."""
        self._stored = stored
        self._by_text: dict[tuple[Role, str], list[TextBlock]] = {}
        self._masked: dict[tuple[Role, int | None], TextBlock] = {}
        for block in stored.texts_of_session():
            if PLACEHOLDER.search(block.text):
                self._masked[block.role, block.at_ms] = block
            else:
                self._by_text.setdefault((block.role, block.text), []).append(block)

    def find(self, entry: Entry, uuid: str) -> str:
        """Return the id of the stored text with the same words and about the same time; ``uuid`` if there is none.

        The times may differ, because the other log of the rollout may have shown the text a little earlier or later.
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
