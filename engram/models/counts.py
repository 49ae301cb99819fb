"""Figures over the whole memory: how much there is, what waits, what could not be read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from engram.models.conditions import IS_CURRENT, IS_NOT_CURRENT
from engram.models.store import Store
from engram.models.transaction import Reader


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
    with store.snapshot():
        return Totals(
            projects=_count(store, "project"),
            sessions=_count(store, "session"),
            transcripts=_count(store, "transcript"),
            turns=_count(store, "turn"),
            episodes=_count(store, "episode e", IS_CURRENT),
            archived=_count(store, "episode e", IS_NOT_CURRENT),
            suspects=_count(store, "episode", "suspect <> ''"),
            injections=_count(store, "injection", "state = 'shown'"),
            bad_lines=_count(store, "bad_line"),
            unreadable=_count(store, "transcript", "last_error <> ''"),
        )


def count_transcripts(store: Reader) -> int:
    """How many transcripts were read at least in part."""
    return _count(store, "transcript")


def _count(store: Reader, table: str, where: str = "1") -> int:
    return int(store.value(f"SELECT count(*) FROM {table} WHERE {where}"))


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
    rows = store.rows(
        "SELECT p.name, (SELECT count(*) FROM session s WHERE s.project_id = p.id), "
        "(SELECT count(*) FROM turn t WHERE t.project_id = p.id), "
        "(SELECT count(*) FROM turn t WHERE t.project_id = p.id AND t.opening <> 'continuation'), "
        f"(SELECT count(*) FROM episode e WHERE e.project_id = p.id AND {IS_CURRENT}) "
        "FROM project p ORDER BY p.name"
    )
    found = [ProjectTotals(*row) for row in rows]
    rest = store.row(
        "SELECT (SELECT count(*) FROM session WHERE project_id IS NULL), "
        "(SELECT count(*) FROM turn WHERE project_id IS NULL), "
        "(SELECT count(*) FROM turn WHERE project_id IS NULL AND opening <> 'continuation'), "
        f"(SELECT count(*) FROM episode e WHERE e.project_id IS NULL AND {IS_CURRENT})"
    )
    assert rest is not None
    return [*found, ProjectTotals("", *rest)] if any(rest) else found


@dataclass(frozen=True, slots=True)
class SessionTotals:
    """How much there is of one session."""

    turns: int
    episodes: int
    #: Bites that Claude was shown.
    shown: int
    #: Tokens (characters / 4) of everything that Claude was shown.
    tokens: int


def count_sessions(store: Reader) -> Mapping[str, SessionTotals]:
    """Session id → figures."""
    rows = store.rows(
        "SELECT s.session_id, (SELECT count(*) FROM turn t WHERE t.session_ref = s.id), "
        f"(SELECT count(*) FROM episode e WHERE e.session_ref = s.id AND {IS_CURRENT}), "
        "(SELECT count(*) FROM injection i WHERE i.session_id = s.session_id AND i.state = 'shown'), "
        "(SELECT coalesce(sum(i.tokens), 0) FROM injection i WHERE i.session_id = s.session_id AND i.state = 'shown') "
        "+ (SELECT coalesce(sum(n.tokens), 0) FROM shown n WHERE n.session_id = s.session_id) FROM session s"
    )
    return {str(row[0]): SessionTotals(*row[1:]) for row in rows}


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
    now = store.now_ms()
    rows = store.rows(
        "SELECT kind, sum(state = 'due'), sum(state = 'due' AND due_at_ms <= ?), sum(state = 'dead'), "
        "sum(state = 'due' AND attempts > 0), min(CASE WHEN state = 'due' AND due_at_ms <= ? THEN due_at_ms END) "
        "FROM work GROUP BY kind ORDER BY kind",
        (now, now),
    )
    return [WorkTotals(*row) for row in rows]


def count_without_vector(store: Reader) -> int:
    """Rows that have no vector of any model yet."""
    total = 0
    for owner, table in (("e", "episode"), ("n", "note_chunk"), ("p", "passage")):
        total += int(
            store.value(
                f"SELECT count(*) FROM {table} t WHERE NOT EXISTS "
                "(SELECT 1 FROM vector v WHERE v.owner = ? AND v.owner_id = t.id)",
                (owner,),
            )
        )
    return total


@dataclass(frozen=True, slots=True)
class ReadFault:
    """A transcript, or a line of one, that could not be read."""

    path: str
    reason: str
    #: Where the line begins, in bytes; None for the whole file.
    offset: int | None = None
    length: int | None = None


def read_faults(store: Reader, limit: int = 50) -> list[ReadFault]:
    """Transcripts and lines that could not be read."""
    rows = store.rows(
        "SELECT path, last_error, NULL, NULL FROM transcript WHERE last_error <> '' UNION ALL "
        "SELECT t.path, b.reason, b.offset, b.length FROM bad_line b JOIN transcript t ON t.id = b.transcript_id LIMIT ?",
        (limit,),
    )
    return [ReadFault(os.fsdecode(bytes(row[0])), row[1], row[2], row[3]) for row in rows]


@dataclass(frozen=True, slots=True)
class FileTotals:
    """How far a session's file was read."""

    path: str
    offset: int
    size: int
    lines: int
    is_gone: bool
    last_error: str


def files_of_session(store: Reader, session_id: str) -> list[FileTotals]:
    """The files of a session with how far each was read."""
    rows = store.rows(
        "SELECT t.path, t.cursor, t.size, t.line_number, t.is_gone, t.last_error FROM transcript t "
        "JOIN session s ON s.id = t.session_ref WHERE s.session_id = ? ORDER BY t.id",
        (session_id,),
    )
    return [FileTotals(os.fsdecode(bytes(row[0])), row[1], row[2], row[3], bool(row[4]), row[5]) for row in rows]


@dataclass(frozen=True, slots=True)
class Spending:
    """Money spent on a language model."""

    day: str
    model: str
    task: str
    project: str
    calls: int
    input_tokens: int
    output_tokens: int
    dollars: float


def spending(store: Reader, since_ms: int) -> list[Spending]:
    """Money spent by day, model, task and project since a time, the latest day first."""
    rows = store.rows(
        "SELECT date(at_ms / 1000, 'unixepoch', 'localtime') AS day, model, task, coalesce(p.name, ''), count(*), "
        "sum(input_tokens), sum(output_tokens), sum(dollars) FROM spend LEFT JOIN project p ON p.id = spend.project_id "
        "WHERE at_ms >= ? GROUP BY day, model, task, p.name ORDER BY day DESC, model, task",
        (since_ms,),
    )
    return [Spending(*row) for row in rows]
