"""``engram save``: keep a text as a memory."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from engram.cli.episode_json import episode_to_json
from engram.cli.options import json_option
from engram.cli.output import print_json
from engram.cli.workspace import Workspace, find_project, pass_workspace, wake_worker
from engram.enums import Actor, Importance, Kind, Scope
from engram.errors import BadRequest
from engram.ingest.folder import scope_of_folder
from engram.memories.save import SAVED_KINDS, save_memory
from engram.models.store import Store


@click.command("save")
@click.argument("text")
@click.option("--global", "is_global", is_flag=True, help="For every project (default: for one project).")
@click.option("--project", metavar="NAME", default=None, help="The project's name or folder (default: this folder's).")
@click.option("--summary", default=None, help="The one line that is injected (default: the first sentence).")
@click.option("--high", is_flag=True, help="Of high importance (default: normal).")
@click.option("--pin", is_flag=True, help="Pin it: it never ages and heads every briefing (default: not pinned).")
@click.option(
    "--kind",
    type=click.Choice([kind.value for kind in SAVED_KINDS]),
    default=Kind.FACT.value,
    help="What sort of memory it is (default: fact).",
)
@click.option("--supersedes", metavar="ID", default=None, help="The memory that it replaces (default: none).")
@json_option
@pass_workspace
def save(
    workspace: Workspace, text: str, is_global: bool, project: str | None, summary: str | None, high: bool, pin: bool,
    kind: str, supersedes: str | None, as_json: bool,
) -> None:  # fmt: skip
    """Keep TEXT as a memory; - reads it from the standard input. Secrets are masked first.

    Example: engram save --global "Use pnpm, never npm"
    """
    content = sys.stdin.read() if text == "-" else text
    with workspace.store() as store:
        project_id = None if is_global else _project_id(workspace, store, project)
        made = save_memory(
            store, content, workspace.redactor(), scope=Scope.GLOBAL if is_global else Scope.PROJECT,
            importance=Importance.HIGH if high else Importance.NORMAL, project_id=project_id, supersedes=supersedes, is_pinned=pin,
            actor=Actor.USER, summary=summary, kind=Kind(kind),
        )  # fmt: skip
        facts = episode_to_json(store, made)
    wake_worker(workspace)
    if as_json:
        print_json(facts)
    else:
        click.echo(f"Saved as {made.episode_id}.")


def _project_id(workspace: Workspace, store: Store, project: str | None) -> int:
    if project is not None:
        found = find_project(store, workspace.settings, project)
        assert found is not None
        return found.id
    scope = scope_of_folder(store, workspace.settings, str(Path.cwd()), make=True)
    if scope.project is None:
        raise BadRequest(f"{Path.cwd()} is a root folder and no project: name one with --project, or take --global")
    return scope.project.id
