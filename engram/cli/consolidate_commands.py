"""``engram consolidate``: tidy the memories now, preview that, or undo a run."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from engram.cli.options import confirm, json_option, yes_option
from engram.cli.output import local, one_line, print_json, print_table, safe, say
from engram.cli.workspace import Workspace, current_folder, find_project, pass_workspace
from engram.consolidation.consolidation_run import consolidate as run_consolidation
from engram.consolidation.undo import undo_run
from engram.embedding.embedder import duplicate_cosine
from engram.enums import Actor
from engram.ingest.session_project import scope_of_folder
from engram.memories.propose import MIN_NEEDED_SESSIONS, Proposal, apply_proposal, propose_lines
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import list_runs
from engram.reports.use_report import run_to_json


@click.command("consolidate")
@click.option("--preview", "--dry-run", "dry_run", is_flag=True, help="Show what would change (default: change it).")
@click.option(
    "--undo",
    "undo_id",
    type=click.IntRange(1),
    default=None,
    metavar="RUN",
    help="Undo the changes of a run (default: consolidate).",
)
@click.option(
    "--list",
    "only_list",
    is_flag=True,
    help="List the latest runs: consolidations, and what extractions, saves and decisions "
    "changed (default: consolidate).",
)
@json_option
@pass_workspace
def consolidate(workspace: Workspace, dry_run: bool, undo_id: int | None, only_list: bool, as_json: bool) -> None:
    """Archive duplicates, merge similar memories, replace outdated ones, fade unused ones, and graduate proven ones.

    The worker does this every four hours. Nothing is deleted; every change is logged and can be undone.

    Example: engram consolidate --preview
    """
    with workspace.store() as store:
        if only_list:
            _list(store, as_json)
            return
        if undo_id is not None:
            facts = {
                "run": undo_id,
                "undone": True,
                "lines": undo_run(store, workspace.settings, undo_id, actor=Actor.USER),
            }
        else:
            facts = _consolidate(workspace, store, dry_run)
    workspace.wake_worker()
    if as_json:
        print_json(facts)
        return
    for line in facts["lines"] if isinstance(facts["lines"], list) else []:
        click.echo(safe(str(line)))
    _print_waiting(facts)
    click.echo(_sentence(facts))


def _print_waiting(facts: dict[str, object]) -> None:
    """Print the memories that a dry run found to be not yet proven."""
    waiting = facts.get("not_graduating")
    for line in waiting if isinstance(waiting, list) else []:
        click.echo(f"not graduating yet: {one_line(str(line), 160)}")


def _consolidate(workspace: Workspace, store: Store, dry_run: bool) -> dict[str, object]:
    from engram.embedding.load_model import load_model
    from engram.search.vectors.loaded_vectors import similar_pairs
    from engram.tasks.runtime import find_model_steps

    embedder, _ = load_model(workspace.settings)
    distilling, reconciling = find_model_steps(workspace.settings, store)
    report = run_consolidation(
        store,
        workspace.settings,
        similar=None if embedder is None else partial(similar_pairs, store, embedder.model_id),
        duplicate_cosine=duplicate_cosine(embedder),
        distilling=distilling,
        reconciling=reconciling,
        is_dry=dry_run,
        is_forced=True,
    )
    return {
        "run": report.run_id or None,
        "dry": dry_run,
        "has_run": report.has_run,
        "complete": report.is_complete,
        "lines": list(report.lines),
        "not_graduating": list(report.not_graduating),
    }


def _sentence(facts: dict[str, object]) -> str:
    if facts.get("undone"):
        return f"Run {facts['run']} was undone."
    if not facts["has_run"]:
        return "Another process is consolidating. Nothing was done; try again later."
    if facts["dry"]:
        return "Nothing was changed." if facts["lines"] else "There is nothing to do."
    return f"Done. To undo it, run: engram consolidate --undo {facts['run']}"


def _list(store: Store, as_json: bool) -> None:
    rows = [run_to_json(run) for run in list_runs(store)]
    if as_json:
        print_json({"runs": rows})
    else:
        print_table(
            ["run#", "kind", "started", "state", "changes#"],
            [(row["run"], row["kind"], local(row["started_at"]), row["state"], row["changes"]) for row in rows],
            empty="No runs yet.",
        )


# -- ``engram propose``: lines for CLAUDE.md that are needed again and again, as a diff.


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

    Rules of a project are for its CLAUDE.md; rules for all projects, and rules that you gave in two projects, are for
    your own. Rules that your CLAUDE.md or rules files already contain are left out. Nothing is written without --apply.

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
        say(f"Nothing to propose: {MIN_NEEDED_SESSIONS} sessions needed no rule that your files don't have.")
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
