"""``engram save``: keep a text as a memory."""

from __future__ import annotations

import sys

import click

from engram.cli.options import json_option
from engram.cli.output import print_json
from engram.cli.workspace import Workspace, pass_workspace, require_project_id
from engram.enums import Actor, Importance, Kind, Scope
from engram.memories.save import SAVED_KINDS, save_memory
from engram.reports.episode_json import episode_to_json


@click.command("save")
@click.argument("text")
@click.option("--global", "is_global", is_flag=True, help="For all projects (default: for one project).")
@click.option(
    "--project", metavar="NAME", default=None, help="The project's name or folder (default: the current folder's)."
)
@click.option("--summary", default=None, help="The line that is injected (default: the first sentence).")
@click.option("--high", is_flag=True, help="High importance (default: normal).")
@click.option(
    "--pin", is_flag=True, help="Pin it: it never ages, and every briefing begins with it (default: not pinned)."
)
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in SAVED_KINDS]),
    default=None,
    help="The kind of memory (default: preference or decision for a rule such as “From now on …”, else fact).",
)
@click.option("--supersedes", metavar="ID", default=None, help="The memory that it replaces (default: none).")
@json_option
@pass_workspace
def save(
    workspace: Workspace,
    text: str,
    is_global: bool,
    project: str | None,
    summary: str | None,
    high: bool,
    pin: bool,
    kind: str | None,
    supersedes: str | None,
    as_json: bool,
) -> None:
    """Keep TEXT as a memory; - reads it from standard input. Secrets are masked first.

    Example: engram save --global "Use pnpm, never npm"
    """
    content = sys.stdin.read() if text == "-" else text
    with workspace.store() as store:
        project_id = (
            None
            if is_global
            else require_project_id(
                store, workspace.settings, project, hint=". Name one with --project, or use --global."
            )
        )
        made = save_memory(
            store,
            content,
            workspace.redactor(),
            scope=Scope.GLOBAL if is_global else Scope.PROJECT,
            importance=Importance.HIGH if high else Importance.NORMAL,
            project_id=project_id,
            supersedes=supersedes,
            is_pinned=pin,
            actor=Actor.USER,
            summary=summary,
            kind=None if kind is None else Kind(kind),
        )
        facts = episode_to_json(store, made)
    workspace.wake_worker()
    if as_json:
        print_json(facts)
    else:
        click.echo(f"Saved as {made.episode_id}.")
