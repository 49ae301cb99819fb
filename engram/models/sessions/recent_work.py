"""Recent work in a session or project: turns, prompts, tool calls and files, and what memories rest on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from peewee import Query, fn

from engram.enums import Status
from engram.models import tables
from engram.models.engine.statement import in_json_list, unpack_calls, unpack_facts
from engram.models.engine.transaction import Reader, asks_number, asks_records, asks_rows, asks_values
from engram.models.memories.memory_records import IS_GLOBAL, Memory, select_memories
from engram.models.sessions.sessions import SESSIONS
from engram.models.sessions.stored_turns import StoredTurn, load_turn_row
from engram.models.tables.session_tables import IS_MAIN, IS_PROMPT, was_in_project
from engram.transcripts.turns import Action, Opening, Role


def latest_turn(store: Reader, session_id: str) -> StoredTurn | None:
    """Return the latest of a session's turns that began with a prompt."""
    row_id = _latest_turn_of(store, session_id)
    return load_turn_row(store, row_id) if row_id else None


@asks_rows(lambda rows: [call for row in rows for call in unpack_calls(row.actions)])
def calls_of_session(session_ref: int, project_id: int) -> Query:
    """Return a session's tool calls in a project, in the order of the transcript, without the ids of their entries."""
    turn = tables.Turn
    query = turn.select(turn.actions).join(tables.Transcript)
    return query.where((turn.session == session_ref) & (turn.project == project_id)).order_by(
        tables.Transcript.path, turn.start_offset, turn.id
    )


@dataclass(frozen=True, slots=True)
class TurnCalls:
    """A turn with its tool calls and without its text."""

    id: int
    session_id: str
    branch: str
    started_at_ms: int
    calls: tuple[Action, ...]


def turns_naming(store: Reader, project_id: int, name: str) -> list[TurnCalls]:
    """Return the turns of a project in which a tool call refers to a file with this name, latest first."""
    return [
        turn
        for turn in turns_with_calls(store, project_id)
        if any(file.endswith(name) for call in turn.calls for file in call.files)
    ]


def turns_with_calls(store: Reader, project_id: int) -> Iterator[TurnCalls]:
    """Yield the turns of a project, latest first."""
    turn, session = tables.Turn, tables.Session
    query = turn.select(turn.id, session.session_id, turn.branch, turn.started_at_ms, turn.actions).join(session)
    query = query.where(turn.project == project_id).order_by(turn.started_at_ms.desc())
    for row in store.fetch(query):
        yield TurnCalls(int(row.id), row.session_id, row.branch, int(row.started_at_ms or 0), unpack_calls(row.actions))


@asks_rows(lambda rows: [str(row.text) for row in rows])
def prompts_until(turn_id: int, limit: int) -> Query:
    """Return the prompts of a turn and of the turns before it in its session, latest turn first."""
    block, turn = tables.TextBlock, tables.Turn
    own = turn.alias("own")
    query = block.select(block.text).join(turn).join_from(turn, own, on=own.session == turn.session)
    query = query.where((own.id == turn_id) & (turn.started_at_ms <= own.started_at_ms))
    query = query.where(IS_PROMPT).order_by(turn.started_at_ms.desc(), turn.id.desc(), block.seq)
    return query.limit(limit)


@asks_rows(lambda rows: [call for row in rows for call in unpack_calls(row.actions)])
def calls_of_evidence(episode_ref: int) -> Query:
    """Return the tool calls of the turns that a memory rests on, without the ids of their entries."""
    turn, evidence = tables.Turn, tables.Evidence
    turn_ids = evidence.select(evidence.turn_id).where(evidence.memory == episode_ref)
    return turn.select(turn.actions).where(turn.id.in_(turn_ids)).order_by(turn.id)


@dataclass(frozen=True, slots=True)
class CitedText:
    """A text that a memory rests on, and who said it."""

    role: Role
    text: str


@asks_rows(lambda rows: [CitedText(Role(row.role), row.text) for row in rows])
def texts_of_evidence(episode_ref: int) -> Query:
    """Return the texts that a memory rests on, in the order of the turns, without tool calls or deleted texts."""
    block, evidence = tables.TextBlock, tables.Evidence
    is_cited = (evidence.turn_id == block.turn) & (evidence.uuid == block.uuid)
    query = block.select(block.role, block.text).join(evidence, on=is_cited)
    return query.where(evidence.memory == episode_ref).order_by(block.turn, block.seq)


def user_texts_elsewhere(
    store: Reader, passage_ids: Sequence[int], session_ref: int, but_at_ms: Collection[int] = ()
) -> list[str]:
    """Return the user's text blocks that contain the given passages, except those of one session.

    Args:
        but_at_ms: times of texts in that session; a text with one of these times is a copy, and is left out.
    """
    block, passage = tables.TextBlock, tables.Passage
    is_users = (passage.role == Role.USER.value) & (passage.session_ref != session_ref)
    query = block.select(block.text, block.at_ms).join(passage, on=passage.text_block == block.id).distinct()
    query = query.where(in_json_list(passage.id, passage_ids) & is_users)
    return [str(row.text) for row in store.fetch(query) if row.at_ms is None or row.at_ms not in but_at_ms]


@asks_rows(lambda rows: str(rows[0].text) if rows else "")
def prompt_near(session_id: str, at_ms: int) -> Query:
    """Return the prompt of a session that was sent nearest to a time; "" if there is none within ten seconds."""
    block, turn, session = tables.TextBlock, tables.Turn, tables.Session
    distance = fn.ABS(turn.started_at_ms - at_ms)
    is_near = (session.session_id == session_id) & (distance <= 10_000)
    query = block.select(block.text).join(turn).join(session).where(is_near & IS_PROMPT)
    return query.order_by(distance, block.seq).limit(1)


@asks_values
def latest_prompts(session_ref: int, project_id: int, limit: int) -> Query:
    """Return a session's latest prompts in a project, latest first."""
    turn, block = tables.Turn, tables.TextBlock
    of_session = (turn.session == session_ref) & (turn.project == project_id)
    query = block.select(block.text).join(turn).where(of_session & IS_PROMPT)
    return query.order_by(turn.started_at_ms.desc(), block.id.desc()).limit(limit)


def recent_files(store: Reader, project_id: int, turns: int = 12) -> list[str]:
    """Return the distinct files that a project's latest turns changed, named as in the tool calls, latest first."""
    files: dict[str, None] = {}
    turn = tables.Turn
    query = turn.select(turn.actions).where(turn.project == project_id).order_by(turn.started_at_ms.desc()).limit(turns)
    for actions in store.fetch_values(query):
        for action in unpack_facts(actions):
            if action.get("is_edit"):
                files.update(dict.fromkeys(str(name) for name in action.get("files", ())))
    return list(files)


def pinned_memories(store: Reader, project_id: int, limit: int = 100) -> list[Memory]:
    """Return the active pinned memories of a project and the global ones, newest first."""
    memory = tables.Memory
    is_active = (memory.status == Status.ACTIVE) & (IS_GLOBAL | (memory.project == project_id))
    condition = is_active & (memory.is_pinned == 1)
    return select_memories(store, condition, memory.created_at_ms.desc(), memory.id.desc(), limit=limit)


@asks_number
def _latest_turn_of(session_id: str) -> Query:
    turn, session = tables.Turn, tables.Session
    query = turn.select(fn.MAX(turn.id)).join(session)
    return query.where((session.session_id == session_id) & (turn.opening != Opening.CONTINUATION))


@asks_records(SESSIONS)
def latest_sessions_on(project_id: int, branch: str, limit: int) -> Query:
    """Return the sessions of a project on a branch, latest first, except those of subagents."""
    session, turn = tables.Session, tables.Turn
    visits = turn.select(turn.session).where((turn.project == project_id) & (turn.branch == branch))
    is_on = (session.project == project_id) & (session.branch == branch)
    is_visit = session.project.is_null() | (session.project != project_id)
    is_own = (is_on | (is_visit & session.id.in_(visits))) & IS_MAIN
    return SESSIONS.select().where(is_own).order_by(session.last_at_ms.desc(), session.id.desc()).limit(limit)


@asks_records(SESSIONS)
def latest_sessions_of(project_id: int, limit: int) -> Query:
    """Return the sessions of a project on any branch, latest first, except those of subagents."""
    session = tables.Session
    is_own = was_in_project(project_id) & IS_MAIN
    return SESSIONS.select().where(is_own).order_by(session.last_at_ms.desc(), session.id.desc()).limit(limit)


def start_of_late_sessions(store: Reader, project_id: int, number: int, but_session: str) -> int:
    """Return when the earliest of the last ``number`` sessions of a project began; 0 if there are fewer sessions.

    The time is in milliseconds since 1970. Sessions of subagents and ``but_session`` don't count.
    """
    session = tables.Session
    is_own = (session.project == project_id) & IS_MAIN & (session.session_id != but_session)
    query = session.select(session.first_at_ms).where(is_own).order_by(session.first_at_ms.desc()).limit(number)
    begun = store.fetch_values(query)
    return int(begun[-1]) if len(begun) == number else 0


@asks_number
def last_turn_of_project_ms(project_id: int) -> Query:
    """Return when a project's last turn began, in milliseconds since 1970; 0 if there is none."""
    turn = tables.Turn
    return turn.select(fn.COALESCE(fn.MAX(turn.started_at_ms), 0)).where(turn.project == project_id)


@asks_number
def last_turn_before_ms(before_ms: int) -> Query:
    """Return when the last turn of any project before a time began, in milliseconds since 1970; 0 if there is none."""
    turn = tables.Turn
    return turn.select(fn.COALESCE(fn.MAX(turn.started_at_ms), 0)).where(turn.started_at_ms < before_ms)
