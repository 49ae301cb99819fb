"""``engram tasks``: what runs, what waits, what ran and what failed."""

from __future__ import annotations

import click

from engram.cli.options import json_option, limit_option
from engram.cli.output import print_facts, print_json, say
from engram.cli.task_rows import print_runs, print_work, queue_rows
from engram.cli.tasks_steering import cancel, pause, resume, retry
from engram.cli.workspace import Workspace, pass_workspace
from engram.models import work
from engram.models.task_runs import RunState, list_task_runs
from engram.models.work import WorkState
from engram.reports.tasks import failure_of_tasks, find_tasks, rows_of_work, run_row, work_row


@click.group("tasks", invoke_without_command=True)
@click.pass_context
def tasks(ctx: click.Context) -> None:
    """Show and control tasks: running, due, scheduled, done, failed or given up (default: list).

    Example: engram tasks retry 12
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tasks, as_json=False, with_done=False)


@tasks.command("list")
@click.option(
    "--all", "with_done", is_flag=True, help="Also what is done (default: what runs, waits, failed or was given up)."
)
@json_option
@pass_workspace
def list_tasks(workspace: Workspace, with_done: bool, as_json: bool) -> None:
    """List running tasks, pieces of work with their state, and messages in the queue.

    running: a worker runs it, and for how long. pending: due now. scheduled: due later. failed: failed, and tried again
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
        print_work(rows, "Nothing runs or waits.")


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
    """List what ran lately, the latest first: when it started, how long it took, and what came of it.

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
        print_facts((key, ", ".join(value) if isinstance(value, list) else value) for key, value in fact.items())
        click.echo()
    print_runs(rows, "No run is recorded.")
    if failure is not None:
        say(f"\nLatest failure, {failure['started_at']}: {failure['outcome']}\n{failure['traceback']}")


for command in (retry, cancel, pause, resume):
    tasks.add_command(command)
