"""Figures on the use of memory: overall, since a time, and by day."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import JOIN, SQL, Case, ColumnBase, Select, fn

from engram.enums import Refusal, Status
from engram.models import tables
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.statement import in_json_list
from engram.models.engine.transaction import Reader, Store, Tx
from engram.models.shown.injections import AT_START, WAS_SHOWN
from engram.models.tables.memory_tables import IS_CURRENT, WAITS_AS_SUSPECT, holds_anything
from engram.models.tables.session_tables import (
    IS_PROMPT,
    PROJECTS_BY_NAME,
    has_sessions,
    has_turns,
    sessions_of_projects,
)
from engram.models.work.work import WorkState
from engram.system.clock import day_of
from engram.transcripts.turns import Opening

# -- Use since a time: turns read, and memories kept, shown and opened.

#: Keys in ``meta`` with JSON objects: day → cause → number of answers that came too late; and day → ``Refusal`` →
#: number of a language model's proposals that were refused.
_LATE, _REFUSED = "late_answers", "refused_proposals"
#: Maximum number of days for which these numbers are kept.
MAX_LATE_DAYS = 32


@dataclass(frozen=True, slots=True)
class MostUsed:
    """The memory that was most often shown at a prompt or a tool call, or opened."""

    episode_id: str
    summary: str
    #: Display name of its project; "" if there is none.
    project: str
    uses: int


@dataclass(frozen=True, slots=True)
class Usage:
    #: Sessions that were active in that time, whenever they were read.
    sessions: int
    #: Turns of that time that begin with a prompt.
    prompts: int
    #: Sessions and prompts from before that time.
    earlier_sessions: int
    earlier_prompts: int
    #: When the oldest of these sessions was last active; None if there is none.
    oldest_ms: int | None
    #: Current memories that were stored in that time, including older ones that were imported.
    memories: int
    #: Names of the projects with prompts in that time but no new memories.
    projects_with_none: tuple[str, ...]
    #: Bites that were shown, including those in briefings.
    shown: int
    opened: int
    #: None if no memory was shown at a prompt or a tool call.
    most_used: MostUsed | None
    #: Cause → number of prompts whose answer came after their hook had exited; whole days, at most ``MAX_LATE_DAYS``.
    late: dict[str, int]
    #: ``Refusal`` → number of a language model's refused proposals; the same days.
    refused: dict[str, int]


def usage_since(store: Store, since_ms: int) -> Usage:
    """Return the figures from ``since_ms`` until now, read from one snapshot."""
    session, memory = tables.Session, tables.Memory
    earlier = session.select(fn.MIN(session.last_at_ms)).where(has_turns() & (session.last_at_ms < since_ms))
    with store.snapshot() as reader:
        prompts = _count_prompts_since(reader, since_ms)
        return Usage(
            sessions=_count_rows(reader, session, has_turns() & (session.last_at_ms >= since_ms)),
            prompts=prompts,
            earlier_sessions=_count_rows(reader, session, has_turns() & (session.last_at_ms < since_ms)),
            earlier_prompts=_count_prompts_since(reader, 0) - prompts,
            oldest_ms=next(iter(reader.fetch_values(earlier)), None),
            memories=_count_rows(reader, memory, IS_CURRENT & (memory.kept_at_ms >= since_ms)),
            projects_with_none=_projects_with_none(reader, since_ms),
            shown=_count_rows(reader, tables.Injection, WAS_SHOWN & (tables.Injection.at_ms >= since_ms)),
            opened=_count_rows(reader, memory, memory.accessed_at_ms >= since_ms),
            most_used=_most_used(reader, since_ms),
            late=late_since(reader, since_ms),
            refused=_tally_since(reader, _REFUSED, since_ms),
        )


def _count_prompts_since(store: Reader, since_ms: int) -> int:
    """Return the number of turns since a time that begin with a prompt."""
    return _count_rows(store, tables.Turn, _is_prompt_since(since_ms))


def _is_prompt_since(since_ms: int) -> ColumnBase:
    condition: ColumnBase = (tables.Turn.opening != Opening.CONTINUATION) & (tables.Turn.started_at_ms >= since_ms)
    return condition


def _projects_with_none(store: Reader, since_ms: int) -> tuple[str, ...]:
    project, turn, memory = tables.Project, tables.Turn, tables.Memory
    prompts = turn.select(turn.id).where((turn.project == project.id) & _is_prompt_since(since_ms))
    is_kept = IS_CURRENT & (memory.kept_at_ms >= since_ms)
    memories = memory.select(memory.id).where((memory.project == project.id) & is_kept)
    query = project.select(project.name).where(fn.EXISTS(prompts) & ~fn.EXISTS(memories)).order_by(*PROJECTS_BY_NAME)
    return tuple(store.fetch_values(query))


def _most_used(store: Reader, since_ms: int) -> MostUsed | None:
    injection, memory, project = tables.Injection, tables.Memory, tables.Project
    number = fn.COUNT(injection.id)
    # Briefings don't count as a use, because they show the same memories each time.
    is_asked = WAS_SHOWN & (injection.channel != AT_START) & (injection.at_ms >= since_ms)
    bites = injection.select(injection.episode_id, number.alias("uses")).where(is_asked)
    expanded = injection.select(injection.episode_id, number).where(injection.used_at_ms >= since_ms)
    opened = memory.select(memory.episode_id, SQL("1")).where(memory.accessed_at_ms >= since_ms)
    uses = bites.group_by(injection.episode_id) + expanded.group_by(injection.episode_id) + opened
    uses = uses.alias("used")
    row = store.fetch_first(
        memory.select(
            memory.episode_id,
            memory.summary,
            fn.COALESCE(project.name, "").alias("project"),
            fn.SUM(uses.c.uses).alias("uses"),
        )
        .join(uses, on=uses.c.episode_id == memory.episode_id)
        .join_from(memory, project, JOIN.LEFT_OUTER)
        .where(memory.episode_id.in_(injection.select(injection.episode_id).where(is_asked)))
        .group_by(memory.id)
        .order_by(SQL("uses").desc(), memory.created_at_ms.desc())
        .limit(1)
    )
    return None if row is None else MostUsed(**row._asdict())


def note_late(tx: Tx, cause: str) -> None:
    """Count an answer that came after its prompt's hook had exited."""
    _add_to_tally(tx, _LATE, {cause: 1})


def note_refused(tx: Tx, reasons: Iterable[Refusal]) -> None:
    """Count a language model's proposals that were refused."""
    if counted := Counter(reason.value for reason in reasons):
        _add_to_tally(tx, _REFUSED, counted)


def late_since(store: Reader, since_ms: int) -> dict[str, int]:
    """Return cause → number of answers that came too late since the day of a time, most frequent cause first."""
    return _tally_since(store, _LATE, since_ms)


def _add_to_tally(tx: Tx, key: str, counts: Mapping[str, int]) -> None:
    days = _tally(tx, key)
    today = Counter(days.get(day_of(tx.now_ms()), {}))
    today.update(counts)
    days[day_of(tx.now_ms())] = dict(today)
    put_meta(tx, key, json.dumps(dict(sorted(days.items())[-MAX_LATE_DAYS:])))


def _tally_since(store: Reader, key: str, since_ms: int) -> dict[str, int]:
    total: Counter[str] = Counter()
    for day, causes in _tally(store, key).items():
        if day >= day_of(max(0, since_ms)):
            total.update(causes)
    return dict(total.most_common())


def _tally(store: Reader, key: str) -> dict[str, dict[str, int]]:
    days: dict[str, dict[str, int]] = json.loads(get_meta(store, key) or "{}")
    return days


# -- Figures for the whole memory: how much it contains and how much work is pending.

#: Maximum number of the latest memories that are examined to count new ones.
MAX_COUNTED = 200


@dataclass(frozen=True, slots=True)
class Totals:
    #: Projects with sessions that have turns.
    projects: int
    #: Sessions that have turns.
    sessions: int
    transcripts: int
    turns: int
    #: Current memories.
    memories: int
    superseded: int
    archived: int
    #: Suspect memories on which the user has to decide.
    suspects: int
    injections: int
    bad_lines: int
    #: Transcripts that could not be read at the last attempt.
    unreadable: int


def count_totals(store: Store) -> Totals:
    """Return the figures for the whole memory, read from one snapshot."""
    memory, transcript = tables.Memory, tables.Transcript
    with store.snapshot() as reader:
        return Totals(
            projects=_count_rows(reader, tables.Project, has_sessions()),
            sessions=_count_rows(reader, tables.Session, has_turns()),
            transcripts=_count_rows(reader, transcript),
            turns=_count_rows(reader, tables.Turn),
            memories=_count_rows(reader, memory, IS_CURRENT),
            superseded=_count_rows(reader, memory, memory.status == Status.SUPERSEDED.value),
            archived=_count_rows(reader, memory, memory.status == Status.ARCHIVED.value),
            suspects=_count_rows(reader, memory, WAITS_AS_SUSPECT),
            injections=_count_rows(reader, tables.Injection, WAS_SHOWN),
            bad_lines=_count_rows(reader, tables.BadLine),
            unreadable=_count_rows(reader, transcript, transcript.last_error != ""),
        )


def count_memories_since(store: Reader, since_ms: int, project_id: int | None = None) -> int:
    """Return how many current memories, of one project or of all, were stored after a time. At most ``MAX_COUNTED``."""
    memory = tables.Memory
    query = memory.select(memory.kept_at_ms, memory.project).where(IS_CURRENT).order_by(memory.id.desc())
    rows = store.fetch(query.limit(MAX_COUNTED))
    return sum(row.kept_at_ms > since_ms and project_id in (None, row.project_id) for row in rows)


def count_without_project(store: Reader) -> int:
    """Return how many current memories don't belong to a project."""
    return _count_rows(store, tables.Memory, IS_CURRENT & tables.Memory.project.is_null())


def count_transcripts(store: Reader) -> int:
    """Return how many transcripts have been read at least in part."""
    return _count_rows(store, tables.Transcript)


def count_agents(store: Reader) -> dict[str, int]:
    """Return name of an agent → number of its sessions."""
    session = tables.Session
    query = session.select(session.agent, fn.COUNT(session.id).alias("sessions")).where(has_turns())
    rows = store.fetch(query.group_by(session.agent).order_by(session.agent))
    return {row.agent: row.sessions for row in rows}


def count_of_agent(store: Reader, agent: str, project_id: int | None = None) -> tuple[int, int]:
    """Return how many sessions an agent has, and how many turns they contain, in one project or in all."""
    session, turn = tables.Session, tables.Turn
    is_of_project = turn.project == project_id if project_id is not None else SQL("1")
    query = turn.select(fn.COUNT(turn.session.distinct()).alias("sessions"), fn.COUNT(turn.id).alias("prompts"))
    row = store.fetch_first(query.join(session).where((session.agent == agent) & is_of_project))
    return row.sessions, row.prompts


def _count_rows(store: Reader, table: type[tables.Table], condition: ColumnBase | None = None) -> int:
    query = table.select(fn.COUNT(SQL("*")))
    return int(store.fetch_value(query if condition is None else query.where(condition)))


@dataclass(frozen=True, slots=True)
class ProjectTotals:
    name: str
    #: Sessions with turns that began or worked in it. A session of two projects counts in both.
    sessions: int
    turns: int
    #: Turns that begin with a prompt.
    prompts: int
    memories: int


def count_projects(store: Reader) -> list[ProjectTotals]:
    """Return the figures of each project that contains anything, by name; last, under "", those without a project."""
    project = tables.Project
    sessions = {row.project: row.number for row in store.fetch(sessions_of_projects())}
    query = project.select(project.id, project.name, *_project_figures(project.id)).where(holds_anything())
    totals = [
        ProjectTotals(row.name, sessions.get(row.id, 0), row.turns, row.prompts, row.memories)
        for row in store.fetch(query.order_by(*PROJECTS_BY_NAME))
    ]
    row = store.fetch_first(Select(columns=_project_figures(None)))
    rest = ProjectTotals("", sessions.get(None, 0), row.turns, row.prompts, row.memories)
    is_empty = not (rest.sessions or rest.turns or rest.prompts or rest.memories)
    return totals if is_empty else [*totals, rest]


def _project_figures(project_id: ColumnBase | None) -> list[Any]:
    """Return the figures of one project, or of everything without a project, as columns of a query."""
    turn, memory = tables.Turn, tables.Memory

    def of_project(table: Any, *conditions: ColumnBase) -> ColumnBase:
        owner = table.project.is_null() if project_id is None else table.project == project_id
        figure: ColumnBase = table.select(fn.COUNT(table.id)).where(owner, *conditions)
        return figure

    return [
        of_project(turn).alias("turns"),
        of_project(turn, turn.opening != Opening.CONTINUATION).alias("prompts"),
        of_project(memory, IS_CURRENT).alias("memories"),
    ]


@dataclass(frozen=True, slots=True)
class SessionTotals:
    turns: int
    memories: int
    #: Bites that were shown.
    shown: int
    #: Tokens (characters / 4) of everything that was shown.
    tokens: int


def count_sessions(store: Reader, session_ids: Collection[str]) -> Mapping[str, SessionTotals]:
    session, turn, memory = tables.Session, tables.Turn, tables.Memory
    injection, shown = tables.Injection, tables.Shown
    is_shown = (injection.session_id == session.session_id) & WAS_SHOWN
    bite_tokens = injection.select(fn.COALESCE(fn.SUM(injection.tokens), 0)).where(is_shown)
    other_tokens = shown.select(fn.COALESCE(fn.SUM(shown.tokens), 0)).where(shown.session_id == session.session_id)
    query = session.select(
        session.session_id,
        turn.select(fn.COUNT(turn.id)).where(turn.session == session.id).alias("turns"),
        memory.select(fn.COUNT(memory.id)).where((memory.session == session.id) & IS_CURRENT).alias("memories"),
        injection.select(fn.COUNT(injection.id)).where(is_shown).alias("shown"),
        bite_tokens.alias("bite_tokens"),
        other_tokens.alias("other_tokens"),
    ).where(in_json_list(session.session_id, session_ids))
    return {
        row.session_id: SessionTotals(
            turns=row.turns, memories=row.memories, shown=row.shown, tokens=row.bite_tokens + row.other_tokens
        )
        for row in store.fetch(query)
    }


@dataclass(frozen=True, slots=True)
class WorkTotals:
    """How much work of one kind is pending."""

    kind: str
    #: Due now or later.
    waiting: int
    #: Due now.
    due: int
    dead: int
    #: When the oldest overdue piece of work was due; None if none is due.
    oldest_due_at_ms: int | None
    #: When the next piece of work that has failed is due; None if none has.
    next_try_at_ms: int | None = None
    #: Waiting, for the first time and not due yet; waiting after a failed attempt.
    scheduled: int = 0
    failed: int = 0


def count_work(store: Reader) -> list[WorkTotals]:
    work = tables.Work
    is_waiting = work.state == WorkState.DUE
    is_due = is_waiting & (work.due_at_ms <= store.now_ms())
    query = work.select(
        work.kind,
        fn.SUM(is_waiting).alias("waiting"),
        fn.SUM(is_due).alias("due"),
        fn.SUM(work.state == WorkState.DEAD).alias("dead"),
        fn.SUM(is_waiting & (work.attempts == 0) & (work.due_at_ms > store.now_ms())).alias("scheduled"),
        fn.SUM(is_waiting & (work.attempts > 0)).alias("failed"),
        fn.MIN(Case(None, [(is_due, work.due_at_ms)])).alias("oldest_due_at_ms"),
        fn.MIN(Case(None, [(is_waiting & (work.attempts > 0), work.due_at_ms)])).alias("next_try_at_ms"),
    )
    rows = store.fetch(query.group_by(work.kind).order_by(work.kind))
    return [WorkTotals(**row._asdict()) for row in rows]


def count_without_vector(store: Reader) -> int:
    """Return the number of rows that have no vector of any model yet.

    This only counts rows: a vector is deleted with its owner, and the first piece of each owner's vector has the number
    0.
    """
    vector = tables.Vector
    owners = sum(_count_rows(store, table) for table in (tables.Memory, tables.NoteChunk, tables.Passage))
    # The literal lets SQLite use the partial index.
    with_vector = _count_rows(store, vector) - _count_rows(store, vector, vector.piece > SQL("0"))
    return owners - with_vector


# -- The last few days: counts by day and the latest prompts, read from the newest rows.

#: Maximum number of turns that are examined for the latest prompts.
MAX_LATEST_TURNS = 120
#: Maximum number of bites, and of steps of histories, that are examined for counts by day.
MAX_RECENT_ROWS = 20_000
#: Maximum number of memories that are examined for counts by day; smaller, because their rows are long.
MAX_RECENT_MEMORIES = 5_000
#: Maximum number of characters of a prompt that are read.
MAX_PROMPT_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class DayCounts:
    """Counts since a time, by the same definitions as ``kept_by_day`` and ``shown_by_day``."""

    #: Bites that were shown at a prompt, at a tool call or in a briefing.
    shown: int
    #: How many of these bites were in a briefing.
    briefed: int
    #: Tokens (characters / 4) of everything that was shown, including briefings.
    tokens: int
    #: Memories that were stored, whenever they were said.
    kept: int
    #: Memories that were replaced, and memories that were judged wrong, unless that has been undone.
    replaced: int
    wrong: int


@dataclass(frozen=True, slots=True)
class LatestPrompt:
    turn_id: int
    session_id: str
    at_ms: int
    text: str


def counts_since(store: Reader, since_ms: int, project_id: int | None = None) -> DayCounts:
    """Count what has happened since a time, in one project or in all.

    A shown memory counts for the session's project, a stored or changed memory for its own project.
    """
    injection, memory, history, shown = tables.Injection, tables.Memory, tables.History, tables.Shown
    is_told: ColumnBase = shown.at_ms >= since_ms
    is_change: ColumnBase = (history.at_ms >= since_ms) & _is_recent(history)
    if project_id is not None:
        is_told &= shown.session_id.in_(_sessions_of(project_id))
        is_change &= history.episode_id.in_(memory.select(memory.episode_id).where(memory.project == project_id))
    bites = store.fetch_first(
        injection.select(
            fn.COUNT(SQL("*")).alias("number"),
            fn.COALESCE(fn.SUM(injection.channel == AT_START), 0).alias("briefed"),
            fn.COALESCE(fn.SUM(injection.tokens), 0).alias("tokens"),
        ).where(_is_bite(since_ms, project_id))
    )
    told = store.fetch_value(shown.select(fn.COALESCE(fn.SUM(shown.tokens), 0)).where(is_told))
    is_still_so = ((history.action == "supersede") & (memory.status == Status.SUPERSEDED.value)) | (
        (history.action == "bad") & (memory.is_lowered == 1)
    )
    changes = (
        history.select(history.action, fn.COUNT(history.episode_id.distinct()).alias("number"))
        .join(memory, on=(memory.episode_id == history.episode_id))
        .where(is_change & is_still_so)
    )
    by_action = {row.action: row.number for row in store.fetch(changes.group_by(history.action))}
    return DayCounts(
        shown=bites.number,
        briefed=bites.briefed,
        tokens=bites.tokens + told,
        kept=store.fetch_value(memory.select(fn.COUNT(SQL("*"))).where(_is_kept(since_ms, project_id))),
        replaced=by_action.get("supersede", 0),
        wrong=by_action.get("bad", 0),
    )


def kept_by_day(store: Reader, days: Sequence[tuple[int, int]], project_id: int | None = None) -> list[int]:
    """Count the memories stored in each of some consecutive time spans, given as start and end in milliseconds."""
    memory = tables.Memory
    condition = _is_kept(days[0][0], project_id) & (memory.kept_at_ms < days[-1][1])
    return _by_day(store.fetch_values(memory.select(memory.kept_at_ms).where(condition)), days)


def shown_by_day(store: Reader, days: Sequence[tuple[int, int]], project_id: int | None = None) -> list[int]:
    """Count the bites shown in each of some consecutive time spans."""
    injection = tables.Injection
    condition = _is_bite(days[0][0], project_id) & (injection.at_ms < days[-1][1])
    return _by_day(store.fetch_values(injection.select(injection.at_ms).where(condition)), days)


def _is_bite(since_ms: int, project_id: int | None) -> ColumnBase:
    """Return the condition that a bite was shown since a time, in a session of the project if one is given."""
    injection = tables.Injection
    condition: ColumnBase = WAS_SHOWN & (injection.at_ms >= since_ms) & _is_recent(injection)
    return condition if project_id is None else condition & injection.session_id.in_(_sessions_of(project_id))


def _is_kept(since_ms: int, project_id: int | None) -> ColumnBase:
    """Return the condition that a memory was stored since a time, in the project if one is given."""
    memory = tables.Memory
    condition: ColumnBase = (memory.kept_at_ms >= since_ms) & _is_recent(memory, MAX_RECENT_MEMORIES)
    return condition if project_id is None else condition & (memory.project == project_id)


def _sessions_of(project_id: int) -> Any:
    session = tables.Session
    return session.select(session.session_id).where(session.project == project_id)


def tokens_by_day(store: Reader, since_ms: int) -> dict[str, int]:
    """Return local day → tokens (characters / 4) of everything that was shown since a time."""
    tokens: Counter[str] = Counter()
    injection, shown = tables.Injection, tables.Shown
    is_bite = WAS_SHOWN & (injection.at_ms >= since_ms)
    for table, condition in ((injection, is_bite), (shown, shown.at_ms >= since_ms)):
        day = fn.date(table.at_ms / 1000, "unixepoch", "localtime").alias("day")
        query = table.select(day, fn.SUM(table.tokens).alias("tokens")).where(condition).group_by(SQL("day"))
        for row in store.fetch(query):
            tokens[row.day] += row.tokens
    return dict(tokens)


def latest_turn_prompts(store: Reader) -> list[LatestPrompt]:
    """Return the prompts of the turns that were read most recently, latest first."""
    turn, session, block = tables.Turn, tables.Session, tables.TextBlock
    latest = turn.select(turn.id).order_by(turn.id.desc()).limit(MAX_LATEST_TURNS)
    text = fn.SUBSTR(block.text, 1, MAX_PROMPT_CHARACTERS).alias("text")
    query = turn.select(turn.id.alias("turn_id"), session.session_id, turn.started_at_ms.alias("at_ms"), text)
    query = query.join(session).join_from(turn, block, on=(block.turn == turn.id) & (block.seq == 0))
    query = query.where(turn.id.in_(latest) & IS_PROMPT).order_by(turn.id.desc())
    return [LatestPrompt(row.turn_id, row.session_id, row.at_ms or 0, row.text) for row in store.fetch(query)]


def _is_recent(table: Any, rows: int = MAX_RECENT_ROWS) -> ColumnBase:
    """Return the condition that a row is one of the last ones. Rows are added in order of time, which isn't indexed."""
    newest = table.alias("newest")
    condition: ColumnBase = table.id > newest.select(fn.COALESCE(fn.MAX(newest.id), 0) - rows)
    return condition


def _by_day(times: Sequence[int], days: Sequence[tuple[int, int]]) -> list[int]:
    """Count times by day. The days are consecutive, and all times are within them."""
    counts, starts = [0] * len(days), [start for start, _ in days]
    for at_ms in times:
        counts[bisect_right(starts, at_ms) - 1] += 1
    return counts
