"""``engram team``, ``share`` and ``unshare``: spaces that several people share on a hub."""

from __future__ import annotations

import shlex

import click

from engram.cli.hub_commands import hub_option
from engram.cli.options import TimeSpan, confirm, json_command, tell, yes_option
from engram.cli.output import print_json, print_table, safe, say, when
from engram.cli.sync_commands import refuse_vault, sync_once
from engram.cli.workspace import Workspace, advise, chosen_project
from engram.errors import BadRequest, HubError
from engram.hub.client import team_sharing
from engram.hub.client.membership import Keyring, require_server
from engram.hub.client.team_sharing import (
    DELAY_SECONDS,
    MIN_DELAY_SECONDS,
    Preview,
    check_rule,
    erase_member,
    preview,
    report_rules,
    require_team,
    team_spaces,
)
from engram.hub.client.team_sharing import share as share_previews
from engram.hub.client.team_sharing import unshare as unshare_memory
from engram.hub.protocol.requests import REPORT_REASONS, ROLES, phrase_of
from engram.ingest.project_moves import MAX_READ_AT_ONCE, read_hints
from engram.memories.save import require_memory
from engram.models.engine.transaction import Store
from engram.models.hub.outgoing_statements import count_statements
from engram.models.hub.shares import add_rule, drop_rule, list_shares
from engram.models.hub.spaces import Space
from engram.reports.hub_report import report_hubs
from engram.reports.memory_report import whole_id
from engram.trust.display import as_arguments, number_of

# -- ``engram share`` and ``engram unshare``: memories for a team, listed one by one or selected by a rule.

space_option = click.option(
    "--space", metavar="NAME", default=None, help="The team: its name or number (default: the only one)."
)


@click.command("share")
@click.argument("episode_ids", metavar="[ID]...", nargs=-1)
@space_option
@click.option(
    "--project", metavar="NAME", default=None, help="The project of the memories (default: the current folder's)."
)
@click.option(
    "--rule", is_flag=True, help="Share the project's new memories automatically, after a delay (default: no)."
)
@click.option(
    "--after",
    type=TimeSpan(),
    default=float(DELAY_SECONDS),
    metavar="TIME",
    help="With --rule: the delay, during which you can edit, forget or hold back a memory (default: 24h).",
)
@click.option("--stop", is_flag=True, help="With --rule: end the rule; what was shared stays shared (default: no).")
@click.option("--list", "is_list", is_flag=True, help="List what is shared, and what rules will share (default: no).")
@yes_option
@json_command
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
    """Share memories with a team. The command first shows exactly what will be sent, redacted once more, and asks for
    confirmation. Nothing is shared automatically without a rule.

    A share is a copy: your later edits stay private until you share the memory again, and a memory that you forget is
    erased for everyone. Evidence, sessions and paths are never part of a share. A memory from a project other than the
    current folder's requires --project; a memory from a vault is refused.

    Example: engram share ep_0123456789ab --space shop
    """
    if is_list:
        _list(workspace, space, as_json)
    elif rule:
        _change_rule(workspace, space, project, after, is_stopped=stop, yes=yes, as_json=as_json)
    elif not episode_ids:
        raise click.UsageError(
            "name the memories to share, or share a whole project with --rule; --list shows what is shared"
        )
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
        read_hints(store, MAX_READ_AT_ONCE)
        place = chosen_project(store, workspace.settings, project)
        redact = workspace.redactor()
        previews = [
            preview(store, workspace.places, team, require_memory(store, episode_id), place, redact)
            for episode_id in dict.fromkeys(whole_id(store, given) for given in episode_ids)
        ]
        if not as_json:
            _show(team, previews)
        confirm(yes, as_json, f"Share exactly this with {team.name}?")
        done = share_previews(store, team, previews)
    workspace.wake_worker()
    facts = {"space": team.name, "shared": [shown.memory.episode_id for shown in previews], "new": done}
    facts["held_back"] = {shown.memory.episode_id: shown.held_back for shown in previews if shown.held_back}
    tell(
        as_json,
        facts,
        f"Shared {number_of(done, 'memory')} with {team.name}, to be sent at the next sync. `engram unshare ID` "
        "withdraws a memory.",
    )


def _show(team: Space, previews: list[Preview]) -> None:
    seal = "sealed: the hub can't read it" if team.is_sealed else "open: the hub's operator can read it"
    say(f"To {team.name} ({seal}):")
    for shown in previews:
        head, *lines = shown.lines()
        say(f"\n{head}{' (replaces what was shared before)' if shown.is_update else ''}")
        for line in lines:
            click.echo(safe(f"  {line}"))
        if shown.held_back:
            say(f"  ! reads like {shown.held_back}: recipients store it, but Claude sees it only on request.")


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
        raise BadRequest(f"a rule waits at least {MIN_DELAY_SECONDS // 3600} hour, to give you time to review")
    with workspace.store() as store:
        team = require_team(store, space, least="writer")
        read_hints(store, MAX_READ_AT_ONCE)
        place = chosen_project(store, workspace.settings, project)
        if place is None:
            raise BadRequest("specify the project with --project")
        check_rule(workspace.places, place)
        facts = {"space": team.name, "project": place.name}
        if is_stopped:
            with store.transaction() as tx:
                is_dropped = drop_rule(tx, team.id, place.id)
            ended = f"{place.name} is no longer shared with {team.name} automatically; what was shared remains."
            tell(as_json, facts | {"stopped": is_dropped}, ended if is_dropped else "There was no such rule.")
            return
        hours = after / 3600
        confirm(
            yes,
            as_json,
            f"Share new memories of {place.name} with {team.name}, each {hours:g} hours after its last change?",
        )
        with store.transaction() as tx:
            add_rule(tx, team.id, place.id, int(after * 1000))
    told = f"New memories of {place.name} are shared with {team.name} {hours:g} hours after they were last changed."
    how = "`engram share --list` shows what is pending; `engram unshare ID` holds a memory back."
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
            "memory": candidate.memory.episode_id,
            "due_ms": candidate.due_ms,
            "summary": candidate.memory.summary,
        }
        for report in rules
        for candidate in report.waiting
    ]
    known = [
        {"space": report.space.name, "project": report.project.name, "after_hours": report.rule.delay_ms / 3_600_000}
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
        empty="You aren't sharing anything.",
    )
    for report in known:
        say(f"Rule: {report['project']} is shared with {report['space']} after {report['after_hours']:g} hours.")
    if waiting:
        print_table(
            ["by rule at", "space", "memory", "text"],
            [(when(int(str(r["due_ms"]))), r["space"], r["memory"], r["summary"]) for r in waiting],
            empty="",
        )


@click.command("unshare")
@click.argument("episode_ids", metavar="ID...", nargs=-1, required=True)
@space_option
@yes_option
@json_command
def unshare(workspace: Workspace, episode_ids: tuple[str, ...], space: str | None, yes: bool, as_json: bool) -> None:
    """Stop sharing memories: the copies are erased for everyone, and your own memories are kept. A rule never shares
    them again.

    A keeper can erase anything that a member has shared. Machines that are off erase it when they next sync; people who
    have read it may remember it.

    Example: engram unshare ep_0123456789ab
    """
    with workspace.store() as store:
        names = list(dict.fromkeys(whole_id(store, given) for given in episode_ids))
        team = team_sharing.team_of_shares(store, space, names)
        for name in names:
            team_sharing.find_shared(store, team, name)
        confirm(yes, as_json, f"Withdraw {number_of(len(names), 'memory')} from {team.name}?")
        lines = [unshare_memory(store, workspace.places, team, name) for name in names]
    workspace.wake_worker()
    tell(as_json, {"space": team.name, "done": lines}, ".\n".join(lines) + ".")


@click.group("team")
def team() -> None:
    """Share memories with colleagues on a hub: teams, invitations, roles. Use `engram share` to choose what to share.

    Readers read, writers share, keepers invite, erase and expel.

    Example: engram team make shop
    """


@team.command("make")
@click.argument("name")
@click.option(
    "--sealed", is_flag=True, help="Seal the team: the hub can't read it, and members need its key (default: open)."
)
@hub_option
@json_command
def make(workspace: Workspace, name: str, sealed: bool, url: str | None, as_json: bool) -> None:
    """Make a team on a hub that you have joined. You become its keeper. Making a team shares nothing.

    Example: engram team make shop --sealed
    """
    refuse_vault(workspace)
    with workspace.store() as store:
        server = require_server(store, url, is_service=True)
        space = team_sharing.make_team(store, workspace.places, server, name, is_sealed=sealed)
    facts: dict[str, object] = {"space": space.name, "number": space.ns_id, "sealed": sealed}
    note = "open: the operator of the hub can read it"
    if sealed:
        key = list(Keyring(workspace.places.hub_keys).keys(server.url, space.ns_id).values())[-1]
        facts["phrase"] = phrase_of(key)
        note = f"sealed. Its recovery phrase, for your other machines:\n\n{facts['phrase']}\n"
    command = f"engram team invite --space {shlex.quote(space.name)}"
    tell(as_json, facts, f"Made {space.name}, {note}\n`{command}` prints an invitation.")


@team.command("invite")
@space_option
@click.option(
    "--role", type=click.Choice(ROLES), default="writer", show_default=True, help="The role of the new member."
)
@json_command
def invite(workspace: Workspace, space: str | None, role: str, as_json: bool) -> None:
    """Print a one-time code for a colleague who is a member of the hub. It can be used once, within a day.

    Example: engram team invite --space shop --role reader
    """
    with workspace.store() as store:
        where = require_team(store, space, least="keeper")
        code = team_sharing.invite(store, workspace.places, where, role)
    command = f"engram team join {code}"
    facts = {"space": where.name, "role": role, "code": code, "command": command}
    if as_json:
        print_json(facts)
    else:
        click.echo(f"For one colleague, to be used once within a day:\n  {command}")


@team.command("join")
@click.argument("code")
@hub_option
@json_command
def join(workspace: Workspace, code: str, url: str | None, as_json: bool) -> None:
    """Join a team with a code from one of its keepers. What its members shared arrives with the next sync.

    It is attributed to them ("teammate NAME"), applies to its project only, and never counts as something you said.

    Example: engram team join K7QM-2XHD-RT
    """
    refuse_vault(workspace)
    with workspace.store() as store:
        space = team_sharing.join_team(store, workspace.places, require_server(store, url, is_service=True), code)
    workspace.wake_worker()
    tell(as_json, {"space": space.name, "role": space.role}, f"Joined {space.name} as a {space.role}.")


@team.command("accept")
@click.argument("name")
@json_command
def accept(workspace: Workspace, name: str, as_json: bool) -> None:
    """Add this machine to a team that you joined on another machine. NAME is its name or number in `engram team list`.

    A hub can't add you to a team on its own: you confirm first, and only then see what its members share.

    Example: engram team accept shop
    """
    refuse_vault(workspace)
    with workspace.store() as store:
        space = team_sharing.accept_team(store, workspace.places, name)
    workspace.wake_worker()
    tell(as_json, {"space": space.name, "role": space.role}, f"This machine has joined {space.name} as a {space.role}.")


@team.command("list")
@json_command
def list_teams(workspace: Workspace, as_json: bool) -> None:
    """List your teams.

    Example: engram team list
    """
    with workspace.store() as store:
        rows = [
            {
                "space": space.name,
                "number": space.ns_id,
                "role": space.role,
                "sealed": space.is_sealed,
                "memories": count_statements(store, space.id)["memories"],
                "reports": space.reports,
            }
            for space in team_spaces(store)
        ]
        reports = report_hubs(store)
    if as_json:
        print_json({"teams": rows, "offers": [name for report in reports for name in report.offers]})
        return
    cells = [(r["space"], str(r["number"]), r["role"], "yes" if r["sealed"] else "no", r["memories"]) for r in rows]
    print_table(["space", "number", "role", "sealed", "memories#"], cells, empty="You aren't in any team.")
    for question in (question for report in reports for question in report.questions):
        say(question)


@team.command("members", short_help="List the members of a team.")
@space_option
@json_command
def members(workspace: Workspace, space: str | None, as_json: bool) -> None:
    """List the members of a team, and former members who shared something.

    Example: engram team members --space shop
    """
    with workspace.store() as store:
        team = require_team(store, space)
        seats = team_sharing.list_seats(store, workspace.places, team)
    rows = [{"member": seat.name, "role": seat.role or None, "muted": seat.is_muted} for seat in seats]
    if as_json:
        print_json({"members": rows})
        return
    cells = [(seat.name, seat.role or "left", "muted" if seat.is_muted else "") for seat in seats]
    print_table(["member", "role", ""], cells, empty="Nobody.")
    keepers = [seat.name for seat in seats if seat.role == "keeper"]
    if len(keepers) == 1 and sum(bool(seat.role) for seat in seats) > 1 and team.role == "keeper":
        advise(f"{keepers[0]} is the only keeper: appoint a second one with `engram team role NAME keeper`.")


@team.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice(ROLES))
@space_option
@json_command
def role_of(workspace: Workspace, name: str, role: str, space: str | None, as_json: bool) -> None:
    """Give a member another role. Only keepers can do this; a team always has at least one keeper.

    Example: engram team role ada reader --space shop
    """
    with workspace.store() as store:
        where = require_team(store, space, least="keeper")
        team_sharing.set_role(store, workspace.places, where, name, role)
    tell(as_json, {"space": where.name, "member": name, "role": role}, f"{name} is now a {role} in {where.name}.")


@team.command("expel")
@click.argument("name")
@click.option("--erase", is_flag=True, help="Erase what the member shared, for everyone (default: keep it).")
@space_option
@yes_option
@json_command
def expel(workspace: Workspace, name: str, erase: bool, space: str | None, yes: bool, as_json: bool) -> None:
    """Remove a member. They keep what has already reached their machines.

    With --erase, what they shared is erased for everyone else.

    Example: engram team expel mallory --erase --space shop
    """
    with workspace.store() as store:
        where = require_team(store, space, least="keeper")
        seats = team_sharing.list_seats(store, workspace.places, where)
        seat = team_sharing.require_seat(seats, where, name, or_former=erase)
        confirm(yes, as_json, f"Expel {name} from {where.name}{' and erase what they shared' if erase else ''}?")
        if seat.role:
            team_sharing.set_role(store, workspace.places, where, name, "")
        erased = 0
        if erase:
            # First pull everything that they shared, then erase it all, then notify the hub.
            _sync(workspace, store)
            erased = erase_member(store, workspace.places, where, seat.member_id)
            _sync(workspace, store)
    workspace.wake_worker()
    key = (
        f" They still have the team's key; to replace it: `engram hub key --rotate {as_arguments(where.name)}`."
        if where.is_sealed
        else ""
    )
    facts = {"space": where.name, "expelled": name, "erased": erased}
    tell(as_json, facts, f"{name} was removed from {where.name}; {number_of(erased, 'memory')} erased.{key}")


@team.command("leave")
@space_option
@click.option("--erase", is_flag=True, help="Also delete from this machine what teammates shared (default: keep it).")
@yes_option
@json_command
def leave(workspace: Workspace, space: str | None, erase: bool, yes: bool, as_json: bool) -> None:
    """Leave a team. What you shared remains there; to erase it, run `engram unshare` first.

    The last member who leaves dissolves the team: it is deleted on the hub, with all that was shared there.

    Example: engram team leave --space shop
    """
    with workspace.store() as store:
        where = require_team(store, space)
        is_last = team_sharing.is_last_member(store, workspace.places, where)
        dissolving = "You are its last member: the team is dissolved, and what was shared there is deleted on the hub. "
        confirm(yes, as_json, f"{dissolving if is_last else ''}Leave {where.name}?")
        gone = team_sharing.leave(store, workspace.places, where, is_erased=erase, dissolves=is_last)
    tell(
        as_json,
        {"left": where.name, "dissolved": is_last, "memories": gone},
        f"Left {where.name}{', which is dissolved' if is_last else ''}; "
        f"{number_of(gone, 'memory')} deleted from this machine.",
    )


@team.command("mute")
@click.argument("name")
@click.option("--off", is_flag=True, help="Unmute the teammate: what they shared comes back (default: mute).")
@json_command
def mute(workspace: Workspace, name: str, off: bool, as_json: bool) -> None:
    """Stop storing a teammate's memories on this machine. Nobody is notified, and other members still see them.

    Example: engram team mute mallory
    """
    with workspace.store() as store:
        if off:
            team_sharing.unmute(store, name)
            done = f"{name} is unmuted; what they shared arrives with the next sync."
        else:
            gone = team_sharing.mute(store, name)
            done = f"{name} is muted; {number_of(gone, 'memory')} deleted from this machine."
    workspace.wake_worker()
    tell(as_json, {"member": name, "muted": not off}, done)


@team.command("report")
@click.argument("episode_id", metavar="ID")
@click.option(
    "--reason",
    type=click.Choice(REPORT_REASONS),
    default="other",
    show_default=True,
    help="What is wrong with the memory.",
)
@json_command
def report(workspace: Workspace, episode_id: str, reason: str, as_json: bool) -> None:
    """Report a teammate's memory to the keepers. `engram forget` deletes it from this machine.

    Example: engram team report ep_0123456789ab --reason secret
    """
    with workspace.store() as store:
        episode_id = require_memory(store, whole_id(store, episode_id)).episode_id
        space = team_sharing.report_memory(store, workspace.places, episode_id, reason)
    facts = {"reported": episode_id, "space": space.name, "reason": reason}
    tell(as_json, facts, f"The keepers of {space.name} will see the report at their next sync.")


@team.command("reports")
@space_option
@click.option("--settle", metavar="ID", default="", help="Close the report on this memory and keep it (default: list).")
@json_command
def reports(workspace: Workspace, space: str | None, settle: str, as_json: bool) -> None:
    """List what members reported. A keeper erases a memory with `engram unshare ID`, or settles the report.

    Example: engram team reports --space shop
    """
    with workspace.store() as store:
        where = require_team(store, space, least="keeper")
        known = team_sharing.list_reported(store, workspace.places, where, settle=whole_id(store, settle))
    rows = [
        {
            "memory": row.episode_id or row.memory_id,
            "reason": row.reason,
            "by": row.by,
            "at_ms": row.at_ms,
            "summary": row.summary,
        }
        for row in known
    ]
    if as_json:
        print_json({"space": where.name, "reports": rows})
        return
    cells = [(r["memory"], r["reason"], r["by"], when(int(str(r["at_ms"]))), r["summary"]) for r in rows]
    print_table(["memory", "reason", "by", "at", "text"], cells, empty="Nothing has been reported.")
    if rows:
        advise("`engram unshare ID` erases a memory for everyone; `engram team reports --settle ID` keeps it.")


def _sync(workspace: Workspace, store: Store) -> None:
    errors = [done.error for done in sync_once(workspace, store) if done.error]
    if errors:
        raise HubError(f"{'; '.join(errors)}; the member was removed: run the command again to erase what they shared")
