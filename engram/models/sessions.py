"""Sessions of a coding agent."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from peewee import Query, fn

from engram.enums import Actor
from engram.models import tables
from engram.models.entries import turn_of_entry
from engram.models.episode_changes import move_episodes_of_session
from engram.models.meta import get_meta
from engram.models.records import RecordReader
from engram.models.statement import in_json_list, prepared
from engram.models.transaction import Reader, Tx, Value
from engram.text.titles import MAX_TITLE_CHARACTERS, title_from
from engram.transcripts.record import OPENING_ROLES
from engram.transcripts.source import Title

#: Maximum length of the summary of a session, in characters.
MAX_ROLLING_SUMMARY_CHARACTERS = 1_000
#: Characters of a prompt that its title is made from.
MAX_PROMPT_CHARACTERS = 1_000


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session as it is stored."""

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
    #: What a language model wrote it is about, so far; "" if none did.
    rolling_summary: str
    #: When it was last extracted; 0 for never.
    extracted_at_ms: int = 0
    #: What the agent calls it; "" if it has no name. ``session_titles`` gives every session a title.
    title: str = ""
    #: As ``TitleRank``; 0 for none.
    title_rank: int = 0

    @property
    def is_settled(self) -> bool:
        """True once it is known where it belongs: to a project, or everywhere."""
        return self.project_id is not None or self.is_global

    @property
    def own_project_id(self) -> int | None:
        """The project that what is said in it belongs to; None for a session that belongs everywhere."""
        return None if self.is_global else self.project_id


#: Reads sessions out of their table.
SESSIONS = RecordReader(SessionRow, tables.Session, left_out={"ended_at_ms"})


def find_session(store: Reader, session_id: str) -> SessionRow | None:
    """A session by its id."""
    return store.fetch_record(SESSIONS, _of_session_id(session_id))


def list_sessions(store: Reader, limit: int = 1_000_000, *, project_id: int | None = None) -> list[SessionRow]:
    """Sessions, the latest first; of one project, or of all where ``project_id`` is None.

    A session is of the project that it began in, and of those that turns of it belong to.
    """
    return store.fetch_records(SESSIONS, _latest(limit) if project_id is None else _latest_of(project_id, limit))


def first_session_ms(store: Reader, project_id: int) -> int:
    """When the first session of a project began, in milliseconds since 1970; 0 for none."""
    session = tables.Session
    query = session.select(fn.COALESCE(fn.MIN(session.first_at_ms), 0)).where(session.project == project_id)
    return int(store.fetch_value(query))


def sessions_of(store: Reader, session_ids: Iterable[str]) -> dict[str, SessionRow]:
    """Session id → session; unknown ones are left out."""
    rows = store.fetch_records(SESSIONS, _of_session_ids(json.dumps(sorted(set(session_ids)))))
    return {row.session_id: row for row in rows}


def agents_of(store: Reader, session_ids: Iterable[str]) -> dict[str, str]:
    """Session id → name of the agent that wrote it; unknown sessions are left out."""
    rows = store.fetch(_agents(json.dumps(sorted(session_ids))))
    return {row.session_id: row.agent for row in rows}


def ensure_session(
    tx: Tx, session_id: str, *, agent: str, project_id: int | None, is_global: bool, cwd: str, at_ms: int
) -> SessionRow:
    """The session of an id, made where it is new; its project never changes once it has one."""
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
        _give_to_project(tx, known.id, project_id)
    session = find_session(tx, session_id)
    assert session is not None
    return session


def _give_to_project(tx: Tx, session_ref: int, project_id: int | None) -> None:
    """Let what was stored of a session before its folder was known belong to its project too."""
    tx.run(tables.Turn.update(project=project_id).where(tables.Turn.session == session_ref))
    tx.run(tables.Passage.update(project_id=project_id).where(tables.Passage.session_ref == session_ref))
    # A queued prompt may have been extracted before any line told the folder; its vectors are made anew.
    move_episodes_of_session(tx, session_ref, project_id, "its folder became known", actor=Actor.TIDYING)


def touch_session(tx: Tx, row_id: int, *, at_ms: int, branch: str, new_messages: int) -> None:
    """Note that a session went on."""
    tx.run(_touch(row_id, at_ms, branch, new_messages))


def set_session_title(tx: Tx, session: SessionRow, title: Title) -> None:
    """Give a session the title that its source has for it, or that of the session that the title's entry belongs to."""
    named = tables.Session
    of_session = named.id == session.id
    if title.entry:
        turn_id = turn_of_entry(tx, title.entry)
        of_session = named.id == tables.Turn.select(tables.Turn.session).where(tables.Turn.id == turn_id)
    text = " ".join(title.text.split())[:MAX_TITLE_CHARACTERS]
    columns = named.update(title=text, title_rank=title.rank.value)
    tx.run(columns.where(of_session & (named.title_rank <= title.rank.value)))


def session_titles(store: Reader, sessions: Iterable[SessionRow]) -> dict[str, str]:
    """Return session id → title: what the agent calls it, else its first prompt up to the end of a clause.

    "" for a session without either.
    """
    rows = list(sessions)
    without = json.dumps([row.id for row in rows if not row.title])
    first = {row.session_ref: title_from(row.text) for row in store.fetch(_first_prompts(without))}
    return {row.session_id: row.title or first.get(row.id, "") for row in rows}


def known_values(store: Reader, session_id: str) -> frozenset[bytes]:
    """Salted hashes of ``.env`` values seen in a session."""
    return frozenset(bytes(hashed) for hashed in store.fetch_values(_hashes_of(session_id)))


def add_known_values(tx: Tx, session_ref: int, hashes: frozenset[bytes]) -> None:
    """Remember salted hashes of ``.env`` values."""
    rows: list[dict[str, Value]] = [{"session_ref": session_ref, "hash": hashed} for hashed in sorted(hashes)]
    tx.insert_many(tables.KnownValue, rows, or_ignore=True)


def salt(store: Reader) -> bytes:
    """This machine's salt for hashes of ``.env`` values."""
    return bytes.fromhex(get_meta(store, "salt") or "")


@prepared
def _agents(session_ids: str) -> Query:
    session = tables.Session
    return session.select(session.session_id, session.agent).where(in_json_list(session.session_id, session_ids))


@prepared
def _first_prompts(session_refs: str) -> Query:
    text, turn = tables.TextBlock, tables.Turn
    is_prompt = text.role.in_([role.value for role in OPENING_ROLES]) & (text.message_id == "")
    firsts = text.select(fn.MIN(text.id)).join(turn).where(in_json_list(turn.session, session_refs) & is_prompt)
    prompt = fn.SUBSTR(text.text, 1, MAX_PROMPT_CHARACTERS).alias("text")
    return (
        text.select(turn.session.alias("session_ref"), prompt)
        .join(turn)
        .where(text.id.in_(firsts.group_by(turn.session)))
    )


@prepared
def _of_session_id(session_id: str) -> Query:
    return SESSIONS.select().where(tables.Session.session_id == session_id)


@prepared
def _of_session_ids(session_ids: str) -> Query:
    return SESSIONS.select().where(in_json_list(tables.Session.session_id, session_ids))


@prepared
def _latest(limit: int) -> Query:
    return SESSIONS.select().order_by(tables.Session.last_at_ms.desc()).limit(limit)


@prepared
def _latest_of(project_id: int, limit: int) -> Query:
    session, turn = tables.Session, tables.Turn
    visits = turn.select(turn.session).where(turn.project == project_id)
    is_of_project = (session.project == project_id) | session.id.in_(visits)
    return SESSIONS.select().where(is_of_project).order_by(session.last_at_ms.desc()).limit(limit)


@prepared
def _touch(row_id: int, at_ms: int, branch: str, new_messages: int) -> Query:
    session = tables.Session
    return session.update(
        last_at_ms=fn.MAX(session.last_at_ms, at_ms),
        branch=fn.COALESCE(fn.NULLIF(branch, ""), session.branch),
        message_count=session.message_count + new_messages,
    ).where(session.id == row_id)


@prepared
def _hashes_of(session_id: str) -> Query:
    session = tables.Session.select(tables.Session.id).where(tables.Session.session_id == session_id)
    return tables.KnownValue.select(tables.KnownValue.hash).where(tables.KnownValue.session == session)
