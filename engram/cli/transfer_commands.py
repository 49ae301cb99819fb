"""``engram export``: memories as JSON lines or as a folder of Markdown files, without loss."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.options import json_option, project_option, require_agreement
from engram.cli.output import iso, print_json, print_table, safe, say, to_json, when
from engram.cli.workspace import Workspace, find_project, pass_workspace
from engram.errors import AlreadyRunning, BadRequest, BrokenDatabase, NotFound
from engram.models.engine.database import owning_database
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory
from engram.models.rescue.backup import Backup, list_backups
from engram.models.rescue.restore import restore_backup
from engram.system.atomic import write_atomic
from engram.system.process_lock import ProcessLock

if TYPE_CHECKING:
    from engram.exchange.importing import ImportReport
    from engram.exchange.incoming import Source


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
    from engram.exchange.export import export_records, write_markdown
    from engram.models.engine.database import is_empty

    if is_empty(workspace.places.memory_db):
        raise BrokenDatabase(f"{workspace.places.memory_db} is damaged: it is empty, so there is nothing to export")
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)

        def is_wanted(memory: Memory) -> bool:
            return (place is None or memory.project_id == place.id) and (not only_current or memory.is_current)

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
    from engram.exchange.incoming import FORGOTTEN

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


# -- ``engram import``: memories from an export, from another program, or from a folder of notes; and the undo of it.

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
    from engram.exchange.importing import PlaceFinder, import_memories

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
    from engram.exchange.export import read_json_lines
    from engram.exchange.formats import open_source

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
    from engram.models.memories.memory_history import list_imports

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


# -- ``engram restore``: replace memory.db by a backup.


@click.command("restore")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--list", "only_list", is_flag=True, help="List the backups and stop (default: restore).")
@click.option(
    "--new",
    "begins_anew",
    is_flag=True,
    help="Begin a new memory in place of one that was deleted (default: restore a backup).",
)
@click.option("--yes", is_flag=True, help="Don't ask (default: ask).")
@json_option
@pass_workspace
def restore(
    workspace: Workspace, file: Path | None, only_list: bool, begins_anew: bool, yes: bool, as_json: bool
) -> None:
    """Replace memory.db by a backup: the newest one, or FILE (a name from --list, or a path).

    The worker makes a backup every day and keeps two, and one of an earlier memory that was damaged or deleted. The
    current memory is kept as memory.replaced.db. What you saved, pinned, edited or forgot since the backup is carried
    over, and the transcripts are read again from where the backup ends. Stop Engram first.

    Before a new version changes an earlier one's memory.db, it makes a copy, which --list names. To go back to that
    version, install it and restore the copy with it: that carries over what you did since.

    Example: engram restore --list
    """
    places = workspace.places.prepare()
    backups = list_backups(places.backups)
    if only_list:
        _print_list(backups, as_json)
        return
    if begins_anew:
        _begin_anew(workspace, as_json)
        return
    chosen = _choose(backups, places.backups, file)
    if not yes and not as_json:
        require_agreement(f"Replace {places.memory_db} by {chosen.name}?")
    locks = _take_locks(places.watcher_lock, places.worker_lock)
    try:
        done = restore_backup(places.memory_db, chosen, driver=workspace.settings.sqlite_driver)
    finally:
        for lock in locks:
            lock.release()
    if as_json:
        print_json(
            {
                "restored": str(done.source),
                "set_aside": str(done.aside) if done.aside else None,
                "episodes": done.memories,
                "turns": done.turns,
                "carried_over": done.carried.memories,
            }
        )
        return
    say(f"memory.db is now {chosen.name}: {done.memories} memories, {done.turns} turns.")
    if done.aside is not None:
        say(
            f"The previous database was kept as {done.aside}; "
            f"{done.carried.memories} of its memories were carried over."
        )
    click.echo("Start Engram again: engram up")


def _begin_anew(workspace: Workspace, as_json: bool) -> None:
    """Make an empty memory.db; the backups of the deleted one stay. Raises BadRequest if there is a memory."""
    path = workspace.places.memory_db
    with owning_database(path):
        if os.path.lexists(path):
            raise BadRequest(f"{path} exists. To begin anew, move it out of the memory folder first")
        Store(path, driver=workspace.settings.sqlite_driver, begins_anew=True).open().close()
    if as_json:
        print_json({"new": str(path)})
        return
    say(f"{path} is new and empty; the backups of the earlier memory stay. Start Engram again: engram up")


def _print_list(backups: list[Backup], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "backups": [
                    {
                        "path": str(backup.path),
                        "made_at": iso(backup.made_at_ms),
                        "bytes": backup.size,
                        "upgraded_from": backup.upgraded_from or None,
                    }
                    for backup in backups
                ]
            }
        )
        return
    print_table(
        ["backup", "made", "MB#", ""],
        [
            (
                backup.path.name,
                when(backup.made_at_ms),
                f"{backup.size / 1e6:.1f}",
                "the way back to the version before an upgrade" if backup.upgraded_from else "",
            )
            for backup in backups
        ],
        empty="There are no backups yet. The worker makes one every day.",
    )


def _choose(backups: list[Backup], folder: Path, file: Path | None) -> Path:
    """The backup to restore. Raises NotFound."""
    if file is None:
        if not backups:
            raise NotFound("there is no backup. If memory.db is damaged, `engram up` reads the transcripts again")
        return backups[0].path
    for path in (folder / file.name, file.absolute()):
        if path.is_file():
            return path
    raise NotFound(f"there is no backup {file}. `engram restore --list` lists the backups")


def _take_locks(*paths: Path) -> list[ProcessLock]:
    """Hold the locks of watcher and worker, so that neither runs meanwhile. Raises AlreadyRunning."""
    locks: list[ProcessLock] = []
    try:
        for path in paths:
            locks.append(ProcessLock(path))
    except AlreadyRunning as error:
        for lock in locks:
            lock.release()
        raise AlreadyRunning(
            "Engram is running. Stop it first: press Ctrl-C in `engram up`, or stop its service."
        ) from error
    return locks
