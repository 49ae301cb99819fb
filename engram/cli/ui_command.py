"""``engram ui``: open the local page in the browser."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, to_json
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import BadRequest
from engram.page.access import ADDRESS
from engram.page.entries import make_entry
from engram.page.opening import ensure_page, open_browser, stop_page


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
