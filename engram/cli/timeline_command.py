"""``engram timeline``: memories in chronological order."""

from __future__ import annotations

import click

from engram.cli.options import json_option, limit_option, project_option
from engram.cli.output import iso, one_line, print_json, print_table, when
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.clock import parse_time_ms
from engram.errors import BadRequest
from engram.memories.save import require_episode
from engram.models import episode_lists, episodes
from engram.models.store import Store
from engram.reports.memory import evidence_places


@click.command("timeline")
@click.argument("around", metavar="[ID|TIME]", required=False)
@project_option
@limit_option(20, "memories")
@json_option
@pass_workspace
def timeline(workspace: Workspace, around: str | None, project: str | None, limit: int, as_json: bool) -> None:
    """List memories by time, latest first; with a memory's ID or a time, those up to it.

    Example: engram timeline 2026-11-05 --project harbor
    """
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        memories = episode_lists.latest_episodes(
            store, project_id=None if place is None else place.id, limit=limit, before_ms=_time_of(store, around)
        )
        rows = [
            {
                "id": episode.episode_id,
                "kind": episode.kind,
                "title": episode.shown_title,
                "summary": episode.summary,
                "project": episode.project,
                "scope": episode.scope,
                "importance": episode.importance,
                "created_at": iso(episode.created_at_ms),
                "pinned": episode.is_pinned,
                "session": episode.session_id,
                "evidence": [place.to_json() for place in evidence_places(store, episode)],
            }
            for episode in memories
        ]
    if as_json:
        print_json({"episodes": rows})
    else:
        print_table(
            ["made", "memory", "kind", "project", "title"],
            [
                (
                    when(episode.created_at_ms),
                    episode.episode_id,
                    episode.kind,
                    episode.project or "global",
                    one_line(episode.shown_title),
                )
                for episode in memories
            ],
            empty="There are no memories yet. `engram up` makes them.",
        )


def _time_of(store: Store, around: str | None) -> int | None:
    if around is None:
        return None
    if episodes.is_episode_id(around):
        return require_episode(store, around).created_at_ms
    at_ms = parse_time_ms(around)
    if at_ms is None:
        raise BadRequest(f"{around!r} is neither a memory's id nor a time such as 2026-11-05 or 2026-11-05T10:00")
    # A date means the whole day.
    return at_ms + 86_400_000 - 1 if len(around) == 10 else at_ms
