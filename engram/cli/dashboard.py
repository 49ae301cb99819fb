"""The dashboard of ``engram up``: processes, sessions, turns, memories, queue and lag."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from engram.cli.output import one_line, span
from engram.reports.health import Health
from engram.services.supervisor import Child


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
