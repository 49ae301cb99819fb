"""``engram doctor``: what is wrong, and what to do about it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import click

from engram.cli import exits
from engram.cli.options import json_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.doctor.fixes import apply_fixes
from engram.doctor.machine import Machine
from engram.doctor.report import write_report
from engram.doctor.table import run_checks
from engram.errors import HomeError, StoreError
from engram.reports.checks import Check, State
from engram.reports.health import take_health

_COLOURS = {State.OK: "green", State.WARN: "yellow", State.BAD: "red"}


@click.command("doctor")
@click.option(
    "--fix",
    "is_fixed",
    is_flag=True,
    help="Mend what is safe: modes of the memory folder, the hooks' interpreter, processes that do not run, hang or "
    "are outdated (default: only say what to do).",
)
@click.option(
    "--report",
    "is_report",
    is_flag=True,
    help="Print a text for a bug report, without paths, names and contents (default: the findings).",
)
@click.option(
    "--quick",
    "is_quick",
    is_flag=True,
    help="Do not read every row of the database (default: read them; that takes seconds for each 10,000 memories).",
)
@json_option
@pass_workspace
@click.pass_context
def doctor(
    ctx: click.Context, workspace: Workspace, is_fixed: bool, is_report: bool, is_quick: bool, as_json: bool
) -> None:
    """Check everything and say what to do. The exit code is 1 if something does not work.

    Checks the program and its interpreter, other programs of the same name, the database and who can read and write
    the memory folder, the transcripts and whether Claude Code is about to delete some, the service, whether watcher
    and worker run, make progress and run the installed code, the models, the hooks or the plugin, the MCP server and
    its permission, an earlier or a half-done installation, stages that fail or are behind, unreadable lines, and tasks
    that were given up.

    Example: engram doctor --fix
    """
    if is_report and (as_json or is_fixed):
        raise click.UsageError("--report is used alone")
    done: list[str] = []
    with _machine(workspace, is_quick) as machine:
        checks = run_checks(machine)
        if is_fixed:
            done = apply_fixes(machine, checks)
        elif is_report:
            click.echo(write_report(machine, checks))
            return
    if done:
        with _machine(workspace, is_quick) as machine:
            checks = run_checks(machine)
    is_well = all(check.state is not State.BAD for check in checks)
    if as_json:
        print_json({"ok": is_well, "fixed": done, "checks": [dataclasses.asdict(check) for check in checks]})
    else:
        _show(checks, done)
    ctx.exit(exits.OK if is_well else exits.FAILED)


def _show(checks: list[Check], done: list[str]) -> None:
    for line in done:
        say(f"fixed: {line}" if not line.startswith("could not") else line)
    for check in checks:
        click.secho(f"{check.state.value:<5}", fg=_COLOURS[check.state], nl=False)
        say(f"{check.name}: {check.detail}")
        if check.advice:
            say(f"     → {check.advice}")


@contextlib.contextmanager
def _machine(workspace: Workspace, is_quick: bool) -> Iterator[Machine]:
    """One look at this machine, with the open memory; if it can't be opened, with the reason."""
    settings, folder = workspace.settings, Path.cwd()
    with contextlib.ExitStack() as opened:
        try:
            store = opened.enter_context(workspace.store())
            machine = Machine(settings, folder, store, take_health(store, settings), is_quick=is_quick)
        except (HomeError, StoreError) as error:
            machine = Machine(settings, folder, error=error)
        yield machine
