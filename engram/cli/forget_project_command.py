"""``engram projects forget``: delete everything of a project, everywhere."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.confirming import confirm, tell, yes_option
from engram.cli.options import json_option
from engram.cli.output import one_line
from engram.cli.workspace import Workspace, pass_workspace
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
    """Delete everything of the project NAME for good: turns, memories and notes, also in backups.

    What was said in it until now is never read again. The folder stays known: new sessions in it are read as before,
    unless the setting `exclude` names it. Global memories that came from the project stay, without their evidence, and
    are listed. The transcripts belong to Claude Code and are not changed.

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
            f"This deletes {len(contents.session_ids)} sessions with {len(contents.turn_ids)} turns, "
            f"{len(contents.memories)} "
            f"memories and the notes of {place.name} ({place.root}) for good, also in backups. "
            "It can't be undone. Continue?",
        )
        report = forget_project(store, workspace.places, place, actor=Actor.USER)
    workspace.wake_worker()
    tell(as_json, _forgotten_as_json(report), _forgotten_sentence(report))


def _forgotten_as_json(report: ForgottenProject) -> dict[str, Any]:
    return {
        "project": report.name,
        "folder": report.folder,
        "sessions": report.sessions,
        "turns": report.turns,
        "memories": report.memories,
        "kept_global": [{"id": memory.episode_id, "summary": memory.summary} for memory in report.kept_global],
        "files": list(report.files),
        "backups": report.backups,
        "dropped_backups": report.dropped_backups,
        "foreign": list(report.foreign),
        "new_sessions_are_read": True,
    }


def _forgotten_sentence(report: ForgottenProject) -> str:
    stays = f" {len(report.kept_global)} global memories stay; `engram forget ID` deletes one." * bool(
        report.kept_global
    )
    foreign = f" {', '.join(report.foreign)} may still contain its words: it is another program's." * bool(
        report.foreign
    )
    return (
        f"Deleted {report.turns} turns and {report.memories} memories of {report.name}; changed "
        f"{len(report.files)} files "
        f"and cleaned {report.backups + report.dropped_backups} backups.{stays}{foreign} What was said there is never "
        f"read again. New sessions in {report.folder} are read as before; exclude the folder if you don't want that."
    )
