"""The one transaction of a read: turns, entries, cursor and the work they make due, or nothing."""

from __future__ import annotations

from dataclasses import dataclass

from engram.failpoint import reach
from engram.ingest.due import note_due
from engram.models.contexts import note_context_start, note_copied_history
from engram.models.extractions import withdraw_memories
from engram.models.sessions import (
    SessionRow,
    add_known_values,
    ensure_project,
    ensure_session,
    find_session,
    touch_session,
)
from engram.models.store import Store
from engram.models.transaction import Tx
from engram.models.transcripts import BadLine, Cursor, add_bad_lines, ensure_transcript, move_cursor
from engram.models.turns import close_turn, load_turn, withdraw_turn, write_turns
from engram.settings import Settings
from engram.transcripts.claude_code.discover import TranscriptFile
from engram.transcripts.claude_code.draft import TurnUpdate
from engram.transcripts.claude_code.turn import is_queued_key
from engram.transcripts.project import Project
from engram.transcripts.record import Opening, Role, TextBlock

#: Tool calls named in a result at most; only the newest matter for what is at hand.
MAX_CALLS = 50


@dataclass(frozen=True, slots=True)
class Reading:
    """What one chunk became, ready to be written; all texts are redacted."""

    file: TranscriptFile
    before: Cursor
    after: Cursor
    updates: tuple[TurnUpdate, ...]
    #: Keys of stored turns that proved to be none.
    withdrawn: tuple[str, ...]
    bad_lines: tuple[BadLine, ...]
    known: frozenset[bytes]
    agent: str
    cwd: str = ""
    project: Project | None = None
    #: When the session was last compacted, by what was read; None where it was not.
    compacted_at_ms: int | None = None
    #: (session, until when) of the sessions whose entries this transcript repeats: it is a fork of them.
    copied: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Written:
    """What one transaction added."""

    new_turns: int = 0
    grown_turns: int = 0
    entries: int = 0
    messages: int = 0
    prompts: tuple[str, ...] = ()
    calls: tuple[str, ...] = ()


def write_reading(store: Store, reading: Reading, settings: Settings) -> Written:
    """Write a chunk in one transaction.

    Raises:
        Moved: the cursor is not where the chunk was read from; nothing was written.
        StoreError: the database cannot be written; nothing was.
    """
    with store.transaction() as tx:
        reach("ingest.begin")
        session = _session(tx, reading)
        transcript_id = ensure_transcript(tx, reading.file.path, session.id if session else None)
        written = Written()
        if session is not None:
            written = _write_turns(tx, reading, session, transcript_id, settings)
        reach("ingest.turns")
        _note_context(tx, reading)
        add_bad_lines(tx, transcript_id, reading.before.generation, reading.bad_lines)
        move_cursor(tx, reading.before, reading.after, transcript_id)
        reach("ingest.cursor")
    reach("ingest.committed")
    return written


def _note_context(tx: Tx, reading: Reading) -> None:
    """Note what tells which memories the session's context holds already."""
    if reading.compacted_at_ms is not None:
        note_context_start(tx, reading.file.session_id, reading.compacted_at_ms)
    for from_session, until_ms in reading.copied:
        note_copied_history(tx, reading.file.session_id, from_session, until_ms)


def _session(tx: Tx, reading: Reading) -> SessionRow | None:
    """The session, made once there is something of it to store."""
    found = find_session(tx, reading.file.session_id)
    if not reading.updates and not reading.known:
        return found
    project = reading.project
    row = None
    is_settled = found is not None and found.is_settled
    if project is not None and project.identity and not project.is_global and not is_settled:
        row = ensure_project(tx, project.identity, project.name, project.root)
    times = [u.turn.started_at_ms for u in reading.updates if u.turn.started_at_ms is not None]
    return ensure_session(
        tx,
        reading.file.session_id,
        agent=reading.agent,
        project_id=row.id if row else None,
        is_global=project.is_global if project else False,
        cwd=reading.cwd,
        at_ms=min(times, default=tx.now_ms()),
    )


def _write_turns(tx: Tx, reading: Reading, session: SessionRow, transcript_id: int, settings: Settings) -> Written:
    add_known_values(tx, session.id, reading.known)
    for key in reading.withdrawn:
        if (turn := load_turn(tx, key)) is not None:
            withdraw_memories(tx, turn.id)
        withdraw_turn(tx, key)
    write_turns(tx, [u.turn for u in reading.updates if u.has_grown], session, transcript_id)
    for update in reading.updates:
        if not update.has_grown:
            close_turn(tx, update.turn.key)
    written = _count(reading)
    if not any(update.has_grown for update in reading.updates):
        return written
    times = [u.turn.ended_at_ms for u in reading.updates if u.turn.ended_at_ms is not None]
    branch = next((u.turn.branch for u in reversed(reading.updates) if u.turn.branch), "")
    touch_session(
        tx, session.id, at_ms=max(times, default=session.last_at_ms), branch=branch, new_messages=written.messages
    )
    grown = find_session(tx, session.session_id)
    if grown is not None:
        note_due(tx, grown, settings, _last_prompt_at_ms(reading))
    return written


def _count(reading: Reading) -> Written:
    grown = [update for update in reading.updates if update.has_grown]
    new = [update for update in grown if update.is_new]
    calls = [
        text
        for update in grown
        for action in update.turn.actions[update.actions_before :]
        for text in (*action.files, action.command)
        if text
    ]
    return Written(
        new_turns=len(new) - len(reading.withdrawn),
        grown_turns=len(grown) - len(new),
        entries=sum(len(update.turn.entries) - update.entries_before for update in grown),
        messages=sum(_messages(u.turn.said) - _messages(u.turn.said[: u.said_before]) for u in grown)
        - sum(is_queued_key(key) for key in reading.withdrawn),
        prompts=tuple(u.turn.key for u in new if u.turn.opening is not Opening.CONTINUATION),
        calls=tuple(calls[-MAX_CALLS:]),
    )


def _messages(said: tuple[TextBlock, ...]) -> int:
    """Prompts, and distinct messages of the assistant with text; words in a dialog are part of a turn, no message."""
    replies = {one.message_id or one.uuid for one in said if one.role is Role.ASSISTANT}
    return len(replies) + sum(one.role is Role.USER and not one.message_id for one in said)


def _last_prompt_at_ms(reading: Reading) -> int | None:
    times = [
        update.turn.started_at_ms
        for update in reading.updates
        if update.is_new and update.turn.opening is not Opening.CONTINUATION
    ]
    return times[-1] if times else None
