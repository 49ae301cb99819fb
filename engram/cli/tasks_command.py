"""``engram tasks``: the work that is due, running, done or given up, together with what the queue holds."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.options import FOREVER_MS, TimeSpan, json_option
from engram.cli.output import iso, one_line, print_facts, print_json, print_table, when
from engram.cli.workspace import Workspace, pass_workspace, wake_worker
from engram.errors import EngramError, NotFound
from engram.log import read_records
from engram.models import work
from engram.models.sessions import pause as pause_scope
from engram.models.sessions import resume as resume_scope
from engram.models.store import Store
from engram.models.work import TASKS_SCOPE, Work, WorkState
from engram.tasks.boundary import failure_mark


@click.group("tasks", invoke_without_command=True)
@click.pass_context
def tasks(ctx: click.Context) -> None:
    """See and steer the work: what is due, scheduled, done, failed or given up (default: list).

    Example: engram tasks retry 12
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_tasks, as_json=False, with_done=False)


@tasks.command("list")
@click.option(
    "--all", "with_done", is_flag=True, help="Also what is done (default: what waits, failed or was given up)."
)
@json_option
@pass_workspace
def list_tasks(workspace: Workspace, with_done: bool, as_json: bool) -> None:
    """List pieces of work with their state, and the messages that wait in the queue.

    pending: due now. scheduled: due later. failed: failed, and tried again later. dead: given up; `engram tasks retry`
    makes it due. queued: a message in the queue, which only rings for what is due.

    Example: engram tasks list --json
    """
    states = tuple(WorkState) if with_done else (WorkState.DUE, WorkState.DEAD)
    with workspace.store() as store:
        rows = [_as_json(store, one) for one in work.list_work(store, states)]
    rows += _queued(workspace)
    if as_json:
        print_json({"tasks": rows})
    else:
        _print(rows, "Nothing waits.")


@tasks.command("dead")
@json_option
@pass_workspace
def dead(workspace: Workspace, as_json: bool) -> None:
    """List the work that was given up after too many failures.

    Example: engram tasks dead
    """
    with workspace.store() as store:
        rows = [_as_json(store, one) for one in work.list_work(store, (WorkState.DEAD,))]
    if as_json:
        print_json({"tasks": rows})
    else:
        _print(rows, "No work was given up.")


@tasks.command("show")
@click.argument("task_id", metavar="ID")
@json_option
@pass_workspace
def show(workspace: Workspace, task_id: str, as_json: bool) -> None:
    """Show one piece of work with its last error and that failure's record in the log, traceback included.

    Example: engram tasks show 12
    """
    with workspace.store() as store:
        found = _the_work(store, task_id)
        facts = _as_json(store, found) | {"log": _last_failure(workspace, found)}
    if as_json:
        print_json(facts)
    else:
        print_facts((name, ", ".join(value) if isinstance(value, list) else value) for name, value in facts.items())


@tasks.command("retry")
@click.argument("task_ids", metavar="ID...", nargs=-1)
@click.option("--dead", "all_dead", is_flag=True, help="Everything that was given up (default: the IDs).")
@json_option
@pass_workspace
def retry(workspace: Workspace, task_ids: tuple[str, ...], all_dead: bool, as_json: bool) -> None:
    """Make work due now, whether it waits, failed, was given up or is done.

    Example: engram tasks retry --dead
    """
    _need_ids(task_ids, all_dead)
    with workspace.store() as store:
        found = [_the_work(store, one) for one in task_ids]
        found += work.list_work(store, (WorkState.DEAD,)) if all_dead else []
        for one in found:
            work.retry(store, one.id)
    wake_worker(workspace)
    _report(found, "due now", as_json)


@tasks.command("cancel")
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@json_option
@pass_workspace
def cancel(workspace: Workspace, task_ids: tuple[str, ...], as_json: bool) -> None:
    """Leave work undone; it becomes due again when something new happens to what it is about.

    Example: engram tasks cancel 12
    """
    with workspace.store() as store:
        found = [_the_work(store, one) for one in task_ids]
        for one in found:
            work.cancel(store, one.id)
    _report(found, "cancelled", as_json)


@tasks.command("pause")
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
    """Let the worker begin no work; transcripts are read on, and what becomes due waits.

    Example: engram tasks pause --for 1h
    """
    with workspace.store() as store:
        until_ms = FOREVER_MS if seconds is None else store.now_ms() + int(seconds * 1000)
        pause_scope(store, TASKS_SCOPE, until_ms)
    if as_json:
        print_json({"paused": True, "until": iso(until_ms) if seconds is not None else None})
    else:
        click.echo("The worker begins no work " + (f"until {when(until_ms)}." if seconds else "until you resume it."))


@tasks.command("resume")
@json_option
@pass_workspace
def resume(workspace: Workspace, as_json: bool) -> None:
    """End the pause of the work.

    Example: engram tasks resume
    """
    with workspace.store() as store:
        was_paused = resume_scope(store, TASKS_SCOPE)
    wake_worker(workspace)
    if as_json:
        print_json({"paused": False, "was_paused": was_paused})
    else:
        click.echo("The worker goes on." if was_paused else "The work was not paused.")


def _last_failure(workspace: Workspace, task: Work) -> str | None:
    """The latest log record of a failure of this work, with its traceback; None if there is none.

    The worker runs tasks, and so does `engram up --once`, which logs as ``cli``.
    """
    mark = failure_mark(task.kind, task.key)
    folder = workspace.places.logs
    failures = [record for kind in ("worker", "cli") for record in read_records(folder, kind) if mark in record.text]
    return max(failures).text if failures else None


def _as_json(store: Store, one: Work) -> dict[str, Any]:
    return {
        "id": str(one.id),
        "name": one.kind,
        "args": [one.key] if one.key else [],
        "state": _state(one, store.now_ms()),
        "attempts": one.attempts,
        "error": one.last_error or None,
        "due_at": iso(one.due_at_ms),
        "reason": one.reason,
        "updated_at": iso(one.updated_at_ms),
    }


def _state(one: Work, now_ms: int) -> str:
    if one.state is not WorkState.DUE:
        return one.state.value
    if one.attempts:
        return "failed"
    return "pending" if one.due_at_ms <= now_ms else "scheduled"


def _queued(workspace: Workspace) -> list[dict[str, Any]]:
    """The messages that the queue holds; none where it cannot be read: it is only a doorbell."""
    if not workspace.places.queue_db.exists():
        return []
    from engram.tasks.message import JsonSerializer
    from engram.tasks.queue import huey

    huey.bind(workspace.places, workspace.settings.sqlite_driver)
    found = []
    for data in huey.storage.waiting():
        try:
            message = JsonSerializer().deserialize(data)
        except EngramError as error:
            found.append({"id": "?", "name": "?", "args": [], "state": "queued", "attempts": 0, "error": str(error)})
            continue
        found.append(
            {
                "id": message.id,
                "name": message.name,
                "args": list(message.args),
                "state": "queued",
                "attempts": 0,
                "error": None,
            }
        )
    return found


def _the_work(store: Store, text: str) -> Work:
    found = work.work_by_id(store, int(text)) if text.isdigit() and len(text) < 19 else None
    if found is None:
        raise NotFound(
            f"there is no work {text!r}; `engram tasks list --all` lists the ids (messages have none to steer)"
        )
    return found


def _need_ids(task_ids: tuple[str, ...], all_dead: bool) -> None:
    if not task_ids and not all_dead:
        raise click.UsageError("name the work by its ID, or take --dead")


def _report(found: list[Work], what: str, as_json: bool) -> None:
    if as_json:
        print_json({"tasks": [{"id": str(one.id), "name": one.kind, "state": what} for one in found]})
    else:
        click.echo(f"{len(found)} pieces of work: {what}.")


def _print(rows: list[dict[str, Any]], empty: str) -> None:
    print_table(
        ["id", "name", "about", "state", "due", "tries#", "last error"],
        [
            (
                one["id"][:8],
                one["name"],
                one_line(", ".join(map(str, one["args"])), 14),
                one["state"],
                one.get("due_at") or "–",
                one["attempts"],
                one_line(one["error"] or "", 80),
            )
            for one in rows
        ],
        empty=empty,
    )
