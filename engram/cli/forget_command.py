"""``engram forget``: delete a memory, and the words that only it rests on, everywhere."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import one_line, print_json, safe
from engram.cli.workspace import Workspace, pass_workspace
from engram.enums import Actor
from engram.errors import BadRequest
from engram.memories.forget import ForgetReport, forget_episode
from engram.memories.forget_plan import ForgetPlan, plan_forget
from engram.models.store import Store


@click.command("forget")
@click.argument("episode_id", metavar="ID")
@click.option(
    "--also-source/--only-memory",
    "also_source",
    default=None,
    help="Delete the whole turns that it rests on, with every memory that rests on them; or this memory and the "
    "words that only it rests on (default: ask; with --yes, the memory only).",
)
@click.option("--yes", is_flag=True, help="Don't ask (default: show what will be deleted, and ask).")
@json_option
@pass_workspace
def forget(workspace: Workspace, episode_id: str, also_source: bool | None, yes: bool, as_json: bool) -> None:
    """Delete a memory for good, with the words of the transcript that no other memory rests on.

    They are deleted from the database, the text index, the vectors, the history, the notes, the recollections, and
    from exports and backups in the memory folder. Reading, extracting, importing or restoring does not bring them
    back. What another memory still needs stays, and is listed. The transcript belongs to Claude Code and is not
    changed.

    Example: engram forget ep_0123456789ab --only-memory
    """
    with workspace.store() as store:
        if not yes:
            if as_json:
                raise BadRequest("--json can't ask: add --yes")
            also_source = _confirm(store, episode_id, also_source)
        report = forget_episode(store, workspace.places, episode_id, also_source=bool(also_source), actor=Actor.USER)
    workspace.wake_worker()
    if as_json:
        print_json(_facts(report))
    else:
        click.echo(f"Forgotten: {safe(report.describe())}")


def _confirm(store: Store, episode_id: str, also_source: bool | None) -> bool:
    """Show what would be deleted, and ask. Returns whether whole turns are deleted."""
    memory_only = plan_forget(store, episode_id)
    if also_source is None:
        with_source = plan_forget(store, episode_id, also_source=True)
        _show(memory_only)
        if with_source.turn_ids:
            click.echo(
                f"With the source: {len(with_source.memories)} memories and {len(with_source.turn_ids)} whole turns."
            )
            choice = click.prompt(
                "Forget only this memory, or also the source?",
                default="nothing",
                type=click.Choice(["memory", "source", "nothing"]),
            )
            if choice == "nothing":
                raise click.Abort
            return bool(choice == "source")
    else:
        _show(plan_forget(store, episode_id, also_source=True) if also_source else memory_only)
    click.confirm("Delete this for good?", abort=True)
    return bool(also_source)


def _show(plan: ForgetPlan) -> None:
    for episode in plan.memories:
        click.echo(f"{episode.episode_id}  {one_line(episode.summary)}")
    if plan.turn_ids:
        click.echo(f"and {len(plan.turn_ids)} whole turns")
    elif plan.erased:
        click.echo(f"and the words of {len(plan.erased)} entries that nothing else rests on")
    for needed in plan.needed:
        needers = ", ".join(episode.episode_id for episode in needed.needed_by)
        click.echo(f"kept: entry {needed.entry}, needed by {needers}")


def _facts(report: ForgetReport) -> dict[str, object]:
    return {
        "forgotten": list(report.episode_ids),
        "summary": report.summary,
        "turns": report.turns,
        "entries": report.entries,
        "needed": [
            {"entry": entry.entry, "by": [episode.episode_id for episode in entry.needed_by]} for entry in report.needed
        ],
        "restored": list(report.restored),
        "files": list(report.files),
        "backups": report.backups,
        "dropped_backups": report.dropped_backups,
    }
