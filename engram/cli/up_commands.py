"""``engram up``: run watcher and worker in the foreground with a dashboard, or do everything once."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from engram.cli.options import json_option
from engram.cli.output import console, one_line, print_json, print_table, say, span
from engram.cli.workspace import Workspace, pass_workspace
from engram.embedding.compile import ensure_compiled
from engram.embedding.load import needs_compiling
from engram.embedding.source import has_extra
from engram.errors import EmbeddingError, EngramError, NotFound, StoreError
from engram.ingest.read_sources import in_order_of_change, ingest_all
from engram.ingest.writing import IngestResult
from engram.log import start_logging
from engram.models.engine.transaction import Store
from engram.models.rescue.copies import open_memory
from engram.models.search.vectors import count_vectors
from engram.models.shown import usage
from engram.redaction import redact
from engram.reports.health import Health, take_health
from engram.settings import Settings
from engram.setup.services.definition import engram_command
from engram.setup.services.supervisor import Child, Supervisor
from engram.tasks.drain import drain
from engram.tasks.runtime import make_runtime
from engram.transcripts import registry
from engram.transcripts.agents import Source

# -- The dashboard of ``engram up``: processes, sessions, turns, memories, queue and lag.


def draw(health: Health, children: list[Child], home: str) -> RenderableType:
    """The dashboard for a terminal."""
    table = Table.grid(padding=(0, 3))
    for name, value in _facts(health):
        table.add_row(Text(name, style="bold"), Text(value))
    notes = [Text(one_line(note), style="yellow") for note in _notes(health, children)]
    return Group(
        Text(f"Engram, memory in {home}. Press Ctrl-C to stop.", style="dim"),
        table,
        *notes,
    )


def line(health: Health) -> str:
    """The same on one line, for a log or a terminal that can't move its cursor."""
    totals = health.totals
    return (
        f"{totals.sessions} sessions, {totals.turns} turns, {totals.episodes} memories, {health.waiting} waiting, "
        f"{health.missing_vectors} to embed, lag {span(health.lag_seconds)}"
    )


def _facts(health: Health) -> list[tuple[str, str]]:
    totals = health.totals
    return [
        ("watcher", "running" if health.watcher.is_alive else "starting"),
        ("worker", _worker(health)),
        ("sessions", f"{totals.sessions} in {totals.projects} projects"),
        ("turns", f"{totals.turns}" + (f", {health.unread.files} files to read" if health.unread.files else "")),
        ("memories", f"{totals.episodes}, shown to Claude {totals.injections} times"),
        ("queue", f"{health.waiting} tasks, {health.missing_vectors} texts to embed"),
        ("lag", span(health.lag_seconds)),
    ]


def _worker(health: Health) -> str:
    if not health.worker.is_alive:
        return "starting"
    return "running" + (f", {health.worker.rss_mb:.0f} MB" if health.worker.rss_mb else "")


def _notes(health: Health, children: list[Child]) -> list[str]:
    notes = [f"{child.name}: {child.ended}" for child in children if child.ended]
    notes += [f"{name}: {stage.last_error}" for name, stage in health.stages.items() if stage.last_error]
    return notes[:6]


#: How often the children are checked, in seconds.
_PICTURE_SECONDS = 1.0
#: Refreshing the dashboard may take at most this fraction (1 in …) of the time.
_LOOK_SHARE = 20
#: Shortest time between two lines if the output is no terminal, in seconds.
_LINE_SECONDS = 10.0
#: The sample transcripts that ship with Engram, as a Claude configuration folder.
SAMPLES = Path(__file__).resolve().parent.parent / "samples"


@click.command("up")
@click.option(
    "--once", is_flag=True, help="Read, extract, embed and index everything once, then stop (default: keep running)."
)
@click.option(
    "--samples-in",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="If there are no transcripts on this machine, read the sample sessions that ship with Engram, with DIR as "
    "their memory folder (default: wait for transcripts).",
)
@json_option
@pass_workspace
def up(workspace: Workspace, once: bool, samples_in: Path | None, as_json: bool) -> None:
    """Run the watcher and the worker in the foreground and show what they do. Ctrl-C stops both.

    The worker is restarted when its memory passes the limit. --json requires --once.

    Example: engram up --once
    """
    if not any(registry.discover(workspace.settings)):
        where = workspace.settings.projects_folder
        if samples_in is None:
            click.echo(f"There are no transcripts in {where} yet.", err=True)
        else:
            workspace = workspace.with_flags(
                home=str(samples_in.absolute()),
                claude_folder=str(SAMPLES),
                codex_folder=str(SAMPLES),
                gemini_folder=str(SAMPLES),
            )
            click.echo(
                f"There are no transcripts in {where}: reading the sample sessions that ship with Engram. Their memory "
                f"is in {workspace.settings.home}. To search it, run: engram --home {workspace.settings.home} recall …",
                err=True,
            )
    if once:
        # Not above: it loads the queue and the search, which the help of other commands does not need.

        report = run_once(workspace, is_quiet=as_json)
        if as_json:
            print_json(report)
        return
    _run(workspace)


def _run(workspace: Workspace) -> None:
    """Supervise both children until a signal arrives or they end."""
    arguments = workspace.arguments()
    supervisor = Supervisor([Child(name, engram_command(arguments, name)) for name in ("watch", "work")])
    workspace.places.prepare()
    workspace.upgrade()
    with _stop_signals() as stopping:
        click.echo(f"Engram is running. Press Ctrl-C to stop. Memory: {workspace.settings.home}", err=True)
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
    if failed is not None:
        raise EngramError(f"engram {failed.name} can't run: {failed.ended.removeprefix('Error: ')}")
    click.echo("Stopped." if was_clean else "Stopped. One process did not end in time and was killed.", err=True)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT, SIGTERM and SIGHUP set, for a clean stop."""
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
    teller = _Picture(screen) if screen.is_terminal else _Lines()
    look_seconds = 0.0
    with teller:
        while not stopping.is_set() and supervisor.look():
            started = time.monotonic()
            if started >= look_seconds:
                teller.tell(workspace, supervisor.children)
                look_seconds = started + _LOOK_SHARE * (time.monotonic() - started)
            stopping.wait(_PICTURE_SECONDS)


def _look(workspace: Workspace) -> Health | str:
    """The health of all parts, or why it can't be read. Opens the memory each time: a damaged file may be replaced."""
    try:
        # Not workspace.store(): it would make a memory folder anew that was moved away.
        with open_memory(workspace.places.memory_db, driver=workspace.settings.sqlite_driver, is_made=True) as store:
            return take_health(store, workspace.settings)
    except StoreError as error:
        return str(error)


class _Picture:
    """Shows a dashboard that is redrawn in place."""

    def __init__(self, screen: Console) -> None:
        self._live = Live(console=screen, auto_refresh=False, transient=True)

    def __enter__(self) -> _Picture:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def tell(self, workspace: Workspace, children: list[Child]) -> None:
        """Redraw the dashboard."""
        health = _look(workspace)
        if isinstance(health, str):
            self._live.update(Text(health, style="yellow"), refresh=True)
        else:
            self._live.update(draw(health, children, str(workspace.settings.home)), refresh=True)


class _Lines:
    """Prints a line when something changed, and one at the end: for logs and pipes."""

    def __init__(self) -> None:
        self._last = self._latest = ""
        self._printed_seconds = -_LINE_SECONDS

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        if self._latest != self._last:
            click.echo(self._latest)

    def tell(self, workspace: Workspace, _: list[Child]) -> None:
        """Print a line if something changed and the last line is old enough."""
        health = _look(workspace)
        self._latest = health if isinstance(health, str) else line(health)
        now = time.monotonic()
        if self._latest != self._last and now - self._printed_seconds >= _LINE_SECONDS:
            click.echo(self._latest)
            self._last, self._printed_seconds = self._latest, now


# -- ``engram ingest``: read transcripts now, to their end, without a running service.


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
        "episodes": totals.episodes,
        "bad_lines": totals.bad_lines,
        "skipped": skipped,
        "projects": {
            project.name: {
                "sessions": project.sessions,
                "turns": project.turns,
                "prompts": project.prompts,
                "episodes": project.episodes,
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


# -- ``engram up --once``: read, extract, embed and index everything in this process, then stop.

#: Threads of the model at most, when nothing else runs.
MAX_THREADS = 4


def run_once(
    workspace: Workspace,
    *,
    is_quiet: bool,
    sources: Sequence[Source | Path] | None = None,
    with_consolidation: bool = True,
    is_told: bool = True,
) -> dict[str, Any]:
    """Do all pending work in this process and return the counts.

    Args:
        is_quiet: print nothing but warnings.
        sources: what to read; None for all sessions of all agents, the oldest change first.
        with_consolidation: also consolidate, if that is due.
        is_told: print the counts at the end.
    """
    started = time.monotonic()
    settings = workspace.settings
    start_logging(workspace.places.prepare().logs, "cli", settings.log_level, redact)
    with workspace.store(may_upgrade=True) as store, _bars(is_quiet) as bars:
        report = _read(workspace, store, bars, sources)
        _compile(workspace, bars)
        runtime = make_runtime(_in_a_hurry(settings), store, compile_if_missing=True)
        steps: dict[str, TaskID] = {}
        before = _count_vectors(store)

        def step(stage: str, done: int, total: int) -> None:
            if stage not in steps:
                steps[stage] = bars.add_task(_STAGES.get(stage, stage), total=total or None)
            bars.update(steps[stage], completed=done, total=total or None)

        drained = drain(runtime, with_waiting=True, with_consolidation=with_consolidation, progress=step)
        if drained.has_consolidated:
            # Consolidation writes notes, which are indexed and embedded too.
            drain(runtime, progress=step)
        report |= {
            "episodes": usage.count_totals(store).episodes,
            "sessions_extracted": drained.sessions,
            "failed": drained.failed,
            "embedded": _count_vectors(store) - before,
            "missing_vectors": usage.count_without_vector(store),
            "model": runtime.embedder.model_id if runtime.embedder else None,
            "seconds": round(time.monotonic() - started, 1),
        }
    if is_told and not is_quiet:
        _print(report)
    return report


def read_sources(workspace: Workspace, sources: Sequence[Source | Path], *, is_quiet: bool) -> dict[str, Any]:
    """Read sessions and store their turns, with a progress bar; no memories are made. Returns the counts."""
    with workspace.store(may_upgrade=True) as store, _bars(is_quiet) as bars:
        return _read(workspace, store, bars, sources)


def _in_a_hurry(settings: Settings) -> Settings:
    """The settings with more threads for the model: somebody is waiting, and no recall runs beside it."""
    return replace(settings, embedding_threads=max(settings.embedding_threads, min(os.cpu_count() or 1, MAX_THREADS)))


def _count_vectors(store: Store) -> int:
    return sum(count_vectors(store, owner) for owner in "pen")


_STAGES = {"extract": "Making memories", "embed": "Embedding"}


def _read(
    workspace: Workspace, store: Store, bars: Progress, sources: Sequence[Source | Path] | None
) -> dict[str, Any]:
    todo = find_sources(workspace, ()) if sources is None else sources
    task = bars.add_task("Reading", total=len(todo))

    def step(done: int, total: int, _: IngestResult) -> None:
        bars.update(task, completed=done, total=total)

    results = ingest_all(store, settings=workspace.settings, redact=redact, progress=step, sources=todo)
    return ingest_report(store, results)


def _compile(workspace: Workspace, bars: Progress) -> None:
    """Compile the model in a child process if it needs that and was never compiled; loading it explains a failure."""
    model = workspace.settings.embedding_model
    with contextlib.suppress(EmbeddingError):
        if not (needs_compiling(model, workspace.places.models) and has_extra()):
            return
        task = bars.add_task("Compiling the embedding model (once, about 20 s)", total=None)
        try:
            ensure_compiled(model, workspace.places.models)
        except EmbeddingError as error:
            click.echo(f"Can't compile the model ({error}). It runs uncompiled, which takes more memory.", err=True)
        bars.remove_task(task)


@contextlib.contextmanager
def _bars(is_quiet: bool) -> Iterator[Progress]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=is_quiet,
    ) as bars:
        yield bars


def _print(report: dict[str, Any]) -> None:
    sessions = sum(project["sessions"] for project in report["projects"].values())
    click.echo(
        f"Read       {report['files']} files: {sessions} sessions, {report['turns']} turns ({report['new_turns']} new)"
    )
    click.echo(f"Kept       {report['episodes']} memories")
    click.echo(f"Embedded   {report['embedded']} texts, {report['missing_vectors']} left")
    for problem in ("bad_lines", "failed"):
        if report[problem]:
            click.echo(
                f"Problems   {report[problem]} {problem.replace('_', ' ')}. Run `engram doctor` to see what to do."
            )
    click.echo(f'Done in {report["seconds"]} s. Try it: engram recall "…"')
