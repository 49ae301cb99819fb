"""Purge archived and superseded memories on request: delete them for good. Their turns are kept."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from engram.enums import Actor, Importance, Status
from engram.errors import BadRequest, NotFound
from engram.models.engine.transaction import Reader, Store
from engram.models.forgetting import forget_memories
from engram.models.memories import memory_records
from engram.models.memories.memory_history import add_run
from engram.models.memories.memory_records import Memory
from engram.models.work.work import settled_ms
from engram.system.clock import DAY_MS, day_of, iso_or_none

logger = logging.getLogger(__name__)

#: Number of days without a change or use after which an archived memory may be purged, by default.
ARCHIVED_DAYS = 180
#: Statuses of memories that can be purged.
PURGEABLE = (Status.ARCHIVED, Status.SUPERSEDED)
#: Number of memories that are deleted in one transaction; small, so that other writers don't have to wait long.
_BATCH = 25


@dataclass(frozen=True, slots=True)
class PurgePlan:
    memories: tuple[Memory, ...]
    #: Their size in the database without the text index, in bytes.
    size_bytes: int
    #: Number of old memories that are spared because they are pinned or of high importance.
    spared: int = 0


@dataclass(frozen=True, slots=True)
class PurgeReport:
    #: Number of the recorded run; 0 if nothing was deleted.
    run_id: int
    episode_ids: tuple[str, ...]
    #: Number of memories that were kept because they have been changed or used since the plan was made.
    kept: int = 0


def purge_to_json(plan: PurgePlan, report: PurgeReport | None) -> dict[str, Any]:
    """Return a plan as a JSON object, with the report if the plan was carried out."""
    return {
        "purged": report is not None,
        "run": report.run_id or None if report is not None else None,
        "count": len(plan.memories) if report is None else len(report.episode_ids),
        "bytes": plan.size_bytes,
        "spared": plan.spared,
        "kept": 0 if report is None else report.kept,
        "memories": [
            {
                "id": memory.episode_id,
                "status": memory.status,
                "kind": memory.kind,
                "importance": memory.importance,
                "project": memory.project,
                "summary": memory.summary,
                "created_at": iso_or_none(memory.created_at_ms),
            }
            for memory in plan.memories
        ],
    }


def plan_purge(
    store: Store, *, archived_days: int | None = None, superseded_days: int | None = None, project_id: int | None = None
) -> PurgePlan:
    """Plan to purge memories that have not been changed or used for some days, except pinned and important ones.

    Args:
        archived_days: days for archived memories; None to keep them.
        superseded_days: days for superseded memories; None to keep them.
        project_id: only memories of this project; None for all projects.
    """
    old: list[Memory] = []
    for status, days in ((Status.ARCHIVED, archived_days), (Status.SUPERSEDED, superseded_days)):
        if days is not None:
            old += forget_memories.untouched_since(store, status, settled_ms(store) - days * DAY_MS, project_id)
    going = [memory for memory in old if not _is_spared(memory)]
    return PurgePlan(
        memories=tuple(going),
        size_bytes=sum(forget_memories.bytes_of(store, memory) for memory in going),
        spared=len(old) - len(going),
    )


def plan_named(store: Store, episode_ids: Sequence[str]) -> PurgePlan:
    """Plan to purge the given memories, whatever their age and importance.

    Raises:
        NotFound: there is no such memory.
        BadRequest: a memory is pinned, or is neither archived nor superseded.
    """
    memories = []
    for episode_id in dict.fromkeys(episode_ids):
        memory = memory_records.find_memory(store, episode_id)
        if memory is None:
            raise NotFound(f"there is no memory {episode_id[:40]!r}; recall and timeline print the ids that exist")
        if memory.is_pinned:
            raise BadRequest(f"{episode_id} is pinned; run `engram pin --off {episode_id}` first")
        if memory.status not in PURGEABLE:
            raise BadRequest(
                f"{episode_id} is {memory.status.told}; only archived and replaced memories can be purged; "
                "`engram forget` deletes any memory"
            )
        memories.append(memory)
    return PurgePlan(tuple(memories), sum(forget_memories.bytes_of(store, memory) for memory in memories))


def purge(store: Store, plan: PurgePlan, *, actor: Actor) -> PurgeReport:
    """Delete the memories of a plan with their index, vectors and history. This can't be undone.

    Their turns are kept, and tombstones prevent extraction and import from creating the same memories again. Memories
    that have been changed or used since the plan was made are kept too. If the process is killed, the other memories
    are kept.

    Raises:
        StoreError: the database can't be written; what has been deleted so far is logged.
    """
    if not plan.memories:
        return PurgeReport(0, ())
    with store.transaction() as tx:
        run_id = add_run(tx, "purge")
    gone: list[str] = []
    for start in range(0, len(plan.memories), _BATCH):
        with store.transaction() as tx:
            batch = plan.memories[start : start + _BATCH]
            some = [now for memory in batch if (now := _unchanged(store, memory)) is not None]
            forget_memories.purge_memories(tx, run_id, some, actor=actor)
        gone += [memory.episode_id for memory in some]
    store.checkpoint("PASSIVE")
    logger.info("action=purge run=%d memories=%d", run_id, len(gone))
    return PurgeReport(run_id, tuple(gone), len(plan.memories) - len(gone))


def check_unpurged(store: Reader, run_id: int) -> None:
    """Raise BadRequest if memories that a consolidation changed have since been purged."""
    purged = next((purge for purge in forget_memories.list_purges(store) if run_id in purge.touched_runs), None)
    if purged is not None:
        raise BadRequest(
            f"consolidation {run_id} can no longer be undone: memories that it changed were purged on "
            f"{day_of(purged.at_ms)}, and a purge is final"
        )


def _is_spared(memory: Memory) -> bool:
    return memory.is_pinned or memory.importance == Importance.HIGH


def _unchanged(store: Store, seen: Memory) -> Memory | None:
    """Return the current memory; None if it has been changed, used or deleted since it was read."""
    now = memory_records.find_memory(store, seen.episode_id)
    if now is None or (now.revision, now.access_count) != (seen.revision, seen.access_count):
        return None
    return now
