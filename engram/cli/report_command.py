"""``engram report`` and ``engram cost``: what memory did in the last days, and what the language model cost."""

from __future__ import annotations

import dataclasses

import click

from engram.cli.compare_command import comparison_json, offer_comparison
from engram.cli.options import TimeSpan, json_option
from engram.cli.output import one_line, print_facts, print_json, print_table
from engram.cli.workspace import Workspace, pass_workspace
from engram.models.usage import Usage
from engram.reports.costs import DEFAULT_SECONDS, report_costs
from engram.reports.usage import REPORT_DAYS, late_text, refused_text, report_of_days


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
