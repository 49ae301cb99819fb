"""``engram contradictions``: memories that contradict each other, and the decision between them."""

from __future__ import annotations

from typing import Any

import click

from engram.cli.options import json_option
from engram.cli.output import iso, one_line, print_json, safe, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.enums import Actor
from engram.memories.correct import keep_both, keep_one
from engram.models import episodes
from engram.models.contradictions import Contradiction, open_contradictions
from engram.models.store import Store
from engram.reports.file_contradictions import list_file_contradictions


@click.group("contradictions", invoke_without_command=True)
@json_option
@pass_workspace
@click.pass_context
def contradictions(context: click.Context, workspace: Workspace, as_json: bool) -> None:
    """List memories that contradict each other, or decide between them.

    Nobody but you replaces what you pinned or saved. If a later memory or a correction by Claude disagrees with it,
    both stay in force until you decide here. Memories that your own files contradict (CLAUDE.md, rules, auto memory)
    are listed too.

    Example: engram contradictions
    """
    if context.invoked_subcommand is None:
        _list(workspace, as_json)


@contradictions.command("list")
@json_option
@pass_workspace
def list_command(workspace: Workspace, as_json: bool) -> None:
    """List the contradictions that need a decision.

    Example: engram contradictions list --json
    """
    _list(workspace, as_json)


@contradictions.command("keep")
@click.argument("episode_id", metavar="ID")
@json_option
@pass_workspace
def keep(workspace: Workspace, episode_id: str, as_json: bool) -> None:
    """Keep the memory ID, which replaces those that contradict it. `engram consolidate --undo RUN` reverts this.

    Example: engram contradictions keep ep_0123456789ab
    """
    with workspace.store() as store:
        lines = keep_one(store, episode_id, actor=Actor.USER)
    _report(workspace, lines, as_json)


@contradictions.command("both")
@click.argument("which", metavar="NUMBER|ID")
@json_option
@pass_workspace
def both(workspace: Workspace, which: str, as_json: bool) -> None:
    """Keep both memories of contradiction NUMBER, or of all contradictions of the memory ID. You are not asked again.

    Example: engram contradictions both 3
    """
    with workspace.store() as store:
        lines = keep_both(store, which, actor=Actor.USER)
    _report(workspace, lines, as_json)


def _list(workspace: Workspace, as_json: bool) -> None:
    with workspace.store() as store:
        waiting = [_facts(store, contradiction) for contradiction in open_contradictions(store)]
        by_files = list_file_contradictions(store)
        of_files = [
            {"memory": _side(store, found.memory.episode_id), "file_says": found.file_says} for found in by_files
        ]
    if as_json:
        print_json({"contradictions": waiting, "of_files": of_files})
        return
    for found in by_files:
        click.echo(f"{found.memory.episode_id}  {one_line(found.memory.summary)}")
        say(f"   but {one_line(found.file_says)}")
    if by_files:
        click.echo(
            "`engram correct ID` or `engram forget ID` changes a memory; the files are yours and are never changed."
        )
    for facts in waiting:
        click.echo(f"{facts['number']}: {safe(facts['reason'])}")
        for side in ("older", "newer"):
            pinned = ", pinned" if facts[side]["pinned"] else ""
            click.echo(f"   {facts[side]['id']}  {one_line(facts[side]['summary'])} ({facts[side]['voice']}{pinned})")
    if waiting:
        click.echo(
            "`engram contradictions keep ID` keeps one of the two, `engram contradictions both NUMBER` keeps both."
        )
    elif not by_files:
        click.echo("No memories contradict each other.")


def _facts(store: Store, contradiction: Contradiction) -> dict[str, Any]:
    return {
        "number": contradiction.id,
        "reason": contradiction.reason,
        "made_at": iso(contradiction.made_at_ms),
        "older": _side(store, contradiction.older_id),
        "newer": _side(store, contradiction.newer_id),
    }


def _side(store: Store, episode_id: str) -> dict[str, Any]:
    episode = episodes.find_episode(store, episode_id)
    if episode is None:
        return {"id": episode_id, "summary": "", "voice": "", "pinned": False, "status": "", "created_at": None}
    return {
        "id": episode.episode_id,
        "summary": episode.summary,
        "voice": episode.voice,
        "pinned": episode.is_pinned,
        "status": episode.status,
        "created_at": iso(episode.created_at_ms),
    }


def _report(workspace: Workspace, lines: list[str], as_json: bool) -> None:
    workspace.wake_worker()
    if as_json:
        print_json({"decided": lines})
    else:
        for line in lines:
            click.echo(safe(line))
