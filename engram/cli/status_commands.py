"""``engram status``: the health of every stage at a glance."""

from __future__ import annotations

import dataclasses
import heapq
from collections import deque

import click

from engram.cli.compare_command import comparison_json, offer_comparison
from engram.cli.options import TimeSpan, json_option
from engram.cli.output import one_line, print_facts, print_json, print_table, safe, span, when
from engram.cli.workspace import Workspace, pass_workspace
from engram.consolidation.rejudge import Picked, picked_memories
from engram.log import LOG_KINDS, LogKind, read_records
from engram.models.sessions.stored_turns import SecondChances, second_chances
from engram.models.shown import usage
from engram.models.shown.usage import Usage
from engram.models.work.pauses import paused_scopes
from engram.paths import Home
from engram.reports.checks import offer_claude
from engram.reports.health import Health, home_bytes, status_to_json, take_health
from engram.reports.hub_report import report_hubs
from engram.reports.processes import ProcessState, is_held
from engram.reports.use_report import (
    DEFAULT_SECONDS,
    REPORT_DAYS,
    late_text,
    refused_text,
    report_costs,
    report_of_days,
)
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.transcripts.registry import present_folders, skipped, title_of
from engram.version import code_version
from engram.worker.client import ask_status


@click.command("status")
@json_option
@pass_workspace
def status(workspace: Workspace, as_json: bool) -> None:
    """Show what is running, how much was read and kept, and how far behind each stage is.

    Example: engram status --json
    """
    with workspace.store() as store:
        health = take_health(store, workspace.settings)
        projects = usage.count_projects(store)
        agents = usage.count_agents(store)
        paused = sorted(paused_scopes(store))
        chances = second_chances(store) if workspace.settings.extractor in MODEL_EXTRACTORS else None
        offer = "" if as_json else offer_claude(store, workspace.settings)
        hubs = report_hubs(store)
        picked = picked_memories(store)
    worker = ask_status(workspace.places) if health.worker.is_alive else None
    if as_json:
        facts = status_to_json(health, projects, agents, paused, workspace.settings)
        facts["hubs"] = [report.to_json() for report in hubs]
        facts["second_chance"] = None if chances is None else _chances_json(chances, health)
        facts["picked"] = None if picked is None else dataclasses.asdict(picked)
        print_json(facts | {"worker": ({} if worker is None else worker.to_json()) | health.worker.as_json()})
        return
    totals = health.totals
    not_read = skipped(workspace.settings)
    print_facts(
        [
            ("engram", _off(workspace.places, health)),
            ("worker", _process(health.worker)),
            ("watcher", _process(health.watcher)),
            ("model", f"{worker.model}, run by {worker.runtime}" if worker and worker.model else ""),
            ("extractor", _extractor(workspace.settings)),
            ("distilled again", _second_chances(chances, health)),
            ("memory", f"{workspace.settings.home}, {home_bytes(workspace.settings.home) / 1e6:.1f} MB"),
            ("transcripts", _transcripts(workspace.settings, health)),
            ("agents", ", ".join(f"{title_of(name)} ({number} sessions)" for name, number in agents.items())),
            ("read", f"{totals.turns} turns of {totals.sessions} sessions in {totals.projects} projects"),
            ("kept", f"{totals.memories} memories, {totals.archived} archived, {totals.suspects} suspect"),
            ("picked by rules", "" if picked is None else _picked(picked)),
            ("shown to Claude", f"{totals.injections} times"),
            ("waiting", f"{health.waiting} tasks, {health.missing_vectors} texts without a vector"),
            ("unreadable", f"{totals.bad_lines} lines, {totals.unreadable} files" if totals.bad_lines else ""),
            ("not read", f"{len(not_read)} files, folders and links: see `engram doctor`" if not_read else ""),
            *(("hub", report.line()) for report in hubs),
            ("paused", ", ".join(scope or "everything" for scope in paused)),
        ]
    )
    click.echo()
    print_table(
        ["stage", "seen#", "done#", "lag", "last success", "last error"],
        [
            (
                name,
                stage.seen,
                stage.done,
                span(stage.lag_seconds),
                when(stage.last_success_ms),
                stage.last_error or "–",
            )
            for name, stage in health.stages.items()
        ],
        empty="",
    )
    if offer:
        click.echo(f"\n{offer}")


def _transcripts(settings: Settings, health: Health) -> str:
    folders = [str(folder) for _, folder in present_folders(settings)] or [str(settings.projects_folder)]
    return f"{', '.join(folders)} ({health.unread.found} files)"


def _extractor(settings: Settings) -> str:
    model = {"claude": settings.claude_model, "openai": settings.llm_model}.get(settings.extractor, "")
    return f"{settings.extractor} ({model})" if model else settings.extractor


def _second_chances(chances: SecondChances | None, health: Health) -> str:
    """Return how many sessions of the local extractor were distilled again; "" without a language model."""
    if chances is None or not (chances.done or chances.waiting):
        return ""
    pause = _pause(chances, health)
    return f"{chances.done} sessions, {chances.waiting} waiting" + (f" ({pause})" if pause else "")


def _chances_json(chances: SecondChances, health: Health) -> dict[str, object]:
    return {"done": chances.done, "waiting": chances.waiting, "paused": _pause(chances, health) or None}


def _pause(chances: SecondChances, health: Health) -> str:
    """Return why waiting sessions are not distilled; "" if nothing pauses them."""
    stage = health.stages.get("second chance")
    return stage.last_error if chances.waiting and stage is not None else ""


def _picked(picked: Picked) -> str:
    """Return what becomes of memories that an earlier version picked by rules."""
    if picked.waiting:
        return f"{picked.waiting} memories will be archived at the next tidying: see `engram consolidate --preview`"
    return f"{picked.archived} memories were archived; to undo that, run: engram consolidate --undo {picked.run_id}"


def _off(places: Home, health: Health) -> str:
    """Return that Engram is off, and why if that is known; "" while the worker or the watcher runs."""
    if health.worker.is_alive or health.watcher.is_alive:
        return ""
    was_killed = places.supervisor_lock.exists() and not is_held(places.supervisor_lock)
    why = "; its supervisor ended or was killed" if was_killed else ""
    return f"OFF: nothing is read, remembered or found{why}. Run: engram service start"


def _process(state: ProcessState) -> str:
    if not state.is_alive:
        return "not running (start it with `engram service start`)"
    memory = f", {state.rss_mb:.0f} MB" if state.rss_mb else ""
    older = "" if state.code == code_version() else ", with other code than is installed now: run `engram install`"
    return f"running, pid {state.pid or '?'}{memory}{older}"


# -- ``engram report`` and ``engram cost``: what memory did in the last days, and what the language model cost.


@click.command("report")
@click.option(
    "--days", type=click.IntRange(1, 3650), default=REPORT_DAYS, metavar="N", help="The number of days (default: 7)."
)
@json_option
@pass_workspace
def report(workspace: Workspace, days: int, as_json: bool) -> None:
    """Show what memory did in the last days: what was read, kept, shown and opened, and the most used memory.

    Once it also offers to show one of your sessions as a language model would remember it: see `engram compare`.

    Example: engram report --days 30
    """
    with workspace.store() as store:
        usage = report_of_days(store, days)
        if as_json:
            facts = {"days": days, **dataclasses.asdict(usage)}
            print_json({**facts, "comparison": comparison_json(workspace, store)})
            return
        _print(usage, days)
        offer_comparison(workspace, store)


def _print(usage: Usage, days: int) -> None:
    used = usage.most_used
    print_facts(
        [
            ("days", str(days)),
            ("sessions seen", str(usage.sessions)),
            ("prompts read", str(usage.prompts)),
            ("memories kept", str(usage.memories)),
            ("nothing kept in", ", ".join(one_line(name, 60) for name in usage.projects_with_none)),
            ("shown to Claude", f"{usage.shown} times"),
            ("opened", f"{usage.opened} memories"),
            ("came too late", late_text(usage.late)),
            ("not kept of the model's", refused_text(usage.refused)),
            ("used most", _named(used.summary, used.episode_id, used.project, used.uses) if used else "none yet"),
        ]
    )


def _named(summary: str, episode_id: str, project: str, uses: int) -> str:
    return f"{one_line(summary, 120)} ({episode_id}, {one_line(project, 60) or 'no project'}, {uses} times)"


@click.command("cost")
@click.option(
    "--since",
    "seconds",
    type=TimeSpan(),
    default=DEFAULT_SECONDS,
    metavar="TIME",
    help="How far back, such as 7d or 12h (default: 30d).",
)
@json_option
@pass_workspace
def cost(workspace: Workspace, seconds: float, as_json: bool) -> None:
    """Show what the language model cost, by day, model, task and project. The local extractor costs nothing.

    Example: engram cost --since 7d
    """
    with workspace.store() as store:
        report = report_costs(store, workspace.settings, seconds)
    if as_json:
        print_json(report.to_json())
        return
    print_table(
        ["day", "model", "task", "project", "calls#", "tokens in#", "tokens out#", "dollars#"],
        [
            (
                row.day,
                row.model,
                row.task,
                row.project,
                row.calls,
                row.input_tokens,
                row.output_tokens,
                f"{row.dollars:.4f}",
            )
            for row in report.rows
        ],
        empty=f"Nothing was spent (extractor: {report.extractor}).",
    )
    if report.rows:
        click.echo(f"{report.dollars:.4f} dollars in total. The cap is {report.caps['day']} dollars a day.")


# -- ``engram logs``: the latest log records, of all processes or of one.


@click.command("logs")
@click.argument("kind", type=click.Choice(LOG_KINDS), required=False)
@click.option(
    "--lines",
    type=click.IntRange(1, 100_000),
    default=40,
    show_default=True,
    metavar="N",
    help="Maximum number of records.",
)
@click.option("--errors", is_flag=True, help="Only warnings and errors (default: all records).")
@json_option
@pass_workspace
def logs(workspace: Workspace, kind: LogKind | None, lines: int, errors: bool, as_json: bool) -> None:
    """Show the latest log records, in chronological order.

    Example: engram logs worker --errors
    """
    folder = workspace.places.logs
    kinds = LOG_KINDS if kind is None else (kind,)
    merged = heapq.merge(*(read_records(folder, name) for name in kinds))
    latest = deque((record for record in merged if record.is_problem or not errors), maxlen=lines)
    if as_json:
        print_json({"records": [{"process": record.kind, "text": record.text} for record in latest]})
        return
    for record in latest:
        click.echo(f"{record.kind}: {safe(record.text)}" if kind is None else safe(record.text))
    if not latest:
        click.echo(f"No records in {folder}.")
