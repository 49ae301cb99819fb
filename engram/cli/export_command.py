"""``engram export``: memories as JSON lines or as a folder of Markdown files, without loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from engram.atomic import write_atomic
from engram.cli.options import project_option
from engram.cli.output import say, to_json
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.errors import BadRequest, BrokenDatabase
from engram.models.episodes import Episode


@click.command("export")
@project_option
@click.option(
    "--current",
    "only_current",
    is_flag=True,
    help="Leave out archived and superseded memories (default: all memories).",
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="JSON lines, or a folder of Markdown files: a folder for each project, a file for each memory.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    default=None,
    help="The file to write, mode 0600, or the folder for Markdown (default: standard output).",
)
@pass_workspace
def export(
    workspace: Workspace, project: str | None, only_current: bool, file_format: str, output: Path | None
) -> None:
    """Write every memory with its evidence and history, one JSON object a line or one Markdown file each.

    `engram import` reads both without loss. The last line tells in ids and hashes what you forgot, so that it does not
    come back where you import; an export of one project or of current memories has no such line. What was said word
    for word (`engram search`) is not exported: the transcripts are its source. Of a damaged memory what can be read is
    written, and the command fails.

    Example: engram export --output memories.jsonl
    """
    from engram.exchange.json_lines import export_records
    from engram.exchange.markdown import write_markdown
    from engram.models.file_checks import is_empty

    if is_empty(workspace.places.memory_db):
        raise BrokenDatabase(f"{workspace.places.memory_db} is damaged: it is empty, so there is nothing to export")
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)

        def is_wanted(episode: Episode) -> bool:
            return (place is None or episode.project_id == place.id) and (not only_current or episode.is_current)

        records = export_records(store, is_wanted, with_forgotten=place is None and not only_current)
        if file_format == "markdown":
            if output is None:
                raise BadRequest("name the folder for the Markdown files: --output DIR")
            count, removed = write_markdown(output.expanduser().absolute(), records)
            gone = f" {removed} files of an earlier export are gone." if removed else ""
            say(f"Wrote {count} memories to {output}.{gone}", err=True)
            return
        lines, count, damage = _read_lines(records)
    if output is None:
        for line in lines:
            click.echo(line)
        if not lines and damage is None:
            say("There are no memories to export.", err=True)
    else:
        write_atomic(output.absolute(), "".join(f"{line}\n" for line in lines).encode())
        say(f"Wrote {count} memories to {output}.", err=True)
    if damage is not None:
        raise damage


def _read_lines(records: Iterable[Mapping[str, Any]]) -> tuple[list[str], int, BrokenDatabase | None]:
    """Return a line for each record that can be read, how many of them are memories, and what is damaged."""
    from engram.exchange.record import FORGOTTEN

    lines: list[str] = []
    count = 0
    try:
        for record in records:
            lines.append(to_json(record))
            # What was forgotten is a line, too, and no memory.
            count += record["status"] != FORGOTTEN
    except BrokenDatabase as error:
        return lines, count, error
    return lines, count, None
