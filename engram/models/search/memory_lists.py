"""Lists of memories by time, words, kind, project and state."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from peewee import SQL, ColumnBase, Query, fn

from engram.enums import CURRENT_STATUSES, Importance, Kind, Scope, Source, Status, Voice
from engram.models import tables
from engram.models.engine.statement import Statement, is_same
from engram.models.engine.transaction import Reader, Value, asks_records
from engram.models.memories.memory_records import (
    IS_BY_RULES,
    IS_GLOBAL,
    MEMORIES,
    Memory,
    memories_by_row,
    query_memories,
    select_memories,
)
from engram.models.search.fulltext import MEMORY_WEIGHTS, quoted
from engram.models.tables.memory_tables import IS_CURRENT, SORT_INDEX, WAITS_AS_SUSPECT
from engram.system.lazy_regex import lazy_regex
from engram.text.words import UNSPACED_LETTERS, is_unspaced

# -- Lists of memories: the latest, those around a time, related ones, and how many there are.


@dataclass(frozen=True, slots=True)
class MemoryCount:
    """The number of memories with the same scope, importance and status."""

    scope: str
    importance: str
    status: str
    number: int


def current_row_ids(store: Reader) -> list[int]:
    """Return the row ids of all current memories, the most trusted and then the oldest first."""
    memory = tables.Memory
    order = (
        memory.is_pinned.desc(),
        (memory.source == Source.MANUAL.value).desc(),
        (memory.importance == Importance.HIGH.value).desc(),
        memory.created_at_ms,
        memory.id,
    )
    return [int(row_id) for row_id in store.fetch_values(memory.select(memory.id).where(IS_CURRENT).order_by(*order))]


@asks_records(MEMORIES)
def current_memories(project_id: int | None) -> Query:
    """Return the current memories of a project and the global ones, oldest first."""
    memory = tables.Memory
    condition = IS_CURRENT & (is_same(memory.project, project_id) | IS_GLOBAL)
    return query_memories().where(condition).order_by(memory.created_at_ms, memory.summary, memory.id)


@asks_records(MEMORIES)
def ended_rules(project_id: int | None) -> Query:
    """Return a project's memories and global ones in the user's own words that ended at a known time, oldest first."""
    memory = tables.Memory
    condition = ~IS_CURRENT & memory.valid_to_ms.is_null(False) & (memory.voice == Voice.USER.value)
    condition &= is_same(memory.project, project_id) | IS_GLOBAL
    return query_memories().where(condition).order_by(memory.created_at_ms, memory.summary, memory.id)


def latest_memories(
    store: Reader,
    *,
    project_id: int | None = None,
    with_global: bool = True,
    limit: int = 50,
    before_ms: int | None = None,
    after_ms: int = 0,
) -> list[Memory]:
    """Return current memories, newest first: a project's, with or without the global ones, or those of all projects.

    Args:
        before_ms: only those made until then; None for no limit.
        after_ms: only those made from then on.
    """
    memory = tables.Memory
    condition = _is_listed(project_id, with_global=with_global, before_ms=before_ms, after_ms=after_ms)
    return select_memories(store, condition, memory.created_at_ms.desc(), memory.id.desc(), limit=limit)


def count_latest(store: Reader, *, project_id: int | None, before_ms: int | None, after_ms: int) -> int:
    """Return how many memories ``latest_memories`` would return without a limit."""
    memory = tables.Memory
    condition = _is_listed(project_id, with_global=True, before_ms=before_ms, after_ms=after_ms)
    return int(store.fetch_value(memory.select(fn.COUNT(memory.id)).where(condition)))


def _is_listed(project_id: int | None, *, with_global: bool, before_ms: int | None, after_ms: int) -> ColumnBase:
    memory = tables.Memory
    condition = IS_CURRENT
    if project_id is not None:
        is_own = (memory.project == project_id) & (memory.scope == Scope.PROJECT.value)
        condition &= (is_own | IS_GLOBAL) if with_global else is_own
    if before_ms is not None:
        condition &= memory.created_at_ms <= before_ms
    return condition & (memory.created_at_ms >= after_ms) if after_ms else condition


def latest_kept(store: Reader, limit: int, *, project_id: int | None = None) -> list[Memory]:
    """Return the most recently stored memories, whatever their status, newest first."""
    memory = tables.Memory
    condition: ColumnBase = SQL("1") if project_id is None else (memory.project == project_id)
    return select_memories(store, condition, memory.id.desc(), limit=limit)


def current_summaries(store: Reader, after: int = 0, limit: int = -1) -> list[tuple[int, int | None, str]]:
    """Return row id, project and summary of current memories, oldest first.

    Args:
        after: only rows with a larger id.
        limit: maximum number; -1 for all.
    """
    memory = tables.Memory
    query = (
        memory.select(memory.id, memory.project, memory.summary)
        .where(IS_CURRENT & (memory.id > after))
        .order_by(memory.id)
        .limit(limit)
    )
    return [(row.id, row.project_id, row.summary) for row in store.fetch(query)]


def current_states_by_rules(store: Reader) -> list[Memory]:
    """Return the current memories of the kind ``state`` from the local extractor, oldest first."""
    memory = tables.Memory
    condition = IS_CURRENT & (memory.kind == Kind.STATE) & IS_BY_RULES
    return select_memories(store, condition, memory.created_at_ms, memory.id)


def suspect_memories(store: Reader) -> list[Memory]:
    """Return the current memories that are suspect and have not been judged wrong, newest first."""
    memory = tables.Memory
    return select_memories(store, WAITS_AS_SUSPECT, memory.created_at_ms.desc(), memory.id.desc())


def memories_around(store: Reader, at_ms: int, *, project_id: int | None = None, limit: int = 10) -> list[Memory]:
    """Return memories from just before and after a time, oldest first: a project's and global ones, or all.

    At most half of ``limit`` are from before, the others from after; a limit of 1 prefers one from before.
    """
    memory = tables.Memory
    is_seen: ColumnBase = SQL("1") if project_id is None else (memory.project == project_id) | IS_GLOBAL
    half = max(1, limit // 2)
    before = select_memories(
        store, is_seen & (memory.created_at_ms <= at_ms), memory.created_at_ms.desc(), memory.id.desc(), limit=half
    )
    after = select_memories(
        store, is_seen & (memory.created_at_ms > at_ms), memory.created_at_ms, memory.id, limit=max(1, limit - half)
    )
    return (before[::-1] + after)[:limit]


def related_memories(store: Reader, memory: Memory, project_id: int | None) -> list[Memory]:
    """Return the five current memories that share the most and the rarest entities with a memory, without suspect ones.

    They are global or belong to ``project_id``, even if ``memory`` belongs to another project.
    """
    other = tables.Memory
    mine, shared, every = tables.MemoryEntity.alias(), tables.MemoryEntity.alias(), tables.MemoryEntity.alias()
    uses = every.select(fn.count(SQL("*"))).where(every.entity == shared.entity)
    weight = fn.sum(SQL("1.0") / uses)
    query = (
        mine.select(shared.memory)
        .join(shared, on=(shared.entity == mine.entity) & (shared.memory != mine.memory))
        .join(other, on=other.id == shared.memory)
        .where(
            (mine.memory == memory.id)
            & IS_CURRENT
            & (other.suspect == "")
            & (other.is_lowered == 0)
            & (IS_GLOBAL | is_same(other.project, project_id))
        )
        .group_by(shared.memory)
        .order_by(weight.desc(), shared.memory)
        .limit(5)
    )
    row_ids = store.fetch_values(query)
    by_row = memories_by_row(store, row_ids)
    return [by_row[row_id] for row_id in row_ids if row_id in by_row]


def count_memories(store: Reader, project_id: int) -> tuple[list[MemoryCount], int]:
    """Count the memories that a project may see by scope, importance and status, and count all others."""
    memory = tables.Memory
    sort = (memory.scope, memory.importance, memory.status)
    number = fn.count(SQL("*"))
    rows = store.fetch(
        memory.select(*sort, number.alias("number"))
        .where(IS_GLOBAL | (memory.project == project_id))
        .group_by(*sort)
        .order_by(*sort)
    )
    seen = [MemoryCount(row.scope, row.importance, row.status, row.number) for row in rows]
    total = int(store.fetch_value(memory.select(number)))
    return seen, total - sum(count.number for count in seen)


def unpacked_before(store: Reader, before_ms: int) -> list[Memory]:
    """Return the memories that were created, stored and last used before a time, and have content that isn't packed."""
    memory = tables.Memory
    last_touched = fn.max(memory.created_at_ms, memory.kept_at_ms, fn.coalesce(memory.accessed_at_ms, 0))
    is_packed = memory.packed_content.is_null(False) | (memory.content == "")
    return select_memories(store, (last_touched < before_ms) & ~is_packed)


# -- Lists for browsing, by words while they are typed, and by kind, project and state.
#
# The last word may be a prefix; the others must match completely. Each kind, project and state comes with its number of
# memories.

_WORD = lazy_regex(rf"[\w{UNSPACED_LETTERS}]+", re.UNICODE)
#: Minimum number of characters that are searched for as a prefix.
MIN_PREFIX_CHARACTERS = 2
#: Maximum number of matches that are ranked by relevance and counted by kind, project and state. If there are more,
#: they are listed newest first, without counts.
MAX_COUNTED = 2_000
#: If no indexed word starts with the last word, at most this many characters are cut from its end, so that "runnin"
#: finds the same memories as "running".
_MAX_CUT_CHARACTERS = 3
_CURRENT = tuple(status.value for status in CURRENT_STATUSES)


class State(StrEnum):
    """The state of a memory in a list for display."""

    CURRENT = "current"
    REPLACED = "replaced"
    ARCHIVED = "archived"
    PINNED = "pinned"
    #: Judged wrong.
    WRONG = "wrong"
    SUSPECT = "suspect"


#: States that few memories have. Scanning from the newest memory until enough of them are found would be slow.
_RARE = (State.REPLACED, State.ARCHIVED, State.PINNED, State.WRONG, State.SUSPECT)


@dataclass(frozen=True, slots=True)
class Selection:
    """The memories that a list shows."""

    #: The search text as typed. Its last word may be incomplete.
    text: str = ""
    #: Row id of the project; None for all.
    project_id: int | None = None
    #: A ``Kind``; "" for all.
    kind: str = ""
    #: None for all.
    state: State | None = None


@dataclass(frozen=True, slots=True)
class Facets:
    """The number of memories for each choice of kind, project and state."""

    total: int
    kinds: dict[str, int]
    projects: dict[int, int]
    states: dict[State, int]


@dataclass(frozen=True, slots=True)
class Listing:
    """A page of the memories in a selection, with counts over the whole selection."""

    memories: tuple[Memory, ...]
    #: None if more than ``MAX_COUNTED`` memories match the words; they are then listed newest first.
    facets: Facets | None


def browse(store: Reader, selection: Selection, *, limit: int = 50, offset: int = 0) -> Listing:
    """Return a page of the memories in a selection.

    The best match comes first if words are given and few memories match, otherwise the newest memory.
    """
    expression = _prefix_expression(store, selection.text)
    if expression is None:
        return Listing((), _facets([], selection))
    is_counted = not expression or _count_matches(store, expression) <= MAX_COUNTED
    statement = _rows(selection, expression, limit, offset, is_ranked=bool(expression) and is_counted)
    row_ids = store.fetch_values(statement)
    by_row = memories_by_row(store, row_ids)
    facets = _facets(store.fetch(_sorts(expression)), selection) if is_counted else None
    return Listing(tuple(by_row[row_id] for row_id in row_ids if row_id in by_row), facets)


def _prefix_expression(store: Reader, text: str) -> str | None:
    """Return an FTS5 expression for words, the last of which may be a prefix; "" if there are none.

    Return None if no memory can match. The index contains word stems. If none starts with the last word, up to
    ``_MAX_CUT_CHARACTERS`` are cut from its end, and the rest must match a whole stem.
    """
    *words, last = _WORD.findall(text) or [""]
    whole = [phrase for phrase in map(quoted, words) if phrase]
    if is_unspaced(last):
        expression = " AND ".join(filter(None, [*whole, quoted(last)]))
        return expression if expression and _count_matches(store, expression) else None
    if len(last) < MIN_PREFIX_CHARACTERS:
        expression = " AND ".join(whole)
        return expression if not expression or _count_matches(store, expression) else None
    expressions = [" AND ".join([*whole, f'("{last}" OR "{last}"*)'])]
    for cut in range(1, _MAX_CUT_CHARACTERS + 1):
        if len(last) - cut > MIN_PREFIX_CHARACTERS:
            expressions.append(" AND ".join([*whole, f'"{last[:-cut]}"']))
    return next((expression for expression in expressions if _count_matches(store, expression)), None)


def _facets(sorts: Sequence[Any], selection: Selection) -> Facets:
    """Add up the counts by kind, project and state. Each facet ignores the selection's choice for that facet."""
    kinds: Counter[str] = Counter()
    projects: Counter[int] = Counter()
    states: Counter[State] = Counter()
    total = 0
    for row in sorts:
        in_project = selection.project_id is None or row.project_id == selection.project_id
        in_kind = not selection.kind or row.kind == selection.kind
        own = _states_of(row)
        in_state = selection.state is None or selection.state in own
        total += row.number if in_project and in_kind and in_state else 0
        kinds[row.kind] += row.number if in_project and in_state else 0
        if row.project_id is not None:
            projects[row.project_id] += row.number if in_kind and in_state else 0
        for state in own if in_project and in_kind else ():
            states[state] += row.number
    return Facets(
        total=total,
        kinds={kind: number for kind, number in sorted(kinds.items()) if number},
        projects={project: number for project, number in projects.most_common() if number},
        states={state: states[state] for state in State if states[state]},
    )


def _states_of(row: Any) -> list[State]:
    is_in = {
        State.CURRENT: row.status in _CURRENT,
        State.REPLACED: row.status == Status.SUPERSEDED,
        State.ARCHIVED: row.status == Status.ARCHIVED,
        State.PINNED: row.is_pinned,
        State.WRONG: row.is_lowered,
        State.SUSPECT: row.is_suspect,
    }
    return [state for state, holds in is_in.items() if holds]


#: The SQL condition for memories in a state.
_CONDITIONS = {
    State.CURRENT: f"e.status IN ({', '.join(map(repr, _CURRENT))})",
    State.REPLACED: f"e.status = '{Status.SUPERSEDED.value}'",
    State.ARCHIVED: f"e.status = '{Status.ARCHIVED.value}'",
    State.PINNED: "e.is_pinned = 1",
    State.WRONG: "e.is_lowered = 1",
    State.SUSPECT: "e.suspect != ''",
}


def _count_matches(store: Reader, expression: str) -> int:
    """Return how many memories match, at most one more than ``MAX_COUNTED``.

    This uses raw SQL, because an FTS5 query matches against the name of the table.
    """
    matches = f"SELECT rowid FROM episode_fts WHERE episode_fts MATCH ? LIMIT {MAX_COUNTED + 1}"
    return int(store.value(f"SELECT count(*) FROM ({matches})", (expression,)))


def _sorts(expression: str) -> Statement:
    """Return the statement that counts memories, or only matching ones, by project, kind and state.

    It is raw SQL that specifies a covering index, so that no row of a memory is read.
    """
    sort = "project_id, kind, status, is_pinned, is_lowered, suspect"
    columns = f"{sort.replace(', suspect', '')}, suspect != '' AS is_suspect, count(*) AS number"
    if not expression:
        return Statement(f"SELECT {columns} FROM episode INDEXED BY {SORT_INDEX} GROUP BY {sort}", ())
    matching = "id IN (SELECT rowid FROM episode_fts WHERE episode_fts MATCH ?)"
    return Statement(f"SELECT {columns} FROM episode WHERE {matching} GROUP BY {sort}", (expression,))


def _rows(selection: Selection, expression: str, limit: int, offset: int, *, is_ranked: bool) -> Statement:
    """Return the statement for the row ids of a page of a selection, in the order in which they are listed.

    In the raw SQL, CROSS JOIN makes SQLite take the matches in order and stop at the last row needed. A list of a kind
    or of a rare state reads only the index.
    """
    conditions, values = [], []
    for condition, value in (("e.project_id = ?", selection.project_id), ("e.kind = ?", selection.kind or None)):
        if value is not None:
            conditions.append(condition)
            values.append(value)
    conditions += [] if selection.state is None else [_CONDITIONS[selection.state]]
    where = " AND ".join(conditions) or "1"
    page: list[Value] = [limit, offset]
    if is_ranked:
        hits = "SELECT rowid AS id, bm25(episode_fts, ?, ?, ?) AS score FROM episode_fts WHERE episode_fts MATCH ?"
        sql = f"SELECT e.id FROM ({hits}) f JOIN episode e ON e.id = f.id WHERE {where} ORDER BY f.score, e.id DESC"
        return Statement(f"{sql} LIMIT ? OFFSET ?", (*MEMORY_WEIGHTS, expression, *values, *page))
    if expression:
        hits = "SELECT rowid AS id FROM episode_fts WHERE episode_fts MATCH ? ORDER BY rowid DESC LIMIT -1"
        sql = f"SELECT e.id FROM ({hits}) f CROSS JOIN episode e ON e.id = f.id WHERE {where} LIMIT ? OFFSET ?"
        return Statement(sql, (expression, *values, *page))
    index = f" INDEXED BY {SORT_INDEX}" if selection.kind or selection.state in _RARE else ""
    sql = f"SELECT e.id FROM episode e{index} WHERE {where} ORDER BY e.created_at_ms DESC, e.id DESC LIMIT ? OFFSET ?"
    return Statement(sql, (*values, *page))
