"""Lists of episodes for people: the latest, those around a time, related ones, and how many there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from peewee import SQL, ColumnBase, Query, fn

from engram.enums import Importance, Kind, Scope, Source
from engram.models import tables
from engram.models.episodes import (
    EPISODES,
    IS_CURRENT,
    IS_GLOBAL,
    Episode,
    episodes_by_row,
    evidence_of,
    query_episodes,
    select_episodes,
)
from engram.models.statement import in_json_list, is_same, prepared
from engram.models.transaction import Reader


@dataclass(frozen=True, slots=True)
class EpisodeCount:
    """How many memories of one sort there are."""

    scope: str
    importance: str
    status: str
    number: int


def current_episodes(store: Reader, project_id: int | None) -> list[Episode]:
    """Return what is current in a project: its memories and the global ones, the oldest first."""
    return store.fetch_records(EPISODES, _current_in(project_id))


def current_row_ids(store: Reader) -> list[int]:
    """Return the row ids of all current memories: the most trusted first, then the oldest."""
    episode = tables.Episode
    order = (
        episode.is_pinned.desc(),
        (episode.source == Source.MANUAL.value).desc(),
        (episode.importance == Importance.HIGH.value).desc(),
        episode.created_at_ms,
        episode.id,
    )
    return [int(row_id) for row_id in store.fetch_values(episode.select(episode.id).where(IS_CURRENT).order_by(*order))]


def episodes_resting_on_turns(store: Reader, turn_ids: Sequence[int]) -> list[tuple[Episode, frozenset[str]]]:
    """Return the episodes that rest on entries of these turns, the newest first, each with the uuids of its entries."""
    row_ids = store.fetch_values(_resting_on_turns(json.dumps([int(turn_id) for turn_id in turn_ids])))
    episodes = episodes_by_row(store, [int(row_id) for row_id in row_ids]).values()
    return [
        (episode, frozenset(entry.uuid for entry in evidence_of(store, episode.id)))
        for episode in sorted(episodes, key=lambda episode: -episode.created_at_ms)
    ]


@prepared
def _resting_on_turns(turn_ids: str) -> Query:
    evidence = tables.Evidence
    return evidence.select(evidence.episode).distinct().where(in_json_list(evidence.turn_id, turn_ids))


@prepared
def _current_in(project_id: int | None) -> Query:
    episode = tables.Episode
    condition = IS_CURRENT & (is_same(episode.project, project_id) | IS_GLOBAL)
    return query_episodes().where(condition).order_by(episode.created_at_ms, episode.summary, episode.id)


def latest_episodes(
    store: Reader,
    *,
    project_id: int | None = None,
    with_global: bool = True,
    limit: int = 50,
    before_ms: int | None = None,
) -> list[Episode]:
    """Return current episodes, the newest first; of a project (and global ones), or of all."""
    episode = tables.Episode
    condition = IS_CURRENT
    if project_id is not None:
        is_own = (episode.project == project_id) & (episode.scope == Scope.PROJECT.value)
        condition &= (is_own | IS_GLOBAL) if with_global else is_own
    if before_ms is not None:
        condition &= episode.created_at_ms <= before_ms
    return select_episodes(store, condition, episode.created_at_ms.desc(), episode.id.desc(), limit=limit)


def latest_kept(store: Reader, limit: int, *, project_id: int | None = None) -> list[Episode]:
    """Return the memories that were kept last, whatever became of them, the latest first."""
    episode = tables.Episode
    condition: ColumnBase = SQL("1") if project_id is None else (episode.project == project_id)
    return select_episodes(store, condition, episode.id.desc(), limit=limit)


def current_summaries(store: Reader, after: int = 0, limit: int = -1) -> list[tuple[int, int | None, str]]:
    """Return row id, project and summary of current memories, the oldest first.

    Args:
        store: the open memory.
        after: only rows with a larger id.
        limit: how many at most; -1 for all.
    """
    episode = tables.Episode
    query = (
        episode.select(episode.id, episode.project, episode.summary)
        .where(IS_CURRENT & (episode.id > after))
        .order_by(episode.id)
        .limit(limit)
    )
    return [(row.id, row.project_id, row.summary) for row in store.fetch(query)]


def current_states_of(store: Reader, extractors: str) -> list[Episode]:
    """Return the current states that extractors made whose name begins so, the oldest first."""
    episode = tables.Episode
    is_made = (episode.source == Source.AUTO) & episode.extractor.startswith(extractors)
    return select_episodes(
        store, IS_CURRENT & (episode.kind == Kind.STATE) & is_made, episode.created_at_ms, episode.id
    )


def suspect_episodes(store: Reader) -> list[Episode]:
    """Return the current memories that are suspect and were not judged wrong, the newest first."""
    episode = tables.Episode
    # The first condition lets SQLite use the partial index.
    condition = (episode.suspect != SQL("''")) & IS_CURRENT & (episode.is_lowered == 0)
    return select_episodes(store, condition, episode.created_at_ms.desc(), episode.id.desc())


def episodes_around(store: Reader, at_ms: int, *, project_id: int | None = None, limit: int = 10) -> list[Episode]:
    """Return episodes before and after a time, the oldest first; of a project and global ones, or of all."""
    episode = tables.Episode
    is_seen: ColumnBase = SQL("1") if project_id is None else (episode.project == project_id) | IS_GLOBAL
    half = max(1, limit // 2)
    before = select_episodes(
        store, is_seen & (episode.created_at_ms <= at_ms), episode.created_at_ms.desc(), episode.id.desc(), limit=half
    )
    after = select_episodes(
        store, is_seen & (episode.created_at_ms > at_ms), episode.created_at_ms, episode.id, limit=limit - half
    )
    return before[::-1] + after


def related_episodes(store: Reader, episode: Episode, project_id: int | None, limit: int = 5) -> list[Episode]:
    """Return episodes that share the most, and the rarest, entities with this one; never suspect.

    Only global ones and those of ``project_id``, which may be another project than that of a global episode.
    """
    row_ids = store.fetch_values(_related_rows(episode.id, project_id, limit))
    by_row = episodes_by_row(store, row_ids)
    return [by_row[row_id] for row_id in row_ids if row_id in by_row]


@prepared
def _related_rows(row_id: int, project_id: int | None, limit: int) -> Query:
    other = tables.Episode
    mine, shared, every = tables.EpisodeEntity.alias(), tables.EpisodeEntity.alias(), tables.EpisodeEntity.alias()
    uses = every.select(fn.count(SQL("*"))).where(every.entity == shared.entity)
    weight = fn.sum(SQL("1.0") / uses)
    return (
        mine.select(shared.episode)
        .join(shared, on=(shared.entity == mine.entity) & (shared.episode != mine.episode))
        .join(other, on=other.id == shared.episode)
        .where(
            (mine.episode == row_id)
            & IS_CURRENT
            & (other.suspect == "")
            & (other.is_lowered == 0)
            & (IS_GLOBAL | is_same(other.project, project_id))
        )
        .group_by(shared.episode)
        .order_by(weight.desc(), shared.episode)
        .limit(limit)
    )


def count_episodes(store: Reader, project_id: int) -> tuple[list[EpisodeCount], int]:
    """Return the numbers of what a project may see, and the number of all other episodes."""
    episode = tables.Episode
    sort = (episode.scope, episode.importance, episode.status)
    number = fn.count(SQL("*"))
    rows = store.fetch(
        episode.select(*sort, number.alias("number"))
        .where(IS_GLOBAL | (episode.project == project_id))
        .group_by(*sort)
        .order_by(*sort)
    )
    seen = [EpisodeCount(row.scope, row.importance, row.status, row.number) for row in rows]
    total = int(store.fetch_value(episode.select(number)))
    return seen, total - sum(count.number for count in seen)


def unpacked_before(store: Reader, before_ms: int) -> list[Episode]:
    """Return episodes that nobody said, kept or used since a time, and whose content is not packed yet."""
    episode = tables.Episode
    last_touched = fn.max(episode.created_at_ms, episode.kept_at_ms, fn.coalesce(episode.accessed_at_ms, 0))
    is_packed = episode.packed_content.is_null(False) | (episode.content == "")
    return select_episodes(store, (last_touched < before_ms) & ~is_packed)
