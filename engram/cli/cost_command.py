"""``engram cost``: what the language model cost."""

from __future__ import annotations

import click

from engram.cli.options import TimeSpan, json_option
from engram.cli.output import print_json, print_table
from engram.cli.workspace import Workspace, pass_workspace
from engram.reports.costs import DEFAULT_SECONDS, report_costs


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
