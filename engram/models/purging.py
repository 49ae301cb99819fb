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
    """What a memory takes up in the database: its words, packed or not, its vectors and its history; without indexes."""
    return int(
        store.value(
            "SELECT length(CAST(summary AS BLOB)) + length(CAST(content AS BLOB)) + coalesce(length(packed_content), 0) "
            "+ length(CAST(facts AS BLOB)) + length(CAST(entities AS BLOB)) "
            "+ (SELECT total(length(data)) FROM vector WHERE owner = 'e' AND owner_id = episode.id) "
            "+ (SELECT total(length(before) + length(after) + length(reason)) FROM history h "
            "WHERE h.episode_id = episode.episode_id) FROM episode WHERE id = ?",
            (episode.id,),
        )
        or 0
    )


def begin_purge(tx: Tx) -> int:
    """Begin to log a purge; returns its number."""
    return tx.insert(
        "INSERT INTO run (kind, started_at_ms, ended_at_ms, state) VALUES ('purge', ?, ?, 'done')",
        (tx.now_ms(), tx.now_ms()),
    )


def purge_episodes(tx: Tx, run_id: int, some: Sequence[Episode], *, actor: Actor) -> None:
    """Delete memories with index, vectors, evidence and history, and log that; turns stay.

    Tombstones keep the extractor from making them again by itself.
    """
    row = tx.row("SELECT report FROM run WHERE id = ?", (run_id,))
    report = json.loads(row[0]) if row else {}
    runs = set(report.get("touched_runs", []))
    for one in some:
        touched = tx.rows(
            "SELECT DISTINCT run_id FROM history WHERE episode_id = ? AND run_id IS NOT NULL", (one.episode_id,)
        )
        runs |= {int(found[0]) for found in touched}
        delete_episode(tx, one, actor=actor, is_purge=True)
    report = {
        "episodes": [*report.get("episodes", []), *(one.episode_id for one in some)],
        "touched_runs": sorted(runs),
    }
    tx.run("UPDATE run SET report = ?, ended_at_ms = ? WHERE id = ?", (json.dumps(report), tx.now_ms(), run_id))


def list_purges(store: Reader) -> list[PurgeRun]:
    """Every purge, the latest first."""
    found = []
    for run_id, at_ms, text in store.rows(
        "SELECT id, started_at_ms, report FROM run WHERE kind = 'purge' ORDER BY id DESC"
    ):
        report = json.loads(text)
        found.append(PurgeRun(run_id, at_ms, tuple(report.get("episodes", ())), tuple(report.get("touched_runs", ()))))
    return found


def purge_that_ended(store: Reader, run_id: int) -> PurgeRun | None:
    """The latest purge that took memories which a consolidation had changed; None where none did."""
    return next((one for one in list_purges(store) if run_id in one.touched_runs), None)
