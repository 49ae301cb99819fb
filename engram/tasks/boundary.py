"""The boundary of every task, which records its run, and logs, records and retries its failures."""

from __future__ import annotations

import contextlib
import logging
import os
import time
import traceback
from collections.abc import Callable

from engram.errors import BrokenDatabase, Conflict, EngramError, StoreError
from engram.models.engine.transaction import Store
from engram.models.rescue.soundness import UNREADABLE, find_unreadable
from engram.models.work.task_runs import (
    RunState,
    begin_task_run,
    clear_failures,
    end_task_run,
    interrupt_task_runs,
    note_failure,
)
from engram.models.work.work import WorkState, drop_lease, fail, find_work, lease_owners, note_crash
from engram.system.process_lock import is_process_alive
from engram.tasks.runtime import Runtime

logger = logging.getLogger(__name__)

#: Number of consecutive unexpected failures after which work is set aside as dead. Expected failures never lead to
#: this.
MAX_ATTEMPTS = 12


def run_guarded(runtime: Runtime, kind: str, key: str, action: Callable[[], object], *, stage: str = "") -> bool:
    """Run a piece of work; return False if it failed. It is then due again after 15, 30, 60 or 120 s.

    Args:
        key: what the work is about, such as a session id; "" for kinds without a key.
        action: may raise any exception. If it returns text, this is recorded as the outcome: what was done, or
            ``NOTHING``.
        stage: the stage with the health that a failure affects; ``kind`` by default.
    """
    run = _RecordedRun(runtime, kind, key)
    try:
        result = action()
    except Exception as error:  # noqa: BLE001 - the boundary of a task
        _handle_failure(runtime, kind, key, stage or kind, error)
        run.end_failed(error)
        return False
    run.end_done(result if isinstance(result, str) else "")
    if not stage:
        # Work that finds nothing to do is also healthy. The health of a shared stage depends on the other work.
        with contextlib.suppress(StoreError):
            clear_failures(runtime.store, (kind,))
    return True


class _RecordedRun:
    """The record of one run. A task runs even if its record can't be written."""

    def __init__(self, runtime: Runtime, kind: str, key: str) -> None:
        self._runtime = runtime
        self._kind = kind
        self._key = key
        self._id: int | None = None
        with contextlib.suppress(StoreError):
            self._id = begin_task_run(runtime.store, kind, key)
        self._started_seconds = time.monotonic()

    def end_done(self, outcome: str) -> None:
        logger.info("action=%s about=%s duration_ms=%d", self._kind, self._key, self._duration_ms())
        self._end(RunState.DONE, outcome)

    def end_failed(self, error: Exception) -> None:
        redact = self._runtime.redact
        if isinstance(error, Conflict):
            self._end(RunState.DONE, redact(str(error)))
            return
        text = "".join(traceback.format_exception(error))
        self._end(RunState.FAILED, redact(_describe(error)), redact(text))

    def _end(self, state: RunState, outcome: str, error: str = "") -> None:
        if self._id is None:
            return
        with contextlib.suppress(StoreError):
            end_task_run(
                self._runtime.store,
                self._id,
                self._kind,
                state,
                duration_ms=self._duration_ms(),
                outcome=outcome,
                error=error,
            )

    def _duration_ms(self) -> int:
        return round((time.monotonic() - self._started_seconds) * 1000)


def _handle_failure(runtime: Runtime, kind: str, key: str, stage: str, error: Exception) -> None:
    """Log a failure and postpone the work; continue even if the database can't be written."""
    is_expected = isinstance(error, EngramError)
    logger.warning("action=%s about=%s failed=%s", kind, key, error, exc_info=None if is_expected else error)
    if isinstance(error, BrokenDatabase) or (isinstance(error, UNREADABLE) and _is_damaged(runtime)):
        runtime.is_damaged.set()
        return
    if isinstance(error, Conflict):
        return
    text = runtime.redact(_describe(error))
    try:
        work = find_work(runtime.store, kind, key)
        if work is not None and work.state is WorkState.DUE:
            fail(runtime.store, work, text, max_attempts=0 if is_expected else MAX_ATTEMPTS)
        note_failure(runtime.store, stage, text)
    except StoreError as worse:
        logger.warning("action=note_failure about=%s error=%s", key, worse)


def _describe(error: Exception) -> str:
    """Return a failure's message, preceded by its type if it was unexpected."""
    return str(error) if isinstance(error, EngramError) else f"{type(error).__name__}: {error}"


def _is_damaged(runtime: Runtime) -> bool:
    """Return True if memory.db contains an unreadable row, which may have caused an unexpected failure."""
    try:
        return bool(find_unreadable(runtime.store))
    except StoreError:
        return False


# -- After a crash, release the dead worker's leases, and set aside work that keeps crashing its process.

#: Number of crashes after which a piece of work is set aside.
MAX_CRASHES = 12
#: Number of crashes that are attributed to chance; up to this number, the work is retried immediately.
FREE_CRASHES = 5


def recover_from_crash(store: Store) -> None:
    """Release the leases of dead processes and postpone their work. The caller holds the worker's lock."""
    for name, owner in lease_owners(store).items():
        if not _is_living_other(_pid_of(owner)):
            drop_lease(store, name, owner)
    for run in interrupt_task_runs(store, _is_living_other):
        work = find_work(store, run.kind, run.key)
        if work is not None:
            reason = "the worker was killed or crashed during this work"
            note_crash(store, work, reason, free=FREE_CRASHES, max_attempts=MAX_CRASHES)


def is_owner_gone(owner: str) -> bool:
    """Return True if the process that took a lease has exited."""
    return not is_process_alive(_pid_of(owner))


def _is_living_other(pid: int) -> bool:
    """Return True for a different, living process.

    A record with this process's own id was written by an earlier process.
    """
    return pid != os.getpid() and is_process_alive(pid)


def _pid_of(owner: str) -> int:
    """Return the process id in the name of a lease's owner; 0, which counts as alive, if there is none."""
    pid = owner.partition("-")[0]
    return int(pid) if pid.isdigit() else 0
