"""What happened in the latest days: counts by day, and the latest events, read from the newest rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from peewee import SQL, ColumnBase, Query, fn

from engram.models import tables
from engram.models.injections import WAS_SHOWN
from engram.models.statement import prepared
from engram.models.transaction import Reader
from engram.transcripts.record import Role

#: Turns that are looked at for the words of the latest prompts.
MAX_LATEST_TURNS = 120
#: Steps of the history, and bites, that are looked at for the counts of days.
MAX_RECENT_ROWS = 20_000
#: Characters of a prompt that are read.
MAX_PROMPT_CHARACTERS = 300


@dataclass(frozen=True, slots=True)
class DayCounts:
    """What happened since a time."""

    #: Bites that Claude was shown, and their tokens with those of briefings.
    shown: int
    tokens: int
    kept: int
    #: Memories that another one replaced, and those that somebody judged wrong.
    replaced: int
    wrong: int


@dataclass(frozen=True, slots=True)
class LatestPrompt:
    """One of the latest prompts."""

    turn_id: int
    session_id: str
    at_ms: int
    text: str


def counts_since(store: Reader, since_ms: int, project_id: int | None = None) -> DayCounts:
    """Count what happened since a time; of a project, or of all."""
    injection, episode, history, shown = tables.Injection, tables.Episode, tables.History, tables.Shown
    of_project = episode.select(episode.episode_id).where(episode.project == project_id)
    is_bite: ColumnBase = WAS_SHOWN & (injection.at_ms >= since_ms) & _is_recent(injection)
    is_kept: ColumnBase = episode.created_at_ms >= since_ms
    is_change: ColumnBase = (history.at_ms >= since_ms) & _is_recent(history)
    if project_id is not None:
        is_bite &= injection.episode_id.in_(of_project)
        is_kept &= episode.project == project_id
        is_change &= history.episode_id.in_(of_project)
    bites = store.fetch_first(
        injection.select(
            fn.COUNT(SQL("*")).alias("number"), fn.COALESCE(fn.SUM(injection.tokens), 0).alias("tokens")
        ).where(is_bite)
    )
    told = store.fetch_value(shown.select(fn.COALESCE(fn.SUM(shown.tokens), 0)).where(shown.at_ms >= since_ms))
    changes = history.select(history.action, fn.COUNT(SQL("*")).alias("number")).where(
        is_change & history.action.in_(("supersede", "bad"))
    )
    by_action = {row.action: row.number for row in store.fetch(changes.group_by(history.action))}
    return DayCounts(
        shown=bites.number,
        tokens=bites.tokens + (0 if project_id is not None else told),
        kept=store.fetch_value(episode.select(fn.COUNT(SQL("*"))).where(is_kept)),
        replaced=by_action.get("supersede", 0),
        wrong=by_action.get("bad", 0),
    )


def kept_by_day(store: Reader, days: Sequence[tuple[int, int]], project_id: int | None = None) -> list[int]:
    """Count the memories that were said in each of some spans of time, given as start and end in milliseconds."""
    episode = tables.Episode
    condition = (episode.created_at_ms >= days[0][0]) & (episode.created_at_ms < days[-1][1])
    if project_id is not None:
        condition &= episode.project == project_id
    return _by_day(store.fetch_values(episode.select(episode.created_at_ms).where(condition)), days)


def shown_by_day(store: Reader, days: Sequence[tuple[int, int]], project_id: int | None = None) -> list[int]:
    """Count the bites that Claude was shown in each of some spans of time."""
    injection, episode = tables.Injection, tables.Episode
    condition = WAS_SHOWN & (injection.at_ms >= days[0][0]) & (injection.at_ms < days[-1][1])
    condition &= _is_recent(injection)
    if project_id is not None:
        own = episode.select(episode.episode_id).where(episode.project == project_id)
        condition &= injection.episode_id.in_(own)
    return _by_day(store.fetch_values(injection.select(injection.at_ms).where(condition)), days)


def tokens_by_day(store: Reader, since_ms: int) -> dict[str, int]:
    """Return local day → tokens (characters / 4) of everything that Claude was shown, since a time."""
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
    """Return the prompts of the turns that were read last, the latest first."""
    rows = store.fetch(_latest_prompts(Role.USER.value, MAX_LATEST_TURNS))
    return [LatestPrompt(row.turn_id, row.session_id, row.at_ms or 0, row.text) for row in rows]


def _is_recent(table: Any) -> ColumnBase:
    """The condition that a row is among the last ones: rows are added as time goes on, and have no index of times."""
    newest = table.alias("newest")
    condition: ColumnBase = table.id > newest.select(fn.COALESCE(fn.MAX(newest.id), 0) - MAX_RECENT_ROWS)
    return condition


def _by_day(times: Sequence[int], days: Sequence[tuple[int, int]]) -> list[int]:
    """Count times by day; days are in order and leave no gap."""
    counts, ends = [0] * len(days), [end for _, end in days]
    for at_ms in times:
        # Days have nearly the same length: the guess is off by one at most.
        guess = min(max(0, (at_ms - days[0][0]) * len(days) // (ends[-1] - days[0][0])), len(days) - 1)
        while guess and at_ms < days[guess][0]:
            guess -= 1
        while guess < len(days) - 1 and at_ms >= ends[guess]:
            guess += 1
        counts[guess] += 1
    return counts


@prepared
def _latest_prompts(user: str, limit: int) -> Query:
    turn, session, block = tables.Turn, tables.Session, tables.TextBlock
    latest = turn.select(turn.id).order_by(turn.id.desc()).limit(limit)
    text = fn.SUBSTR(block.text, 1, MAX_PROMPT_CHARACTERS).alias("text")
    query = turn.select(turn.id.alias("turn_id"), session.session_id, turn.started_at_ms.alias("at_ms"), text)
    query = query.join(session).join_from(turn, block, on=(block.turn == turn.id) & (block.seq == 0))
    is_prompt = (block.role == user) & (block.message_id == "")
    return query.where(turn.id.in_(latest) & is_prompt).order_by(turn.id.desc())
