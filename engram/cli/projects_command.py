"""``engram projects``: what is known by which folder, and what to do where a folder was renamed or moved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from engram.cli.confirming import confirm, tell, yes_option
from engram.cli.forget_project_command import forget
from engram.cli.options import json_option
from engram.cli.output import print_facts, print_json, print_table, safe
from engram.cli.workspace import Workspace, pass_workspace, wake_worker
from engram.enums import Actor
from engram.errors import BadRequest
from engram.ingest.folder import named_project
from engram.ingest.moves import Move, find_moves
from engram.ingest.scope import identify_folder
from engram.models.project_folders import (
    ProjectCounts,
    ProjectHints,
    count_projects,
    link_folder,
    list_hints,
    merge_projects,
    rename_project,
)
from engram.models.sessions import find_project_of_identity


@click.group("projects", invoke_without_command=True)
@click.pass_context
def projects(ctx: click.Context) -> None:
    """See the projects and their folders; join what was renamed or moved (default: list).

    A project is known by its folder. Where that is gone and a new folder has the same remote and the same first commit,
    the worker joins them by itself; `engram projects` proposes what is less certain.

    Example: engram projects merge harbor-2 harbor
    """
    if ctx.invoked_subcommand is None:
        ctx.invoke(list_projects, as_json=False)


projects.add_command(forget)


@projects.command("list")
@json_option
@pass_workspace
def list_projects(workspace: Workspace, as_json: bool) -> None:
    """List every project with its folder, sessions and memories, and what may have moved.

    Example: engram projects list --json
    """
    with workspace.store() as store:
        counts = count_projects(store)
        known = [_as_json(one, counts) for one in list_hints(store)]
        moves = [_move_as_json(one) for one in find_moves(store)]
    if as_json:
        print_json({"projects": known, "moves": moves})
        return
    rows = [
        (one["name"], one["folder"] + ("" if one["folder_exists"] else " (gone)"), one["sessions"], one["memories"])
        for one in known
    ]
    print_table(("project", "folder", "sessions", "memories"), rows, empty="No project is known yet.")
    for one in moves:
        click.echo(
            safe(f"{one['former']} may be {one['present']} now: engram projects merge {one['present']} {one['former']}")
        )


@projects.command("show")
@click.argument("name")
@json_option
@pass_workspace
def show(workspace: Workspace, name: str, as_json: bool) -> None:
    """Show one project: its folders, its remote and first commit, and what belongs to it.

    Example: engram projects show harbor
    """
    with workspace.store() as store:
        place = named_project(store, name)
        counts = count_projects(store)
        facts = next(_as_json(one, counts) for one in list_hints(store) if one.project.id == place.id)
    if as_json:
        print_json(facts)
    else:
        print_facts((key.replace("_", " "), _shown(value)) for key, value in facts.items())


@projects.command("link")
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("name")
@yes_option
@json_option
@pass_workspace
def link(workspace: Workspace, folder: Path, name: str, yes: bool, as_json: bool) -> None:
    """Let a folder that is no project yet mean the project NAME from now on.

    Example: engram projects link ~/src/harbor-next harbor
    """
    with workspace.store() as store:
        place = named_project(store, name)
        found = identify_folder(str(folder.expanduser().absolute()), workspace.settings)
        if found.is_global or not found.identity:
            raise BadRequest(f"{folder} is a root folder of projects, so it can't be one")
        known = find_project_of_identity(store, found.identity)
        if known is not None and known.id == place.id:
            raise BadRequest(f"{folder} means {place.name} already")
        if known is not None:
            raise BadRequest(f"{folder} is the project {known.name}: engram projects merge {known.name} {place.name}")
        confirm(
            yes, as_json, f"Sessions in {found.root} see and add to the memories of {place.name} from now on. Go on?"
        )
        with store.transaction() as tx:
            link_folder(tx, place, found.identity, found.root, "by hand")
    tell(as_json, {"project": place.name, "folder": found.root}, f"{found.root} means {place.name} now.")


@projects.command("merge")
@click.argument("source")
@click.argument("into")
@yes_option
@json_option
@pass_workspace
def merge(workspace: Workspace, source: str, into: str, yes: bool, as_json: bool) -> None:
    """Give everything of the project SOURCE to the project INTO; its folder means INTO from then on.

    There is no undo: nothing tells afterwards which sessions and memories were SOURCE's. The only way back is a backup
    from before (`engram restore`).

    Example: engram projects merge harbor-2 harbor
    """
    with workspace.store() as store:
        other, place = named_project(store, source), named_project(store, into)
        counts = count_projects(store).get(other.id, ProjectCounts())
        confirm(
            yes,
            as_json,
            f"{counts.sessions} sessions and {counts.memories} memories of {other.name} ({other.root}) become "
            f"{place.name}'s ({place.root}). There is no undo: this can't be taken apart again. Go on?",
        )
        moved = merge_projects(store, place, other, "by hand", actor=Actor.USER)
    wake_worker(workspace)
    sentence = f"{moved} sessions moved; {other.root} means {place.name} now."
    tell(as_json, {"project": place.name, "folder": other.root, "sessions": moved}, sentence)


@projects.command("rename")
@click.argument("name")
@click.argument("new_name")
@json_option
@pass_workspace
def rename(workspace: Workspace, name: str, new_name: str, as_json: bool) -> None:
    """Give a project another name for display; its folder stays what it is known by.

    Example: engram projects rename harbor-2 harbor-old
    """
    with workspace.store() as store:
        renamed = rename_project(store, named_project(store, name), new_name)
    tell(as_json, {"project": renamed}, f"{name} is named {renamed} now.")


def _as_json(one: ProjectHints, counts: dict[int, ProjectCounts]) -> dict[str, Any]:
    found = counts.get(one.project.id, ProjectCounts())
    return {
        "name": one.project.name,
        "folder": one.project.root or one.project.identity,
        "folder_exists": os.path.isdir(one.project.root) if one.project.root else False,
        "joined_folders": list(one.folders),
        "remote": one.remote,
        "first_commit": one.first_commit,
        "sessions": found.sessions,
        "memories": found.memories,
    }


def _move_as_json(one: Move) -> dict[str, Any]:
    return {
        "former": one.former.project.name,
        "former_folder": one.former.project.root,
        "present": one.present.project.name,
        "present_folder": one.present.project.root,
        "certain": one.is_certain,
    }


def _shown(value: object) -> object:
    return ", ".join(map(str, value)) if isinstance(value, list) else value
