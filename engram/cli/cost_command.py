"""``engram cost``: what the language model cost."""

from __future__ import annotations

import dataclasses

import click

from engram.cli.options import TimeSpan, json_option
from engram.cli.output import print_json, print_table
from engram.cli.workspace import Workspace, pass_workspace
from engram.models.spend import spending


@click.command("cost")
@click.option(
    "--since",
    "seconds",
    type=TimeSpan(),
    default=30 * 86_400.0,
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
        rows = spending(store, store.now_ms() - int(seconds * 1000))
    total = sum(row.dollars for row in rows)
    settings = workspace.settings
    if as_json:
        print_json(
            {
                "dollars": total,
                "rows": [dataclasses.asdict(row) for row in rows],
                "extractor": settings.extractor,
                "caps": {
                    "day": settings.llm_dollars_per_day,
                    "hour": settings.llm_dollars_per_hour,
                    "project": settings.llm_dollars_per_project,
                    "calls_per_hour": settings.llm_calls_per_hour,
                },
            }
        )
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
            for row in rows
        ],
        empty=f"Nothing was spent (extractor: {settings.extractor}).",
    )
    if rows:
        click.echo(f"{total:.4f} dollars in total. The cap is {settings.llm_dollars_per_day} dollars a day.")
