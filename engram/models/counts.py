"""Figures over the whole memory: how much there is and what waits."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from peewee import SQL, Case, ColumnBase, Select, Value, fn

from engram.enums import CURRENT_STATUSES
from engram.models import tables
from engram.models.injections import WAS_SHOWN
from engram.models.statement import in_json_list
from engram.models.store import Store
from engram.models.transaction import Reader
from engram.models.work import WorkState
from engram.transcripts.record import Opening

#: Memories that are counted as new, at most.
MAX_COUNTED = 200
_CURRENT = [status.value for status in CURRENT_STATUSES]


@dataclass(frozen=True, slots=True)
class Totals:
    """How much there is."""

    projects: int
    sessions: int
    transcripts: int
    turns: int
    #: Memories that are not archived or superseded.
    episodes: int
    archived: int
    suspects: int
    injections: int
    bad_lines: int
    #: Transcripts that could not be read at their last try.
    unreadable: int


def count_totals(store: Store) -> Totals:
    """How much of everything there is, in one consistent view."""
    episode, transcript = tables.Episode, tables.Transcript
    with store.snapshot() as reader:
        current = _count(reader, episode, episode.status.in_(_CURRENT))
        return Totals(
            projects=_count(reader, tables.Project),
            sessions=_count(reader, tables.Session),
            transcripts=_count(reader, transcript),
            turns=_count(reader, tables.Turn),
            episodes=current,
            archived=_count(reader, episode) - current,
            # The literal lets SQLite use the partial index.
            suspects=_count(reader, episode, episode.suspect != SQL("''")),
            injections=_count(reader, tables.Injection, WAS_SHOWN),
            bad_lines=_count(reader, tables.BadLine),
            unreadable=_count(reader, transcript, transcript.last_error != ""),
        )


def count_episodes_since(store: Reader, since_ms: int, project_id: int | None = None) -> int:
    """How many memories were kept after a time; of a project, or of all. Looks at the latest of them alone."""
    episode = tables.Episode
    query = episode.select(episode.kept_at_ms, episode.project).order_by(episode.id.desc()).limit(MAX_COUNTED)
    rows = store.fetch(query)
    return sum(row.kept_at_ms > since_ms and project_id in (None, row.project_id) for row in rows)


def count_transcripts(store: Reader) -> int:
    """How many transcripts were read at least in part."""
    return _count(store, tables.Transcript)


def count_agents(store: Reader) -> dict[str, int]:
    """Return how many sessions there are of each agent, by its name."""
    session = tables.Session
    query = session.select(session.agent, fn.COUNT(session.id).alias("sessions")).group_by(session.agent)
    return {row.agent: row.sessions for row in store.fetch(query.order_by(session.agent))}


def _count(store: Reader, table: type[tables.Table], condition: ColumnBase | None = None) -> int:
    query = table.select(fn.COUNT(SQL("*")))
    return int(store.fetch_value(query if condition is None else query.where(condition)))


@dataclass(frozen=True, slots=True)
class ProjectTotals:
    """How much there is of one project."""

    name: str
    sessions: int
    turns: int
    #: Turns that begin with a prompt.
    prompts: int
    episodes: int


def count_projects(store: Reader) -> list[ProjectTotals]:
    """Figures of each project, by name; what belongs to no project comes last under the name ""."""
    project = tables.Project
    query = project.select(project.name, *_project_figures(project.id)).order_by(project.name)
    totals = [_project_totals(row) for row in store.fetch(query)]
    rest = _project_totals(store.fetch_first(Select(columns=[Value("").alias("name"), *_project_figures(None)])))
    is_empty = not (rest.sessions or rest.turns or rest.prompts or rest.episodes)
    return totals if is_empty else [*totals, rest]


def _project_figures(project_id: ColumnBase | None) -> list[ColumnBase]:
    """The figures of one project as columns of a query; of what belongs to none where there is no id."""
    turn, episode = tables.Turn, tables.Episode

    def of_project(table: Any, *conditions: ColumnBase) -> ColumnBase:
        owner = table.project.is_null() if project_id is None else table.project == project_id
        figure: ColumnBase = table.select(fn.COUNT(table.id)).where(owner, *conditions)
        return figure

    return [
        of_project(tables.Session).alias("sessions"),
        of_project(turn).alias("turns"),
        of_project(turn, turn.opening != Opening.CONTINUATION).alias("prompts"),
        of_project(episode, episode.status.in_(_CURRENT)).alias("episodes"),
    ]


def _project_totals(row: Any) -> ProjectTotals:
    return ProjectTotals(
        name=row.name, sessions=row.sessions, turns=row.turns, prompts=row.prompts, episodes=row.episodes
    )


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """How much there is of one session."""

    turns: int
    episodes: int
    #: Bites that Claude was shown.
    shown: int
    #: Tokens (characters / 4) of everything that Claude was shown.
    tokens: int


def count_sessions(store: Reader, session_ids: Collection[str]) -> Mapping[str, SessionTotals]:
    """Session id → figures, of these sessions."""
    session, turn, episode = tables.Session, tables.Turn, tables.Episode
    injection, shown = tables.Injection, tables.Shown
    is_shown = (injection.session_id == session.session_id) & WAS_SHOWN
    bite_tokens = injection.select(fn.COALESCE(fn.SUM(injection.tokens), 0)).where(is_shown)
    other_tokens = shown.select(fn.COALESCE(fn.SUM(shown.tokens), 0)).where(shown.session_id == session.session_id)
    query = session.select(
        session.session_id,
        turn.select(fn.COUNT(turn.id)).where(turn.session == session.id).alias("turns"),
        episode.select(fn.COUNT(episode.id))
        .where((episode.session == session.id) & episode.status.in_(_CURRENT))
        .alias("episodes"),
        injection.select(fn.COUNT(injection.id)).where(is_shown).alias("shown"),
        bite_tokens.alias("bite_tokens"),
        other_tokens.alias("other_tokens"),
    ).where(in_json_list(session.session_id, json.dumps(list(session_ids))))
    return {
        row.session_id: SessionTotals(
            turns=row.turns, episodes=row.episodes, shown=row.shown, tokens=row.bite_tokens + row.other_tokens
        )
        for row in store.fetch(query)
    }


@dataclass(frozen=True, slots=True)
class WorkTotals:
    """What waits of one kind of work."""

    kind: str
    #: Due now or later.
    waiting: int
    #: Due now.
    due: int
    dead: int
    #: Failed at least once and waiting for the next try.
    failing: int
    #: When the longest waiting one was due; None where none is due.
    oldest_due_at_ms: int | None


def count_work(store: Reader) -> list[WorkTotals]:
    """What waits, by kind of work."""
    work = tables.Work
    is_waiting = work.state == WorkState.DUE
    is_due = is_waiting & (work.due_at_ms <= store.now_ms())
    query = work.select(
        work.kind,
        fn.SUM(is_waiting).alias("waiting"),
        fn.SUM(is_due).alias("due"),
        fn.SUM(work.state == WorkState.DEAD).alias("dead"),
        fn.SUM(is_waiting & (work.attempts > 0)).alias("failing"),
        fn.MIN(Case(None, [(is_due, work.due_at_ms)])).alias("oldest_due_at_ms"),
    )
    return [
        WorkTotals(
            kind=row.kind,
            waiting=row.waiting,
            due=row.due,
            dead=row.dead,
            failing=row.failing,
            oldest_due_at_ms=row.oldest_due_at_ms,
        )
        for row in store.fetch(query.group_by(work.kind).order_by(work.kind))
    ]


def count_without_vector(store: Reader) -> int:
    """Rows that have no vector of any model yet.

    A vector goes with its owner, and the first piece of each has the number 0: nothing needs to be looked up.
    """
    vector = tables.Vector
    owners = sum(_count(store, table) for table in (tables.Episode, tables.NoteChunk, tables.Passage))
    # The literal lets SQLite use the partial index.
    with_vector = _count(store, vector) - _count(store, vector, vector.piece > SQL("0"))
    return owners - with_vector
