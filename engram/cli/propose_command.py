"""``engram propose``: lines for CLAUDE.md that kept being needed, as a diff."""

from __future__ import annotations

from pathlib import Path

import click

from engram.cli.confirming import confirm, yes_option
from engram.cli.options import json_option
from engram.cli.output import print_json, safe, say
from engram.cli.workspace import Workspace, current_folder, find_project, pass_workspace
from engram.ingest.folder import scope_of_folder
from engram.memories.propose import MIN_NEEDED_SESSIONS, Proposal, apply_proposal, propose_lines


@click.command("propose")
@click.option(
    "--project", metavar="NAME", default=None, help="The project's name or folder (default: the current folder's)."
)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="The file for the project's lines, such as .claude/rules/learned.md (default: its CLAUDE.md).",
)
@click.option("--apply", "is_applied", is_flag=True, help="Write the lines after asking (default: only show them).")
@yes_option
@json_option
@pass_workspace
def propose(
    workspace: Workspace, project: str | None, target: Path | None, is_applied: bool, yes: bool, as_json: bool
) -> None:
    """Show lines for CLAUDE.md as a diff: rules of yours that were said or used in three sessions.

    Rules of a project are for its CLAUDE.md, rules for all projects and rules that you gave in two projects for your
    own. What one of your CLAUDE.md and rules
    files says already is left out. Nothing is written without --apply.

    Example: engram propose --apply
    """
    with workspace.store() as store:
        row = find_project(store, workspace.settings, project)
        if project is None:
            row = scope_of_folder(store, workspace.settings, current_folder()).project
        proposals = propose_lines(store, workspace.settings, row, target)
    if is_applied and proposals:
        if not as_json:
            _print(proposals)
        files = ", ".join(str(proposal.path) for proposal in proposals)
        confirm(yes, as_json, f"Write this to {files}?")
        for proposal in proposals:
            apply_proposal(proposal)
        workspace.wake_worker()
    if as_json:
        print_json({"applied": is_applied, "proposals": [_to_json(proposal) for proposal in proposals]})
    elif not proposals:
        say(f"Nothing to propose: every rule that {MIN_NEEDED_SESSIONS} sessions needed stands in your files already.")
    elif is_applied:
        say("Written.")
    else:
        _print(proposals)
        say("Nothing was written. `engram propose --apply` writes it.")


def _print(proposals: list[Proposal]) -> None:
    for proposal in proposals:
        click.echo(safe(proposal.diff))


def _to_json(proposal: Proposal) -> dict[str, object]:
    return {
        "path": str(proposal.path),
        "diff": proposal.diff,
        "lines": [
            {"id": line.episode_id, "text": line.text, "said_sessions": line.said, "used_sessions": line.used}
            for line in proposal.lines
        ],
    }
