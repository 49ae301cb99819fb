"""Enqueue the work that is due according to the ``work`` table; the queue only notifies the worker. Light to import."""

from __future__ import annotations

from engram.models.engine.transaction import Store
from engram.models.work.work import Work, WorkKind, WorkState, due_work, find_work, is_overdue, is_work_paused
from engram.settings import Settings
from engram.tasks.queue import huey

#: Maximum number of pieces of work enqueued at once; the rest is left for the next call.
MAX_ENQUEUED = 500

#: Reason for an extraction that was triggered by the number of messages; any other reason means that the session has
#: fallen silent.
ENOUGH_MESSAGES = "messages"


def enqueue_due(store: Store, settings: Settings, session_id: str | None = None) -> int:
    """Enqueue the due work of one session or of all, each piece once; return how many pieces (0 during a pause)."""
    if is_work_paused(store):
        return 0
    if session_id is None:
        pieces = due_work(store, MAX_ENQUEUED)
    else:
        now_ms = store.now_ms()
        of_session = (find_work(store, kind, session_id) for kind in WorkKind)
        pieces = [w for w in of_session if w is not None and w.state is WorkState.DUE and w.due_at_ms <= now_ms]
    return sum(_enqueue(work, settings) for work in pieces)


def enqueue_consolidation_if_overdue(store: Store, settings: Settings) -> bool:
    """Enqueue a consolidation if the last one was more than ``consolidate_seconds`` ago."""
    is_enqueued = is_overdue(store, "consolidate", settings.consolidate_seconds)
    if is_enqueued:
        huey.enqueue_by_name("consolidate")
    return is_enqueued


def _enqueue(work: Work, settings: Settings) -> bool:
    if work.kind == "extract" and settings.extractor == "off":
        return False
    if work.kind == "extract" and work.reason != ENOUGH_MESSAGES:
        huey.enqueue_by_name("flush", work.key)
    elif work.kind in tuple(WorkKind):
        huey.enqueue_by_name(work.kind, work.key)
    else:
        return False
    return True
