"""``engram export`` and ``engram import``: memories as JSON lines, without loss in both directions."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import click

from engram.atomic import write_atomic
from engram.cli.options import json_option, project_option
from engram.cli.output import print_json, say, to_json
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.enums import Actor
from engram.errors import BadRequest
from engram.models import (
    episode_changes,
    episodes,
    projects,
    sessions,
)
from engram.models.store import Store
from engram.models.tombstone_transfer import is_named_by_tombstone
from engram.reports.episode_json import episode_from_json, episode_to_json
from engram.transcripts.claude_code import AGENT

#: Longest line that import reads, in bytes.
_LINE_LIMIT_BYTES = 16_000_000


@click.command("export")
@project_option
@click.option(
    "--current",
    "only_current",
    is_flag=True,
    help="Leave out archived and superseded memories (default: all memories).",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="The file to write, mode 0600 (default: standard output).",
)
@pass_workspace
def export(workspace: Workspace, project: str | None, only_current: bool, output: Path | None) -> None:
    """Write every memory as one JSON object a line.

    Example: engram export --output memories.jsonl
    """
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        lines = []
        for episode in episodes.all_episodes(store):
            if (place is None or episode.project_id == place.id) and (not only_current or episode.is_current):
                lines.append(
                    to_json(episode_to_json(store, episode) | _identity(store, episode) | _agent(store, episode))
                )
    if output is None:
        for line in lines:
            click.echo(line)
    else:
        write_atomic(output.absolute(), "".join(f"{line}\n" for line in lines).encode())
        say(f"Wrote {len(lines)} memories to {output}.", err=True)


def _identity(store: Store, episode: episodes.Episode) -> dict[str, str]:
    project = None if episode.project_id is None else projects.project_by_id(store, episode.project_id)
    return {} if project is None else {"project_identity": project.identity, "project_root": project.root}


def _agent(store: Store, episode: episodes.Episode) -> dict[str, str]:
    session = sessions.find_session(store, episode.session_id) if episode.session_id else None
    return {} if session is None else {"agent": session.agent}


@click.command("import")
@click.argument("file", type=click.File("rb"))
@json_option
@pass_workspace
def import_memories(workspace: Workspace, file: BinaryIO, as_json: bool) -> None:
    """Read memories that `engram export` wrote; - reads standard input.

    Existing memories are not changed, and memories that you forgot do not come back. A memory whose replacement is
    neither here nor imported is in force again. Secrets are masked.

    Example: engram import memories.jsonl
    """
    counted = {"added": 0, "known": 0, "forgotten": 0, "bad": 0}
    with workspace.store() as store:
        for number, line in _lines(file):
            try:
                counted[_import_one(workspace, store, line)] += 1
            except BadRequest as error:
                counted["bad"] += 1
                say(f"line {number}: {error}", err=True)
        with store.transaction() as tx:
            episode_changes.restore_orphans(tx, actor=Actor.USER)
    workspace.wake_worker()
    if as_json:
        print_json(counted)
    else:
        click.echo(
            f"Added {counted['added']} memories. Skipped: {counted['known']} existing, "
            f"{counted['forgotten']} forgotten, "
            f"{counted['bad']} unusable lines."
        )


def _lines(file: BinaryIO) -> Iterator[tuple[int, dict[str, Any]]]:
    number = 0
    while data := file.readline(_LINE_LIMIT_BYTES + 1):
        number += 1
        if len(data) > _LINE_LIMIT_BYTES:
            raise BadRequest(f"line {number} is longer than {_LINE_LIMIT_BYTES} bytes: this is not an export of Engram")
        try:
            text = data.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise BadRequest(f"line {number} is not UTF-8 text: this is not an export of Engram") from error
        if not text.strip():
            continue
        try:
            line = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"line {number} is not JSON: {error}") from error
        if not isinstance(line, dict):
            raise BadRequest(f"line {number} is not a JSON object")
        yield number, line


def _import_one(workspace: Workspace, store: Store, line: dict[str, Any]) -> str:
    episode, evidence = episode_from_json(line)
    redact = workspace.redactor()
    if episodes.find_episode(store, episode.episode_id) is not None:
        return "known"
    uuids = [entry.uuid for entry in evidence]
    if is_named_by_tombstone(store, episode.episode_id, episode.slot, uuids, episode.source, with_purged=False):
        return "forgotten"
    episode = dataclasses.replace(
        episode,
        summary=redact(episode.summary),
        content=redact(episode.content),
        facts=tuple(redact(fact) for fact in episode.facts),
        entities=tuple(redact(entity) for entity in episode.entities),
    )
    identity = str(line.get("project_identity") or "")
    with store.transaction() as tx:
        if episode.slot and episodes.episode_by_slot(store, episode.slot) is not None:
            return "known"
        if episode.project:
            place = projects.find_project(store, identity or episode.project) or projects.ensure_project(
                tx, identity or f"name:{episode.project}", episode.project, str(line.get("project_root") or "")
            )
            episode = dataclasses.replace(episode, project_id=place.id)
        if episode.session_id:
            sessions.ensure_session(
                tx,
                episode.session_id,
                agent=str(line.get("agent") or AGENT),
                project_id=episode.project_id,
                is_global=False,
                cwd="",
                at_ms=episode.created_at_ms,
            )
        episode_changes.add_episode(tx, episode, evidence, action="import", actor=Actor.USER)
    return "added"
