"""Read a transcript to its end: bytes → turns, stored with the cursor in one transaction a chunk."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engram.errors import Moved, TranscriptError
from engram.failpoint import reach
from engram.ingest.clean import Cleaner, Redact
from engram.ingest.forgotten import without_erased
from engram.ingest.paused import without_paused
from engram.ingest.scope import pauses_for, project_for, why_not, why_not_project
from engram.ingest.write import Reading, Written, write_reading
from engram.models.contexts import sessions_of_entries
from engram.models.pauses import Span
from engram.models.sessions import SessionRow, find_session, known_values, salt
from engram.models.store import Store
from engram.models.tombstones import erased_entries
from engram.models.transcripts import (
    BadLine,
    Cursor,
    ensure_transcript,
    known_uuids,
    load_cursor,
    move_cursor,
    note_error,
    note_gone,
    note_size,
    rename_transcript,
    state_of,
    transcript_of_session,
)
from engram.models.turns import close_turns, is_forgotten, load_turn
from engram.models.unsettled import drop_unsettled_turns
from engram.settings import Settings
from engram.transcripts.agent import CLAUDE_CODE, Agent
from engram.transcripts.claude_code.discover import TranscriptFile, projects_folder
from engram.transcripts.claude_code.draft import TurnUpdate
from engram.transcripts.claude_code.entry import BadLine as Unreadable
from engram.transcripts.claude_code.entry import Entry
from engram.transcripts.claude_code.turn import is_queued_key, restarted
from engram.transcripts.project import Project, is_excluded
from engram.transcripts.record import Turn
from engram.transcripts.tail import Chunk, Position, fingerprint, read_chunk

logger = logging.getLogger(__name__)

#: Bytes of one transaction: bounds memory and how long the write lock is held.
CHUNK_BYTES = 4 * 1024 * 1024
#: So often a read begins anew because another reader was faster.
MAX_TRIES = 100


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What reading one transcript brought."""

    path: Path
    session_id: str = ""
    #: Why nothing was read: off, paused, excluded, gone, unreadable, "not a transcript"; "" where it was read.
    skipped: str = ""
    #: Bytes of whole lines read now.
    bytes_read: int = 0
    new_turns: int = 0
    #: Turns that were known and have grown.
    grown_turns: int = 0
    #: Entries that were stored.
    entries: int = 0
    #: Prompts and assistant messages with text.
    messages: int = 0
    bad_lines: int = 0
    #: Keys of new turns that begin with a prompt, in order.
    prompts: tuple[str, ...] = ()
    #: Files and commands of new tool calls, in order, for memories about what is at hand.
    calls: tuple[str, ...] = ()

    def plus(self, written: Written, bytes_read: int, bad_lines: int) -> IngestResult:
        """The sum of this and one more chunk."""
        return replace(
            self,
            bytes_read=self.bytes_read + bytes_read,
            new_turns=self.new_turns + written.new_turns,
            grown_turns=self.grown_turns + written.grown_turns,
            entries=self.entries + written.entries,
            messages=self.messages + written.messages,
            bad_lines=self.bad_lines + bad_lines,
            prompts=self.prompts + written.prompts,
            calls=self.calls + written.calls,
        )


def ingest_file(
    store: Store,
    path: Path,
    *,
    settings: Settings,
    redact: Redact,
    close: bool = False,
    agent: Agent = CLAUDE_CODE,
    chunk_bytes: int = CHUNK_BYTES,
) -> IngestResult:
    """Read what is new in a transcript and store it; any number of readers may do so at once.

    Each chunk is one transaction: its turns, their entries, the cursor and the work they make due commit together,
    if nobody moved the cursor meanwhile; else the chunk is read again. A file that vanished or cannot be read
    changes nothing that is stored.

    Args:
        redact: takes a text and known hashes; every text passes it before it is stored.
        close: close the session's open turn at the end (Stop, a flush, silence).

    Raises:
        StoreError: the database cannot be written; the cursor has not moved.
    """
    path = Path(os.path.abspath(path))
    file = agent.identify(path, projects_folder(settings.claude_folder), with_subagents=settings.subagents)
    if file is None:
        return _unavailable(store, path)
    _follow_move(store, file)
    reason = why_not(store, file.session_id, settings)
    result = IngestResult(path, file.session_id, skipped=reason)
    tries = 0
    while not result.skipped:
        try:
            step = _Step(store, file, settings, redact, agent, chunk_bytes)
            result, has_more = step.run(result)
            tries = 0
        except Moved:
            tries += 1
            if tries >= MAX_TRIES:
                raise
            continue
        except TranscriptError as error:
            note_error(store, path, str(error))
            return replace(result, skipped="unreadable")
        if not has_more:
            break
    if close and not result.skipped:
        _close(store, file.session_id)
    return result


def ingest_all(
    store: Store,
    folder: Path,
    *,
    settings: Settings,
    redact: Redact,
    progress: Callable[[int, int, IngestResult], None] = lambda done, total, result: None,
    agent: Agent = CLAUDE_CODE,
    paths: Iterable[Path] | None = None,
) -> list[IngestResult]:
    """Read every transcript below a configuration folder (or just ``paths``), the oldest first.

    ``progress`` gets the number of files done, their total and the last result after each file.
    """
    if paths is None:
        found = agent.find(folder, with_subagents=settings.subagents)
        paths = [file.path for file in sorted(found, key=lambda file: (file.changed_at_ns, str(file.path)))]
    todo = list(paths)
    results = []
    for done, path in enumerate(todo, 1):
        result = ingest_file(store, path, settings=settings, redact=redact, agent=agent)
        results.append(result)
        progress(done, len(todo), result)
    return results


@dataclass(slots=True)
class _Step:
    """One chunk of one file: read, think, write."""

    store: Store
    file: TranscriptFile
    settings: Settings
    redact: Redact
    agent: Agent
    chunk_bytes: int

    def run(self, result: IngestResult) -> tuple[IngestResult, bool]:
        """Read and store one chunk; returns the sum so far, and whether more may be there.

        Raises:
            Moved: another reader was faster; nothing was written.
        """
        before = load_cursor(self.store, self.file.path)
        chunk = read_chunk(
            self.file.path,
            Position(before.offset, before.line_number, before.fingerprint),
            chunk_bytes=self.chunk_bytes,
            max_line_bytes=self.settings.line_limit_bytes,
        )
        reach("ingest.read")
        if chunk.is_rewritten:
            self._start_over(before)
            return result, True
        if chunk.position.offset == before.offset:
            if before.transcript_id and chunk.size != before.size:
                note_size(self.store, before, chunk.size)
            return result, False
        entries, bad_lines = self._parse(chunk)
        cwd = next((entry.cwd for entry in entries if entry.cwd), "")
        session = find_session(self.store, self.file.session_id)
        is_settled = session is not None and session.is_settled
        project = project_for(self.store, cwd, self.settings) if cwd and not is_settled else None
        if project is not None:
            reason = why_not_project(self.store, cwd, project, self.settings)
            is_cut = self._drop_what_is_not_to_be_read(session, project, reason)
            if reason:
                return replace(result, skipped=reason), False
            if is_cut:
                return result, True  # the cursor was read before
        reading = self._build(before, chunk, entries, bad_lines, pauses_for(self.store, session, project))
        reading = replace(reading, cwd=cwd, project=project)
        written = write_reading(self.store, reading, self.settings)
        result = result.plus(written, chunk.position.offset - before.offset, len(bad_lines))
        return result, chunk.has_more

    def _drop_what_is_not_to_be_read(self, session: SessionRow | None, project: Project, reason: str) -> bool:
        """Delete prompts that were queued, and read, before the folder was known; True where there were any."""
        if session is None:
            return False
        spans = None if reason == "excluded" else pauses_for(self.store, session, project)
        dropped = drop_unsettled_turns(self.store, session, spans)
        if dropped:
            logger.info("action=drop_unsettled session=%s turns=%d", session.session_id, dropped)
        return dropped > 0

    def _parse(self, chunk: Chunk) -> tuple[list[Entry], list[BadLine]]:
        bad = [BadLine(line.offset, line.length, "too long") for line in chunk.skipped]
        entries = []
        for line in chunk.lines:
            found = self.agent.parse(line)
            if isinstance(found, Unreadable):
                bad.append(BadLine(found.offset, found.length, found.reason))
            elif found is not None:
                entries.append(found)
        return entries, bad

    def _build(
        self, before: Cursor, chunk: Chunk, entries: list[Entry], bad_lines: list[BadLine], pauses: Sequence[Span]
    ) -> Reading:  # fmt: skip
        state = state_of(before)
        known = known_uuids(self.store, [entry.uuid for entry in entries if entry.uuid])
        cleaner = Cleaner(self.redact, salt(self.store), known_values(self.store, self.file.session_id))
        builder = self.agent.builder(
            self.file.session_id,
            state=state,
            resume=self._resume(state),
            owner=lambda uuid: uuid if uuid in known or (is_queued_key(uuid) and self._is_turn(uuid)) else None,
            is_subagent=self.file.is_subagent,
            see_environment=cleaner.see_environment,
        )
        for entry in entries:
            builder.add(entry)
        built = builder.finish()
        updates = tuple(
            replace(update, turn=cleaner.clean(update))
            for update in without_erased(
                without_paused(built.updates, entries, pauses), self._erased(built.updates, entries)
            )
            if not is_excluded_turn(update.turn, self.settings)
        )
        after = replace(
            before,
            offset=chunk.position.offset,
            line_number=chunk.position.lines,
            fingerprint=chunk.position.fingerprint,
            reader_state=json.dumps(built.state, separators=(",", ":")),
            # Only a read that finds nothing more notes the file's size: killed before it, the next sweep goes on.
            size=chunk.position.offset if chunk.has_more else chunk.size,
        )
        return Reading(
            file=self.file,
            before=before,
            after=after,
            updates=updates,
            withdrawn=built.withdrawn,
            bad_lines=tuple(bad_lines),
            known=cleaner.new_known,
            agent=self.agent.name,
            compacted_at_ms=max((one.at_ms for one in entries if one.is_compaction and one.at_ms), default=None),
            copied=self._copied(entries, known),
        )

    def _copied(self, entries: Sequence[Entry], known: Collection[str]) -> tuple[tuple[str, int], ...]:
        """The sessions that hold entries of this transcript already, each with the time of the last such entry."""
        owners = sessions_of_entries(self.store, [one.uuid for one in entries if one.uuid in known])
        until: dict[str, int] = {}
        for entry in entries:
            owner = owners.get(entry.uuid, "")
            if owner and owner != self.file.session_id:
                until[owner] = max(until.get(owner, 0), entry.at_ms or 0)
        return tuple(until.items())

    def _erased(self, updates: Iterable[TurnUpdate], entries: Iterable[Entry]) -> set[str]:
        """Entries of this read whose words were forgotten."""
        keys = {update.turn.key for update in updates if is_queued_key(update.turn.key)}
        return erased_entries(self.store, {entry.uuid for entry in entries if entry.uuid} | keys)

    def _resume(self, state: dict[str, Any]) -> dict[str, Turn]:
        found = ((key, load_turn(self.store, key)) for key in self.agent.keys_to_resume(state))
        return {key: stored.turn for key, stored in found if stored is not None}

    def _is_turn(self, key: str) -> bool:
        """True for the key of a queued prompt that is stored or was forgotten."""
        return load_turn(self.store, key) is not None or is_forgotten(self.store, key)

    def _start_over(self, before: Cursor) -> None:
        """The file was truncated or rewritten: read it again as a new generation; entries are known by their uuid."""
        state = restarted(state_of(before))
        after = replace(
            before,
            offset=0,
            line_number=0,
            fingerprint=b"",
            generation=before.generation + 1,
            reader_state=json.dumps(state),
            size=0,
        )
        with self.store.transaction() as tx:
            transcript_id = ensure_transcript(tx, self.file.path, before.session_ref or None)
            move_cursor(tx, before, after, transcript_id)
        logger.info("action=reread path=%s generation=%d", self.file.path, after.generation)


def _follow_move(store: Store, file: TranscriptFile) -> None:
    """Go on with the cursor of a file that stood elsewhere before (``/cd`` moves transcripts)."""
    if load_cursor(store, file.path).transcript_id:
        return
    for old in transcript_of_session(store, file.session_id):
        if old.exists():
            continue
        with contextlib.suppress(TranscriptError):
            mark = load_cursor(store, old).fingerprint
            if mark and mark == fingerprint(file.path):
                rename_transcript(store, old, file.path)
                return


def is_excluded_turn(turn: Turn, settings: Settings) -> bool:
    """True for a turn in a folder that the user excludes, in a session that began elsewhere."""
    return bool(turn.cwd) and is_excluded(turn.cwd, settings.exclude)


def _close(store: Store, session_id: str) -> None:
    session = find_session(store, session_id)
    if session is not None:
        with store.transaction() as tx:
            close_turns(tx, session.id)


def _unavailable(store: Store, path: Path) -> IngestResult:
    """The result for a path that is no transcript now; what was read of it before stays."""
    if load_cursor(store, path).transcript_id and not path.exists():
        note_gone(store, path, is_gone=True)
        return IngestResult(path, path.stem, skipped="gone")
    return IngestResult(path, skipped="not a transcript")
