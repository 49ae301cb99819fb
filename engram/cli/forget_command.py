"""``engram forget``: delete a memory and the turns it rests on, everywhere."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import one_line, print_json
from engram.cli.workspace import Workspace, pass_workspace, wake_worker
from engram.consolidation.forget import forget_episode, plan_forget
from engram.errors import BadRequest


@click.command("forget")
@click.argument("episode_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask (default: show what goes, and ask).")
@click.option("--keep-turns", is_flag=True, help="Keep the turns that it rests on (default: they go with it).")
@json_option
@pass_workspace
def forget(workspace: Workspace, episode_id: str, yes: bool, keep_turns: bool, as_json: bool) -> None:
    """Delete a memory for good, with the turns it rests on and everything else that was made of them.

    It goes from the database, the text index, the vectors, the history, the notes, the recollections, and the exports
    and backups in the memory folder, and neither another reading nor an import brings it back. The transcript itself
    belongs to Claude Code and stays.

    Example: engram forget ep_0123456789ab --keep-turns
    """
    with workspace.store() as store:
        memories, turn_ids = plan_forget(store, episode_id, keep_turns=keep_turns)
        if not yes:
            if as_json:
                raise BadRequest("--json asks nothing: add --yes to forget")
            for one in memories:
                click.echo(f"{one.episode_id}  {one_line(one.summary)}")
            click.confirm(f"Forget {len(memories)} memories and {len(turn_ids)} turns for good?", abort=True)
        report = forget_episode(store, workspace.places, episode_id, keep_turns=keep_turns)
    wake_worker(workspace)
    if as_json:
        print_json(
            {"forgotten": list(report.episode_ids), "turns": report.turns, "files": list(report.files),
             "backups": report.backups, "dropped_backups": report.dropped_backups}
        )  # fmt: skip
    else:
        click.echo(f"Forgotten: {report.describe()}")
