"""SQL of purging: which archived memories could go, what they take up, and the log of what went."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from peewee import fn

from engram.enums import Actor
from engram.models import tables
from engram.models.episode_changes import delete_episode
from engram.models.episodes import Episode, select_episodes
from engram.models.runs import add_run
from engram.models.transaction import Reader, Tx


@dataclass(frozen=True, slots=True)
class PurgeRun:
    """One purge, as it is logged."""

    id: int
    at_ms: int
    #: Ids of the memories that went.
    episode_ids: tuple[str, ...]
    #: Consolidations that had changed one of them.
    touched_runs: tuple[int, ...]


def untouched_since(store: Reader, status: str, before_ms: int, project_id: int | None = None) -> list[Episode]:
    """Memories of a status that were neither changed nor used since a time, the oldest first."""
    episode = tables.Episode
    last_touched = fn.max(episode.updated_at_ms, episode.kept_at_ms, fn.coalesce(episode.accessed_at_ms, 0))
    condition = (episode.status == str(status)) & (last_touched < before_ms)
    if project_id is not None:
        condition &= episode.project == project_id
    return select_episodes(store, condition)


def bytes_of(store: Reader, episode: Episode) -> int:
    """Return what a memory takes up in the database, in bytes: words, vectors and history, without indexes.

    Raw SQL: it only adds up lengths.
    """
    return int(
        store.value(
            "SELECT length(CAST(summary AS BLOB)) + length(CAST(content AS BLOB)) + coalesce(length(packed_content), "
            "0) + length(CAST(facts AS BLOB)) + length(CAST(entities AS BLOB)) + length(CAST(questions AS BLOB)) "
            "+ (SELECT total(length(data)) FROM vector WHERE owner = 'e' AND owner_id = episode.id) "
            "+ (SELECT total(length(before) + length(after) + length(reason)) FROM history h "
            "WHERE h.episode_id = episode.episode_id) FROM episode WHERE id = ?",
            (episode.id,),
        )
        or 0
    )


def begin_purge(tx: Tx) -> int:
    """Begin to log a purge; returns its number."""
    return add_run(tx, "purge")


def purge_episodes(tx: Tx, run_id: int, some: Sequence[Episode], *, actor: Actor) -> None:
    """Delete memories with index, vectors, evidence and history, and log that; turns stay.

    Tombstones keep the extractor from making them again by itself.
    """
    table, history = tables.Run, tables.History
    report = json.loads(tx.fetch_value(table.select(table.report).where(table.id == run_id)) or "{}")
    runs = set(report.get("touched_runs", []))
    for one in some:
        of_memory = (history.episode_id == one.episode_id) & history.run_id.is_null(False)
        runs |= set(tx.fetch_values(history.select(history.run_id).where(of_memory)))
        delete_episode(tx, one, actor=actor, is_purge=True)
    report = {
        "episodes": [*report.get("episodes", []), *(one.episode_id for one in some)],
        "touched_runs": sorted(runs),
    }
    tx.run(table.update(report=json.dumps(report), ended_at_ms=tx.now_ms()).where(table.id == run_id))


def list_purges(store: Reader) -> list[PurgeRun]:
    """Every purge, the latest first."""
    table = tables.Run
    purges = []
    for row in store.fetch(table.select().where(table.kind == "purge").order_by(table.id.desc())):
        report = json.loads(row.report)
        purges.append(
            PurgeRun(
                id=row.id,
                at_ms=row.started_at_ms,
                episode_ids=tuple(report.get("episodes", ())),
                touched_runs=tuple(report.get("touched_runs", ())),
            )
        )
    return purges


def purge_that_ended(store: Reader, run_id: int) -> PurgeRun | None:
    """The latest purge that took memories which a consolidation had changed; None where none did."""
    return next((one for one in list_purges(store) if run_id in one.touched_runs), None)
