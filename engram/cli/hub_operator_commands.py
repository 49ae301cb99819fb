"""What the operator of a hub runs on the server: serve, work, invite, members. It needs the extra ``hub``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from engram.cli.confirming import confirm, tell, yes_option
from engram.cli.options import json_option
from engram.cli.output import print_json, print_table
from engram.errors import HubError
from engram.hub.protocol.phrase import code_text, new_code
from engram.version import install_command

if TYPE_CHECKING:
    from engram.hub.server.database import Database

database_option = click.option(
    "--database",
    envvar="ENGRAM_HUB_DATABASE",
    default="",
    metavar="DSN",
    help="The hub's PostgreSQL, as libpq takes it (default: ENGRAM_HUB_DATABASE, or PGHOST and its like).",
)


@click.command("serve")
@database_option
@click.option(
    "--host", default="127.0.0.1", show_default=True, help="Address to listen at; put a proxy with TLS before."
)
@click.option("--port", type=click.IntRange(1, 65_535), default=8_750, show_default=True, help="Port to listen at.")
@click.option("--pooled", is_flag=True, help="A pooler in transaction mode lies before the database (default: none).")
def serve(database: str, host: str, port: int, pooled: bool) -> None:
    """Serve a hub over a PostgreSQL of version 15 or newer. Tables are made and brought on at the start.

    Example: engram hub serve --database "host=127.0.0.1 user=engram_hub dbname=engram_hub"
    """
    from engram.hub.server.main import serve as run

    run(database, host, port, is_pooled=pooled)


@click.command("work")
@database_option
def work(database: str) -> None:
    """Run the hub's chores: erase what was forgotten from dead rows, drop old marks and used codes.

    Example: engram hub work
    """
    from engram.hub.server.main import run_chores

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
    help="Let a member go: none of their machines gets in again (default: list).",
)
@click.option("--erase", is_flag=True, help="With --remove, erase everything that they said (default: it stays).")
@database_option
@yes_option
@json_option
def members(remove: str | None, erase: bool, database: str, yes: bool, as_json: bool) -> None:
    """List the members of the hub, or let one go.

    With --erase, the memories that they shared with open teams are forgotten on every machine at its next round. In
    sealed teams only a keeper can do that, by `engram team expel NAME --erase`.

    Example: engram hub members --remove ada --erase
    """
    from engram.hub.server.operator import list_members, remove_member

    with _opened(database) as opened:
        if remove is not None:
            confirm(yes, as_json, f"Let {remove} go{' and erase everything they said' if erase else ''}?")
            erased = remove_member(opened, remove, is_erased=erase)
            facts = {"removed": remove, "erased": erased}
            tell(as_json, facts, f"{remove} gets in no more; {erased} rows were erased.")
            return
        known = list_members(opened)
    if as_json:
        print_json({"members": [_member_json(row) for row in known]})
        return
    rows = [(row.name, f"{row.made_at:%Y-%m-%d}", row.devices, "left" if row.gone_at else "") for row in known]
    print_table(["member", "since", "machines#", "state"], rows, empty="No members.")


@click.command("teams")
@click.option("--keeper", metavar="NAME", default=None, help="Make this member a keeper of --team (default: list).")
@click.option("--team", "ns_id", metavar="ID", type=int, default=None, help="The team's id (default: none).")
@database_option
@yes_option
@json_option
def teams_of(keeper: str | None, ns_id: int | None, database: str, yes: bool, as_json: bool) -> None:
    """List the teams of the hub, or give one whose keepers are all gone a new keeper among its members.

    Example: engram hub teams --team 4711 --keeper bob
    """
    from engram.hub.server.operator import list_teams, make_keeper

    if (keeper is None) != (ns_id is None):
        raise click.UsageError("--keeper and --team belong together")
    with _opened(database) as opened:
        if keeper is not None and ns_id is not None:
            confirm(yes, as_json, f"Make {keeper} the keeper of team {ns_id}?")
            make_keeper(opened, ns_id, keeper)
            tell(as_json, {"team": ns_id, "keeper": keeper}, f"{keeper} is the keeper of team {ns_id}.")
            return
        known = list_teams(opened)
    if as_json:
        print_json({"teams": [_team_json(row) for row in known]})
        return
    rows = [
        (row.ns_id, row.name, "sealed" if row.is_sealed else "open", row.members, ", ".join(row.keepers) or "none")
        for row in known
    ]
    print_table(["team", "name", "kind", "members#", "keepers"], rows, empty="No teams.")


def _team_json(row: Any) -> dict[str, Any]:
    return {
        "team": row.ns_id,
        "name": row.name,
        "sealed": row.is_sealed,
        "members": row.members,
        "keepers": list(row.keepers),
    }


def _member_json(row: Any) -> dict[str, Any]:
    gone = None if row.gone_at is None else row.gone_at.isoformat()
    return {"name": row.name, "since": row.made_at.isoformat(), "machines": row.devices, "gone": gone}


class _opened:
    """The hub's database, open. Raises HubError where the extra is not installed."""

    def __init__(self, dsn: str) -> None:
        try:
            from engram.hub.server.database import Database
        except ImportError as error:
            raise HubError(f"the hub needs the extra: {install_command('hub')} ({error.name} is missing)") from error
        self._database = Database(dsn)

    def __enter__(self) -> Database:
        return self._database.open()

    def __exit__(self, *_: object) -> None:
        self._database.close()
