"""``engram doctor``: what is wrong, and what to do about it."""

from __future__ import annotations

import dataclasses

import click

from engram.cli import exits
from engram.cli.checks import Check, State, check_all
from engram.cli.claude_checks import check_claude
from engram.cli.model_checks import check_language_model
from engram.cli.options import json_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import BrokenDatabase, HomeError, StoreError
from engram.reports.health import take_health

_COLOURS = {State.OK: "green", State.WARN: "yellow", State.BAD: "red"}


@click.command("doctor")
@json_option
@pass_workspace
@click.pass_context
def doctor(ctx: click.Context, workspace: Workspace, as_json: bool) -> None:
    """Look at everything that can go wrong and say what to do; exit code 1 where something does not work.

    Program and database, who may read the memory folder, transcripts, watcher and worker, the model, hooks, MCP server
    and its permission in Claude Code's settings, stages that fail or are behind, lines that cannot be read, work that was given up.

    Example: engram doctor
    """
    checks = [*_check_memory(workspace), *check_language_model(workspace.settings), *check_claude(workspace.settings)]
    is_well = all(one.state is not State.BAD for one in checks)
    if as_json:
        print_json({"ok": is_well, "checks": [dataclasses.asdict(one) for one in checks]})
    else:
        for one in checks:
            click.secho(f"{one.state.value:<5}", fg=_COLOURS[one.state], nl=False)
            say(f"{one.name}: {one.detail}")
            if one.advice:
                say(f"     → {one.advice}")
    ctx.exit(exits.OK if is_well else exits.FAILED)


def _check_memory(workspace: Workspace) -> list[Check]:
    """Every check of Engram's own side; where the memory cannot even be opened, that is the finding."""
    settings = workspace.settings
    try:
        with workspace.store() as store:
            return check_all(store, settings, take_health(store, settings))
    except BrokenDatabase as error:
        advice = "engram up sets the file aside and reads the transcripts again; engram restore brings a backup back"
        return [Check("memory.db", State.BAD, str(error), advice)]
    except (HomeError, StoreError) as error:
        return [Check("memory folder", State.BAD, str(error), "correct that, or name another folder: ENGRAM_HOME")]
