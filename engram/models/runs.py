"""Consolidation runs and what each changed, so that every run can be resumed, shown and undone."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.models import episode_changes, episode_history, episode_index, episodes
from engram.models.episode_history import add_history
from engram.models.episodes import Episode, Evidence
from engram.models.packed import pack_text
from engram.models.store import Store
from engram.models.transaction import Reader, Tx, Value
from engram.models.uuids import pack_uuid


@dataclass(frozen=True, slots=True)
class Run:
    """One consolidation, or what one extraction, save or decision changed in older memories."""

    id: int
    #: One of ``UNDOABLE_KINDS``.
    kind: str
    started_at_ms: int
    ended_at_ms: int | None
    #: running, done, undone.
    state: str
    #: Name of the step that comes next; "" at the start.
    position: str
    #: What it did, JSON-able.
    report: Mapping[str, Any]


#: Runs that are listed and can be undone. A purge is logged beside them, and is final.
UNDOABLE_KINDS = ("consolidate", "extract", "save", "decide")
_RUN = (
    "SELECT id, kind, started_at_ms, ended_at_ms, state, position, report FROM run "
    f"WHERE kind IN ({', '.join(repr(kind) for kind in UNDOABLE_KINDS)})"
)


def _run(row: Sequence[Any]) -> Run:
    return Run(row[0], row[1], row[2], row[3], row[4], row[5], json.loads(row[6]))


def begin_run(store: Store) -> Run:
    """The run that was interrupted, to go on with, or a new one."""
    with store.transaction() as tx:
        found = store.row(f"{_RUN} AND kind = 'consolidate' AND state = 'running' ORDER BY id DESC LIMIT 1")
        if found is not None:
            return _run(found)
        run_id = tx.insert(
            "INSERT INTO run (kind, started_at_ms, state) VALUES ('consolidate', ?, 'running')", (store.now_ms(),)
        )
        return Run(run_id, "consolidate", store.now_ms(), None, "running", "", {})


def add_run(tx: Tx, kind: str, report: Mapping[str, Any] | None = None) -> int:
    """Log a run that is done with this transaction or soon after it; returns its number."""
    return tx.insert(
        "INSERT INTO run (kind, started_at_ms, ended_at_ms, state, report) VALUES (?, ?, ?, 'done', ?)",
        (kind, tx.now_ms(), tx.now_ms(), json.dumps(report or {}, ensure_ascii=False)),
    )


def close_run(tx: Tx, run_id: int, lines: Sequence[str]) -> None:
    """Keep what a run did; one that changed nothing goes from the log."""
    if tx.row("SELECT 1 FROM history WHERE run_id = ? LIMIT 1", (run_id,)) is None:
        tx.run("DELETE FROM run WHERE id = ?", (run_id,))
    else:
        report = json.dumps({"lines": list(lines)}, ensure_ascii=False)
        tx.run("UPDATE run SET report = ?, ended_at_ms = ? WHERE id = ?", (report, tx.now_ms(), run_id))


def find_run(store: Reader, run_id: int) -> Run | None:
    """A run by its number."""
    found = store.row(f"{_RUN} AND id = ?", (run_id,))
    return None if found is None else _run(found)


def list_runs(store: Reader, limit: int = 20) -> list[Run]:
    """Runs, the latest first."""
    return [_run(row) for row in store.rows(f"{_RUN} ORDER BY id DESC LIMIT ?", (limit,))]


def update_run(tx: Tx, run: Run, *, position: str, report: Mapping[str, Any], state: str = "running") -> Run:
    """Note how far a run is and what it did."""
    ended = tx.now_ms() if state != "running" else None
    tx.run(
        "UPDATE run SET position = ?, report = ?, state = ?, ended_at_ms = ? WHERE id = ?",
        (position, json.dumps(report, ensure_ascii=False), state, ended, run.id),
    )
    return Run(run.id, run.kind, run.started_at_ms, ended, state, position, report)


def pack_content(tx: Tx, episode: Episode, run_id: int | None, reason: str) -> None:
    """Store an episode's content compressed; it is read as before, but no longer stands in the text index."""
    if tx.value("SELECT packed_content FROM episode WHERE id = ?", (episode.id,)) is not None:
        return
    packed = zlib.compress(episode.content.encode("utf-8"), 9)
    _reindexed(tx, episode.id, "UPDATE episode SET packed_content = ?, content = '' WHERE id = ?", (packed, episode.id))
    add_history(tx, episode.episode_id, "pack", reason, {}, {}, run_id=run_id)


def unpack_content(tx: Tx, episode_id: str) -> None:
    """Undo ``pack_content``."""
    episode = episodes.find_episode(tx, episode_id)
    if episode is not None:
        sql = "UPDATE episode SET packed_content = NULL, content = ? WHERE id = ? AND packed_content IS NOT NULL"
        _reindexed(tx, episode.id, sql, (pack_text(episode.content), episode.id))


def _reindexed(tx: Tx, row_id: int, sql: str, parameters: Sequence[Value]) -> None:
    episode_index.unindex_episode(tx, row_id)
    tx.run(sql, parameters)
    episode_index.index_episode(tx, row_id)


def add_merged_evidence(tx: Tx, kept: Episode, merged: Episode, run_id: int | None) -> None:
    """Give ``kept`` the evidence of ``merged`` too, logged so that it can be taken back."""
    before = int(tx.value("SELECT count(*) FROM evidence WHERE episode_ref = ?", (kept.id,)))
    episode_changes.add_evidence(tx, kept.id, episodes.evidence_of(tx, merged.id))
    after = int(tx.value("SELECT count(*) FROM evidence WHERE episode_ref = ?", (kept.id,)))
    if after > before:
        add_history(tx, kept.episode_id, "evidence", f"from {merged.episode_id}", {"count": before}, {"count": after},
                    run_id=run_id)  # fmt: skip


def add_seen_evidence(tx: Tx, episode: Episode, evidence: Sequence[Evidence], reason: str, run_id: int | None) -> bool:
    """Add entries to what a memory rests on, logged so that it can be taken back; whether any was new."""
    before = int(tx.value("SELECT count(*) FROM evidence WHERE episode_ref = ?", (episode.id,)))
    episode_changes.add_evidence(tx, episode.id, [entry for entry in evidence if entry.uuid])
    after = int(tx.value("SELECT count(*) FROM evidence WHERE episode_ref = ?", (episode.id,)))
    if after > before:
        add_history(tx, episode.episode_id, "evidence", reason, {"count": before}, {"count": after}, run_id=run_id)
    return after > before


def drop_evidence_beyond(tx: Tx, row_id: int, count: int) -> None:
    """Keep only the first ``count`` pieces of evidence."""
    tx.run(
        "DELETE FROM evidence WHERE episode_ref = ? AND seq NOT IN "
        "(SELECT seq FROM evidence WHERE episode_ref = ? ORDER BY seq LIMIT ?)",
        (row_id, row_id, count),
    )


def drop_evidence(tx: Tx, row_id: int, uuids: Iterable[str]) -> None:
    """Take entries out of what a memory rests on."""
    tx.run_many("DELETE FROM evidence WHERE episode_ref = ? AND uuid = ?", [(row_id, pack_uuid(u)) for u in uuids])


def drop_history(tx: Tx, episode_id: str) -> None:
    """Forget a memory's history, since it tells what was forgotten."""
    tx.run("DELETE FROM history WHERE episode_id = ?", (episode_id,))


def drop_history_of_run(tx: Tx, run_id: int) -> None:
    """Forget a run's history once it is undone."""
    tx.run("DELETE FROM history WHERE run_id = ?", (run_id,))


def touch_episode(tx: Tx, episode_id: str) -> None:
    """Note that somebody dealt with a memory, without counting a use."""
    tx.run("UPDATE episode SET accessed_at_ms = ? WHERE episode_id = ?", (tx.now_ms(), episode_id))


def sessions_grown_since(store: Reader, since_ms: int) -> list[str]:
    """Ids of sessions of which something was read at or after a time, the one that spoke first first."""
    rows = store.rows(
        "SELECT session_id FROM session WHERE id IN (SELECT session_ref FROM turn WHERE updated_at_ms >= ?) "
        "ORDER BY last_at_ms, id",
        (since_ms,),
    )
    return [str(row[0]) for row in rows]


def content_digest(store: Reader) -> str:
    """SHA-256 over everything that memories hold: for proofs that an undo restored it."""
    import hashlib

    digest = hashlib.sha256()
    for episode in episodes.all_episodes(store):
        state = {
            **episode_history.snapshot(episode),
            "evidence": [pack_uuid(e.uuid).hex() for e in episodes.evidence_of(store, episode.id)],
        }
        packed = store.value("SELECT packed_content IS NOT NULL FROM episode WHERE id = ?", (episode.id,))
        digest.update(json.dumps([state, packed], sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()
