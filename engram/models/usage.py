"""What memory did in a time: what was read, kept, shown and opened, and whether its weekly line was said."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from peewee import JOIN, SQL, ColumnBase, fn

from engram.clock import day_of
from engram.enums import CURRENT_STATUSES, Refusal
from engram.models import tables
from engram.models.injections import AT_START, WAS_SHOWN
from engram.models.meta import get_meta, put_meta
from engram.models.store import Store
from engram.models.transaction import Reader, Tx
from engram.transcripts.record import Opening

#: Keys in ``meta``: JSON, day → cause → number of answers that came too late, and day → ``Refusal`` → number of
#: proposals of a language model that were refused. No words are stored.
_LATE, _REFUSED = "late_answers", "refused_proposals"
#: Days for which these are kept.
MAX_LATE_DAYS = 32


@dataclass(frozen=True, slots=True)
class MostUsed:
    """The memory that was shown at a prompt or a tool call, and then opened, most often."""

    episode_id: str
    summary: str
    #: Display name of its project; "" for none.
    project: str
    project_id: int | None
    scope: str
    uses: int
    #: False for what is never shown to Claude by itself: out of force, suspect or lowered.
    may_be_shown: bool


@dataclass(frozen=True, slots=True)
class Usage:
    """What memory did since a time."""

    #: Sessions that went on.
    sessions: int
    #: Turns that begin with a prompt.
    prompts: int
    #: Memories of what was said or saved.
    memories: int
    #: Names of projects in which somebody prompted and nothing was kept.
    projects_with_none: tuple[str, ...]
    #: Bites that Claude was shown, in briefings too: as every other total of them.
    shown: int
    #: Memories that were expanded.
    opened: int
    #: None where none was shown at a prompt or a tool call.
    most_used: MostUsed | None
    #: Cause → number of prompts whose answer came after their hook had ended, in whole days, at most ``MAX_LATE_DAYS``.
    late: dict[str, int]
    #: ``Refusal`` → number of proposals of a language model, in the same way.
    refused: dict[str, int]


def usage_since(store: Store, since_ms: int) -> Usage:
    """Figures from ``since_ms`` until now, in one consistent view."""
    session, episode = tables.Session, tables.Episode
    with store.snapshot() as reader:
        return Usage(
            sessions=_count(reader, session, session.last_at_ms >= since_ms),
            prompts=count_prompts_since(reader, since_ms),
            memories=_count(reader, episode, episode.created_at_ms >= since_ms),
            projects_with_none=_projects_with_none(reader, since_ms),
            shown=_count(reader, tables.Injection, WAS_SHOWN & (tables.Injection.at_ms >= since_ms)),
            opened=_count(reader, episode, episode.accessed_at_ms >= since_ms),
            most_used=_most_used(reader, since_ms),
            late=late_since(reader, since_ms),
            refused=_tally_since(reader, _REFUSED, since_ms),
        )


def count_prompts_since(store: Reader, since_ms: int) -> int:
    """The turns since a time that begin with a prompt."""
    return _count(store, tables.Turn, _is_prompt_since(since_ms))


def _count(store: Reader, table: type[tables.Table], condition: ColumnBase) -> int:
    return int(store.fetch_value(table.select(fn.COUNT(SQL("*"))).where(condition)))


def _is_prompt_since(since_ms: int) -> ColumnBase:
    condition: ColumnBase = (tables.Turn.opening != Opening.CONTINUATION) & (tables.Turn.started_at_ms >= since_ms)
    return condition


def _projects_with_none(store: Reader, since_ms: int) -> tuple[str, ...]:
    project, turn, episode = tables.Project, tables.Turn, tables.Episode
    prompts = turn.select(turn.id).where((turn.project == project.id) & _is_prompt_since(since_ms))
    memories = episode.select(episode.id).where((episode.project == project.id) & (episode.created_at_ms >= since_ms))
    query = project.select(project.name).where(fn.EXISTS(prompts) & ~fn.EXISTS(memories)).order_by(project.name)
    return tuple(store.fetch_values(query))


def _most_used(store: Reader, since_ms: int) -> MostUsed | None:
    injection, episode, project = tables.Injection, tables.Episode, tables.Project
    number = fn.COUNT(injection.id)
    # A briefing tells the same memories each time: that is no use of them.
    is_asked = WAS_SHOWN & (injection.channel != AT_START) & (injection.at_ms >= since_ms)
    bites = injection.select(injection.episode_id, number.alias("uses")).where(is_asked)
    expanded = injection.select(injection.episode_id, number).where(injection.used_at_ms >= since_ms)
    opened = episode.select(episode.episode_id, SQL("1")).where(episode.accessed_at_ms >= since_ms)
    uses = bites.group_by(injection.episode_id) + expanded.group_by(injection.episode_id) + opened
    uses = uses.alias("used")
    may_be_shown = episode.status.in_(CURRENT_STATUSES) & (episode.suspect == "") & (episode.is_lowered == 0)
    row = store.fetch_first(
        episode.select(
            episode.episode_id,
            episode.summary,
            fn.COALESCE(project.name, "").alias("project"),
            episode.project.alias("project_id"),
            episode.scope,
            fn.SUM(uses.c.uses).alias("uses"),
            may_be_shown.alias("may_be_shown"),
        )
        .join(uses, on=uses.c.episode_id == episode.episode_id)
        .join_from(episode, project, JOIN.LEFT_OUTER)
        .where(episode.episode_id.in_(injection.select(injection.episode_id).where(is_asked)))
        .group_by(episode.id)
        .order_by(SQL("uses").desc(), episode.created_at_ms.desc())
        .limit(1)
    )
    if row is None:
        return None
    return MostUsed(
        episode_id=row.episode_id,
        summary=row.summary,
        project=row.project,
        project_id=row.project_id,
        scope=row.scope,
        uses=row.uses,
        may_be_shown=bool(row.may_be_shown),
    )


def note_late(tx: Tx, cause: str) -> None:
    """Count an answer that came after the hook of its prompt had ended."""
    _add_to_tally(tx, _LATE, {cause: 1})


def note_refused(tx: Tx, reasons: Iterable[Refusal]) -> None:
    """Count proposals of a language model that were refused."""
    if counted := Counter(reason.value for reason in reasons):
        _add_to_tally(tx, _REFUSED, counted)


def late_since(store: Reader, since_ms: int) -> dict[str, int]:
    """Return cause → number of answers that came too late since the day of a time, the most frequent first."""
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
