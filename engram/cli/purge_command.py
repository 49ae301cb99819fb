"""``engram purge``: delete archived and superseded memories for good."""

from __future__ import annotations

import click

from engram.cli.options import json_option, project_option
from engram.cli.output import one_line, print_json, print_table
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.enums import Actor
from engram.errors import BadRequest
from engram.memories.purge import ARCHIVED_DAYS, PurgePlan, PurgeReport, plan_named, plan_purge, purge_to_json
from engram.memories.purge import purge as run_purge
from engram.models.store import Store

#: Memories that are listed at most; the others are counted.
_LISTED = 50


@click.command("purge")
@click.argument("episode_ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--archived",
    "archived_days",
    type=click.IntRange(0),
    default=None,
    metavar="DAYS",
    help=f"Archived memories that were not changed or used for this many days (default: {ARCHIVED_DAYS}, if "
    "neither --superseded nor an ID is given).",
)
@click.option(
    "--superseded",
    "superseded_days",
    type=click.IntRange(0),
    default=None,
    metavar="DAYS",
    help="Superseded memories that were not changed or used for this many days (default: none).",
)
@project_option
@click.option(
    "--yes", is_flag=True, help="Delete them; this can't be undone (default: only show what would be deleted)."
)
@json_option
@pass_workspace
def purge(
    workspace: Workspace,
    episode_ids: tuple[str, ...],
    archived_days: int | None,
    superseded_days: int | None,
    project: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete archived and superseded memories for good: their words, vectors and history.

    Consolidation only archives; purging frees the space. Without --yes this only shows what would be deleted. Pinned
    memories are never purged, important ones only if you name them. The turns that they rest on stay searchable, and
    the same memories are not made again. A purge can't be undone, and neither can consolidations that had changed a
    purged memory. Older backups still contain what was purged; to delete something everywhere, use `engram forget`.

    Example: engram purge --archived 365 --yes
    """
    with workspace.store() as store:
        plan = _plan(workspace, store, episode_ids, archived_days, superseded_days, project)
        report = run_purge(store, plan, actor=Actor.USER) if yes else None
    if report is not None and report.episode_ids:
        workspace.wake_worker()
    if as_json:
        print_json(purge_to_json(plan, report))
    else:
        _print(plan, report)


def _plan(
    workspace: Workspace,
    store: Store,
    ids: tuple[str, ...],
    archived: int | None,
    superseded: int | None,
    project: str | None,
) -> PurgePlan:
    if ids:
        if project is not None or archived is not None or superseded is not None:
            raise BadRequest("give IDs or --archived/--superseded, not both")
        return plan_named(store, ids)
    place = find_project(store, workspace.settings, project)
    return plan_purge(
        store,
        archived_days=ARCHIVED_DAYS if archived is None and superseded is None else archived,
        superseded_days=superseded,
        project_id=None if place is None else place.id,
    )


def _print(plan: PurgePlan, report: PurgeReport | None) -> None:
    if report is None:
        print_table(
            ["id", "status", "kind", "summary"],
            [
                (memory.episode_id, memory.status, memory.kind, one_line(memory.summary, 90))
                for memory in plan.memories[:_LISTED]
            ],
            empty="There is nothing to purge.",
        )
        if len(plan.memories) > _LISTED:
            click.echo(f"… and {len(plan.memories) - _LISTED} more")
    if plan.spared:
        click.echo(
            f"{plan.spared} more are kept, since they are pinned or important. Name those that you want to purge."
        )
    if report is not None:
        kept = f"; kept {report.kept} that changed meanwhile" if report.kept else ""
        click.echo(
            f"Purged {_memories(len(report.episode_ids))} for good{kept}."
            if report.episode_ids or report.kept
            else "There is nothing to purge."
        )
    elif plan.memories:
        click.echo(
            f"{_memories(len(plan.memories))}, {plan.size_bytes / 1000:,.0f} KB. Nothing was deleted. --yes deletes "
            "them, and that can't be undone."
        )


def _memories(number: int) -> str:
    return "1 memory" if number == 1 else f"{number} memories"
