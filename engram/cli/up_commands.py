"""``engram up``: run the watcher and the worker in the foreground with a dashboard, or do everything once."""

from __future__ import annotations

import os
import shlex
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import FrameType

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from engram.cli.options import if_stopped, json_command
from engram.cli.output import console, one_line, print_json, say
from engram.cli.workspace import Workspace, advise
from engram.errors import BadRequest, EngramError, StoreError
from engram.paths import absolute_path
from engram.reports.engram_checks import explain_missing
from engram.reports.health import STAGE_NAMES, Health, take_health
from engram.reports.processes import process_state
from engram.setup.services.service_definition import PROCESSES, process_command
from engram.setup.services.supervisor import Child, Supervisor
from engram.transcripts import registry
from engram.trust.display import number_of, span

# -- The dashboard of ``engram up``: processes, sessions, turns, memories, queue and delay.


def draw(health: Health | str, children: list[Child], home: str) -> RenderableType:
    if isinstance(health, str):
        return Text(health, style="yellow")
    table = Table.grid(padding=(0, 3))
    for name, value in _facts(health):
        table.add_row(Text(name, style="bold"), Text(value))
    notes = [Text(one_line(note), style="yellow") for note in _notes(health, children)]
    return Group(Text(f"Engram, memory in {home}. Press Ctrl-C to stop.", style="dim"), table, *notes)


def line(health: Health | str) -> str:
    """Return the dashboard's figures on one line, for a log or a terminal that can't move its cursor."""
    if isinstance(health, str):
        return health
    totals = health.totals
    return (
        f"{number_of(totals.sessions, 'session')}, {number_of(totals.turns, 'turn')}, "
        f"{number_of(totals.memories, 'memory')}, {health.pending or 'no task'} pending, "
        f"{number_of(health.missing_vectors, 'text')} "
        f"to prepare for the search by meaning, {span(health.lag_seconds)} behind"
    )


def _facts(health: Health) -> list[tuple[str, str]]:
    totals = health.totals
    memory = f", {health.worker.rss_mb:.0f} MB" if health.worker.rss_mb else ""
    return [
        ("watcher", "running" if health.watcher.is_alive else "starting"),
        ("worker", f"running{memory}" if health.worker.is_alive else "starting"),
        ("sessions", f"{totals.sessions} in {number_of(totals.projects, 'project')}"),
        (
            "turns",
            f"{totals.turns}" + (f", {number_of(health.unread.files, 'file')} to read" if health.unread.files else ""),
        ),
        ("memories", f"{totals.memories}, shown to Claude {number_of(totals.injections, 'time')}"),
        ("queue", f"{health.tasks or 'no task'}, {number_of(health.missing_vectors, 'text')} to prepare"),
        ("behind", span(health.lag_seconds)),
    ]


def _notes(health: Health, children: list[Child]) -> list[str]:
    notes = [f"{PROCESSES[child.name]}: {child.ended}" for child in children if child.ended]
    notes += [
        f"{STAGE_NAMES.get(name, name)}: {stage.last_error}"
        for name, stage in health.stages.items()
        if stage.last_error
    ]
    return notes[:6]


#: How often the children are checked, in seconds.
_CHECK_SECONDS = 1.0
#: Refreshing the dashboard may take at most 1/``_REFRESH_SHARE`` of the time.
_REFRESH_SHARE = 20
#: Shortest time between two lines if the output is not a terminal, in seconds.
_LINE_SECONDS = 10.0
#: The sample transcripts that ship with Engram, as a Claude configuration folder.
SAMPLES = Path(__file__).resolve().parent.parent / "samples"


#: Where transcripts are that were copied with a folder too many around them, below a Claude configuration folder.
_DEEPER = ("projects/*/*/*.jsonl", "projects/projects/*/*.jsonl", "*/projects/*/*.jsonl")


def _no_transcripts(workspace: Workspace) -> str:
    """Say in a sentence that there is nothing to read yet. Raises NotFound for a typed folder that is not there."""
    workspace.require_claude_folder()
    folder = workspace.settings.claude_folder
    if folder.is_dir():
        said = f"There are no transcripts in {workspace.settings.projects_folder} yet."
        deeper = (found.parent for form in _DEEPER for found in folder.glob(form))
        for place in islice(deeper, 1):
            said += (
                f" Some are a folder too deep, in {place}: move that folder into {workspace.settings.projects_folder}."
            )
        return said
    if folder.exists():
        return f"{explain_missing(workspace.settings)}: set another one with CLAUDE_CONFIG_DIR or --claude-folder."
    return f"There is no folder {folder} yet: Claude Code makes it when it first starts."


@click.command("up")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--once",
    is_flag=True,
    help="Read everything, make memories and prepare them for the search once, then stop (default: keep running).",
)
@click.option(
    "--no-memories",
    is_flag=True,
    help="With --once: only read the transcripts; a running worker makes the memories (default: also make them).",
)
@click.option(
    "--samples-in",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="If there are no transcripts on this machine, read the sample sessions that ship with Engram, with DIR as "
    "their memory folder (default: wait for transcripts).",
)
@json_command
def up(
    workspace: Workspace, paths: tuple[Path, ...], once: bool, no_memories: bool, samples_in: Path | None, as_json: bool
) -> None:
    """Run the watcher and the worker in the foreground and show what they do. Ctrl-C stops both.

    The worker is restarted when its memory use exceeds the limit.

    With --once, everything is done in this process, which then ends. PATH is a transcript, a folder of transcripts, or
    a Claude configuration folder (default: all transcripts of all agents). Lines that were read before are not read
    again.

    Example: engram up --once
    """
    if not once and (paths or no_memories or as_json):
        given = "a PATH" if paths else "--no-memories" if no_memories else "--json"
        raise click.UsageError(f"{given} needs --once: without it, all transcripts are followed until Ctrl-C")
    if not once and workspace.vault is not None:
        raise BadRequest("`engram up` serves the memory folder with all its vaults: leave out --vault, or add --once")
    if paths and samples_in is not None:
        raise click.UsageError("give a PATH or --samples-in, not both")
    if no_memories:
        from engram.cli.up_once import read_only

        read_only(workspace, paths, as_json=as_json)
        return
    if not paths and not any(registry.discover(workspace.settings)):
        where = workspace.settings.projects_folder
        if samples_in is None:
            is_closed = where.is_dir() and not os.access(where, os.R_OK | os.X_OK)
            why = f"{where} can't be read. Run: chmod u+rx {shlex.quote(str(where))}"
            click.echo(why if is_closed else _no_transcripts(workspace), err=True)
        else:
            workspace.use_flags(
                home=str(absolute_path(samples_in)),
                claude_folder=str(SAMPLES),
                codex_folder=str(SAMPLES),
                gemini_folder=str(SAMPLES),
            )
            advise(
                f"There are no transcripts in {where}: these are the sample sessions that ship with Engram, with "
                f'their own memory in {samples_in}. To ask it: engram recall "how do we round VAT"',
                err=True,
            )
    if once:
        # Imported here because it loads the queue and search modules, which other commands' help does not need.
        from engram.cli.up_once import find_sources, run_once

        with if_stopped("What was read is kept. To continue, type the same command again"):
            report = run_once(workspace, is_quiet=as_json, sources=find_sources(workspace, paths) if paths else None)
        if as_json:
            print_json(report)
        return
    _run(workspace)


def _run(workspace: Workspace) -> None:
    """Supervise both children until a signal arrives or they exit; if both are already running, just report that."""
    places = workspace.places
    if all(process_state(lock).is_alive for lock in (places.worker_lock, places.watcher_lock)):
        advise("Engram is already running. `engram service status` shows what started it.", err=True)
        return
    arguments = workspace.arguments()
    supervisor = Supervisor([Child(name, process_command(arguments, name)) for name in ("watch", "work")])
    workspace.places.prepare()
    workspace.upgrade()
    with _stop_signals() as stopping:
        say(f"Engram is running. Press Ctrl-C to stop. Memory: {workspace.settings.home}", err=True)
        supervisor.start()
        try:
            _show(workspace, supervisor, stopping)
        finally:
            click.echo("Stopping…", err=True)
            was_clean = supervisor.stop()
    failed = next((child for child in supervisor.children if child.has_failed), None)
    for child in supervisor.children:
        if child.ended and not child.has_failed:
            say(child.ended, err=True)
    workspace.places.check_place()
    if failed is not None:
        raise EngramError(f"the {PROCESSES[failed.name]} can't run: {failed.ended.removeprefix('Error: ')}")
    say("Stopped." if was_clean else "Stopped. One process did not exit in time and was killed.", err=True)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT, SIGTERM and SIGHUP set, for a clean stop."""
    stopping = threading.Event()

    def stop(_: int, __: FrameType | None) -> None:
        stopping.set()

    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stop) for number in signals}
    try:
        yield stopping
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _show(workspace: Workspace, supervisor: Supervisor, stopping: threading.Event) -> None:
    """Check the children every second, and refresh the dashboard as often as its cost allows."""
    screen = console()
    home, refresh_at_seconds = str(workspace.settings.home), 0.0
    with Live(console=screen, auto_refresh=False, transient=True) if screen.is_terminal else _Lines() as display:
        while not stopping.is_set() and supervisor.look():
            started = time.monotonic()
            if started >= refresh_at_seconds:
                health = _read_health(workspace)
                if isinstance(display, Live):
                    display.update(draw(health, supervisor.children, home), refresh=True)
                else:
                    display.update(line(health))
                refresh_at_seconds = started + _REFRESH_SHARE * (time.monotonic() - started)
            stopping.wait(_CHECK_SECONDS)


def _read_health(workspace: Workspace) -> Health | str:
    """Return the health of all parts, or why it can't be read. A damaged file may have been replaced since."""
    if not workspace.places.memory_db.exists():
        return "The memory is not there yet, or no longer."
    try:
        # Not workspace.store(), which would make a new memory if the disk of this one is not mounted any more.
        with workspace.existing_store() as store:
            return take_health(store, workspace.settings)
    except StoreError as error:
        return str(error)


class _Lines:
    """Prints a line whenever something has changed, and a final one at the end, for logs and pipes."""

    def __init__(self) -> None:
        self._last = self._latest = ""
        self._printed_seconds = -_LINE_SECONDS

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest != self._last:
            click.echo(self._latest)

    def update(self, latest: str) -> None:
        """Print a line if something has changed and the last line is old enough."""
        self._latest = latest
        now = time.monotonic()
        if self._latest != self._last and now - self._printed_seconds >= _LINE_SECONDS:
            click.echo(self._latest)
            self._last, self._printed_seconds = self._latest, now
