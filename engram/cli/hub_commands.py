"""``engram hub``: several machines, one memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from engram.cli.options import DefaultGroup, confirm, json_command, json_option, tell, yes_option
from engram.cli.output import print_json, print_table, say, when
from engram.cli.sync_commands import ask_phrase, hold_rounds, raise_errors, refuse_vault, sync_now, sync_once
from engram.cli.workspace import Workspace, advise, pass_workspace
from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.hub.client.folder_files import folder_of, is_folder
from engram.hub.client.membership import (
    Keyring,
    check_join,
    check_key,
    connect,
    give_key,
    join_hub,
    leave_hub,
    list_unknown,
    make_code,
    move_hub,
    require_sealed,
    require_server,
    rotate_key,
)
from engram.hub.protocol.requests import code_text, new_code, phrase_of
from engram.ingest.session_project import named_project
from engram.models.engine.transaction import Store
from engram.models.hub.spaces import Server
from engram.models.projects.project_folders import check_merge, merge_projects
from engram.models.projects.projects import PLACEHOLDER
from engram.reports.hub_report import HubReport, report_hubs
from engram.trust.display import as_arguments, number_of

if TYPE_CHECKING:
    from engram.hub.server.hub_database import Database


# -- What the operator of a hub runs on the server: serve, work, invite, members. These need the ``hub`` extra.

database_option = click.option(
    "--database",
    envvar="ENGRAM_HUB_DATABASE",
    default="",
    metavar="DSN",
    help="The hub's PostgreSQL, in libpq's form (default: ENGRAM_HUB_DATABASE, or PGHOST and similar).",
)


@click.command("serve")
@database_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen on; put a TLS proxy in front of it."
)
@click.option("--port", type=click.IntRange(1, 65_535), default=8_750, show_default=True, help="Port to listen on.")
@click.option(
    "--pooled", is_flag=True, help="The database is behind a connection pooler in transaction mode (default: no)."
)
def serve(database: str, host: str, port: int, pooled: bool) -> None:
    """Serve a hub on PostgreSQL 15 or newer. Tables are created and migrated at startup.

    Example: engram hub serve --database "host=127.0.0.1 user=engram_hub dbname=engram_hub"
    """
    from engram.hub.server.serve import serve as run

    run(database, host, port, is_pooled=pooled)


@click.command("work", short_help="Run the hub's maintenance.")
@database_option
def work(database: str) -> None:
    """Run the hub's maintenance: erase what was forgotten, and drop used codes.

    Example: engram hub work
    """
    from engram.hub.server.serve import run_chores

    run_chores(database)


@click.command("invite")
@click.argument("name")
@database_option
@json_option
def invite(name: str, database: str, as_json: bool) -> None:
    """Add a member, and print the code for their first machine. It can be used once, within a week.

    Example: engram hub invite ada
    """
    from engram.hub.server.accounts import add_member

    hub_half, _ = new_code()
    with _opened(database) as opened:
        add_member(opened, name, hub_half)
    code = code_text(hub_half)
    tell(as_json, {"member": name, "code": code}, f"Code for {name}, to be used once within a week: {code}")


@click.command("members")
@click.option(
    "--remove",
    metavar="NAME",
    default=None,
    help="Remove a member: none of their machines can connect again (default: list).",
)
@click.option("--erase", is_flag=True, help="With --remove, also erase everything that they sent (default: keep it).")
@database_option
@yes_option
@json_option
def members(remove: str | None, erase: bool, database: str, yes: bool, as_json: bool) -> None:
    """List the members of the hub, or remove one.

    With --erase, the memories that they shared with open teams are forgotten on every machine when it next syncs. In
    sealed teams, only a keeper can do that, with `engram team expel NAME --erase`.

    Example: engram hub members --remove ada --erase
    """
    from engram.hub.server.accounts import check_member, list_members, remove_member

    with _opened(database) as opened:
        if remove is not None:
            check_member(opened, remove, or_gone=erase)
            confirm(yes, as_json, f"Remove {remove}{' and erase everything they sent' if erase else ''}?")
            erased = remove_member(opened, remove, is_erased=erase)
            tell(
                as_json,
                {"removed": remove, "erased": erased},
                f"{remove} can no longer connect; erased: {number_of(erased, 'entry', 'entries')}.",
            )
            return
        known = list_members(opened)
    rows = [
        (row.name, f"{row.made_at.astimezone():%Y-%m-%d}", row.devices, "left" if row.gone_at else "") for row in known
    ]
    headings, facts = ["member", "since", "machines#", ""], {"members": [_member_json(row) for row in known]}
    tell(as_json, facts, lambda: print_table(headings, rows, empty="No members."))


@click.command("teams", short_help="List the teams of the hub, or make a member a keeper.")
@click.option("--keeper", metavar="NAME", default=None, help="Make this member a keeper of --team (default: list).")
@click.option("--team", "ns_id", metavar="ID", type=int, default=None, help="The team's id (default: none).")
@database_option
@yes_option
@json_option
def teams_of(keeper: str | None, ns_id: int | None, database: str, yes: bool, as_json: bool) -> None:
    """List the teams of the hub, or make a member of a team without keepers its new keeper.

    Example: engram hub teams --team 4711 --keeper bob
    """
    from engram.hub.server.accounts import check_keeper, list_teams, make_keeper

    if (keeper is None) != (ns_id is None):
        raise click.UsageError("--keeper and --team must be given together")
    with _opened(database) as opened:
        if keeper is not None and ns_id is not None:
            with opened.service() as connection:
                check_keeper(connection, ns_id, keeper)
            confirm(yes, as_json, f"Make {keeper} the keeper of team {ns_id}?")
            make_keeper(opened, ns_id, keeper)
            tell(as_json, {"team": ns_id, "keeper": keeper}, f"{keeper} is the keeper of team {ns_id}.")
            return
        known = list_teams(opened)
    rows = [
        (row.ns_id, row.name, "sealed" if row.is_sealed else "open", row.members, ", ".join(row.keepers) or "none")
        for row in known
    ]
    headings, facts = ["team", "name", "kind", "members#", "keepers"], {"teams": [_team_json(row) for row in known]}
    tell(as_json, facts, lambda: print_table(headings, rows, empty="No teams."))


def _team_json(row: Any) -> dict[str, Any]:
    facts = {"team": row.ns_id, "name": row.name, "sealed": row.is_sealed, "members": row.members}
    return facts | {"keepers": list(row.keepers)}


def _member_json(row: Any) -> dict[str, Any]:
    gone = None if row.gone_at is None else row.gone_at.isoformat()
    return {"name": row.name, "since": row.made_at.isoformat(), "machines": row.devices, "gone": gone}


@contextmanager
def _opened(dsn: str) -> Iterator[Database]:
    """Yield the hub's open database. Raises HubError."""
    from engram.hub.server.hub_database import Database

    database = Database(dsn).open()
    try:
        yield database
    finally:
        database.close()


hub_option = click.option("--hub", "url", metavar="URL", default=None, help="The hub to use (default: the only one).")

_PHRASE_NOTE = (
    "Write this recovery phrase down: the hub does not have it. Anyone with it and a code can read your memories; "
    "without the phrase, or a machine that has joined the space, nobody can. To see the phrase again on such a "
    "machine, run `engram hub key --show`."
)


@click.group("hub", cls=DefaultGroup, default="status")
@pass_workspace
def hub(workspace: Workspace) -> None:
    """Share memories between your machines, through a hub that cannot read them (default: status).

    Nothing is sent anywhere until you join a hub.

    Example: engram hub join https://hub.example.org K7QM-2XHD-RT
    """
    refuse_vault(workspace)


for _command in (serve, work, invite, members, teams_of):
    hub.add_command(_command)


@hub.command("join")
@click.argument("url")
@click.argument("code")
@click.option("--name", default="", help="This machine's name (default: its host name).")
@click.option(
    "--phrase", is_flag=True, help="Ask for the recovery phrase, if the code has no second half (default: no)."
)
@json_command
def join(workspace: Workspace, url: str, code: str, name: str, phrase: bool, as_json: bool) -> None:
    """Join a hub with a one-time code. All memories on this machine are then sent to your other machines, encrypted.

    The operator of the hub gives you the first code. For each further machine, `engram hub devices --add` prints one.

    Example: engram hub join https://hub.example.org K7QM-2XHD-RT
    """
    with workspace.store() as store:
        check_join(store, url, code)
        words = ask_phrase("Recovery phrase") if phrase else ""
        joined = join_hub(store, workspace.places, url, code, device_name=name, phrase=words)
    workspace.wake_worker()
    spaces = [space.name for space in joined.spaces]
    if as_json:
        facts = {"hub": joined.server.url, "member": joined.server.member_name, "spaces": spaces}
        print_json(facts | ({"phrase": joined.phrase} if joined.phrase else {}))
        return
    say(f"Joined {joined.server.url} as {joined.server.member_name}; spaces: {', '.join(spaces) or 'none'}.")
    if joined.phrase:
        advise(f"\n{joined.phrase}\n\n{_PHRASE_NOTE}")
    advise("A running worker syncs automatically; `engram hub sync` syncs now.")


@hub.command("leave")
@hub_option
@yes_option
@json_command
def leave(workspace: Workspace, url: str | None, yes: bool, as_json: bool) -> None:
    """Leave a hub, and delete its token and keys from this machine. The memories on this machine are kept, and what it
    sent stays on the hub.

    Example: engram hub leave
    """
    with workspace.store() as store:
        server = require_server(store, url)
        place = str(folder_of(server.url)) if is_folder(server.url) else server.url
        confirm(yes, as_json, f"Leave {place}? Its keys are deleted from this machine.")
        is_erased = leave_hub(store, workspace.places, server)
    note = " Its files there were deleted: no other machine had written to that space." if is_erased else ""
    tell(as_json, {"left": server.url, "erased": is_erased}, f"Left {place}.{note}")


@hub.command("move")
@click.argument("url")
@click.option(
    "--from", "from_url", metavar="URL", default=None, help="Address of the hub so far (default: the only one)."
)
@json_command
def move(workspace: Workspace, url: str, from_url: str | None, as_json: bool) -> None:
    """Continue with a hub that has a new address. Its token is sent there, and nothing has to be joined again.

    Example: engram hub move https://memory.example.org
    """
    with workspace.store() as store:
        server = require_server(store, from_url)
        moved = move_hub(store, workspace.places, server, url)
    workspace.wake_worker()
    tell(as_json, {"hub": moved.url, "before": server.url}, f"{server.url} is now {moved.url}.")


@hub.command("status", short_help="Show the hubs and spaces, and what is still to be sent.")
@json_command
def status(workspace: Workspace, as_json: bool) -> None:
    """Show the hubs and spaces: what is queued to be sent, what was set aside and why, the last sync and the last
    failure.

    Example: engram hub status --json
    """
    with workspace.store() as store:
        reports, unknown = report_hubs(store), list_unknown(store, workspace.places)
    if as_json:
        print_json({"hubs": [report.to_json() for report in reports], "hubs_to_join": unknown})
        return
    say_unknown(unknown)
    if not (reports or unknown):
        advise("No hub has been joined: nothing leaves this machine.")
        advise("`engram sync DIR` uses a folder as the hub; `engram hub join URL CODE` joins a hub.")
    for report in reports:
        _print_report(report)


def say_unknown(unknown: Mapping[str, str]) -> None:
    """Print the hubs that are missing from memory.db, and how to join each of them again."""
    for place, command in unknown.items():
        advise(f"This machine had joined {place}, which memory.db does not list. To get back what is there: {command}")


def _print_report(report: HubReport) -> None:
    last = f"last sync {when(report.synced_at_ms)}" if report.synced_at_ms else "not synced yet"
    place = f"{report.place} (git)" if report.has_git else report.place
    say(f"{place} as {report.member}: {last}{f'; failing: {report.error}' if report.error else ''}")
    print_table(
        ["space", "kind", "role", "sealed", "memories#", "to send#", "set aside#", "problem"],
        [
            (
                space.name,
                space.kind,
                space.role,
                "yes" if space.is_sealed else "no",
                space.memories,
                space.waiting,
                len(space.set_aside),
                space.error or "–",
            )
            for space in report.spaces
        ],
        empty="No spaces.",
    )
    for space in report.spaces:
        for reason, number in space.reasons.items():
            say(f"{space.name}: {number} set aside: {reason}")
    for line in (*report.questions, *report.notes):
        say(line)


@hub.command("spaces")
@json_command
def spaces(workspace: Workspace, as_json: bool) -> None:
    """List the spaces that this machine has joined.

    Example: engram hub spaces
    """
    with workspace.store() as store:
        known = [space for report in report_hubs(store) for space in report.spaces]
    rows = [(space.name, space.kind, space.role, space.memories) for space in known]
    headings, facts = ["space", "kind", "role", "memories#"], {"spaces": [space.to_json() for space in known]}
    tell(as_json, facts, lambda: print_table(headings, rows, empty="No spaces."))


@hub.command("devices")
@click.option("--add", is_flag=True, help="Print a one-time code for another of your machines (default: list).")
@click.option(
    "--remove", metavar="ID", type=int, default=None, help="Shut a machine out, such as a lost laptop (default: none)."
)
@hub_option
@yes_option
@json_command
def devices(workspace: Workspace, add: bool, remove: int | None, url: str | None, yes: bool, as_json: bool) -> None:
    """List your machines, add one, or shut one out.

    A code can be used once, within half an hour. Its second half carries the keys and never reaches the hub.

    Example: engram hub devices --add
    """
    if add and remove is not None:
        raise click.UsageError("--add and --remove can't be combined")
    with workspace.store() as store:
        server = require_server(store, url)
        if not add:
            answer = _ask_devices(workspace, store, server, None)
        if remove is not None:
            name = next((item["name"] for item in answer["devices"] if item["device"] == remove), None)
            if name is None:
                raise NotFound(f"none of your machines has the id {remove}; `engram hub devices` lists them")
            confirm(yes, as_json, f"Shut {name} ({remove}) out?")
            answer = _ask_devices(workspace, store, server, remove)
    if add:
        code = make_code(workspace.places, server)
        command = f"engram hub join {server.url} {code}"
        if as_json:
            print_json({"code": code, "command": command})
        else:
            click.echo(f"On the other machine, within half an hour:\n  {command}")
        return
    known: list[dict[str, Any]] = list(answer.get("devices", []))
    if as_json:
        print_json({"devices": known})
        return
    rows = [
        (
            str(item["device"]),
            f"{item['name']}{' (this machine)' if item['self'] else ''}",
            when(item["seen_ms"]),
        )
        for item in known
    ]
    print_table(["id", "machine", "last seen"], rows, empty="No machines.")
    if remove is None and is_folder(server.url):
        advise("A machine that has sent nothing yet is not listed.")
    if remove is not None and is_folder(server.url):
        say("Its files were deleted; this machine now sends what only that one had sent. It still reads the folder.")
    elif remove is not None:
        advise(
            "It can no longer connect. If someone else has it, run `engram hub key --rotate`, so that new data is "
            "encrypted with another key."
        )


def _ask_devices(workspace: Workspace, store: Store, server: Server, remove: int | None) -> dict[str, Any]:
    """List a hub's machines, or remove one. A folder is synced before and after, to send what the machine had sent."""
    keyring = Keyring(workspace.places.hub_keys)
    if remove is None or not is_folder(server.url):
        with connect(store, keyring, server) as connection:
            return connection.ask("devices", {} if remove is None else {"remove": remove})
    sync_once(workspace, store)
    with hold_rounds(workspace, store), connect(store, keyring, server) as connection:
        answer = connection.ask("devices", {"remove": remove})
    raise_errors(sync_once(workspace, store))
    return answer


@hub.command("key", short_help="Store a sealed space's key on this machine.")
@click.argument("space", default="private")
@click.option("--show", is_flag=True, help="Print the recovery phrase again (default: ask for one and store it).")
@click.option(
    "--rotate", is_flag=True, help="Encrypt the space with a new key and push everything again (default: no)."
)
@yes_option
@json_command
def key(workspace: Workspace, space: str, show: bool, rotate: bool, yes: bool, as_json: bool) -> None:
    """Ask for a sealed space's recovery phrase and store its key here, show the phrase, or create a new key.

    Example: engram hub key --show
    """
    with workspace.store() as store:
        if rotate or not show:
            check_key(store, space, is_new=rotate)
        if rotate:
            confirm(yes, as_json, "Encrypt the space with a new key? Your other machines will ask for its phrase.")
            # What other machines have sent can't be read with the new key until it has been sent again.
            sync_once(workspace, store, is_quiet=as_json)
            phrase = rotate_key(store, workspace.places, space)
        elif show:
            phrase = phrase_of(_newest_key(workspace, store, space))
        else:
            give_key(store, workspace.places, space, ask_phrase("Recovery phrase"))
            tell(as_json, {"space": space}, f"{space}: the key is stored; what could not be read is fetched again.")
            return
    tell(as_json, {"space": space, "phrase": phrase}, f"{phrase}\n\n{_PHRASE_NOTE}" if rotate else phrase)


def _newest_key(workspace: Workspace, store: Store, name: str) -> bytes:
    space, server = require_sealed(store, name)
    keys = Keyring(workspace.places.hub_keys).keys(server.url, space.ns_id)
    if not keys:
        raise BadRequest(
            f"{name} has no key on this machine: `engram hub key {as_arguments(name)}` asks for its phrase"
        )
    return list(keys.values())[-1]


@hub.command("link", short_help="Link a folder to a project of the hub.")
@click.argument("project")
@click.argument("known_as", metavar="NAME")
@yes_option
@json_command
def link(workspace: Workspace, project: str, known_as: str, yes: bool, as_json: bool) -> None:
    """Link PROJECT, a folder on this machine, to the project that another machine calls NAME. This is needed if the two
    have no git remote in common.

    `engram projects` lists both: projects that only other machines know have no folder.

    Example: engram hub link harbor harbor-2
    """
    with workspace.store() as store:
        into, other = named_project(store, project), named_project(store, known_as)
        check_merge(store, into, other)
        if not other.identity.startswith(PLACEHOLDER):
            raise BadRequest(f"{other.name} is a folder on this machine; `engram projects merge` merges two projects")
        confirm(yes, as_json, f"Move everything in {other.name} to {into.name}?")
        merge_projects(store, into, other, "linked by hand", actor=Actor.USER)
    facts = {"project": into.name, "linked": other.name}
    tell(as_json, facts, f"The project that other machines call {other.name} is {into.name} on this machine.")


hub.add_command(sync_now, "sync")
