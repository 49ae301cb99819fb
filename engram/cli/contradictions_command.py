"""``engram contradictions``: memories that contradict each other, and the decision between them."""

from __future__ import annotations

import click

from engram.cli.options import json_option
from engram.cli.output import one_line, print_json, safe, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.enums import Actor
from engram.memories.correct import keep_both, keep_one
from engram.memories.trust import trust_memory
from engram.reports.contradictions import list_contradictions


@click.group("contradictions", invoke_without_command=True)
@json_option
@pass_workspace
@click.pass_context
def contradictions(context: click.Context, workspace: Workspace, as_json: bool) -> None:
    """List memories that contradict each other, or decide between them.

    Nobody but you replaces what you pinned, saved, said or chose. If a later memory or a correction by Claude disagrees
    with it, both stay in force until you decide here; what you say or choose later replaces what you said before.
    Memories that your own files contradict (CLAUDE.md, rules, auto memory) are listed too, and memories that are
    suspect: their text looks like an order to Claude.

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


@contradictions.command("trust")
@click.argument("episode_id", metavar="ID")
@json_option
@pass_workspace
def trust(workspace: Workspace, episode_id: str, as_json: bool) -> None:
    """Let Claude be shown a suspect memory. Its text looks like an order to Claude: read it first.

    `engram undo ID` reverts this. `engram bad ID` keeps it away for good.

    Example: engram contradictions trust ep_0123456789ab
    """
    with workspace.store() as store:
        trust_memory(store, episode_id, actor=Actor.USER)
    _report(workspace, [f"trust {episode_id}"], as_json)


def _list(workspace: Workspace, as_json: bool) -> None:
    with workspace.store() as store:
        found = list_contradictions(store)
    if as_json:
        print_json(found.to_json())
        return
    for by_file in found.of_files:
        click.echo(f"{by_file.memory.episode_id}  {one_line(by_file.memory.summary)}")
        say(f"   but {one_line(by_file.file_says)}")
    if found.of_files:
        click.echo(
            "`engram correct ID` or `engram forget ID` changes a memory; the files are yours and are never changed."
        )
    for one in found.waiting:
        click.echo(f"{one.contradiction.id}: {safe(one.contradiction.reason)}")
        for side in (one.older, one.newer):
            pinned = ", pinned" if side.is_pinned else ""
            click.echo(f"   {side.episode_id}  {one_line(side.summary)} ({side.voice}{pinned})")
    if found.waiting:
        click.echo(
            "`engram contradictions keep ID` keeps one of the two, `engram contradictions both NUMBER` keeps both."
        )
    for suspect in found.suspects:
        click.echo(f"{suspect.episode_id}  suspect ({safe(suspect.suspect)}): {one_line(suspect.summary)}")
    if found.suspects:
        click.echo("Claude is not shown these. `engram contradictions trust ID` shows it, `engram bad ID` never does.")
    if not found.count:
        click.echo("No memories contradict each other.")


def _report(workspace: Workspace, lines: list[str], as_json: bool) -> None:
    workspace.wake_worker()
    if as_json:
        print_json({"decided": lines})
    else:
        for line in lines:
            click.echo(safe(line))
