"""``engram purge``: delete archived and superseded memories for good."""

from __future__ import annotations

import click

from engram.cli.options import json_option, project_option
from engram.cli.output import iso, one_line, print_json, print_table
from engram.cli.workspace import Workspace, find_project, pass_workspace, wake_worker
from engram.enums import Actor
from engram.errors import BadRequest
from engram.memories.purge import ARCHIVED_DAYS, PurgePlan, PurgeReport, plan_named, plan_purge
from engram.memories.purge import purge as run_purge
from engram.models.store import Store

#: Memories that are listed at most; the rest is counted.
_LISTED = 50


@click.command("purge")
@click.argument("episode_ids", metavar="[ID]...", nargs=-1)
@click.option("--archived", "archived_days", type=click.IntRange(0), default=None, metavar="DAYS",
              help=f"Archived memories that nobody changed or used for so many days (default: {ARCHIVED_DAYS}, where "
              "neither --superseded nor an ID is given).")  # fmt: skip
@click.option("--superseded", "superseded_days", type=click.IntRange(0), default=None, metavar="DAYS",
              help="Superseded memories that nobody changed or used for so many days (default: none).")  # fmt: skip
@project_option
@click.option("--yes", is_flag=True, help="Delete them; this cannot be undone (default: only show what would go).")
@json_option
@pass_workspace
def purge(
    workspace: Workspace, episode_ids: tuple[str, ...], archived_days: int | None, superseded_days: int | None,
    project: str | None, yes: bool, as_json: bool,
) -> None:  # fmt: skip
    """Delete archived and superseded memories for good: their words, vectors and history.

    Consolidation only archives; this is for those who want the room back. Without --yes it only shows what would go.
    Pinned memories never go, highly important ones only when they are named. The turns that they rest on stay and can
    be searched, and the same memories are not made of them again. This cannot be undone, and consolidations that
    had changed a purged memory can no longer be undone either. Backups made before still hold what went; to delete
    something everywhere, turns and backups included, use `engram forget`.

    Example: engram purge --archived 365 --yes
    """
    with workspace.store() as store:
        plan = _plan(workspace, store, episode_ids, archived_days, superseded_days, project)
        report = run_purge(store, plan, actor=Actor.USER) if yes else None
    if report is not None and report.episode_ids:
        wake_worker(workspace)
    if as_json:
        print_json(_facts(plan, report))
    else:
        _print(plan, report)


def _plan(
    workspace: Workspace, store: Store, ids: tuple[str, ...], archived: int | None, superseded: int | None,
    project: str | None,
) -> PurgePlan:  # fmt: skip
    if ids:
        if project is not None or archived is not None or superseded is not None:
            raise BadRequest("name memories or say which, not both")
        return plan_named(store, ids)
    place = find_project(store, workspace.settings, project)
    return plan_purge(
        store, archived_days=ARCHIVED_DAYS if archived is None and superseded is None else archived,
        superseded_days=superseded, project_id=None if place is None else place.id,
    )  # fmt: skip


def _facts(plan: PurgePlan, report: PurgeReport | None) -> dict[str, object]:
    return {
        "purged": report is not None,
        "run": report.run_id or None if report is not None else None,
        "count": len(plan.memories) if report is None else len(report.episode_ids),
        "bytes": plan.size_bytes,
        "spared": plan.spared,
        "kept": 0 if report is None else report.kept,
        "memories": [
            {
                "id": one.episode_id,
                "status": one.status,
                "kind": one.kind,
                "importance": one.importance,
                "project": one.project,
                "summary": one.summary,
                "created_at": iso(one.created_at_ms),
            }
            for one in plan.memories
        ],
    }


def _print(plan: PurgePlan, report: PurgeReport | None) -> None:
    if report is None:
        print_table(
            ["id", "status", "kind", "summary"],
            [(one.episode_id, one.status, one.kind, one_line(one.summary, 90)) for one in plan.memories[:_LISTED]],
            empty="There is nothing to purge.",
        )
        if len(plan.memories) > _LISTED:
            click.echo(f"… and {len(plan.memories) - _LISTED} more")
    if plan.spared:
        click.echo(f"{plan.spared} more stay, since they are pinned or highly important; name those to be purged.")
    if report is not None:
        kept = f"; {report.kept} stay, since they changed meanwhile" if report.kept else ""
        click.echo(f"Purged {_memories(len(report.episode_ids))} for good{kept}." if report.episode_ids or report.kept
                   else "There is nothing to purge.")  # fmt: skip
    elif plan.memories:
        click.echo(f"{_memories(len(plan.memories))}, {plan.size_bytes / 1000:,.0f} KB. Nothing was deleted; with --yes "
                   "they are, and that cannot be undone.")  # fmt: skip


def _memories(number: int) -> str:
    return "1 memory" if number == 1 else f"{number} memories"
