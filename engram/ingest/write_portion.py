"""Write a portion of a source in one transaction: turns, entries, cursor, and the resulting work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from engram.ingest.session_project import needs_project, store_project
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.judgements import ids_in, mark_used
from engram.models.sessions.failures_and_commits import add_pull_requests
from engram.models.sessions.reading_progress import Progress, add_unreadable, ensure_transcript, move_cursor
from engram.models.sessions.sessions import (
    SessionRow,
    add_known_values,
    ensure_session,
    find_session,
    note_context_start,
    note_copied_history,
    set_session_title,
    touch_session,
)
from engram.models.sessions.stored_turns import load_turn
from engram.models.sessions.turn_changes import (
    clear_turn,
    close_turn,
    move_entries,
    withdraw_memories,
    withdraw_turn,
    write_turns,
)
from engram.models.work.work import make_due, postpone
from engram.settings import Settings
from engram.system.failpoint import reach
from engram.transcripts.agents import PullRequest, Source, Title, Unreadable
from engram.transcripts.project import Project
from engram.transcripts.turns import OPENING_ROLES, EntryRef, Opening, Role, TextBlock, TurnUpdate


@dataclass(frozen=True, slots=True)
class IngestResult:
    path: Path
    session_id: str = ""
    #: Why nothing was read: off, paused, excluded, gone, unreadable, "not a transcript"; "" if it was read.
    skipped: str = ""
    #: True if the cursor moved.
    has_read: bool = False
    #: Number of bytes read from the source this time; 0 if unknown.
    bytes_read: int = 0
    new_turns: int = 0
    #: Number of known turns that have grown or were replaced.
    grown_turns: int = 0
    entries: int = 0
    #: Number of prompts and assistant messages with text.
    messages: int = 0
    #: Number of parts of the source that could not be read, such as damaged lines.
    bad_lines: int = 0
    #: Files and commands of new tool calls, in order, used to find memories about them.
    calls: tuple[str, ...] = ()

    def plus(self, other: IngestResult, *, bytes_read: int, bad_lines: int) -> IngestResult:
        """Return the sum of this and another portion of the source."""
        return replace(
            self,
            has_read=True,
            bytes_read=self.bytes_read + bytes_read,
            new_turns=self.new_turns + other.new_turns,
            grown_turns=self.grown_turns + other.grown_turns,
            entries=self.entries + other.entries,
            messages=self.messages + other.messages,
            bad_lines=self.bad_lines + bad_lines,
            calls=self.calls + other.calls,
        )


# -- Make work due after a read: extraction by thresholds or silence, a recollection for a new prompt.


#: Minimum share of an extracted session's messages that must be new before it is extracted again, because an extraction
#: reads the whole session.
MIN_NEW_SHARE = 0.01


def extraction_due_at_ms(session: SessionRow, settings: Settings, now_ms: int) -> int:
    """Return when a session's new messages must be extracted: now if there are enough, otherwise after a delay.

    The delay starts at the last extraction, or at the last entry if that is earlier or there has been no extraction. A
    time in the future, from another machine's clock, counts as now.
    """
    wanted: float = settings.extract_first_messages
    if session.extractions:
        wanted = max(settings.extract_every_messages, MIN_NEW_SHARE * session.extracted_messages)
    if session.message_count - session.extracted_messages >= wanted:
        return now_ms
    since_ms = min(session.last_at_ms, now_ms)
    if session.extracted_at_ms:
        since_ms = min(since_ms, session.extracted_at_ms)
    return since_ms + settings.extract_idle_seconds * 1000


def note_due(tx: Tx, session: SessionRow, settings: Settings, new_prompt_at_ms: int | None) -> None:
    """Record the work that is due because a session grew. Call this in the transaction that writes the new turns."""
    now_ms = tx.now_ms()
    if settings.extractor != "off":
        due_at_ms = extraction_due_at_ms(session, settings, now_ms)
        if due_at_ms <= now_ms:
            make_due(tx, "extract", session.session_id, due_at_ms, reason="messages")
        else:
            postpone(tx, "extract", session.session_id, due_at_ms)
    if settings.inject and new_prompt_at_ms is not None and is_fresh(new_prompt_at_ms, settings, now_ms):
        make_due(tx, "recollect", session.session_id, now_ms, reason="prompt")


def is_fresh(at_ms: int, settings: Settings, now_ms: int) -> bool:
    """Return True if a prompt is recent enough for its recollection to be injected."""
    return abs(now_ms - at_ms) <= settings.stale_seconds * 1000


# -- Write all turns, entries, the cursor and the resulting work of a read in one transaction, or write nothing.

#: Maximum number of tool calls in a result. The newest are kept, because they show which memories are needed now.
MAX_CALLS = 50


@dataclass(frozen=True, slots=True)
class Portion:
    """A portion of a source, ready to be written, with all texts redacted."""

    source: Source
    before: Progress
    after: Progress
    updates: tuple[TurnUpdate, ...]
    #: Keys of stored turns that turned out not to be turns.
    withdrawn: tuple[str, ...]
    unreadable: tuple[Unreadable, ...]
    #: Salted hashes of values in environment files.
    known_values: frozenset[bytes]
    cwd: str = ""
    #: The project to assign to the session; None if it already has one, or if it is not known yet.
    project: Project | None = None
    #: Key of a turn → its project, if it differs from its session's.
    projects: Mapping[str, Project] = field(default_factory=dict)
    #: When the session was last compacted, as far as it has been read; None if never.
    compacted_at_ms: int | None = None
    pull_requests: tuple[PullRequest, ...] = ()
    titles: tuple[Title, ...] = ()
    #: (session, until when) for each session from which this source repeats entries, because it is a fork.
    copied: tuple[tuple[str, int], ...] = ()
    #: Entries already stored, with their new positions in a rewritten source.
    moved: tuple[EntryRef, ...] = ()


def write_portion(store: Store, portion: Portion, settings: Settings) -> IngestResult:
    """Write a portion in one transaction; return what it added.

    Raises:
        Conflict: the cursor is no longer at the position from which the portion was read; nothing was written.
        StoreError: the database cannot be written; nothing has changed.
    """
    with store.transaction() as tx:
        reach("ingest.begin")
        session = _ensure_session(tx, portion)
        transcript_id = ensure_transcript(tx, portion.source.path, session.id if session else None, portion.source.part)
        written = IngestResult(portion.source.path)
        if session is not None:
            add_pull_requests(tx, session.id, portion.pull_requests)
            written = _write_turns(tx, portion, session, transcript_id, settings)
            for title in portion.titles:
                set_session_title(tx, session, title)
        move_entries(tx, transcript_id, portion.moved)
        reach("ingest.turns")
        _note_context(tx, portion)
        add_unreadable(tx, transcript_id, portion.before.generation, portion.unreadable)
        move_cursor(tx, portion.before, portion.after, transcript_id)
        reach("ingest.cursor")
    reach("ingest.committed")
    return written


def _note_context(tx: Tx, portion: Portion) -> None:
    """Record the data that determine which memories are already in the session's context."""
    if portion.compacted_at_ms is not None:
        note_context_start(tx, portion.source.session_id, portion.compacted_at_ms)
    for from_session, until_ms in portion.copied:
        note_copied_history(tx, portion.source.session_id, from_session, until_ms)


def _ensure_session(tx: Tx, portion: Portion) -> SessionRow | None:
    """Return the session, creating it as soon as there is something to store."""
    session = find_session(tx, portion.source.session_id)
    if not portion.updates and not portion.known_values:
        return session
    project = portion.project
    row = None
    if project is not None and project.identity and not project.is_global and needs_project(session):
        row = store_project(tx, project)
    times = [u.turn.started_at_ms for u in portion.updates if u.turn.started_at_ms is not None]
    return ensure_session(
        tx,
        portion.source.session_id,
        agent=portion.source.agent,
        project_id=row.id if row else None,
        is_global=project.is_global if project else False,
        cwd=portion.cwd,
        at_ms=min(times, default=tx.now_ms()),
    )


def _write_turns(tx: Tx, portion: Portion, session: SessionRow, transcript_id: int, settings: Settings) -> IngestResult:
    add_known_values(tx, session.id, portion.known_values)
    removed_messages = _remove_turns(tx, portion)
    grown = [u.turn for u in portion.updates if u.has_grown]
    places = {turn.key: store_project(tx, place).id for turn in grown if (place := portion.projects.get(turn.key))}
    write_turns(tx, grown, session, transcript_id, places)
    for update in portion.updates:
        if not update.has_grown:
            close_turn(tx, update.turn.key)
    _note_uses(tx, portion)
    written = _count(portion, removed_messages)
    if not any(update.has_grown for update in portion.updates):
        return written
    times = [u.turn.ended_at_ms for u in portion.updates if u.turn.ended_at_ms is not None]
    at_home = [u.turn for u in portion.updates if u.turn.key not in portion.projects]
    branch = next((turn.branch for turn in reversed(at_home) if turn.branch), "")
    touch_session(
        tx, session.id, at_ms=max(times, default=session.last_at_ms), branch=branch, new_messages=written.messages
    )
    touched = find_session(tx, session.session_id)
    if touched is not None:
        note_due(tx, touched, settings, _last_prompt_at_ms(portion))
    return written


def _note_uses(tx: Tx, portion: Portion) -> None:
    """Record which memories the assistant's new replies mention; memories that the session was shown count as used."""
    named_at_ms: dict[str, int] = {}
    for update in portion.updates:
        for block in update.turn.said[update.said_before :]:
            if block.role is Role.ASSISTANT and block.at_ms is not None:
                for episode_id in ids_in(block.text):
                    named_at_ms.setdefault(episode_id, block.at_ms)
    mark_used(tx, portion.source.session_id, named_at_ms)


def _remove_turns(tx: Tx, portion: Portion) -> int:
    """Remove withdrawn turns and the old words of replaced ones; return the number of messages that they contained."""
    messages = 0
    for key in portion.withdrawn:
        if (stored := load_turn(tx, key)) is not None:
            messages += _count_messages(stored.turn.said)
            withdraw_memories(tx, stored.id)
        withdraw_turn(tx, key)
    for update in portion.updates:
        if update.is_replaced and (stored := load_turn(tx, update.turn.key)) is not None:
            messages += _count_messages(stored.turn.said)
            clear_turn(tx, update.turn.key)
    return messages


def _count(portion: Portion, removed_messages: int) -> IngestResult:
    grown = [update for update in portion.updates if update.has_grown]
    new = [update for update in grown if update.is_new]
    calls = [
        text
        for update in grown
        for action in update.turn.actions[update.actions_before :]
        for text in (*action.files, action.command)
        if text
    ]
    messages = sum(
        _count_messages(update.turn.said) - _count_messages(update.turn.said[: update.said_before]) for update in grown
    )
    return IngestResult(
        portion.source.path,
        new_turns=len(new) - len(portion.withdrawn),
        grown_turns=len(grown) - len(new),
        entries=sum(len(update.turn.entries) - update.entries_before for update in grown),
        messages=messages - removed_messages,
        calls=tuple(calls[-MAX_CALLS:]),
    )


def _count_messages(said: tuple[TextBlock, ...]) -> int:
    """Count prompts and the assistant's distinct messages with text; words in a dialog don't count as a message."""
    replies = {block.message_id or block.uuid for block in said if block.role is Role.ASSISTANT}
    return len(replies) + sum(block.role in OPENING_ROLES and not block.message_id for block in said)


def _last_prompt_at_ms(portion: Portion) -> int | None:
    times = [
        update.turn.started_at_ms
        for update in portion.updates
        if update.is_new and update.turn.opening is not Opening.CONTINUATION
    ]
    return times[-1] if times else None
