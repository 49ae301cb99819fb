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

from engram.cli import options
from engram.cli.options import json_option
from engram.cli.output import print_json, to_json
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import AlreadyRunning, BadRequest
from engram.page.entrance import ADDRESS, make_entry
from engram.page.opening import ensure_page, open_browser, stop_page
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
    from engram.watcher.watch_process import run_watcher

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
    from engram.worker.lifecycle import run_worker

    ctx.exit(_run(partial(run_worker, has_parent=lifeline is not None), workspace, lifeline))


def _run(service: Callable[[Settings], int], workspace: Workspace, lifeline: int | None) -> int:
    _prepare_errors()
    if lifeline is not None:
        threading.Thread(target=_end_with_parent, args=(lifeline,), name="lifeline", daemon=True).start()
    try:
        return service(workspace.settings)
    except AlreadyRunning as error:
        click.echo(str(error), err=True)
        return options.OK


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


# -- ``engram ui``: open the local page in the browser.


@click.command("ui")
@click.option("--no-open", is_flag=True, help="Print the address instead of opening a browser (default: open one).")
@click.option("--stop", is_flag=True, help="End the page (default: open it; it ends by itself after 30 idle minutes).")
@json_option
@pass_workspace
def ui(workspace: Workspace, no_open: bool, stop: bool, as_json: bool) -> None:
    """Open the page on which you see, explain and correct what is remembered.

    It runs on this machine only, in a process of its own, and ends after 30 minutes without use. A second call opens
    the one that runs. The printed address works once, within a minute.

    Example: engram ui
    """
    if stop and no_open:
        raise BadRequest("--stop opens nothing: leave --no-open out")
    places = workspace.places.prepare()
    if stop:
        was_running = stop_page(places)
        if as_json:
            print_json({"stopped": was_running})
        else:
            click.echo("The page has ended." if was_running else "No page is running.")
        return
    page = ensure_page(places, workspace.flags, workspace.vault)
    entry, url = make_entry(places.page_entries, page.port)
    is_open = not no_open and open_browser(entry, url)
    if as_json:
        # One line, for scripts that read one.
        click.echo(to_json({"url": url}))
    elif is_open:
        click.echo(f"The page is open in your browser (http://{ADDRESS}:{page.port}). `engram ui --stop` ends it.")
    else:
        click.echo(f"Open this address within a minute; it works once:\n{url}")
