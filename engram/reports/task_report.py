"""Report work and task runs: running, waiting, finished and failed."""

from __future__ import annotations

from typing import Any

from engram.errors import NotFound
from engram.models.engine.transaction import Store
from engram.models.work import work
from engram.models.work.task_runs import RunState, TaskRun, latest_failure, list_task_runs, running_task_runs
from engram.models.work.work import Work, WorkState
from engram.system.clock import iso_or_none
from engram.system.process_lock import is_process_alive

#: Maximum number of runs in a report on a task.
SHOWN_RUNS = 10
#: The keys of ``work_row``, for a run that has no piece of work, such as a scan.
_FACTS_WITHOUT_WORK: dict[str, Any] = {
    "id": "–",
    "name": "",
    "args": [],
    "state": "",
    "attempts": 0,
    "error": None,
    "due_at": None,
    "reason": "",
    "updated_at": None,
}


def rows_of_work(store: Store, states: tuple[WorkState, ...]) -> list[dict[str, Any]]:
    """Return running tasks, then other work in these states."""
    running = running_task_runs(store, is_process_alive)
    works = {(piece.kind, piece.key): piece for piece in work.list_work(store, tuple(WorkState))}
    rows = [_running_row(store, run, works.get((run.kind, run.key))) for run in running]
    begun = {(run.kind, run.key) for run in running}
    waiting = [piece for name, piece in works.items() if piece.state in states and name not in begun]
    return rows + [work_row(piece, store.now_ms()) for piece in waiting]


def work_row(piece: Work, now_ms: int) -> dict[str, Any]:
    return {
        "id": str(piece.id),
        "name": piece.kind,
        "args": [piece.key] if piece.key else [],
        "state": _state(piece, now_ms),
        "attempts": piece.attempts,
        "error": piece.last_error or None,
        "due_at": iso_or_none(piece.due_at_ms),
        "reason": piece.reason,
        "updated_at": iso_or_none(piece.updated_at_ms),
    }


def run_row(run: TaskRun, now_ms: int) -> dict[str, Any]:
    is_running = run.state is RunState.RUNNING
    # Until the next worker records the interruption, only the dead process shows it.
    is_cut_off = is_running and not is_process_alive(run.pid)
    return {
        "name": run.kind,
        "args": [run.key] if run.key else [],
        "state": (RunState.INTERRUPTED if is_cut_off else run.state).value,
        "started_at": iso_or_none(run.started_at_ms),
        "duration_ms": max(0, now_ms - run.started_at_ms) if is_running and not is_cut_off else run.duration_ms,
        "outcome": run.outcome,
        "times": run.times,
        "pid": run.pid,
    }


def find_piece(store: Store, text: str) -> Work:
    """Return the piece of work with the given id. Raises NotFound."""
    piece = work.work_by_id(store, int(text)) if text.isdecimal() and len(text) < 19 else None
    if piece is None:
        raise NotFound(
            f"there is no work {text!r}. `engram tasks list --all` lists the ids; messages in the queue have none"
        )
    return piece


def _running_row(store: Store, run: TaskRun, piece: Work | None) -> dict[str, Any]:
    """Return a run in progress as a row of work, with the properties of its work, if any."""
    seconds = max(0.0, (store.now_ms() - run.started_at_ms) / 1000)
    facts = _FACTS_WITHOUT_WORK | {"name": run.kind, "args": [run.key] if run.key else []}
    if piece is not None:
        facts = work_row(piece, store.now_ms())
    return facts | {
        "state": "running",
        "started_at": iso_or_none(run.started_at_ms),
        "running_seconds": round(seconds, 1),
    }


def _state(piece: Work, now_ms: int) -> str:
    if piece.state is not WorkState.DUE:
        return piece.state.value
    if piece.attempts:
        return "failed"
    return "pending" if piece.due_at_ms <= now_ms else "scheduled"


def find_tasks(store: Store, name: str) -> tuple[list[Work], list[TaskRun]]:
    """Return the work and the latest runs that match an id, kind or key. Raises NotFound."""
    if name.isdigit():
        piece = find_piece(store, name)
        latest = list_task_runs(store, name=piece.key or piece.kind, limit=1_000)
        return [piece], [run for run in latest if run.kind == piece.kind][:SHOWN_RUNS]
    pieces = [piece for piece in work.list_work(store, tuple(WorkState)) if name in (piece.kind, piece.key)]
    latest = list_task_runs(store, name=name, limit=SHOWN_RUNS)
    if not pieces and not latest:
        raise NotFound(f"there is no task {name!r}; `engram tasks list --all` and `engram tasks runs` list them")
    return pieces, latest


def failure_of_tasks(store: Store, pieces: list[Work], latest: list[TaskRun]) -> dict[str, Any] | None:
    names = {(piece.kind, piece.key) for piece in pieces} | {(run.kind, run.key) for run in latest}
    failures = [run for kind, key in names if (run := latest_failure(store, kind, key)) is not None]
    if not failures:
        return None
    run = max(failures, key=lambda failure: failure.id)
    return {
        "name": run.kind,
        "args": [run.key] if run.key else [],
        "state": run.state.value,
        "started_at": iso_or_none(run.started_at_ms),
        "outcome": run.outcome,
        "traceback": run.error,
    }
