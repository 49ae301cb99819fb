"""``engram logs``: the latest log records, of all processes or of one."""

from __future__ import annotations

import heapq
from collections import deque

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, safe
from engram.cli.workspace import Workspace, pass_workspace
from engram.log import LOG_KINDS, LogKind, read_records


@click.command("logs")
@click.argument("kind", type=click.Choice(LOG_KINDS), required=False)
@click.option(
    "--lines",
    type=click.IntRange(1, 100_000),
    default=40,
    show_default=True,
    metavar="N",
    help="Maximum number of records.",
)
@click.option("--errors", is_flag=True, help="Only warnings and errors (default: all records).")
@json_option
@pass_workspace
def logs(workspace: Workspace, kind: LogKind | None, lines: int, errors: bool, as_json: bool) -> None:
    """Show the latest log records, in chronological order.

    Example: engram logs worker --errors
    """
    folder = workspace.places.logs
    kinds = LOG_KINDS if kind is None else (kind,)
    merged = heapq.merge(*(read_records(folder, name) for name in kinds))
    latest = deque((record for record in merged if record.is_problem or not errors), maxlen=lines)
    if as_json:
        print_json({"records": [{"process": record.kind, "text": record.text} for record in latest]})
        return
    for record in latest:
        click.echo(f"{record.kind}: {safe(record.text)}" if kind is None else safe(record.text))
    if not latest:
        click.echo(f"No records in {folder}.")
