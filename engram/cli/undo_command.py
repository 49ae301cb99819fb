"""``engram undo``: take back the last change of one memory."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, say, when
from engram.cli.workspace import Workspace, pass_workspace
from engram.consolidation.undo import UndoPlan, plan_undo, undo_last_change
from engram.enums import Actor
from engram.memories.save import require_episode
from engram.reports.episode_json import episode_to_json


@click.command("undo")
@click.argument("episode_id", metavar="ID")
@click.option("--dry-run", is_flag=True, help="Show what would be taken back (default: take it back).")
@json_option
@pass_workspace
def undo(workspace: Workspace, episode_id: str, dry_run: bool, as_json: bool) -> None:
    """Take back the last change of a memory: an edit, a pin, a judgement, a correction, a merge, a save.

    What was changed together with it is taken back with it: of a correction, the new memory goes and the old one is in
    force again. The undo stands in the history, and undoing once more takes the undo back. What was forgotten stays
    forgotten. `engram consolidate --undo RUN` takes a whole run back.

    Example: engram undo ep_0123456789ab --dry-run
    """
    with workspace.store() as store:
        if dry_run:
            plan = plan_undo(store, require_episode(store, episode_id))
        else:
            plan = undo_last_change(store, workspace.settings, episode_id, actor=Actor.USER)
        facts = {"dry": dry_run, **plan.to_json()}
        facts["memory"] = episode_to_json(store, require_episode(store, episode_id))
    if not dry_run:
        workspace.wake_worker()
    if as_json:
        print_json(facts)
    else:
        _print(plan, dry_run)


def _print(plan: UndoPlan, is_dry: bool) -> None:
    change = plan.change
    reason = f" ({change.reason})" if change.reason else ""
    say(
        f"{'Would take back' if is_dry else 'Took back'}: {change.action}{reason}, {when(change.at_ms)}, {change.actor}"
    )
    for line in plan.lines():
        say(f"  {line}")
    if not is_dry:
        click.echo("`engram undo` once more takes this back.")
