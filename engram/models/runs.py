"""Consolidation runs and what each changed, so that every run can be resumed, shown and undone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peewee import ModelSelect

from engram.models import episode_history, episodes, tables
from engram.models.records import RecordReader
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
UNDOABLE_KINDS = ("consolidate", "extract", "save", "decide", "undo")
#: Runs that added memories from a file. They are undone in their own way: what they added goes.
IMPORT_KIND = "import"
_RUNS = RecordReader(Run, tables.Run, readers={"report": json.loads})


def _undoable_runs() -> ModelSelect[Any]:
    return _RUNS.select().where(tables.Run.kind.in_(UNDOABLE_KINDS))


def begin_run(store: Store) -> Run:
    """Return the run that was interrupted, to go on with, or a new one."""
    table = tables.Run
    with store.transaction() as tx:
        interrupted = _undoable_runs().where((table.kind == "consolidate") & (table.state == "running"))
        run = tx.fetch_record(_RUNS, interrupted.order_by(table.id.desc()).limit(1))
        if run is not None:
            return run
        now_ms = tx.now_ms()
        run_id = tx.insert(table.insert(kind="consolidate", started_at_ms=now_ms, state="running"))
        return Run(
            id=run_id,
            kind="consolidate",
            started_at_ms=now_ms,
            ended_at_ms=None,
            state="running",
            position="",
            report={},
        )


def add_run(tx: Tx, kind: str, report: Mapping[str, Any] | None = None) -> int:
    """Log a run that is done with this transaction or soon after it; returns its number."""
    now_ms = tx.now_ms()
    return tx.insert(
        tables.Run.insert(
            kind=kind, started_at_ms=now_ms, ended_at_ms=now_ms, state="done", report=_report_text(report or {})
        )
    )


def close_run(tx: Tx, run_id: int, lines: Sequence[str]) -> None:
    """Store what a run did; one that changed nothing is deleted from the log."""
    table, history = tables.Run, tables.History
    if tx.fetch_first(history.select(history.id).where(history.run_id == run_id).limit(1)) is None:
        tx.run(table.delete().where(table.id == run_id))
    else:
        report = _report_text({"lines": list(lines)})
        tx.run(table.update(report=report, ended_at_ms=tx.now_ms()).where(table.id == run_id))


def find_run(store: Reader, run_id: int) -> Run | None:
    """Return a run by its number."""
    return store.fetch_record(_RUNS, _undoable_runs().where(tables.Run.id == run_id))


def kind_of_run(store: Reader, run_id: int) -> str:
    """Return the kind of any run, also of one that is not listed; "" where there is none."""
    table = tables.Run
    return store.fetch_value(table.select(table.kind).where(table.id == run_id)) or ""


def set_state(tx: Tx, run_id: int, state: str) -> None:
    """Note whether what a run changed stands ("done") or was taken back ("undone")."""
    tx.run(tables.Run.update(state=state).where(tables.Run.id == run_id))


def list_runs(store: Reader, limit: int = 20) -> list[Run]:
    """Return runs, the latest first."""
    return store.fetch_records(_RUNS, _undoable_runs().order_by(tables.Run.id.desc()).limit(limit))


def find_import(store: Reader, run_id: int) -> Run | None:
    """Return an import by its number."""
    return store.fetch_record(_RUNS, _imports().where(tables.Run.id == run_id))


def list_imports(store: Reader, limit: int = 20) -> list[Run]:
    """Return imports, the latest first."""
    return store.fetch_records(_RUNS, _imports().order_by(tables.Run.id.desc()).limit(limit))


def _imports() -> ModelSelect[Any]:
    return _RUNS.select().where(tables.Run.kind == IMPORT_KIND)


def update_run(tx: Tx, run: Run, *, position: str, report: Mapping[str, Any], state: str = "running") -> Run:
    """Store how far a run is and what it did."""
    ended_at_ms = tx.now_ms() if state != "running" else None
    table = tables.Run
    changes = table.update(position=position, report=_report_text(report), state=state, ended_at_ms=ended_at_ms)
    tx.run(changes.where(table.id == run.id))
    return dataclasses.replace(run, ended_at_ms=ended_at_ms, state=state, position=position, report=report)


def _report_text(report: Mapping[str, Any]) -> str:
    return json.dumps(report, ensure_ascii=False)


def sessions_grown_since(store: Reader, since_ms: int) -> list[str]:
    """Return the ids of sessions of which something was read at or after a time, the longest silent first."""
    session, turn = tables.Session, tables.Turn
    grown = turn.select(turn.session).where(turn.updated_at_ms >= since_ms)
    return store.fetch_values(
        session.select(session.session_id).where(session.id.in_(grown)).order_by(session.last_at_ms, session.id)
    )


def content_digest(store: Reader) -> str:
    """SHA-256 over everything that memories hold: for proofs that an undo restored it."""
    import hashlib

    digest = hashlib.sha256()
    for episode in episodes.all_episodes(store):
        state = {
            **episode_history.snapshot(episode),
            "evidence": [pack_uuid(e.uuid).hex() for e in episodes.evidence_of(store, episode.id)],
        }
        content = tables.Episode.select(tables.Episode.packed_content).where(tables.Episode.id == episode.id)
        packed = int(store.fetch_value(content) is not None)
        digest.update(json.dumps([state, packed], sort_keys=True, ensure_ascii=False).encode())
    return digest.hexdigest()
