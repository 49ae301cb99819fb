"""The edge of every task: whatever goes wrong is logged, noted, and tried again after a while."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from engram.errors import BrokenDatabase, EngramError, Moved, StoreError
from engram.models.soundness import UNREADABLE, find_unreadable
from engram.models.stages import note_failure
from engram.models.work import WorkState, fail, find_work
from engram.tasks.runtime import Runtime

logger = logging.getLogger(__name__)

#: Unexpected failures in a row after which work is set aside as dead; expected ones never are.
MAX_ATTEMPTS = 12


def run_guarded(runtime: Runtime, kind: str, key: str, action: Callable[[], object]) -> bool:
    """Do one piece of work; False where it failed (then it is due again after 15, 30, 60, 120 s).

    Args:
        kind: the kind of work, and the stage that the failure is noted for.
        key: what it is about; "" for kinds without one.
        action: may raise anything.
    """
    started = time.monotonic()
    try:
        action()
    except Exception as error:  # noqa: BLE001 - the edge of a task
        _note(runtime, kind, key, error)
        return False
    logger.info("action=%s about=%s duration_ms=%d", kind, key, (time.monotonic() - started) * 1000)
    return True


def failure_mark(kind: str, key: str) -> str:
    """How the log's record of a failed piece of work begins; ``engram tasks show`` looks for it."""
    return f"action={kind} about={key} failed="


def _is_damaged(runtime: Runtime) -> bool:
    """True where an unexpected failure comes from a row of memory.db that cannot be read."""
    try:
        return bool(find_unreadable(runtime.store))
    except StoreError:
        return False


def _note(runtime: Runtime, kind: str, key: str, error: Exception) -> None:
    """Log the failure and put the work off; a database that cannot be written now is no reason to crash."""
    is_expected = isinstance(error, EngramError)
    logger.warning("%s%s", failure_mark(kind, key), error, exc_info=None if is_expected else error)
    if isinstance(error, BrokenDatabase) or (isinstance(error, UNREADABLE) and _is_damaged(runtime)):
        runtime.is_damaged.set()
        return
    if isinstance(error, Moved):
        return
    text = str(error) if is_expected else f"{type(error).__name__}: {error}"
    try:
        work = find_work(runtime.store, kind, key)
        if work is not None and work.state is WorkState.DUE:
            fail(runtime.store, work, text, max_attempts=0 if is_expected else MAX_ATTEMPTS)
        note_failure(runtime.store, kind, text)
    except StoreError as worse:
        logger.warning("action=note_failure about=%s error=%s", key, worse)
