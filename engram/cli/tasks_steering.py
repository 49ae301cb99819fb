"""``engram tasks retry``, ``cancel``, ``pause`` and ``resume``: change what the worker does."""

from __future__ import annotations

import click

from engram.cli.options import TimeSpan, json_option
from engram.cli.output import iso, print_json, when
from engram.cli.workspace import Workspace, pass_workspace
from engram.models import work
from engram.models.pauses import FOREVER_MS
from engram.models.pauses import pause as pause_scope
from engram.models.pauses import resume as resume_scope
from engram.models.work import TASKS_SCOPE, Work, WorkState
from engram.reports.tasks import find_piece


@click.command("retry")
@click.argument("task_ids", metavar="ID...", nargs=-1)
@click.option("--dead", "all_dead", is_flag=True, help="All work that was given up (default: the IDs).")
@json_option
@pass_workspace
def retry(workspace: Workspace, task_ids: tuple[str, ...], all_dead: bool, as_json: bool) -> None:
    """Make work due now, whether it waits, failed, was given up or is done.

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
    """Let the worker start no work; transcripts are still read, and work that becomes due waits.

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
