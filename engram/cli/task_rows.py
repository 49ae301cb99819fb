"""Pieces of work, runs of tasks and messages of the queue as ``engram tasks`` shows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from engram.cli.output import iso, one_line, print_table, span
from engram.cli.workspace import Workspace
from engram.errors import EngramError, NotFound
from engram.models import work
from engram.models.store import Store
from engram.models.task_runs import RunState, TaskRun, running_task_runs
from engram.models.work import Work, WorkState
from engram.process_lock import is_process_alive


def rows_of_work(store: Store, states: tuple[WorkState, ...]) -> list[dict[str, Any]]:
    """Return what runs now, then the work in these states that doesn't run."""
    running = running_task_runs(store, is_process_alive)
    works = {(piece.kind, piece.key): piece for piece in work.list_work(store, tuple(WorkState))}
    rows = [_running_row(store, run, works.get((run.kind, run.key))) for run in running]
    begun = {(run.kind, run.key) for run in running}
    waiting = [piece for name, piece in works.items() if piece.state in states and name not in begun]
    return rows + [work_row(piece, store.now_ms()) for piece in waiting]


def work_row(piece: Work, now_ms: int) -> dict[str, Any]:
    """Return a piece of work as JSON."""
    return {
        "id": str(piece.id),
        "name": piece.kind,
        "args": [piece.key] if piece.key else [],
        "state": _state(piece, now_ms),
        "attempts": piece.attempts,
        "error": piece.last_error or None,
        "due_at": iso(piece.due_at_ms),
        "reason": piece.reason,
        "updated_at": iso(piece.updated_at_ms),
    }


def run_row(run: TaskRun, now_ms: int) -> dict[str, Any]:
    """Return a run of a task as JSON."""
    is_running = run.state is RunState.RUNNING
    # The next worker records what a killed one did not end; until then its process tells.
    is_cut_off = is_running and not is_process_alive(run.pid)
    return {
        "name": run.kind,
        "args": [run.key] if run.key else [],
        "state": (RunState.INTERRUPTED if is_cut_off else run.state).value,
        "started_at": iso(run.started_at_ms),
        "duration_ms": max(0, now_ms - run.started_at_ms) if is_running and not is_cut_off else run.duration_ms,
        "outcome": run.outcome,
        "times": run.times,
        "pid": run.pid,
    }


def queue_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the messages in the queue; none if there is no queue: it only notifies the worker."""
    if not workspace.places.queue_db.exists():
        return []
    from engram.tasks.message import JsonSerializer
    from engram.tasks.queue import huey

    huey.bind(workspace.places, workspace.settings.sqlite_driver)
    rows: list[dict[str, Any]] = []
    for data in huey.storage.waiting():
        row = {"id": "?", "name": "?", "args": [], "state": "queued", "attempts": 0, "error": None}
        try:
            message = JsonSerializer().deserialize(data)
            row |= {"id": message.id, "name": message.name, "args": list(message.args)}
        except EngramError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def find_piece(store: Store, text: str) -> Work:
    """Return the piece of work with an id. Raises NotFound."""
    piece = work.work_by_id(store, int(text)) if text.isdigit() and len(text) < 19 else None
    if piece is None:
        raise NotFound(
            f"there is no work {text!r}. `engram tasks list --all` lists the ids; messages in the queue have none"
        )
    return piece


def print_work(rows: Sequence[Mapping[str, Any]], empty: str) -> None:
    """Print pieces of work and messages as a table."""
    print_table(
        ["id", "name", "about", "state", "due", "tries#", "last error"],
        [
            (
                row["id"][:8],
                row["name"],
                _about(row["args"]),
                f"running {span(row['running_seconds'])}" if row["state"] == "running" else row["state"],
                row.get("due_at") or "–",
                row["attempts"],
                one_line(row["error"] or "", 80),
            )
            for row in rows
        ],
        empty=empty,
    )


def print_runs(rows: Sequence[Mapping[str, Any]], empty: str) -> None:
    """Print runs of tasks as a table."""
    print_table(
        ["started", "name", "about", "state", "took", "outcome"],
        [
            (
                row["started_at"],
                row["name"],
                _about(row["args"]),
                row["state"] if row["times"] == 1 else f"{row['state']} ×{row['times']}",
                "–" if row["duration_ms"] is None else _duration(row["duration_ms"]),
                one_line(row["outcome"], 80),
            )
            for row in rows
        ],
        empty=empty,
    )


def _running_row(store: Store, run: TaskRun, piece: Work | None) -> dict[str, Any]:
    """Return a run that goes on as a row of work; with the facts of its work, if it has some."""
    seconds = max(0.0, (store.now_ms() - run.started_at_ms) / 1000)
    facts = (
        {"id": "–", "name": run.kind, "args": [run.key] if run.key else [], "attempts": 0, "error": None}
        if piece is None
        else work_row(piece, store.now_ms())
    )
    return facts | {"state": "running", "started_at": iso(run.started_at_ms), "running_seconds": round(seconds, 1)}


def _state(piece: Work, now_ms: int) -> str:
    if piece.state is not WorkState.DUE:
        return piece.state.value
    if piece.attempts:
        return "failed"
    return "pending" if piece.due_at_ms <= now_ms else "scheduled"


def _about(args: Collection[object]) -> str:
    return one_line(", ".join(map(str, args)), 14)


def _duration(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 10_000 else span(milliseconds / 1000)
