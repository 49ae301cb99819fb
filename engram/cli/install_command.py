"""``engram install``: connect Claude Code, start the service, read existing sessions; all of it can be taken back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from engram.cli import exits
from engram.cli.confirming import yes_option
from engram.cli.install_import import (
    Existing,
    find_existing,
    import_earlier,
    import_existing,
    import_lines,
    say_unless,
)
from engram.cli.install_questions import ask_extractor, ask_permission, ask_session_start, show_earlier
from engram.cli.install_report import next_command, print_report, variable_notes
from engram.cli.options import json_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.config_file import set_value
from engram.earlier.find import EarlierEngram, find_earlier
from engram.errors import BadRequest, EngramError, InstallError
from engram.install.changes import Step
from engram.install.choices import AGENTS, Choices, choose
from engram.install.claude_code import ClaudeCode, find_claude_code
from engram.install.cost_estimate import estimate_cost
from engram.install.journal import Journal, load_journal
from engram.install.plan import plan_installation
from engram.install.preflight import check_machine
from engram.install.preview import preview
from engram.install.run import Outcome
from engram.install.self_test import SelfTest, run_self_test
from engram.install.transaction import install_steps
from engram.reports.processes import process_state
from engram.services.choose import best_system
from engram.services.protocol import SystemName
from engram.version import VERSION
from engram_hooks.block import link_interpreter


@click.command("install")
@click.option("--dry-run", is_flag=True, help="Show what would change, line by line (default: change it).")
@yes_option
@click.option(
    "--service/--no-service", default=None, help="Start worker and watcher at login (default: as before, at first yes)."
)
@click.option(
    "--plugin/--no-plugin",
    default=None,
    help="Connect Claude Code by a plugin, or by its settings files (default: as before, at first by a plugin).",
)
@click.option(
    "--statusline/--no-statusline",
    default=None,
    help="Show in Claude Code's status line what Engram does (default: as before, at first no).",
)
@click.option(
    "--no-import", is_flag=True, help="Leave existing sessions to the service or `engram up` (default: read)."
)
@click.option(
    "--extractor",
    type=click.Choice(["claude", "openai", "local"]),
    default=None,
    help="Who writes the memories (default: asked; with --yes as before, at first local).",
)
@click.option(
    "--agent",
    "agents",
    type=click.Choice(AGENTS),
    multiple=True,
    help="Also give this agent the memory tools; can be given several times (default: as before, at first none).",
)
@json_option
@pass_workspace
@click.pass_context
def install(
    ctx: click.Context,
    workspace: Workspace,
    dry_run: bool,
    yes: bool,
    service: bool | None,
    plugin: bool | None,
    statusline: bool | None,
    no_import: bool,
    extractor: str | None,
    agents: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make Engram part of this machine: connect Claude Code, start the service, and read existing sessions.

    Run it again after an update: it renews what changed and restarts what runs. It keeps the bytes of every file that
    it changes; `engram uninstall` brings them back. If it is interrupted, run it again, or uninstall.

    Example: engram install --dry-run
    """
    settings = workspace.settings
    check_machine(settings, is_dry=dry_run)
    journal = load_journal(settings.places)
    machine = _look(workspace, journal)
    stored = journal.options if journal else {}
    agents = tuple(sorted({*stored.get("agents", ()), *agents}))
    choices = choose(stored, service=service, plugin=plugin, statusline=statusline, agents=agents)
    if dry_run:
        _print_plan(workspace, _plan(workspace, choices, machine), machine, as_json)
        return
    if as_json and not yes:
        raise BadRequest("--json can't ask: add --yes")
    if machine.earlier.is_active and not as_json:
        show_earlier(machine.earlier)
    if not yes:
        try:
            choices, extractor = _ask(workspace, choices, machine, extractor)
        except click.Abort:
            raise InstallError("nothing was changed. Without a terminal to ask, add --yes") from None
    _set_extractor(workspace, extractor, machine.claude)
    result = _apply(workspace, choices, machine, no_import=no_import, is_quiet=as_json)
    _finish(ctx, workspace, choices, machine, result, as_json)


@dataclass(frozen=True, slots=True)
class Machine:
    """What was found on this machine."""

    claude: ClaudeCode
    earlier: EarlierEngram
    existing: Existing
    journal: Journal | None


@dataclass(frozen=True, slots=True)
class Result:
    """What an installation did."""

    outcome: Outcome
    steps: Sequence[Step]
    imported: dict[str, Any]
    #: What to tell of the earlier Engram's memories; "" for nothing.
    earlier: str
    test: SelfTest


def _look(workspace: Workspace, journal: Journal | None) -> Machine:
    settings = workspace.settings
    worker = process_state(settings.places.worker_lock)
    return Machine(
        claude=find_claude_code(settings),
        earlier=find_earlier(settings, worker_pid=worker.pid or 0),
        existing=find_existing(settings, time.time()),
        journal=journal,
    )


def _plan(workspace: Workspace, choices: Choices, machine: Machine) -> list[Step]:
    return plan_installation(
        workspace.settings, choices, claude=machine.claude, earlier=machine.earlier, journal=machine.journal
    )


def _ask(workspace: Workspace, choices: Choices, machine: Machine, extractor: str | None) -> tuple[Choices, str | None]:
    """Ask what only the user can decide; most of it at the first installation alone. Raises Abort."""
    settings = workspace.settings
    if machine.earlier.is_active:
        click.confirm("Stop it and go on?", abort=True)
    if machine.journal is not None:
        return choices, extractor
    choices = choose(choices.to_json(), permissions=ask_permission())
    if extractor is None:
        cost = estimate_cost([*machine.existing.first, *machine.existing.rest], time.time())
        extractor = ask_extractor(settings, machine.claude, cost)
    if choices.service and best_system(settings).name is SystemName.BACKGROUND:
        ask_session_start(workspace)
    return choices, extractor


def _print_plan(workspace: Workspace, steps: Sequence[Step], machine: Machine, as_json: bool) -> None:
    """Show what an installation would do."""
    redact = workspace.redactor()
    lines = [redact(line) for line in preview(steps)]
    if as_json:
        print_json({"plan": lines, "sessions": machine.existing.number})
        return
    for line in [*lines, f"Read {machine.existing.number} existing sessions into {workspace.settings.home}"]:
        say(line)
    click.echo("Nothing was changed.")


def _set_extractor(workspace: Workspace, extractor: str | None, claude: ClaudeCode) -> None:
    """Store who writes the memories, and the absolute path of the command that does."""
    home, sources = workspace.settings.home, workspace.loaded.sources
    if extractor == "claude" and claude.command is None:
        raise BadRequest(
            "Claude Code was not found, so it can't write the memories. Install it, or choose --extractor local; "
            "`engram config set extractor claude` chooses it later"
        )
    if extractor is not None and (extractor != "local" or sources["extractor"] != "default"):
        set_value(home, "extractor", extractor)
    chosen = extractor or workspace.settings.extractor
    if chosen == "claude" and claude.command is not None and sources["claude_command"] in ("default", "config.toml"):
        # A service has a short PATH.
        set_value(home, "claude_command", claude.command)
    workspace.reload()


def _apply(workspace: Workspace, choices: Choices, machine: Machine, *, no_import: bool, is_quiet: bool) -> Result:
    """Change the machine, read sessions before the service starts, and test the result."""
    settings = workspace.settings
    steps = _plan(workspace, choices, machine)
    is_first = machine.journal is None or machine.journal.is_half_done
    imported: dict[str, Any] = {}

    def read_sessions() -> None:
        if no_import or imported or (choices.service and not is_first):
            return
        imported.update(import_existing(workspace, machine.existing, has_service=choices.service, is_quiet=is_quiet))

    def before_step(step: Step) -> None:
        if step.name == "service":
            read_sessions()
        say_unless(is_quiet, f"• {step.summary}")

    link_interpreter(settings.places)
    outcome = install_steps(settings.places, steps, options=choices.to_json(), version=VERSION, before_step=before_step)
    if not choices.service:
        read_sessions()
    # Also where no session was read, there is a memory then.
    with workspace.store():
        pass
    outcome.notes += variable_notes(workspace) if choices.service else _terminal_notes(workspace)
    earlier = ""
    if any(database.episodes for database in machine.earlier.databases):
        earlier = (
            "The earlier Engram's memories were not imported; `engram import --from earlier` does that at any time."
            if no_import
            else import_earlier(workspace)
        )
    return Result(outcome, steps, imported, earlier, run_self_test(settings))


def _terminal_notes(workspace: Workspace) -> list[str]:
    is_running = process_state(workspace.places.worker_lock).is_alive
    return ["An `engram up` runs with the code of before: stop it and start it again."] if is_running else []


def _finish(
    ctx: click.Context, workspace: Workspace, choices: Choices, machine: Machine, result: Result, as_json: bool
) -> None:
    lines = import_lines(machine.existing, result.imported, has_service=choices.service)
    lines += [result.earlier] if result.earlier else []
    if as_json:
        print_json(
            {
                "version": VERSION,
                "steps": [step.name for step in result.steps],
                "changed": result.outcome.changed,
                "notes": [*result.outcome.notes, *(note for step in result.steps for note in step.notes)],
                "imported": result.imported,
                "earlier": result.earlier or None,
                "self_test": {"ok": not result.test.problem, "problem": result.test.problem or None},
                "next": next_command(workspace),
            }
        )
    else:
        print_report(workspace, choices, machine.claude, result.steps, result.outcome.notes, lines, result.test)
    if result.test.problem:
        raise EngramError(f"the self-test failed: {result.test.problem}. Run `engram doctor` to see what to do")
    ctx.exit(exits.OK)
