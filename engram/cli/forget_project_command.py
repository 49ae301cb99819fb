"""``engram projects forget``: delete everything of a project, everywhere."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.confirming import confirm, tell, yes_option
from engram.cli.options import json_option
from engram.cli.output import one_line
from engram.cli.workspace import Workspace, pass_workspace, wake_worker
from engram.enums import Actor
from engram.ingest.folder import named_project
from engram.memories.forget_project import ForgottenProject, forget_project
from engram.models.project_erasing import contents_of_project


@click.command("forget")
@click.argument("name")
@yes_option
@json_option
@pass_workspace
def forget(workspace: Workspace, name: str, yes: bool, as_json: bool) -> None:
    """Delete everything of the project NAME for good: turns, memories, notes, and the same in backups.

    Nothing that was said in it until now is read again. The folder stays known: what is said there from now on is read
    as before, unless the setting `exclude` names it. Global memories that came from it stay without what
    they rested on, and are listed. The transcripts belong to Claude Code and stay.

    Example: engram projects forget harbor-2
    """
    with workspace.store() as store:
        place = named_project(store, name)
        contents = contents_of_project(store, place)
        for episode in () if as_json else contents.released:
            click.echo(f"stays, global: {episode.episode_id}  {one_line(episode.summary)}")
        confirm(
            yes,
            as_json,
            f"{len(contents.session_ids)} sessions with {len(contents.turn_ids)} turns, and {len(contents.memories)} "
            f"memories of {place.name} ({place.root}), with its notes, are deleted for good, in backups too. "
            "This can't be undone. Go on?",
        )
        report = forget_project(store, workspace.places, place, actor=Actor.USER)
    wake_worker(workspace)
    tell(as_json, _forgotten_as_json(report), _forgotten_sentence(report))


def _forgotten_as_json(report: ForgottenProject) -> dict[str, Any]:
    return {
        "project": report.name,
        "folder": report.folder,
        "sessions": report.sessions,
        "turns": report.turns,
        "memories": report.memories,
        "kept_global": [{"id": one.episode_id, "summary": one.summary} for one in report.kept_global],
        "files": list(report.files),
        "backups": report.backups,
        "dropped_backups": report.dropped_backups,
        "new_sessions_are_read": True,
    }


def _forgotten_sentence(report: ForgottenProject) -> str:
    stays = f" {len(report.kept_global)} global memories stay; `engram forget ID` deletes one." * bool(
        report.kept_global
    )
    return (
        f"Forgotten: {report.turns} turns and {report.memories} memories of {report.name}; {len(report.files)} files "
        f"changed, {report.backups + report.dropped_backups} backups cleaned.{stays} What was said there is never read "
        f"again. New sessions in {report.folder} are read as before; exclude the folder if you want none."
    )
