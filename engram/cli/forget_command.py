"""``engram forget``: delete a memory, and the words that only it rests on, everywhere."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import one_line, print_json, safe, when
from engram.cli.workspace import Workspace, pass_workspace
from engram.enums import Actor
from engram.errors import BadRequest
from engram.memories.forget import ForgetReport, forget_episode
from engram.memories.forget_plan import plan_forget
from engram.memories.forget_preview import ForgetPreview, preview_forget
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
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, word for word (default: delete it).")
@json_option
@pass_workspace
def forget(
    workspace: Workspace, episode_id: str, also_source: bool | None, yes: bool, dry_run: bool, as_json: bool
) -> None:
    """Delete a memory for good, with the words of the transcript that no other memory rests on; or a quotation (q_…).

    They are deleted from the database, the text index, the vectors, the history, the notes, the recollections, and
    from exports and backups in the memory folder. Reading, extracting, importing or restoring does not bring them
    back. What another memory still needs stays, and is listed. Of a quotation the words of the whole message go, with
    the memories that were made of them alone or repeat them. The transcript belongs to Claude Code and is not
    changed.

    --dry-run shows all of that, and what stays, and deletes nothing.

    Example: engram forget ep_0123456789ab --only-memory
    """
    with workspace.store() as store:
        if dry_run:
            preview = preview_forget(store, workspace.places, episode_id, also_source=bool(also_source))
            if as_json:
                print_json(preview.to_json())
            else:
                _show(preview)
                click.echo("Nothing was deleted.")
            return
        if not yes:
            if as_json:
                raise BadRequest("--json can't ask: add --yes")
            also_source = _confirm(store, workspace, episode_id, also_source)
        report = forget_episode(store, workspace.places, episode_id, also_source=bool(also_source), actor=Actor.USER)
    workspace.wake_worker()
    if as_json:
        print_json(_facts(report))
    else:
        click.echo(f"Forgotten: {safe(report.describe())}")


def _confirm(store: Store, workspace: Workspace, episode_id: str, also_source: bool | None) -> bool:
    """Show what would be deleted, and ask. Returns whether whole turns are deleted."""
    _show(preview_forget(store, workspace.places, episode_id, also_source=bool(also_source)))
    with_source = plan_forget(store, episode_id, also_source=True) if also_source is None else None
    if with_source is not None and with_source.turn_ids:
        click.echo(
            f"With the source: {len(with_source.memories)} memories and {len(with_source.turn_ids)} whole turns."
        )
        choice = click.prompt(
            "Forget only this, or also the source?",
            default="nothing",
            type=click.Choice(["memory", "source", "nothing"]),
        )
        if choice == "nothing":
            raise click.Abort
        return bool(choice == "source")
    click.confirm("Delete this for good?", abort=True)
    return bool(also_source)


def _show(preview: ForgetPreview) -> None:
    plan = preview.plan
    if plan.quotation is not None:
        click.echo(f"quotation {plan.quotation.quotation_id}  {one_line(plan.title)}")
    for episode in plan.memories:
        click.echo(f"memory {episode.episode_id}  {one_line(episode.summary)}")
    for stored in preview.turns:
        click.echo(f"turn {when(stored.turn.started_at_ms)}  {one_line(stored.turn.prompt)}")
    for entry in preview.entries:
        words = one_line(" ".join(entry.texts)) or "(no stored words)"
        click.echo(f"words of {one_line(entry.place.text if entry.place.path else entry.place.uuid)}  {words}")
    if plan.cut is not None:
        click.echo(f"its words in {plan.cut.episode_id}, which then says: {one_line(plan.cut.summary)}")
    for episode in plan.restored:
        click.echo(f"in force again: {episode.episode_id}  {one_line(episode.summary)}")
    for episode in plan.staying:
        click.echo(f"kept, without what it quotes: {episode.episode_id}  {one_line(episode.summary)}")
    for needed in plan.needed:
        needers = ", ".join(episode.episode_id for episode in needed.needed_by)
        click.echo(f"kept: entry {needed.entry}, needed by {needers}")
    if preview.files:
        click.echo(f"files that change: {one_line(', '.join(preview.files), 400)}")
    if preview.backups:
        click.echo(f"backups that are cleaned of it: {preview.backups}")
    if preview.foreign:
        click.echo(f"kept: its words in {one_line(', '.join(preview.foreign))}, another program's database")


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
        "foreign": list(report.foreign),
        "staying": [episode.episode_id for episode in report.staying],
    }
