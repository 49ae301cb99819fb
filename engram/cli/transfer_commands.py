"""``engram export``, ``import`` and ``restore``: memories to files and back, and memory.db from a backup."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engram.cli.hub_commands import say_unknown
from engram.cli.options import confirm, json_command, project_option, require_alone, tell
from engram.cli.output import (
    check_writable,
    is_open_to_others,
    local,
    print_json,
    print_table,
    safe,
    say,
    to_json,
    when,
    write_file,
)
from engram.cli.workspace import Workspace, advise, find_project, pass_workspace
from engram.errors import AlreadyRunning, BadRequest, BrokenDatabase, NotFound, StoreError
from engram.hub.client.membership import list_unknown
from engram.models.engine.database import owning_database
from engram.models.engine.transaction import Reader, Store
from engram.models.hub.carried_hubs import carry_hubs
from engram.models.memories.memory_records import Memory
from engram.models.projects.projects import list_held_projects
from engram.models.rescue.backup import EMPTY, Backup, count_held, is_of_other_memory, list_backups
from engram.models.rescue.carry_over import carry_forgotten
from engram.models.rescue.restore import find_missing, require_database, restore_backup
from engram.paths import Home, absolute_path
from engram.reports.processes import process_state, start_command
from engram.system.clock import iso_or_none
from engram.system.process_lock import ProcessLock
from engram.trust.display import counted, number_of
from engram.vaults import is_excluded_by_vault, own_vault, settings_around

if TYPE_CHECKING:
    from engram.exchange.exchange_records import Source
    from engram.exchange.importing import ImportReport


@click.command("export")
@project_option
@click.option(
    "--current", "only_current", is_flag=True, help="Leave out archived and replaced memories (default: all memories)."
)
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="JSON lines, or a folder of Markdown files: a folder for each project, with a file for each memory.",
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
    """Write every memory with its evidence and history, as one JSON object per line or as one Markdown file each.

    `engram import` reads both without loss. The last line lists, as ids and hashes, what you forgot, so that it doesn't
    come back where you import the file; an export of one project or of current memories has no such line. Verbatim text
    (`engram search`) is not exported: the transcripts are its source. If the database is damaged, everything readable
    is written, and the command fails.

    Example: engram export --output memories.jsonl
    """
    from engram.exchange.export import export_records, write_markdown
    from engram.models.engine.database import is_empty

    if is_empty(workspace.places.memory_db):
        raise BrokenDatabase(f"{workspace.places.memory_db} is damaged: it is empty, so there is nothing to export")
    if output is not None and file_format != "markdown":
        check_writable(output)
    elif output is not None and output.is_file():
        raise BadRequest(f"{output} is a file; name a folder for the Markdown files")
    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)

        def is_wanted(memory: Memory) -> bool:
            return (place is None or memory.project_id == place.id) and (not only_current or memory.is_current)

        records = export_records(store, is_wanted, with_forgotten=place is None and not only_current)
        if file_format == "markdown":
            if output is None:
                raise click.UsageError("name the folder for the Markdown files: --output DIR")
            count, removed = write_markdown(absolute_path(output), records)
            gone = f" Deleted {number_of(removed, 'file')} from an earlier export." if removed else ""
            say(f"Wrote {number_of(count, 'memory')} to {output}.{gone}", err=True)
            return
        lines, count, damage = _read_lines(records)
    if output is None:
        for line in lines:
            click.echo(line)
        if not lines and damage is None:
            say("There are no memories to export.", err=True)
        if lines and is_open_to_others(sys.stdout):
            say("Other users of this machine can read that file: run chmod 600 on it, or use --output.", err=True)
    else:
        write_file(output, "".join(f"{line}\n" for line in lines).encode())
        say(f"Wrote {number_of(count, 'memory')} to {output}.", err=True)
    if damage is not None:
        raise damage


def _read_lines(records: Iterable[Mapping[str, Any]]) -> tuple[list[str], int, BrokenDatabase | None]:
    """Return a line for each record that can be read, how many of them are memories, and what is damaged."""
    from engram.exchange.exchange_records import FORGOTTEN

    lines: list[str] = []
    count = 0
    try:
        for record in records:
            lines.append(to_json(record))
            # The line about what was forgotten is not a memory.
            count += record["status"] != FORGOTTEN
    except BrokenDatabase as error:
        return lines, count, error
    return lines, count, None


# -- ``engram import``: memories from an export, another program or a folder of notes; and how to undo an import.

#: Maximum number of problems that are printed one by one.
_MAX_SHOWN = 10


@click.command("import")
@click.argument("path", required=False)
@click.option(
    "--from",
    "file_format",
    type=click.Choice(["jsonl", "markdown", "notes", "claude-mem", "earlier"]),
    default=None,
    help="The format of PATH. Without PATH, claude-mem or the earlier Engram is read from its usual place (default: "
    "detected from PATH).",
)
@click.option(
    "--project",
    metavar="NAME",
    default=None,
    help="The project for memories that name none, such as notes: its name or a folder in it (default: none).",
)
@click.option(
    "--global",
    "is_global",
    is_flag=True,
    help="Let notes, and what the file marks as global, apply to every project (default: only to their own).",
)
@click.option(
    "--mine",
    "is_mine",
    is_flag=True,
    help="You made this export yourself on another machine: voices and pins are kept (default: it counts as "
    "someone else's, unless it was exported from this memory).",
)
@click.option(
    "--map",
    "folder_map",
    metavar="OLD=NEW",
    multiple=True,
    help="Replace the beginning OLD of folders in an export with NEW, such as /Users/ann=/home/ann. Can be given "
    "several times (default: none).",
)
@click.option("--dry-run", is_flag=True, help="Show what would be imported (default: import it).")
@click.option(
    "--undo", "undo_id", type=click.IntRange(1), metavar="RUN", default=None, help="Undo an import (default: import)."
)
@click.option("--list", "only_list", is_flag=True, help="List the latest imports (default: import).")
@json_command
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
    back. A memory whose replacement is neither stored here nor imported becomes valid again. Secrets are masked.
    Importing the same file twice adds nothing, and `--undo RUN` undoes an import. Memories that were not exported from
    this memory are shown as imported, never as yours, unless you give `--mine`.

    Example: engram import memories.jsonl --dry-run
    """
    require_alone("undo_id", "only_list")
    if only_list:
        _list(workspace, as_json)
        return
    if undo_id is not None:
        _undo(workspace, undo_id, as_json)
        return
    from engram.exchange import importing

    with workspace.store() as store:
        place = find_project(store, workspace.settings, project)
        places = importing.PlaceFinder(store, workspace.settings, into=place, map_folder=_folder_mapping(folder_map))
        with _source(workspace, path, file_format, has_project=place is not None, is_global=is_global) as source:
            report = importing.import_memories(
                store, source, workspace.redactor(), places, is_dry=dry_run, is_mine=is_mine, is_global=is_global
            )
    if not dry_run:
        workspace.wake_worker()
    for problem in report.problems[:_MAX_SHOWN]:
        say(f"{problem.where}: {problem.why}", err=True)
    if len(report.problems) > _MAX_SHOWN:
        say(f"{len(report.problems) - _MAX_SHOWN} more like these; add --json to see all", err=True)
    changes_known = is_mine or is_global or place is not None
    tell(as_json, report.to_json(), lambda: _print_report(report, changes_known=changes_known))


@contextlib.contextmanager
def _source(
    workspace: Workspace, path: str | None, file_format: str | None, *, has_project: bool, is_global: bool
) -> Iterator[Source]:
    from engram.exchange.export import read_json_lines
    from engram.exchange.other_programs import open_source

    if path == "-":
        if file_format not in (None, "jsonl"):
            raise click.UsageError("only an export in JSON lines can be read from standard input")
        yield read_json_lines(click.open_file("-", "rb"), "standard input")
        return
    if path is None and file_format not in ("claude-mem", "earlier"):
        raise click.UsageError("name the file or folder to import; only --from claude-mem and --from earlier need none")
    file = None if path is None else absolute_path(path)
    with open_source(file, file_format, workspace.settings, has_project=has_project, is_global=is_global) as source:
        yield source


def _folder_mapping(pairs: tuple[str, ...]) -> Callable[[str], str]:
    """Return a function that replaces the beginning of a folder's path."""
    mapped = []
    for pair in pairs:
        old, equals, new = pair.partition("=")
        if not equals or not old.rstrip("/") or not new:
            raise click.UsageError(f"--map {pair!r} can't be read; write it as OLD=NEW, such as /Users/ann=/home/ann")
        mapped.append((old.rstrip("/"), new.rstrip("/")))

    def change(folder: str) -> str:
        for old, new in mapped:
            if folder == old or folder.startswith(f"{old}/"):
                return new + folder[len(old) :]
        return folder

    return change


def _print_report(report: ImportReport, *, changes_known: bool) -> None:
    """Print what was imported.

    Args:
        changes_known: the user gave an option that changes how memories are stored, but not those that already exist.
    """
    counts = {outcome.value: count for outcome, count in report.counts.items()}
    verb = "Would add" if report.is_dry else "Added"
    unusable = number_of(counts.get("bad", 0), f"unusable {'line' if report.format == 'jsonl' else 'part'}")
    if report.counts or report.tombstones:
        say(
            f"{verb} {number_of(counts.get('added', 0), 'memory')}. Skipped: {counts.get('known', 0)} existing, "
            f"{counts.get('forgotten', 0)} forgotten, {unusable}."
        )
    else:
        say(f"There are no memories in {report.name}.")
    rows = [
        (name or "(no project)", count, "new" if name in report.new_projects else "")
        for name, count in sorted(report.projects.items())
    ]
    if rows:
        print_table(("project", "memories#", ""), rows, empty="")
    if report.projects[""] and report.format == "earlier-engram":
        advise("`engram recall` finds memories without a project that are not global, but no session shows them.")
    undo = f"engram import --undo {report.run_id}"
    if report.suspects:
        advise(
            f"{number_of(report.suspects, 'memory')} read like orders to Claude, and are not shown to it until you "
            f"decide: engram review. If the file is your own export, run `{undo}`, then `engram import --mine FILE`."
        )
    if counts.get("known", 0) and changes_known:
        advise("Existing memories are unchanged. If an earlier import added them, undo it first: engram import --list")
    for remark in report.remarks:
        click.echo(safe(remark))
    if report.run_id is not None:
        advise(f"To undo it, run: {undo}")


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
        click.echo(safe(f"kept: {memory['id']}, {memory['reason']}"))
    say(f"Removed {number_of(undone.removed, 'memory')} of import {run_id}; kept {len(kept)}.")


def _list(workspace: Workspace, as_json: bool) -> None:
    from engram.models.memories.memory_history import IMPORT_KIND, list_runs

    with workspace.store() as store:
        rows = [
            {
                "run": run.id,
                "format": run.report.get("format", ""),
                "state": run.state,
                "started_at": iso_or_none(run.started_at_ms),
                "added": run.report.get("added", 0),
            }
            for run in list_runs(store, kinds=[IMPORT_KIND])
        ]
    cells = [(row["run"], row["format"], local(row["started_at"]), row["state"], row["added"]) for row in rows]
    headings = ["run#", "format", "started", "state", "added#"]
    tell(as_json, {"imports": rows}, lambda: print_table(headings, cells, empty="No imports yet."))


# -- ``engram restore``: replace memory.db with a backup.


@click.command("restore")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--list", "only_list", is_flag=True, help="List the backups and stop (default: restore).")
@click.option(
    "--new",
    "starts_new",
    is_flag=True,
    help="Start a new memory instead of one that was deleted (default: restore a backup).",
)
@click.option("--yes", is_flag=True, help="Don't ask (default: ask).")
@json_command
def restore(
    workspace: Workspace, file: Path | None, only_list: bool, starts_new: bool, yes: bool, as_json: bool
) -> None:
    """Replace memory.db with a backup: the newest one, or FILE (a name from --list, or a path).

    The worker makes a backup every day and keeps two, plus one of an earlier memory that was damaged or deleted. The
    current memory is kept as memory.replaced.db. What you or an agent saved, changed, judged, decided, paused or forgot
    since the backup is carried over, as are memories whose transcripts are gone, packs, the names of projects and the
    folders joined to them. The transcripts are read again from the point where the backup ends. Stop Engram first.

    Before a new version changes the memory.db of an earlier one, it makes a copy, which --list shows. To go back to the
    earlier version, install it and restore the copy with it: that carries over what you did since.

    Example: engram restore --list
    """
    require_alone("only_list", "starts_new", but=("yes",))
    was_on_disk = starts_new and workspace.places.forget_disk()
    places = workspace.places.prepare()
    backups = list_backups(places.backups)
    driver = workspace.settings.sqlite_driver
    if only_list:
        _print_list(backups, driver, as_json)
        return
    workspace.log_warnings()
    around = settings_around(workspace.settings).places  # its watcher and worker also use its vaults
    locks = (around.watcher_lock, around.worker_lock)
    if starts_new:
        with _stopped(*locks):
            _start_new(workspace, as_json, had_memory=was_on_disk)
        return
    chosen = _choose(backups, places.backups, file, driver)
    require_database(chosen)
    with _stopped(*locks):
        pass  # before anything is said or asked
    if not as_json:
        if backups and file is None and chosen != backups[0].path:
            say(f"{backups[0].path.name} is newer, but empty; it can be named, too.")
        if (held := count_held(chosen, driver)) is not None:
            parts = filter(None, (counted(held.memories, "memory"), counted(held.turns, "turn")))
            say(f"{chosen.name} holds {' and '.join(parts) or 'nothing'}.")
        _say_what_is_missing(workspace, backups, chosen)
    confirm(yes, as_json, f"Replace {places.memory_db} with {chosen.name}?")
    with _stopped(*locks):
        done = restore_backup(
            places.memory_db,
            chosen,
            driver=workspace.settings.sqlite_driver,
            carry_more=carry_hubs,
            check=partial(_require_own_projects, places, chosen),
        )
    with workspace.existing_store() as store:
        unknown = list_unknown(store, places)
    if as_json:
        print_json(
            {
                "restored": str(done.source),
                "set_aside": str(done.aside) if done.aside else None,
                "episodes": done.memories,
                "turns": done.turns,
                "carried_over": done.carried.memories,
                "changed": done.carried.changed,
                "hubs_to_join": unknown,
            }
        )
        return
    say(f"memory.db is now {chosen.name}: {number_of(done.memories, 'memory')}, {number_of(done.turns, 'turn')}.")
    if done.aside is not None:
        carried = f"{number_of(done.carried.memories, 'memory')} of it and changes of {done.carried.changed} more"
        say(f"The previous database was kept as {done.aside}. Carried over: {carried}.")
    say_unknown(unknown)
    click.echo(f"Start Engram again: {start_command(workspace.settings)}")


def _require_own_projects(places: Home, backup: Path, copy: Reader) -> None:
    """Raise BadRequest for a file from elsewhere with a project whose place is in a vault, or not in this vault."""
    projects = [] if backup.parent == places.backups else list_held_projects(copy)
    for project in projects:
        if is_excluded_by_vault(places, project.identity, project.root):
            if own_vault(places) is not None:
                raise BadRequest(f"{backup} contains {project.name}, which is not the project of this vault")
            name = shlex.quote(project.name)
            raise BadRequest(
                f"{backup} contains {project.name}, which is in a vault. To restore the vault: engram --vault {name} "
                f"restore FILE. To restore everything, first run: engram projects unvault {name}"
            )


def _say_what_is_missing(workspace: Workspace, backups: Sequence[Backup], chosen: Path) -> None:
    """Print what a restore undoes, and which parts of that come back; nothing if one of the two can't be read."""
    made_at_ms = next((row.made_at_ms for row in backups if row.path == chosen), chosen.stat().st_mtime_ns // 1_000_000)
    path = workspace.places.memory_db
    if not path.is_file():
        say(f"{chosen.name} was made on {when(made_at_ms)}, and there is no memory.db with later changes:")
        say("  what you saved, changed, judged, decided or forgot is lost, unless a hub or a synced folder has it")
        say("  the transcripts are read again, and memories are made from them")
        return
    with contextlib.suppress(StoreError), workspace.existing_store() as store:
        is_other = chosen.parent != workspace.places.backups and is_of_other_memory(store, chosen)
        missing = find_missing(store, chosen)
        parts = (
            (missing.turns, "turn", ": read again from the transcripts"),
            (missing.gone_turns, "turn", " of these are lost: their transcripts are gone"),
            (missing.carried_memories, "memory", ": carried over"),
            (missing.other_memories, "memory", " that nobody saved by hand: made again, perhaps in other words"),
            (missing.shown, "record", " of what Claude was shown: lost"),
        )
        lines = [f"  {number_of(number, one)}{what}" for number, one, what in parts if number]
        origin = (
            "comes from another memory, such as another machine's" if is_other else f"was made on {when(made_at_ms)}"
        )
        say(f"{chosen.name} {origin}. Only memory.db has:{'' if lines else ' nothing.'}")
        for line in lines:
            say(line)
        say("What you saved, changed, judged, decided or forgot is carried over; the current memory.db is kept.")


def _start_new(workspace: Workspace, as_json: bool, *, had_memory: bool) -> None:
    """Create an empty memory.db; backups of the deleted one are kept, and what was forgotten remains forgotten.

    Args:
        had_memory: True if the memory was on a disk that may not be mounted any more, so that there are no backups.

    Raises:
        BadRequest: there is already a memory, or there was none.
    """
    path = workspace.places.memory_db
    with owning_database(path):
        if os.path.lexists(path):
            raise BadRequest(f"{path} exists. To start over, stop Engram and move it away: mv {path}* SOMEWHERE")
        backups = [backup.path for backup in list_backups(workspace.places.backups)]
        if not backups and not had_memory:
            raise BadRequest("there was no memory here, and there are no backups of one; `engram up` creates one")
        with Store(path, driver=workspace.settings.sqlite_driver, may_start_over=True) as store:
            carry_forgotten(store, backups)
    tell(
        as_json,
        {"new": str(path)},
        f"{path} is new and empty. "
        + "The backups of the earlier memory are kept, and what you forgot remains forgotten. " * bool(backups)
        + f"Start Engram again: {start_command(workspace.settings)}",
    )


def _print_list(backups: list[Backup], driver: str, as_json: bool) -> None:
    held = [count_held(backup.path, driver) for backup in backups]
    rows = [
        {
            "path": str(backup.path),
            "made_at": iso_or_none(backup.made_at_ms),
            "bytes": backup.size,
            "memories": contents.memories if contents else None,
            "turns": contents.turns if contents else None,
            "upgraded_from": backup.upgraded_from or None,
        }
        for backup, contents in zip(backups, held, strict=True)
    ]
    before = "for going back to the version before an upgrade"
    cells = [
        (
            backup.path.name,
            when(backup.made_at_ms),
            contents.memories if contents else "?",
            f"{backup.size / 1e6:.1f}",
            before if backup.upgraded_from else "",
        )
        for backup, contents in zip(backups, held, strict=True)
    ]
    empty = "There are no backups yet. The worker makes one every day."
    tell(
        as_json, {"backups": rows}, lambda: print_table(["backup", "made", "memories#", "MB#", ""], cells, empty=empty)
    )


def _choose(backups: list[Backup], folder: Path, file: Path | None, driver: str) -> Path:
    """Return the backup to restore: the named one, or the newest that is not empty. Raises NotFound."""
    if file is None:
        if not backups:
            raise NotFound("there is no backup. If memory.db is damaged, `engram up` reads the transcripts again")
        return next((backup.path for backup in backups if count_held(backup.path, driver) != EMPTY), backups[0].path)
    # A bare file name is looked up among the backups first, a path at its own location first.
    places = (folder / file.name, file.absolute())
    for path in places if file.name == str(file) else reversed(places):
        if path.is_file():
            return path
    raise NotFound(f"there is no backup {str(file)!r}. `engram restore --list` lists the backups")


@contextlib.contextmanager
def _stopped(*locks: Path) -> Iterator[None]:
    """Hold the locks of the watcher and the worker, so that neither runs in the meantime. Raises AlreadyRunning."""
    with contextlib.ExitStack() as held:
        try:
            for path in locks:
                held.callback(ProcessLock(path).release)
        except AlreadyRunning as error:
            there = [state for path in locks if (state := process_state(path)).is_elsewhere]
            where = f" ({there[0].described}). Stop it there first" if there else ". Stop it first"
            raise AlreadyRunning(
                f"Engram is running{where}: press Ctrl-C in `engram up`, or run: engram service stop"
            ) from error
        yield
