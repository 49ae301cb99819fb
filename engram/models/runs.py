"""Consolidation runs and what each changed, so that every run can be resumed, shown and undone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from engram.models import episode_history, episodes
from engram.models.store import Store
from engram.models.transaction import Reader, Tx
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
