"""``engram watch`` and ``engram work``: run one of the two long-lived processes."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import stat
import threading
from collections.abc import Callable
from functools import partial

import click

from engram.cli import exits
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import AlreadyRunning
from engram.settings import Settings

#: Size above which the file of a service's errors is emptied at the next start, in bytes.
MAX_OUTPUT_BYTES = 1_000_000

_lifeline = click.option(
    "--lifeline",
    type=click.IntRange(3),
    default=None,
    hidden=True,
    metavar="FD",
    help="A pipe; its end means that the parent has ended (default: none).",
)


@click.command("watch")
@_lifeline
@pass_workspace
@click.pass_context
def watch(ctx: click.Context, workspace: Workspace, lifeline: int | None) -> None:
    """Run the watcher, which reads new transcript lines, until SIGTERM or Ctrl-C. launchd and systemd start this.

    If a watcher is already running, this one ends at once.

    Example: engram watch
    """
    from engram.watcher.main import run_watcher

    ctx.exit(_run(partial(run_watcher, has_parent=lifeline is not None), workspace, lifeline))


@click.command("work")
@_lifeline
@pass_workspace
@click.pass_context
def work(ctx: click.Context, workspace: Workspace, lifeline: int | None) -> None:
    """Run the worker, which makes memories and answers questions, until SIGTERM or Ctrl-C.

    launchd and systemd start this. If a worker is already running, this one ends at once. Exit code 75 means "restart
    me": its memory passed limit_rss_mb.

    Example: engram work
    """
    from engram.worker.main import run_worker

    ctx.exit(_run(partial(run_worker, has_parent=lifeline is not None), workspace, lifeline))


def _run(service: Callable[[Settings], int], workspace: Workspace, lifeline: int | None) -> int:
    _prepare_errors()
    if lifeline is not None:
        threading.Thread(target=_end_with_parent, args=(lifeline,), name="lifeline", daemon=True).start()
    try:
        return service(workspace.settings)
    except AlreadyRunning as error:
        click.echo(str(error), err=True)
        return exits.OK


def _prepare_errors() -> None:
    """Keep the file bounded that a service manager appends errors to, and show there where a hung process was.

    A service manager ends a process that hangs by SIGABRT; its threads are printed then.
    """
    with contextlib.suppress(OSError, ValueError):
        facts = os.fstat(2)
        if stat.S_ISREG(facts.st_mode) and facts.st_size > MAX_OUTPUT_BYTES:
            os.ftruncate(2, 0)
        faulthandler.enable(2)


def _end_with_parent(lifeline: int) -> None:
    """Block until the parent closes its end of the pipe, then stop this process cleanly."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)
