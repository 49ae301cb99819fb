"""``engram share`` and ``engram unshare``: memories for a team, named one by one or by a rule."""

from __future__ import annotations

import click

from engram.cli.confirming import confirm, tell, yes_option
from engram.cli.options import TimeSpan, json_option
from engram.cli.output import iso, print_json, print_table, safe, say
from engram.cli.workspace import Workspace, current_folder, find_project, pass_workspace
from engram.errors import BadRequest
from engram.hub.client.sharing import (
    DELAY_SECONDS,
    MIN_DELAY_SECONDS,
    Preview,
    check_rule,
    preview,
    report_rules,
    require_team,
    team_spaces,
)
from engram.hub.client.sharing import (
    share as share_previews,
)
from engram.hub.client.sharing import (
    unshare as unshare_memory,
)
from engram.ingest.folder import scope_of_folder
from engram.ingest.moves import read_hints
from engram.memories.save import require_episode
from engram.models.hub_rules import add_rule, drop_rule
from engram.models.hub_shares import list_shares
from engram.models.hub_spaces import Space
from engram.models.projects import ProjectRow
from engram.models.store import Store

#: Repositories whose remotes are read before something is shared: teammates know a project by its remote.
MAX_HINTS = 20

space_option = click.option(
    "--space", metavar="NAME", default=None, help="The team: its name or number (default: the only one)."
)
project_option = click.option(
    "--project", metavar="NAME", default=None, help="The project that they belong to (default: the current folder's)."
)


@click.command("share")
@click.argument("episode_ids", metavar="[ID]...", nargs=-1)
@space_option
@project_option
@click.option(
    "--rule",
    is_flag=True,
    help="Share what is said in the project from now on, after a delay (default: no).",
)
@click.option(
    "--after",
    type=TimeSpan(),
    default=float(DELAY_SECONDS),
    metavar="TIME",
    help="With --rule: how long a memory waits, so that you can forget, edit or keep it back (default: 24h).",
)
@click.option("--stop", is_flag=True, help="With --rule: end the rule; what was shared stays shared (default: no).")
@click.option("--list", "is_list", is_flag=True, help="List what is shared, and what rules will share (default: no).")
@yes_option
@json_option
@pass_workspace
def share(
    workspace: Workspace,
    episode_ids: tuple[str, ...],
    space: str | None,
    project: str | None,
    rule: bool,
    after: float,
    stop: bool,
    is_list: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Share memories with a team. It shows exactly what is sent, redacted again, and asks. Nothing is shared by itself.

    A share is a copy: what you edit later stays yours until you share it again, and what you forget is forgotten for
    everybody. Evidence, sessions and paths are never part of it. A memory of another project than the current folder's
    needs --project; one of a vault is refused.

    Example: engram share ep_0123456789ab --space shop
    """
    if is_list:
        _list(workspace, space, as_json)
    elif rule:
        _change_rule(workspace, space, project, after, is_stopped=stop, yes=yes, as_json=as_json)
    elif not episode_ids:
        raise BadRequest("name the memories to share, or share a project's with --rule; --list shows what is shared")
    else:
        _share(workspace, episode_ids, space, project, yes=yes, as_json=as_json)


def _share(
    workspace: Workspace,
    episode_ids: tuple[str, ...],
    space: str | None,
    project: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    with workspace.store() as store:
        team = require_team(store, space, least="writer")
        read_hints(store, MAX_HINTS)
        place = _place(workspace, store, project)
        redact = workspace.redactor()
        previews = [
            preview(store, workspace.places, team, require_episode(store, episode_id), place, redact)
            for episode_id in dict.fromkeys(episode_ids)
        ]
        if not as_json:
            _show(team, previews)
        confirm(yes, as_json, f"Share exactly this with {team.name}?")
        done = share_previews(store, team, previews)
    workspace.wake_worker()
    facts = {"space": team.name, "shared": [shown.episode.episode_id for shown in previews], "new": done}
    facts["held_back"] = {shown.episode.episode_id: shown.held_back for shown in previews if shown.held_back}
    tell(as_json, facts, f"Shared {done} with {team.name}. The next round sends it; `engram unshare` takes it back.")


def _show(team: Space, previews: list[Preview]) -> None:
    seal = "sealed: the hub can't read it" if team.is_sealed else "open: the hub's operator can read it"
    say(f"To {team.name} ({seal}):")
    for shown in previews:
        head, *lines = shown.lines()
        say(f"\n{head}{' (replaces what was shared before)' if shown.is_update else ''}")
        for line in lines:
            click.echo(safe(f"  {line}"))
        if shown.held_back:
            say(f"  ! reads like {shown.held_back}: the receivers keep it, and nobody is shown it by itself.")


def _place(workspace: Workspace, store: Store, project: str | None) -> ProjectRow | None:
    if project is not None:
        return find_project(store, workspace.settings, project)
    return scope_of_folder(store, workspace.settings, current_folder()).project


def _change_rule(
    workspace: Workspace,
    space: str | None,
    project: str | None,
    after: float,
    *,
    is_stopped: bool,
    yes: bool,
    as_json: bool,
) -> None:
    if after < MIN_DELAY_SECONDS:
        raise BadRequest(f"a rule waits at least {MIN_DELAY_SECONDS // 3600} hour, so that you can look first")
    with workspace.store() as store:
        team = require_team(store, space, least="writer")
        read_hints(store, MAX_HINTS)
        place = _place(workspace, store, project)
        if place is None:
            raise BadRequest("name the project with --project")
        check_rule(workspace.places, place)
        facts = {"space": team.name, "project": place.name}
        if is_stopped:
            with store.transaction() as tx:
                is_dropped = drop_rule(tx, team.id, place.id)
            ended = f"Nothing of {place.name} is shared with {team.name} by itself any more; what was shared stays."
            tell(as_json, facts | {"stopped": is_dropped}, ended if is_dropped else "There was no such rule.")
            return
        hours = after / 3600
        confirm(
            yes, as_json, f"Share what is said in {place.name} from now on with {team.name}, {hours:g} hours later?"
        )
        with store.transaction() as tx:
            add_rule(tx, team.id, place.id, int(after * 1000))
    told = f"New memories of {place.name} are shared with {team.name} {hours:g} hours after they were last changed."
    how = "`engram share --list` shows what waits; `engram unshare ID` keeps one back."
    tell(as_json, facts | {"after_hours": hours}, f"{told} {how}")


def _list(workspace: Workspace, name: str | None, as_json: bool) -> None:
    with workspace.store() as store:
        teams = team_spaces(store) if name is None else [require_team(store, name)]
        shares = [standing for team in teams for standing in list_shares(store, team)]
        rules = [report for report in report_rules(store) if report.space.id in {team.id for team in teams}]
    rows = [
        {
            "space": standing.space.name,
            "memory": standing.said.episode_id or None,
            "share": standing.said.memory_id.hex(),
            "waiting": standing.is_waiting,
            "summary": standing.summary,
        }
        for standing in shares
    ]
    waiting = [
        {
            "space": report.space.name,
            "project": report.project.name,
            "memory": candidate.episode.episode_id,
            "due_ms": candidate.due_ms,
            "summary": candidate.episode.summary,
        }
        for report in rules
        for candidate in report.waiting
    ]
    known = [
        {
            "space": report.space.name,
            "project": report.project.name,
            "after_hours": report.rule.delay_ms / 3_600_000,
        }
        for report in rules
    ]
    if as_json:
        print_json({"shares": rows, "rules": known, "waiting": waiting})
        return
    print_table(
        ["space", "memory", "sent", "text"],
        [
            (r["space"], r["memory"] or f"share {r['share']}", "no" if r["waiting"] else "yes", r["summary"])
            for r in rows
        ],
        empty="You share nothing.",
    )
    for report in known:
        say(f"Rule: {report['project']} is shared with {report['space']} after {report['after_hours']:g} hours.")
    if waiting:
        print_table(
            ["by rule at", "space", "memory", "text"],
            [(iso(int(str(r["due_ms"]))), r["space"], r["memory"], r["summary"]) for r in waiting],
            empty="",
        )


@click.command("unshare")
@click.argument("episode_ids", metavar="ID...", nargs=-1, required=True)
@space_option
@yes_option
@json_option
@pass_workspace
def unshare(workspace: Workspace, episode_ids: tuple[str, ...], space: str | None, yes: bool, as_json: bool) -> None:
    """Take back what you shared: the copies are erased for everybody, your memory stays. A rule never shares it again.

    A keeper erases what anybody shared. Machines that are off erase it when they sync next; who read it may remember.

    Example: engram unshare ep_0123456789ab
    """
    with workspace.store() as store:
        team = require_team(store, space)
        confirm(yes, as_json, f"Take {len(episode_ids)} back from {team.name}?")
        lines = [unshare_memory(store, workspace.places, team, name) for name in dict.fromkeys(episode_ids)]
    workspace.wake_worker()
    tell(as_json, {"space": team.name, "done": lines}, ".\n".join(lines) + ".")
