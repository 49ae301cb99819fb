"""``engram logs``: the last lines of the logs, of all processes or of one."""

from __future__ import annotations

import heapq
import re
from collections import deque
from pathlib import Path

import click

from engram.cli.options import json_option
from engram.cli.output import print_json, safe
from engram.cli.workspace import Workspace, pass_workspace

_KINDS = ("worker", "watcher", "hook", "cli", "mcp")
#: A record begins with a time; what follows without one is its traceback.
_RECORD = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@click.command("logs")
@click.argument("kind", type=click.Choice(_KINDS), required=False)
@click.option("--lines", type=click.IntRange(1, 100_000), default=40, show_default=True, metavar="N",
              help="How many records.")  # fmt: skip
@click.option("--errors", is_flag=True, help="Only warnings and errors (default: everything).")
@json_option
@pass_workspace
def logs(workspace: Workspace, kind: str | None, lines: int, errors: bool, as_json: bool) -> None:
    """Show the latest records of the logs, in the order of time.

    Example: engram logs worker --errors
    """
    folder = workspace.places.logs
    kinds = _KINDS if kind is None else (kind,)
    merged = heapq.merge(*(read_records(folder / f"{one}.log", one, only_errors=errors) for one in kinds))
    latest = deque(merged, maxlen=lines)
    if as_json:
        print_json({"records": [{"process": process, "text": text} for _, process, text in latest]})
        return
    for _, process, text in latest:
        click.echo(f"{process}: {safe(text)}" if kind is None else safe(text))
    if not latest:
        click.echo(f"There is nothing in the logs in {folder}.")


def read_records(path: Path, process: str, *, only_errors: bool = False) -> list[tuple[str, str, str]]:
    """``(time, process, text)`` of a log, its latest rotated part included."""
    found: list[tuple[str, str, str]] = []
    for part in (path.with_name(path.name + ".1"), path):
        try:
            text = part.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        for line in text.splitlines():
            if _RECORD.match(line) or not found:
                found.append((line[:23], process, line))
            else:
                at, _, before = found[-1]
                found[-1] = (at, process, f"{before}\n{line}")
    if only_errors:
        found = [one for one in found if re.match(r"\S+ \S+ (WARNING|ERROR|CRITICAL) ", one[2])]
    return found
