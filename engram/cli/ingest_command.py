"""``engram ingest``: read transcripts now, to their end, without a running service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from engram.cli.options import json_option
from engram.cli.output import print_json, print_table, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import NotFound
from engram.ingest.read_sources import in_order_of_change, ingest_all
from engram.ingest.writing import IngestResult
from engram.models.engine.transaction import Store
from engram.models.shown import usage
from engram.redaction import redact
from engram.transcripts import registry
from engram.transcripts.agents import Source


@click.command("ingest")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@json_option
@pass_workspace
def ingest(workspace: Workspace, paths: tuple[Path, ...], as_json: bool) -> None:
    """Read transcripts now, to their end. Lines that were read before are not read again.

    PATH is a transcript, a folder of transcripts, or a Claude configuration folder (default: all transcripts of all
    agents). The worker makes memories of what was read (`engram up`); `engram up --once` does both at once.

    Example: engram ingest ~/.claude
    """
    with workspace.store() as store:
        todo = find_sources(workspace, paths)
        with _progress(as_json) as bar:
            task = bar.add_task("Reading", total=len(todo))

            def step(done: int, total: int, result: IngestResult) -> None:
                bar.update(task, completed=done, total=total, description=result.path.stem[:8])

            results = ingest_all(store, settings=workspace.settings, redact=redact, progress=step, sources=todo)
        report = ingest_report(store, results)
    if as_json:
        print_json(report)
        return
    click.echo(f"Read {report['files']} files: {report['new_turns']} new turns, {report['turns']} in all.")
    if report["bad_lines"]:
        click.echo(f"{report['bad_lines']} lines can't be read. `engram doctor` lists them.")
    for reason, number in report["skipped"].items():
        say(f"{number} files skipped: {reason}")
    print_table(
        ["project", "sessions#", "turns#"],
        [(name or "(no project)", totals["sessions"], totals["turns"]) for name, totals in report["projects"].items()],
        empty=f"There are no transcripts in {workspace.settings.projects_folder}.",
    )


def find_sources(workspace: Workspace, paths: Sequence[Path]) -> list[Source | Path]:
    """Return what to read, the oldest change first; a file that holds no session stays a path.

    Raises:
        NotFound: a path does not exist.
    """
    settings = workspace.settings
    if not paths:
        return [*in_order_of_change(registry.discover(settings))]
    in_folders: list[Source] = []
    named: list[Source | Path] = []
    for path in (path.expanduser().absolute() for path in paths):
        if not path.exists():
            raise NotFound(f"{path} does not exist")
        sources = registry.sources_at(path, settings)
        if path.is_dir():
            in_folders += sources
        else:
            named += sources or [path]
    return list(dict.fromkeys([*in_order_of_change(in_folders), *named]))


def ingest_report(store: Store, results: Sequence[IngestResult]) -> dict[str, Any]:
    """The JSON of ``engram ingest``: files and new turns of this run, all other figures in total."""
    totals = usage.count_totals(store)
    skipped: dict[str, int] = {}
    for result in results:
        if result.skipped:
            skipped[result.skipped] = skipped.get(result.skipped, 0) + 1
    return {
        "files": len(results) - sum(skipped.values()),
        "turns": totals.turns,
        "new_turns": sum(result.new_turns for result in results),
        "episodes": totals.memories,
        "bad_lines": totals.bad_lines,
        "skipped": skipped,
        "projects": {
            project.name: {
                "sessions": project.sessions,
                "turns": project.turns,
                "prompts": project.prompts,
                "episodes": project.memories,
            }
            for project in usage.count_projects(store)
        },
    }


def _progress(as_json: bool) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=as_json,
    )
