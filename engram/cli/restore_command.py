"""``engram restore``: replace memory.db by a backup."""

from __future__ import annotations

import os
from pathlib import Path

import click

from engram.cli.options import json_option
from engram.cli.output import iso, print_json, print_table, safe, say, when
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import AlreadyRunning, BadRequest, NotFound
from engram.models.backup import Backup, list_backups
from engram.models.replacement import owning_database
from engram.models.restore import restore_backup
from engram.models.store import Store
from engram.process_lock import ProcessLock


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
        click.confirm(f"Replace {places.memory_db} by {safe(chosen.name)}?", abort=True)
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
