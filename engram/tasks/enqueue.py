"""Ring for what memory.db says is due: the queue is a doorbell, the ``work`` table is the truth. Light."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engram.models.store import Store
from engram.models.work import Work, WorkState, due_work, find_work, is_work_paused
from engram.settings import Settings
from engram.tasks.consolidate import consolidate
from engram.tasks.embed import embed
from engram.tasks.extract import extract
from engram.tasks.flush import flush
from engram.tasks.index_notes import index_notes
from engram.tasks.recollect import recollect

#: Work that is enqueued for at one time at most; the rest waits for the next time.
MAX_ENQUEUED = 500

#: The reason of an extraction that a number of messages made due; any other means that the session fell silent.
ENOUGH_MESSAGES = "messages"

_OF_SESSION: dict[str, Callable[[str], Any]] = {"extract": extract, "recollect": recollect}
_WITHOUT_KEY: dict[str, Callable[[], Any]] = {
    "embed": embed, "index_notes": index_notes, "consolidate": consolidate,
}  # fmt: skip


def enqueue_due(store: Store, settings: Settings, session_id: str | None = None) -> int:
    """Enqueue the work whose time has come, of one session or of all; returns how many pieces.

    Asking again while it waits is one task. While the user pauses the work nothing is enqueued for.
    """
    if is_work_paused(store):
        return 0
    if session_id is None:
        found = due_work(store, MAX_ENQUEUED)
    else:
        now_ms = store.now_ms()
        of_session = (find_work(store, kind, session_id) for kind in _OF_SESSION)
        found = [w for w in of_session if w is not None and w.state is WorkState.DUE and w.due_at_ms <= now_ms]
    return sum(_ring(work, settings) for work in found)


def _ring(work: Work, settings: Settings) -> bool:
    if work.kind == "extract" and settings.extractor == "off":
        return False
    if work.kind == "extract" and work.reason != ENOUGH_MESSAGES:
        flush(work.key)
    elif work.kind in _OF_SESSION:
        _OF_SESSION[work.kind](work.key)
    elif work.kind in _WITHOUT_KEY:
        _WITHOUT_KEY[work.kind]()
    else:
        return False
    return True
