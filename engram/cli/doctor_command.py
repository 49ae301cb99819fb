"""``engram doctor``: what is wrong, and what to do about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import click

from engram.cli import exits
from engram.cli.options import json_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import BrokenDatabase, HomeError, StoreError
from engram.paths import is_default_home
from engram.plugin.checks import check_registrations, has_plugin
from engram.plugin.plan import permission_rule
from engram.plugin.registered import find_registrations, read_documents
from engram.reports.checks import Check, State, check_all
from engram.reports.claude_checks import check_claude
from engram.reports.health import take_health
from engram.reports.model_checks import check_language_model
from engram.transcripts.project import find_repository
from engram_hooks.block import settings_block

_COLOURS = {State.OK: "green", State.WARN: "yellow", State.BAD: "red"}


@click.command("doctor")
@json_option
@pass_workspace
@click.pass_context
def doctor(ctx: click.Context, workspace: Workspace, as_json: bool) -> None:
    """Check everything and say what to do. The exit code is 1 if something does not work.

    Checks the program and the database, who can read the memory folder, the transcripts, watcher and worker, the
    models, the hooks, the MCP server and its permission in Claude Code's settings, stages that fail or are behind,
    unreadable lines, and tasks that were given up.

    Example: engram doctor
    """
    settings = workspace.settings
    folder = Path.cwd()
    registrations = find_registrations(read_documents(settings.claude_folder, find_repository(folder) or folder))
    home = None if is_default_home(settings.places) else settings.places
    by_plugin = has_plugin(registrations)
    rule = permission_rule(is_plugin=by_plugin)
    checks = [
        *_check_memory(workspace),
        *check_language_model(settings),
        *check_registrations(registrations, home),
        *check_claude(settings, settings_block(), folder, rule=rule, has_plugin=by_plugin),
    ]
    is_well = all(check.state is not State.BAD for check in checks)
    if as_json:
        print_json({"ok": is_well, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        for check in checks:
            click.secho(f"{check.state.value:<5}", fg=_COLOURS[check.state], nl=False)
            say(f"{check.name}: {check.detail}")
            if check.advice:
                say(f"     → {check.advice}")
    ctx.exit(exits.OK if is_well else exits.FAILED)


def _check_memory(workspace: Workspace) -> list[Check]:
    """The checks of Engram's own side; if the memory can't be opened, that is the finding."""
    settings = workspace.settings
    try:
        with workspace.store() as store:
            return check_all(store, settings, take_health(store, settings))
    except BrokenDatabase as error:
        advice = "run `engram up`, which sets the file aside and reads the transcripts again, or `engram restore`"
        return [Check("memory.db", State.BAD, str(error), advice)]
    except (HomeError, StoreError) as error:
        return [Check("memory folder", State.BAD, str(error), "correct that, or set another folder in ENGRAM_HOME")]
