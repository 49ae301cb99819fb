"""What `engram install` asks: the earlier Engram, the permission, and who writes the memories."""

from __future__ import annotations

from collections.abc import Sequence

import click

from engram.cli.compare_command import can_compare
from engram.cli.output import say
from engram.cli.workspace import Workspace
from engram.config_file import set_value
from engram.earlier.find import EarlierEngram
from engram.install.claude_code import ClaudeCode
from engram.install.cost_estimate import DAYS, SOURCE, CostEstimate
from engram.reports.processes import OtherProcess
from engram.settings import Settings

_LEAVES = (
    "What leaves this machine then: what you and Claude said, with secrets masked, and the commands that were run with "
    "their exit codes; no files and no tool output. Your own Claude Code sends it to Anthropic, with your login."
)


#: The answer of who wants to see both ways before choosing.
COMPARE = "compare"


def show_earlier(found: EarlierEngram) -> None:
    """Tell what was found of the earlier Engram, and what happens to it."""
    click.echo("An earlier Engram is on this machine:")
    for line in found.lines():
        say(f"  {line}")
    click.echo("It uses the same folder and the same socket, so both can't run. It is stopped; its files stay.")


def show_other_versions(found: Sequence[OtherProcess]) -> None:
    """Tell which processes of another version run, and what happens to them."""
    click.echo("Another version of Engram still runs:")
    for process in found:
        say(f"  {process.described}")
    click.echo("It is ended, and this version goes on from there; memory.db is copied before its tables change.")


def ask_permission() -> bool:
    """Ask whether Claude may use the memory tools without asking each time."""
    return click.confirm("May Claude search and save memories without asking you each time?", default=True)


def ask_extractor(settings: Settings, claude: ClaudeCode, cost: CostEstimate) -> str:
    """Ask who writes the memories; returns a value of the setting ``extractor``, or ``COMPARE``."""
    has_model = claude.command is not None or can_compare(settings)
    click.echo("\nWho writes the memories?")
    click.echo("  claude  Your own Claude Code. Recommended: such memories help with 72 % of the prompts that a memory")
    click.echo("          can help with; those of the rules with 43 %.")
    for line in cost_lines(settings, cost):
        click.echo(f"          {line}")
    click.echo(f"          {_LEAVES}")
    click.echo("  local   Rules on this machine. Nothing leaves it, and it costs nothing.")
    click.echo("  openai  OpenAI or a compatible server, also one of your own, with your key.")
    if has_model:
        click.echo("  compare Rules, and at the end you see one of your own sessions both ways: a single call of the")
        click.echo("          language model, whose price you see first. Then you choose.")
    if claude.command is None:
        click.echo("Claude Code was not found on this machine, so it can't write them yet.")
    answers = ["claude", "local", "openai", *([COMPARE] if has_model else [])]
    default = settings.extractor if settings.extractor != "local" else "claude" if claude.command else "local"
    return str(click.prompt("Choose", type=click.Choice(answers), default=default))


def ask_session_start(workspace: Workspace) -> None:
    """Ask whether Claude Code's sessions start worker and watcher, where nothing starts them at login."""
    click.echo("This machine has no launchd or systemd that could start Engram again after a restart.")
    if click.confirm("May a session of Claude Code start it if it does not run?", default=True):
        set_value(workspace.settings.home, "start_with_session", "true")
        workspace.reload()


def cost_lines(settings: Settings, cost: CostEstimate) -> list[str]:
    """What a month like the last one would cost with Claude, with the source of the figures and the cap."""
    cap = f"At most ${settings.llm_dollars_per_day:.2f} a day, whatever happens (setting llm_dollars_per_day)."
    if not cost.turns:
        return [f"A thousand turns cost about $0.20 to $2.41 ({SOURCE}).", cap]
    return [
        f"Your last {DAYS} days ({cost.sessions} sessions, about {cost.turns} turns) would have cost "
        f"${cost.low_dollars:.2f} to ${cost.high_dollars:.2f}",
        f"at list price ({SOURCE}), or the same share of your subscription's limits.",
        cap,
    ]
