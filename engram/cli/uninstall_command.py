"""``engram uninstall``: take back everything that `engram install` changed; with --purge the memory too."""

from __future__ import annotations

import contextlib

import click

from engram.cli import options
from engram.cli.options import confirm, json_option, yes_option
from engram.cli.output import print_json, say
from engram.cli.workspace import Workspace, pass_workspace
from engram.errors import InstallError
from engram.paths import Home
from engram.reports.processes import is_held
from engram.setup.edits.changes import Step
from engram.setup.edits.journal import load_journal
from engram.setup.installing.installation import uninstall as take_back
from engram.setup.installing.stray import find_stray, purge_memory
from engram.setup.old_engram.find import find_earlier


@click.command("uninstall")
@click.option(
    "--purge", is_flag=True, help="Also delete the memory folder: memories, notes, backups (default: keep it)."
)
@yes_option
@json_option
@pass_workspace
@click.pass_context
def uninstall(ctx: click.Context, workspace: Workspace, purge: bool, yes: bool, as_json: bool) -> None:
    """Take back what `engram install` changed: every file gets its bytes, mode and link from before.

    What others changed in these files meanwhile stays; then only Engram's entries are removed. That is also done where
    the memory folder, which knows what there was before, is gone. The memory folder stays, unless --purge is given. The
    program itself is removed as it was installed: `uv tool uninstall engram-recall`.

    Example: engram uninstall --yes
    """
    places = workspace.places
    journal = load_journal(places) or find_stray(workspace.settings)
    if journal is None and not purge:
        _tell(
            as_json,
            "Engram is not installed in Claude Code or as a service.",
            {"changed": [], "notes": [], "problems": []},
        )
        return
    steps = [step.summary for step in journal.ledger.steps] if journal else []
    if not as_json:
        for step in steps:
            say(f"Will be taken back: {step}")
    question = f"Delete the memory in {places.root} for good?" if purge else "Uninstall?"
    confirm(yes, as_json, question)

    def before_step(step: Step) -> None:
        if not as_json:
            say(f"• Undo: {step.summary}")

    outcome = take_back(places, stray=journal, before_step=before_step)
    _drop_link(places)
    left: list[str] = []
    if purge and not outcome.problems:
        _refuse_running(places)
        left = [str(path) for path in purge_memory(places, keep=find_earlier(workspace.settings).files)]
    _drop_empty(places)
    facts = {"changed": outcome.changed, "notes": outcome.notes, "problems": outcome.problems, "left": left}
    if as_json:
        print_json(facts)
    else:
        for note in outcome.notes:
            say(f"Note: {note}")
        for problem in outcome.problems:
            say(f"Problem: {problem}", err=True)
        _print_end(places, purge, left, bool(outcome.problems))
    ctx.exit(options.FAILED if outcome.problems else options.OK)


def _print_end(places: Home, purge: bool, left: list[str], has_problems: bool) -> None:
    if has_problems:
        click.echo("Not everything could be taken back. Remove the cause, then run `engram uninstall` again.", err=True)
        return
    if not purge:
        say(f"Uninstalled. The memory stays in {places.root}; `engram uninstall --purge` deletes it.")
    elif left:
        say(f"Uninstalled. Files that are not this program's stay in {places.root}: {', '.join(left[:5])}")
    else:
        click.echo("Uninstalled; the memory is deleted.")
    click.echo("Remove the program as you installed it, such as: uv tool uninstall engram-recall")


def _tell(as_json: bool, sentence: str, facts: dict[str, object]) -> None:
    if as_json:
        print_json(facts)
    else:
        click.echo(sentence)


def _drop_link(places: Home) -> None:
    """The hooks' link to the interpreter is of no use without hooks."""
    if places.python_link.is_symlink():
        places.python_link.unlink()


def _drop_empty(places: Home) -> None:
    """Remove a memory folder that holds nothing but the installer's lock: it was deleted before."""
    with contextlib.suppress(OSError):
        if [path.name for path in places.root.iterdir()] == ["install.lock"]:
            (places.root / "install.lock").unlink()
            places.root.rmdir()


def _refuse_running(places: Home) -> None:
    for lock in (places.worker_lock, places.watcher_lock):
        if is_held(lock):
            raise InstallError(f"a process still uses {places.root} ({lock.stem}). Stop `engram up`, then try again")
