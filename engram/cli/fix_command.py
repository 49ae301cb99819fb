"""``engram fix``: what fixed an error before."""

from __future__ import annotations

import sys

import click

from engram.cli.options import json_option, limit_option, project_option
from engram.cli.output import one_line, print_json, say, when
from engram.cli.workspace import Workspace, current_folder, find_project, pass_workspace
from engram.enums import Kind, Verdict
from engram.errors import BadRequest, NotFound
from engram.ingest.folder import scope_of_folder
from engram.models.projects import list_projects
from engram.recollection.past_fixes import PastFix, find_fixes
from engram.redaction import redact
from engram.transcripts.git_files import read_branch
from engram.worker.explain_client import explain_prompt

#: Longest error that is read, in characters.
MAX_ERROR_CHARACTERS = 100_000


@click.command("fix")
@click.argument("error")
@project_option
@limit_option(5, "results")
@json_option
@pass_workspace
def fix(workspace: Workspace, error: str, project: str | None, limit: int, as_json: bool) -> None:
    """Show what fixed an error before: how the command passed later, memories of fixes, and dead ends.

    ERROR is the message or its telling line; `-` reads it from standard input. Looks in the project of this folder;
    outside of any, in all projects. Exits with 1 if nothing is known.

    Example: engram fix "ModuleNotFoundError: No module named 'yaml'"
    """
    text = sys.stdin.read(MAX_ERROR_CHARACTERS) if error == "-" else error
    if not text.strip():
        raise BadRequest("the error is empty: give the message, or its telling line")
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        place = place or scope_of_folder(store, workspace.settings, current_folder()).project
        places = [row.id for row in list_projects(store)] if place is None else [place.id]
        error = text[:MAX_ERROR_CHARACTERS]
        explained, _, _ = explain_prompt(store, workspace.settings, error, place, with_worker=not workspace.flags)
        told = {
            memory.candidate.episode_id: memory.candidate.score
            for memory in explained.memories
            if memory.candidate.verdict is Verdict.SHOWN
        }
        branches = {read_branch(current_folder())}
        fixes = find_fixes(store, redact(error), places, limit, told=told, branches=branches)
    if as_json:
        print_json({"fixes": [found.to_json() for found in fixes]})
        return
    if not fixes:
        where = "any project" if place is None else one_line(place.name, 60)
        raise NotFound(f"no earlier fix of this error is known in {where}; `engram search` looks in all words")
    for found in fixes:
        _print(found, "" if place is None else place.name)


def _print(found: PastFix, here: str) -> None:
    what = "Did not work" if found.kind is Kind.DEAD_END else "Fixed"
    named = f" ({found.id})" if found.id else ""
    where = f", in {one_line(found.project, 60)}" if found.project not in ("", here) else ""
    say(f"{what}, {when(found.at_ms)}{where}: {one_line(found.text, 400)}{named}")
    if found.words:
        say(f"  {one_line(found.words, 400)}")
    if found.resume:
        say(f"  resume: {found.resume}")
