"""``engram watch`` and ``engram work``: the two long-lived processes, one each."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import click

from engram.cli import exits
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import AlreadyRunning
from engram.settings import Settings

_lifeline = click.option(
    "--lifeline",
    type=click.IntRange(3),
    default=None,
    hidden=True,
    metavar="FD",
    help="A pipe whose end means that the parent is gone (default: none).",
)


@click.command("watch")
@_lifeline
@pass_workspace
@click.pass_context
def watch(ctx: click.Context, workspace: Workspace, lifeline: int | None) -> None:
    """Follow the transcripts until SIGTERM or Ctrl-C; launchd and systemd start this.

    A second one ends at once.

    Example: engram watch
    """
    from engram.watcher.watch import run_watcher

    ctx.exit(_run(run_watcher, workspace, lifeline))


@click.command("work")
@_lifeline
@pass_workspace
@click.pass_context
def work(ctx: click.Context, workspace: Workspace, lifeline: int | None) -> None:
    """Make memories and answer questions until SIGTERM or Ctrl-C; launchd and systemd start this.

    A second one ends at once. Exit code 75 asks to be started again (its memory passed limit_rss_mb).

    Example: engram work
    """
    from engram.worker.main import run_worker

    ctx.exit(_run(run_worker, workspace, lifeline))


def _run(service: Callable[[Settings], int], workspace: Workspace, lifeline: int | None) -> int:
    if lifeline is not None:
        threading.Thread(target=_end_with_parent, args=(lifeline,), name="lifeline", daemon=True).start()
    try:
        return service(workspace.settings)
    except AlreadyRunning as error:
        click.echo(str(error), err=True)
        return exits.OK


def _end_with_parent(lifeline: int) -> None:
    """Wait, without any work, until the parent's end of the pipe is closed, then stop this process cleanly."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)
