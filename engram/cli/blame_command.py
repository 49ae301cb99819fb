"""``engram blame``: which memories and sessions touched a file, and why."""

from __future__ import annotations

import os
from pathlib import Path

import click

from engram.cli.options import json_option, limit_option
from engram.cli.output import one_line, print_json, say, when
from engram.cli.workspace import Workspace, current_folder, pass_workspace
from engram.errors import NotFound
from engram.ingest.folder import scope_of_folder
from engram.models.branches import branch_place
from engram.recollection.blame import Touch, blame_file


@click.command("blame")
@click.argument("file", type=click.Path())
@limit_option(20, "results")
@json_option
@pass_workspace
def blame(workspace: Workspace, file: str, limit: int, as_json: bool) -> None:
    """Show which memories and sessions touched a file and why, newest first, with their commits.

    FILE may be deleted by now; its folder says which project it belongs to. Exits with 1 if nothing is known of it.

    Example: engram blame src/cache.py
    """
    path = Path(os.path.normpath(os.path.join(current_folder() or "/", os.path.expanduser(file))))
    with workspace.store() as store:
        folder = next((str(parent) for parent in path.parents if parent.is_dir()), str(path.parent))
        project = scope_of_folder(store, workspace.settings, folder).project
        if project is None:
            raise NotFound(f"{path} is in no known project; `engram projects` lists those that were read")
        root = os.path.realpath(project.root) if project.root else folder
        real = Path(os.path.realpath(path))
        relative = real.relative_to(root).as_posix() if real.is_relative_to(root) else real.name
        touches = blame_file(store, project.id, relative, project.root, limit)
    if as_json:
        print_json({"file": relative, "project": project.name, "touches": [touch.to_json() for touch in touches]})
        return
    if not touches:
        raise NotFound(f"nothing is known of {relative} in {project.name}")
    for touch in touches:
        _print(touch)


def _print(touch: Touch) -> None:
    place = f", {branch_place(touch.branch, is_unmerged=touch.is_unmerged)}" if touch.branch else ""
    named = f" ({touch.id})" if touch.id else ""
    say(f"{when(touch.at_ms)} {touch.kind}{place}: {one_line(touch.text, 300)}{named}")
    for commit in touch.commits:
        say(f"  commit {one_line(commit, 160)}")
    if touch.resume:
        say(f"  resume: {touch.resume}")
