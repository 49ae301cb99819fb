"""Purging: archived and superseded memories are deleted for good, on explicit command alone; their turns stay."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from engram.clock import day_of
from engram.enums import Actor, Importance, Status
from engram.errors import BadRequest, NotFound
from engram.models import episodes, purging
from engram.models.episodes import Episode
from engram.models.store import Store

logger = logging.getLogger(__name__)

#: Days without change or use after which an archived memory may be purged, unless the user says otherwise.
ARCHIVED_DAYS = 180
#: Statuses of what can be purged; everything else is still in use.
PURGEABLE = (Status.ARCHIVED, Status.SUPERSEDED)
#: Memories of one transaction, so that nobody who writes meanwhile waits long.
_BATCH = 25
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What a purge would delete."""

    memories: tuple[Episode, ...]
    #: What they take up in the database, in bytes, without the text index.
    size_bytes: int
    #: Memories that are old enough but pinned or highly important: they go only when they are named.
    spared: int = 0


@dataclass(frozen=True, slots=True)
class PurgeReport:
    """What a purge deleted."""

    #: Number of the run in the log; 0 where nothing was deleted.
    run_id: int
    episode_ids: tuple[str, ...]
    #: Memories that were changed or used since the plan was made, and therefore stay.
    kept: int = 0


def plan_purge(
    store: Store, *, archived_days: int | None = None, superseded_days: int | None = None, project_id: int | None = None
) -> PurgePlan:
    """Archived and superseded memories that nobody changed or used for so many days; pinned and high ones are spared.

    Args:
        store: the open memory.
        archived_days: None leaves archived memories alone.
        superseded_days: None leaves superseded memories alone.
        project_id: only this project's; None for all.
    """
    found: list[Episode] = []
    for status, days in ((Status.ARCHIVED, archived_days), (Status.SUPERSEDED, superseded_days)):
        if days is not None:
            found += purging.untouched_since(store, status, store.now_ms() - days * _DAY_MS, project_id)
    going = [one for one in found if not _is_spared(one)]
    return PurgePlan(tuple(going), sum(purging.bytes_of(store, one) for one in going), len(found) - len(going))


def plan_named(store: Store, episode_ids: Sequence[str]) -> PurgePlan:
    """Memories that the user names, of any age and importance.

    Raises:
        NotFound: there is no such memory.
        BadRequest: one is pinned, or neither archived nor superseded.
    """
    found = []
    for episode_id in dict.fromkeys(episode_ids):
        one = episodes.find_episode(store, episode_id)
        if one is None:
            raise NotFound(f"there is no memory {episode_id[:40]!r}")
        if one.is_pinned:
            raise BadRequest(f"{episode_id} is pinned; `engram pin --off {episode_id}` first")
        if one.status not in PURGEABLE:
            raise BadRequest(f"{episode_id} is {one.status}; only archived and superseded memories are purged, "
                             "`engram forget` deletes any")  # fmt: skip
        found.append(one)
    return PurgePlan(tuple(found), sum(purging.bytes_of(store, one) for one in found))


def purge(store: Store, plan: PurgePlan, *, actor: Actor) -> PurgeReport:
    """Delete what was planned, with index, vectors and history; it cannot be undone.

    The turns they rest on stay, and tombstones keep the extractor and an import from making the same memories again.
    What changed or was used since the plan was made stays. May be killed at any instant: the rest is still there.

    Raises:
        StoreError: the database cannot be written; what was deleted so far is logged.
    """
    if not plan.memories:
        return PurgeReport(0, ())
    with store.transaction() as tx:
        run_id = purging.begin_purge(tx)
    gone: list[str] = []
    for start in range(0, len(plan.memories), _BATCH):
        with store.transaction() as tx:
            some = [now for one in plan.memories[start : start + _BATCH] if (now := _unchanged(store, one)) is not None]
            purging.purge_episodes(tx, run_id, some, actor=actor)
        gone += [one.episode_id for one in some]
    store.checkpoint("PASSIVE")
    logger.info("action=purge run=%d episodes=%d", run_id, len(gone))
    return PurgeReport(run_id, tuple(gone), len(plan.memories) - len(gone))


def check_unpurged(store: Store, run_id: int) -> None:
    """Go on. Raises BadRequest where memories that a consolidation had changed were purged since."""
    purged = purging.purge_that_ended(store, run_id)
    if purged is not None:
        raise BadRequest(
            f"consolidation {run_id} can no longer be undone: memories that it changed were purged on "
            f"{day_of(purged.at_ms)}, and a purge is final"
        )


def _is_spared(episode: Episode) -> bool:
    return episode.is_pinned or episode.importance == Importance.HIGH


def _unchanged(store: Store, seen: Episode) -> Episode | None:
    """The memory as it is now; None where it changed, was used or went since it was looked at."""
    now = episodes.find_episode(store, seen.episode_id)
    if now is None or (now.revision, now.access_count) != (seen.revision, seen.access_count):
        return None
    return now
