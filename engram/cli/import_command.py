"""``engram import``: memories from an export, from another program, or from a folder of notes; and the undo of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from engram.cli.options import json_option
from engram.cli.output import iso, print_json, print_table, safe, say
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.errors import BadRequest

if TYPE_CHECKING:
    from engram.exchange.importing import ImportReport
    from engram.exchange.incoming import Source

#: Problems that are printed one by one.
_MAX_SHOWN = 10


@click.command("import")
@click.argument("path", required=False)
@click.option(
    "--from",
    "file_format",
    type=click.Choice(["jsonl", "markdown", "notes", "claude-mem", "earlier"]),
    default=None,
    help="The format; without PATH, the usual place of claude-mem or of the earlier Engram (default: what PATH holds).",
)
@click.option(
    "--project",
    metavar="NAME",
    default=None,
    help="The project of memories that name none, such as notes: its name or a folder in it (default: none).",
)
@click.option(
    "--global",
    "is_global",
    is_flag=True,
    help="Notes, and what the file says holds everywhere, hold in every project (default: in their project alone).",
)
@click.option(
    "--mine",
    "is_mine",
    is_flag=True,
    help="You made this export with a memory of yours on another machine: voices and pins stay (default: somebody else "
    "said it, unless this memory made it).",
)
@click.option(
    "--map",
    "folder_map",
    metavar="OLD=NEW",
    multiple=True,
    help="Folders of an export that begin with OLD begin with NEW here, such as /Users/ann=/home/ann. Can be given "
    "several times (default: none).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported (default: import it).")
@click.option(
    "--undo", "undo_id", type=click.IntRange(1), metavar="RUN", default=None, help="Undo an import (default: import)."
)
@click.option("--list", "only_list", is_flag=True, help="List the latest imports (default: import).")
@json_option
@pass_workspace
def import_memories(
    workspace: Workspace,
    path: str | None,
    file_format: str | None,
    project: str | None,
    is_global: bool,
    is_mine: bool,
    folder_map: tuple[str, ...],
    dry_run: bool,
    undo_id: int | None,
    only_list: bool,
    as_json: bool,
) -> None:
    """Import memories from PATH; - reads an export from standard input.

    PATH is an export of Engram (JSON lines or a folder of Markdown files), a database of claude-mem or of the earlier
    Engram, or a folder of Markdown notes. Existing memories are not changed, and memories that you forgot do not come
    back. A memory whose replacement is neither here nor imported is in force again. Secrets are masked. Importing the
    same twice adds nothing, and `--undo RUN` takes an import back. What this memory did not export itself is told as
    imported, never as yours, unless you say `--mine`.

    Example: engram import memories.jsonl --dry-run
    """
    if only_list:
        _list(workspace, as_json)
    elif undo_id is not None:
        _undo(workspace, undo_id, as_json)
    else:
        _import(workspace, path, file_format, project, is_global, is_mine, folder_map, dry_run, as_json)


def _import(
    workspace: Workspace,
    path: str | None,
    file_format: str | None,
    project: str | None,
    is_global: bool,
    is_mine: bool,
    folder_map: tuple[str, ...],
    is_dry: bool,
    as_json: bool,
) -> None:
    from engram.exchange.importing import import_memories
    from engram.exchange.places import PlaceFinder

    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        places = PlaceFinder(store, workspace.settings, into=place, map_folder=_folder_mapping(folder_map))
        with _source(workspace, path, file_format, has_project=place is not None, is_global=is_global) as source:
            report = import_memories(
                store, source, workspace.redactor(), places, is_dry=is_dry, is_mine=is_mine, is_global=is_global
            )
    if not is_dry:
        workspace.wake_worker()
    for problem in report.problems[:_MAX_SHOWN]:
        say(f"{problem.where}: {problem.why}", err=True)
    if as_json:
        print_json(report.to_json())
    else:
        _print_report(report)


@contextlib.contextmanager
def _source(
    workspace: Workspace, path: str | None, file_format: str | None, *, has_project: bool, is_global: bool
) -> Iterator[Source]:
    from engram.exchange.formats import open_source
    from engram.exchange.json_lines import read_json_lines

    if path == "-":
        if file_format not in (None, "jsonl"):
            raise BadRequest("only an export of JSON lines can be read from standard input")
        yield read_json_lines(click.open_file("-", "rb"), "standard input")
        return
    file = None if path is None else Path(path).expanduser().absolute()
    with open_source(file, file_format, workspace.settings, has_project=has_project, is_global=is_global) as source:
        yield source


def _folder_mapping(pairs: tuple[str, ...]) -> Callable[[str], str]:
    """Return a function that gives folders their new beginning."""
    mapped = []
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old.rstrip("/") or not new:
            raise BadRequest(f"--map {pair!r} can't be read; write it as OLD=NEW, such as /Users/ann=/home/ann")
        mapped.append((old.rstrip("/"), new.rstrip("/")))

    def change(folder: str) -> str:
        for old, new in mapped:
            if folder == old or folder.startswith(f"{old}/"):
                return new + folder[len(old) :]
        return folder

    return change


def _print_report(report: ImportReport) -> None:
    counts = {outcome.value: count for outcome, count in report.counts.items()}
    verb = "Would add" if report.is_dry else "Added"
    click.echo(
        f"{verb} {counts.get('added', 0)} memories. Skipped: {counts.get('known', 0)} existing, "
        f"{counts.get('forgotten', 0)} forgotten, {counts.get('bad', 0)} unusable "
        f"{'lines' if report.format == 'jsonl' else 'parts'}."
    )
    rows = [
        (name or "(no project)", count, "new" if name in report.new_projects else "")
        for name, count in sorted(report.projects.items())
    ]
    if rows:
        print_table(("project", "memories#", ""), rows, empty="")
    if report.projects[""] and report.format == "earlier-engram":
        click.echo("Memories of no project that are not global are found by `engram recall`, and shown to no session.")
    for remark in report.remarks:
        click.echo(safe(remark))
    if report.run_id is not None:
        click.echo(f"To undo it, run: engram import --undo {report.run_id}")


def _undo(workspace: Workspace, run_id: int, as_json: bool) -> None:
    from engram.exchange.importing import undo_import

    with workspace.store() as store:
        undone = undo_import(store, run_id)
    workspace.wake_worker()
    kept = [{"id": episode_id, "reason": reason} for episode_id, reason in undone.kept]
    if as_json:
        print_json({"run": run_id, "undone": True, "removed": undone.removed, "kept": kept})
        return
    for memory in kept:
        click.echo(safe(f"stays: {memory['id']}, {memory['reason']}"))
    click.echo(f"Removed {undone.removed} memories of import {run_id}; {len(kept)} stay.")


def _list(workspace: Workspace, as_json: bool) -> None:
    from engram.models.runs import list_imports

    with workspace.store() as store:
        rows = [
            {
                "run": run.id,
                "format": run.report.get("format", ""),
                "state": run.state,
                "started_at": iso(run.started_at_ms),
                "added": run.report.get("added", 0),
            }
            for run in list_imports(store)
        ]
    if as_json:
        print_json({"imports": rows})
    else:
        print_table(
            ["run#", "format", "started", "state", "added#"],
            [(row["run"], row["format"], row["started_at"], row["state"], row["added"]) for row in rows],
            empty="No imports yet.",
        )
