"""``engram pause``: read, store and inject nothing for a while."""

from __future__ import annotations

import click

from engram.cli.options import TimeSpan, json_option
from engram.cli.output import print_json, say, when
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.models.pauses import FOREVER_MS, paused_scopes, resume
from engram.models.pauses import pause as pause_scope


@click.command("pause")
@click.option(
    "--project", metavar="NAME", default=None, help="Only this project: its name or folder (default: everything)."
)
@click.option(
    "--for",
    "seconds",
    type=TimeSpan(),
    default=None,
    metavar="TIME",
    help="How long, such as 30m, 1h or 2d (default: until `engram pause --off`).",
)
@click.option("--off", is_flag=True, help="End the pause (default: start one).")
@click.option("--list", "only_list", is_flag=True, help="Only list what is paused (default: pause).")
@json_option
@pass_workspace
def pause(
    workspace: Workspace, project: str | None, seconds: float | None, off: bool, only_list: bool, as_json: bool
) -> None:
    """Pause a project or everything: nothing is read, stored or injected.

    What is said during the pause is never kept, even if its transcript is read afterwards. What was said before is.

    Example: engram pause --project harbor --for 1h
    """
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        scope = "" if place is None else place.identity
        until_ms = FOREVER_MS if seconds is None else store.now_ms() + int(seconds * 1000)
        what = "everything" if place is None else place.name
        sentence = ""
        if off:
            sentence = f"Resumed {what}." if resume(store, scope) else f"{what} was not paused."
        elif not only_list:
            pause_scope(store, scope, until_ms)
            sentence = f"Paused {what} " + (f"until {when(until_ms)}." if seconds else "until `engram pause --off`.")
        paused = sorted(paused_scopes(store))
    if as_json:
        print_json({"paused": [{"scope": scope or "everything"} for scope in paused]})
    else:
        say(sentence or "\n".join(scope or "everything" for scope in paused) or "Nothing is paused.")
