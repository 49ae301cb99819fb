"""Sessions of coding agents, what their contexts still contain, and how far they have been extracted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peewee import EXCLUDED, JOIN, Expression, Query, fn

from engram.enums import Actor, Source
from engram.models import tables
from engram.models.engine.meta import get_meta
from engram.models.engine.statement import RecordReader, entry_key, in_json_list, prepared
from engram.models.engine.transaction import (
    Reader,
    Tx,
    Value,
    asks_keyed,
    asks_number,
    asks_record,
    asks_rows,
    asks_values,
    writes,
)
from engram.models.memories.memory_changes import move_memories_of_session
from engram.models.sessions.stored_turns import PROMPT_MOVED, turn_of_entry
from engram.models.shown.injections import AGENT_KEY
from engram.models.tables.session_tables import has_turns, was_in_project
from engram.text.titles import MAX_TITLE_CHARACTERS, says_something, title_from
from engram.transcripts.agents import Title
from engram.transcripts.turns import OPENING_ROLES

#: Maximum length of a session's rolling summary, in characters.
MAX_ROLLING_SUMMARY_CHARACTERS = 1_000
#: Maximum number of characters of a prompt from which a title is made.
MAX_PROMPT_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class SessionRow:
    id: int
    session_id: str
    agent: str
    project_id: int | None
    is_global: bool
    cwd: str
    branch: str
    first_at_ms: int
    last_at_ms: int
    message_count: int
    extracted_messages: int
    extractions: int
    #: A language model's summary of the session so far; "" if there is none.
    rolling_summary: str
    #: When it was last extracted, in milliseconds since 1970; 0 if never.
    extracted_at_ms: int = 0
    #: The agent's name for it; "" if it has none. ``session_titles`` gives every session a title.
    title: str = ""
    #: A ``TitleRank``; 0 if there is no title.
    title_rank: int = 0

    @property
    def is_settled(self) -> bool:
        """True once it is known whether it belongs to a project or is global."""
        return self.project_id is not None or self.is_global

    @property
    def own_project_id(self) -> int | None:
        """The project to which its text belongs; None for a global session."""
        return None if self.is_global else self.project_id


#: Reads sessions from their table.
SESSIONS = RecordReader(SessionRow, tables.Session, left_out={"ended_at_ms"})


def list_sessions(store: Reader, limit: int = 1_000_000, *, project_id: int | None = None) -> list[SessionRow]:
    """Return the sessions that have turns, in one project or in all, latest first.

    A session belongs to the project in which it began, and to the projects of its turns.
    """
    condition = has_turns() if project_id is None else has_turns() & was_in_project(project_id)
    latest = SESSIONS.select().where(condition).order_by(tables.Session.last_at_ms.desc())
    return store.fetch_records(SESSIONS, latest.limit(limit))


@asks_number
def first_session_ms(project_id: int) -> Query:
    """Return when a project's first session began, in milliseconds since 1970; 0 if there is none."""
    return tables.Session.select(fn.MIN(tables.Session.first_at_ms)).where(tables.Session.project == project_id)


@asks_keyed(SESSIONS, "session_id")
def sessions_of(session_ids: Iterable[str]) -> Query:
    """Return session id → session; unknown ids are left out."""
    return SESSIONS.select().where(in_json_list(tables.Session.session_id, session_ids))


def ensure_session(
    tx: Tx, session_id: str, *, agent: str, project_id: int | None, is_global: bool, cwd: str, at_ms: int
) -> SessionRow:
    """Return the session with an id, creating it if it is new. A session that has a project keeps it."""
    known = find_session(tx, session_id)
    if known is None:
        columns: dict[str, Value] = {
            "session_id": session_id,
            "agent": agent,
            "project_id": project_id,
            "is_global": is_global,
            "cwd": cwd,
            "first_at_ms": at_ms,
            "last_at_ms": at_ms,
        }
        tx.insert_row(tables.Session, columns)
    elif not known.is_settled and (project_id is not None or is_global):
        of_session = tables.Session.id == known.id
        tx.run(tables.Session.update(project=project_id, is_global=is_global, cwd=cwd).where(of_session))
        # Everything that was stored from the session before its folder was known belongs to its project too. A queued
        # prompt may have been extracted before any line contained the folder; its vectors are recomputed.
        tx.run(tables.Turn.update(project=project_id).where(tables.Turn.session == known.id))
        tx.run(tables.Passage.update(project_id=project_id).where(tables.Passage.session_ref == known.id))
        move_memories_of_session(tx, known.id, project_id, "its folder became known", actor=Actor.TIDYING)
    else:
        return known
    session = find_session(tx, session_id)
    assert session is not None
    return session


def set_session_title(tx: Tx, session: SessionRow, title: Title) -> None:
    """Store a title that was read with a session. If it refers to an entry, it is the title of that entry's session."""
    session_ref: int | None = session.id
    if title.entry:
        turn_id = turn_of_entry(tx, title.entry)
        session_ref = tx.fetch_value(_session_of_turn(turn_id))
    if session_ref is not None:
        text = " ".join(title.text.split())[:MAX_TITLE_CHARACTERS]
        tx.run(_entitle(session_ref, text, title.rank.value))


@prepared
def _session_of_turn(turn_id: int | None) -> Query:
    return tables.Turn.select(tables.Turn.session).where(tables.Turn.id == turn_id)


def session_titles(store: Reader, sessions: Iterable[SessionRow]) -> dict[str, str]:
    """Return session id → title: the agent's title, or the first clause of the first prompt that says something.

    If none does, the first prompt is the title. The title is "" if there is no prompt.
    """
    rows = list(sessions)
    prompts = _first_prompts(store, [row.id for row in rows if not row.title])
    greeted = [session_ref for session_ref, text in prompts.items() if not says_something(text)]
    telling = {ref: text for ref, text in reversed(_all_prompts(store, greeted)) if says_something(text)}
    titles = {session_ref: title_from(text) for session_ref, text in (prompts | telling).items()}
    return {row.session_id: row.title or titles.get(row.id, "") for row in rows}


@asks_rows(lambda rows: {int(row.session_ref): str(row.text) for row in rows})
def _first_prompts(session_refs: Sequence[int]) -> Query:
    """Return row id → beginning of the first prompt, for the sessions that have one."""
    text, turn = tables.TextBlock, tables.Turn
    firsts = text.select(fn.MIN(text.id)).join(turn).where(_is_prompt_of(session_refs))
    return _beginnings().where(text.id.in_(firsts.group_by(turn.session)))


@asks_rows(lambda rows: [(int(row.session_ref), str(row.text)) for row in rows])
def _all_prompts(session_refs: Sequence[int]) -> Query:
    """Return the beginnings of all prompts, in order, each with the row id of its session."""
    return _beginnings().where(_is_prompt_of(session_refs)).order_by(tables.TextBlock.id)


def _is_prompt_of(session_refs: Sequence[int]) -> Expression:
    text = tables.TextBlock
    is_prompt = text.role.in_([role.value for role in OPENING_ROLES]) & (text.message_id == "")
    return in_json_list(tables.Turn.session, session_refs) & is_prompt


def _beginnings() -> Query:
    text, turn = tables.TextBlock, tables.Turn
    beginning = fn.SUBSTR(text.text, 1, MAX_PROMPT_CHARACTERS).alias("text")
    return text.select(turn.session.alias("session_ref"), beginning).join(turn)


@asks_rows(lambda rows: frozenset(bytes(row.hash) for row in rows))
def known_values(session_id: str) -> Query:
    """Return the salted hashes of the ``.env`` values that appeared in a session."""
    session = tables.Session.select(tables.Session.id).where(tables.Session.session_id == session_id)
    return tables.KnownValue.select(tables.KnownValue.hash).where(tables.KnownValue.session == session)


def add_known_values(tx: Tx, session_ref: int, hashes: frozenset[bytes]) -> None:
    """Store the salted hashes of ``.env`` values that appeared in a session."""
    rows: list[dict[str, Value]] = [{"session_ref": session_ref, "hash": hashed} for hashed in sorted(hashes)]
    tx.insert_many(tables.KnownValue, rows, or_ignore=True)


def salt(store: Reader) -> bytes:
    """Return this machine's salt for hashes of ``.env`` values."""
    return bytes.fromhex(get_meta(store, "salt") or "")


@prepared
def _entitle(session_ref: int, title: str, rank: int) -> Query:
    session = tables.Session
    query = session.update(title=title, title_rank=rank)
    return query.where((session.id == session_ref) & (session.title_rank <= rank))


@asks_record(SESSIONS)
def find_session(session_id: str) -> Query:
    return SESSIONS.select().where(tables.Session.session_id == session_id)


@asks_values
def session_ids_beginning_with(text: str, limit: int) -> Query:
    """Return the ids of sessions that begin with a text."""
    session_id = tables.Session.session_id
    return tables.Session.select(session_id).where(fn.INSTR(session_id, text) == 1).order_by(session_id).limit(limit)


@writes
def touch_session(row_id: int, at_ms: int, branch: str, new_messages: int) -> Query:
    session = tables.Session
    return session.update(
        last_at_ms=fn.MAX(session.last_at_ms, at_ms),
        branch=fn.COALESCE(fn.NULLIF(branch, ""), session.branch),
        message_count=session.message_count + new_messages,
    ).where(session.id == row_id)


# -- What an agent's context still contains: since when it has been growing, and which other sessions it repeats.

#: Means "until now", in milliseconds since 1970.
_FOREVER_MS = 2**62


@writes
def note_context_start(session_id: str, at_ms: int) -> Query:
    """Record that a session was compacted or cleared: earlier text is no longer in its context."""
    context = tables.Context
    query = context.insert(session_id=session_id, began_at_ms=at_ms)
    latest = fn.MAX(context.began_at_ms, EXCLUDED.began_at_ms)
    return query.on_conflict(conflict_target=(context.session_id,), update={context.began_at_ms: latest})


@writes
def note_copied_history(session_id: str, from_session: str, until_ms: int) -> Query:
    """Record that a fork's transcript repeats another session's entries up to a time."""
    copied = tables.CopiedHistory
    query = copied.insert(session_id=session_id, from_session=from_session, until_ms=until_ms)
    latest = fn.MAX(copied.until_ms, EXCLUDED.until_ms)
    return query.on_conflict(conflict_target=(copied.session_id, copied.from_session), update={copied.until_ms: latest})


@asks_rows(lambda rows: [(str(row.from_session), int(row.until_ms)) for row in rows])
def copied_history(session_id: str) -> Query:
    """Return (session id, time) for each session that a transcript repeats, up to that time."""
    return tables.CopiedHistory.select().where(tables.CopiedHistory.session_id == session_id)


@asks_rows(lambda rows: [(str(row.session_id), str(row.from_session)) for row in rows])
def copies_beginning_with(text: str) -> Query:
    """Return (session id, session that it repeats) for ids that begin with a text, the longest repetition first."""
    copied = tables.CopiedHistory
    return copied.select().where(fn.INSTR(copied.session_id, text) == 1).order_by(copied.until_ms.desc())


def sessions_of_entries(store: Reader, uuids: Sequence[str]) -> dict[str, str]:
    """Return id of an entry → id of the session under which its turn is stored; unknown entries are left out."""
    by_key = {entry_key(uuid): uuid for uuid in uuids}
    return {by_key[row.key]: row.session_id for row in store.fetch(_sessions_of_keys(by_key))}


def memories_in_context(store: Reader, session_id: str, began_at_ms: int) -> set[str]:
    """Return the ids of the memories that would only repeat what is still in a session's context.

    These memories rest on text of the session itself or of the sessions from which it was forked, or they were shown in
    the latter.

    Args:
        began_at_ms: text from before this time has been compacted or cleared, and may be shown again.
    """
    copied = copied_history(store, session_id)
    episode_ids: set[str] = set()
    for source, until_ms in [(session_id, _FOREVER_MS), *copied]:
        episode_ids.update(store.fetch_values(_made_in_session(source, began_at_ms, until_ms)))
        episode_ids.update(store.fetch_values(_resting_on_session(source, began_at_ms, until_ms)))
    for source, until_ms in copied:
        episode_ids.update(store.fetch_values(_shown_to_session(source, began_at_ms, until_ms)))
    return episode_ids


@asks_number
def context_start_ms(session_id: str) -> Query:
    """Return when a session was last compacted or cleared; 0 if it never was."""
    return tables.Context.select(tables.Context.began_at_ms).where(tables.Context.session_id == session_id)


@prepared
def _sessions_of_keys(keys: Iterable[int]) -> Query:
    query = tables.Entry.select(tables.Entry.key, tables.Session.session_id)
    query = query.join(tables.Turn, on=tables.Turn.id == tables.Entry.turn_id).join(tables.Session)
    return query.where(in_json_list(tables.Entry.key, keys))


@prepared
def _made_in_session(session_id: str, after_ms: int, until_ms: int) -> Query:
    memory = tables.Memory
    query = memory.select(memory.episode_id).join(tables.Session)
    said = (memory.created_at_ms > after_ms) & (memory.created_at_ms <= until_ms)
    return query.where((tables.Session.session_id == session_id) & said)


@prepared
def _resting_on_session(session_id: str, after_ms: int, until_ms: int) -> Query:
    memory, evidence, turn = tables.Memory, tables.Evidence, tables.Turn
    query = evidence.select(memory.episode_id).join(memory)
    query = query.join_from(evidence, turn, JOIN.LEFT_OUTER, on=turn.id == evidence.turn_id)
    said_at_ms = fn.COALESCE(turn.started_at_ms, memory.created_at_ms)
    return query.where((evidence.session_id == session_id) & (said_at_ms > after_ms) & (said_at_ms <= until_ms))


@prepared
def _shown_to_session(session_id: str, after_ms: int, until_ms: int) -> Query:
    injection = tables.Injection
    shown = (injection.state == "shown") & (injection.at_ms > after_ms) & (injection.at_ms <= until_ms)
    is_own = ~injection.prompt_key.startswith(AGENT_KEY)
    return injection.select(injection.episode_id).where((injection.session_id == session_id) & shown & is_own)


# -- What an extraction records in addition to memories: how far a session has been extracted, and counts for limits.

#: Reason for archiving or changing a memory from a turn that has grown.
WENT_ON = "the turn went on"
#: Reason for archiving a memory from a turn that has not grown.
NOT_CHOSEN = "the session went on, and other memories of it were chosen"
#: Reason for a change to a memory of the local extractor by a language model that read the session again.
DISTILLED_AGAIN = "distilled again"
#: Reason for ending a memory that a language model made from a prompt that the user has withdrawn.
REWOUND = "the user went back from the prompt"
#: Reasons for archiving memories that a session's turns no longer yield.
WITHDRAWN = (WENT_ON, NOT_CHOSEN, PROMPT_MOVED, REWOUND)


def note_extraction(tx: Tx, session_ref: int, extracted_messages: int) -> None:
    """Record how many of a session's messages have been extracted."""
    session = tables.Session
    query = session.update(
        extracted_messages=fn.MAX(session.extracted_messages, extracted_messages),
        extractions=session.extractions + 1,
        extracted_at_ms=tx.now_ms(),
    )
    tx.run(query.where(session.id == session_ref))


def set_rolling_summary(tx: Tx, session_ref: int, text: str) -> None:
    """Store a summary of the session so far, for its next extraction."""
    tx.run(tables.Session.update(rolling_summary=text).where(tables.Session.id == session_ref))


@asks_number
def count_auto_memories(from_ms: int, to_ms: int) -> Query:
    """Return how many memories that were said in a time span were made by an extractor."""
    memory = tables.Memory
    is_then = (memory.created_at_ms >= from_ms) & (memory.created_at_ms < to_ms)
    return memory.select(fn.COUNT(memory.id)).where(is_then & (memory.source == Source.AUTO.value))
