"""``engram tasks``: what is running, what is waiting, what ran and what failed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import click

from engram.cli.options import DefaultGroup, TimeSpan, json_option, limit_option
from engram.cli.output import iso, local, one_line, print_facts, print_json, print_table, say, span, when
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import EngramError
from engram.models.work import work
from engram.models.work.pauses import FOREVER_MS
from engram.models.work.pauses import pause as pause_scope
from engram.models.work.pauses import resume as resume_scope
from engram.models.work.task_runs import RunState, list_task_runs
from engram.models.work.work import TASKS_SCOPE, Work, WorkState
from engram.reports.task_report import failure_of_tasks, find_piece, find_tasks, rows_of_work, run_row, work_row

# -- Tables of work and runs, and the queue's messages, as ``engram tasks`` prints them.


def queue_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the messages in the queue; none if there is no queue: it only notifies the worker."""
    if not workspace.places.queue_db.exists():
        return []
    from engram.tasks.queue import JsonSerializer, huey

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
                local(row.get("due_at")),
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
                local(row["started_at"]),
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


def _about(args: Collection[object]) -> str:
    return one_line(", ".join(map(str, args)), 14)


def _duration(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 10_000 else span(milliseconds / 1000)


# -- ``engram tasks retry``, ``cancel``, ``pause`` and ``resume``: change what the worker does.


@click.command("retry")
@click.argument("task_ids", metavar="ID...", nargs=-1)
@click.option("--dead", "all_dead", is_flag=True, help="All work that was given up (default: the IDs).")
@json_option
@pass_workspace
def retry(workspace: Workspace, task_ids: tuple[str, ...], all_dead: bool, as_json: bool) -> None:
    """Make work due now, whether it is waiting, failed, given up or done.

    Example: engram tasks retry --dead
    """
    if not task_ids and not all_dead:
        raise click.UsageError("name the work by its ID, or use --dead")
    with workspace.store() as store:
        pieces = [find_piece(store, task_id) for task_id in task_ids]
        pieces += work.list_work(store, (WorkState.DEAD,)) if all_dead else []
        for piece in pieces:
            work.retry(store, piece.id)
    workspace.wake_worker()
    _report(pieces, "due now", as_json)


@click.command("cancel")
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@json_option
@pass_workspace
def cancel(workspace: Workspace, task_ids: tuple[str, ...], as_json: bool) -> None:
    """Mark work as done without doing it; a new change, such as a new turn, makes it due again.

    Example: engram tasks cancel 12
    """
    with workspace.store() as store:
        pieces = [find_piece(store, task_id) for task_id in task_ids]
        for piece in pieces:
            work.cancel(store, piece.id)
    _report(pieces, "cancelled", as_json)


@click.command("pause")
@click.option(
    "--for",
    "seconds",
    type=TimeSpan(),
    default=None,
    metavar="TIME",
    help="How long, such as 30m or 2h (default: until `engram tasks resume`).",
)
@json_option
@pass_workspace
def pause(workspace: Workspace, seconds: float | None, as_json: bool) -> None:
    """Keep the worker from starting work; transcripts are still read, and work that becomes due waits.

    Example: engram tasks pause --for 1h
    """
    with workspace.store() as store:
        until_ms = FOREVER_MS if seconds is None else store.now_ms() + int(seconds * 1000)
        pause_scope(store, TASKS_SCOPE, until_ms)
    if as_json:
        print_json({"paused": True, "until": iso(until_ms) if seconds is not None else None})
    else:
        end = f"until {when(until_ms)}" if seconds else "until `engram tasks resume`"
        click.echo(f"The work is paused {end}: the worker starts nothing.")


@click.command("resume")
@json_option
@pass_workspace
def resume(workspace: Workspace, as_json: bool) -> None:
    """End the pause of the work.

    Example: engram tasks resume
    """
    with workspace.store() as store:
        was_paused = resume_scope(store, TASKS_SCOPE)
    workspace.wake_worker()
    if as_json:
        print_json({"paused": False, "was_paused": was_paused})
    else:
        click.echo("The work continues." if was_paused else "The work was not paused.")


def _report(pieces: list[Work], state: str, as_json: bool) -> None:
    if as_json:
        print_json({"tasks": [{"id": str(piece.id), "name": piece.kind, "state": state} for piece in pieces]})
    else:
        click.echo(f"{len(pieces)} {'piece' if len(pieces) == 1 else 'pieces'} of work: {state}.")


@click.group("tasks", cls=DefaultGroup)
def tasks() -> None:
    """Show and control tasks: running, due, scheduled, done, failed or given up (default: list).

    Example: engram tasks retry 12
    """


@tasks.command("list")
@click.option(
    "--all",
    "with_done",
    is_flag=True,
    help="Also list finished work (default: running, waiting, failed or given up).",
)
@json_option
@pass_workspace
def list_tasks(workspace: Workspace, with_done: bool, as_json: bool) -> None:
    """List running tasks, pieces of work with their state, and messages in the queue.

    running: a worker is doing it, and for how long. pending: due now. scheduled: due later. failed: will be tried again
    later. dead: given up; `engram tasks retry` makes it due. queued: a message that notifies the worker.

    Example: engram tasks list --json
    """
    states = tuple(WorkState) if with_done else (WorkState.DUE, WorkState.DEAD)
    with workspace.store() as store:
        rows = rows_of_work(store, states)
    rows += queue_rows(workspace)
    if as_json:
        print_json({"tasks": rows})
    else:
        print_work(rows, "Nothing is running or waiting.")


@tasks.command("dead")
@json_option
@pass_workspace
def dead(workspace: Workspace, as_json: bool) -> None:
    """List work that was given up after too many failures.

    Example: engram tasks dead
    """
    with workspace.store() as store:
        rows = [work_row(piece, store.now_ms()) for piece in work.list_work(store, (WorkState.DEAD,))]
    if as_json:
        print_json({"tasks": rows})
    else:
        print_work(rows, "No work was given up.")


@tasks.command("runs")
@click.argument("name", metavar="[NAME]", default="")
@click.option("--failed", is_flag=True, help="Only runs that failed or were interrupted (default: all).")
@limit_option(20, "runs")
@json_option
@pass_workspace
def runs(workspace: Workspace, name: str, failed: bool, limit: int, as_json: bool) -> None:
    """List what ran recently, latest first: when it started, how long it took, and its outcome.

    NAME is a task (such as scan) or what a task is about (a session id). Fifty runs of each task are kept, and fifty
    failed ones. Runs in a row that had nothing to do are one line with their number.

    Example: engram tasks runs scan
    """
    states = (RunState.FAILED, RunState.INTERRUPTED) if failed else tuple(RunState)
    with workspace.store() as store:
        rows = [run_row(run, store.now_ms()) for run in list_task_runs(store, name=name, states=states, limit=limit)]
    if as_json:
        print_json({"runs": rows})
    else:
        print_runs(rows, "No such run is recorded.")


@tasks.command("show")
@click.argument("name", metavar="ID|NAME")
@json_option
@pass_workspace
def show(workspace: Workspace, name: str, as_json: bool) -> None:
    """Show a task with its latest runs and its latest failure, traceback included.

    ID is the number of a piece of work in `engram tasks list`; NAME is a task (such as scan) or what a task is about (a
    session id).

    Example: engram tasks show 12
    """
    with workspace.store() as store:
        pieces, latest = find_tasks(store, name)
        facts = [work_row(piece, store.now_ms()) for piece in pieces]
        rows = [run_row(run, store.now_ms()) for run in latest]
        failure = failure_of_tasks(store, pieces, latest)
    if as_json:
        print_json({"tasks": facts, "runs": rows, "failure": failure})
        return
    for fact in facts:
        print_facts((key, _fact(key, value)) for key, value in fact.items())
        click.echo()
    print_runs(rows, "No run is recorded.")
    if failure is not None:
        say(f"\nLatest failure, {local(failure['started_at'])}: {failure['outcome']}\n{failure['traceback']}")


def _fact(key: str, value: Any) -> Any:
    """Return a fact of a piece of work, for people."""
    if key.endswith("_at") and value:
        return local(value)
    return ", ".join(value) if isinstance(value, list) else value


for command in (retry, cancel, pause, resume):
    tasks.add_command(command)
