"""The report at the end of `engram install`: where everything is, and what to type next."""

from __future__ import annotations

import re
from collections.abc import Sequence

import click

from engram.cli.output import say
from engram.cli.workspace import Workspace
from engram.enums import Importance
from engram.install.changes import Step
from engram.install.choices import Choices
from engram.install.claude_code import ClaudeCode
from engram.install.self_test import SelfTest
from engram.models.counts import count_totals
from engram.models.episode_lists import latest_episodes
from engram.redaction.display import visible
from engram.settings import MODEL_EXTRACTORS

#: Words of the query that is proposed.
_QUERY_WORDS = 4
#: Shorter words are left out of it.
_MIN_WORD_LETTERS = 5


def print_report(
    workspace: Workspace,
    choices: Choices,
    claude: ClaudeCode,
    steps: Sequence[Step],
    notes: Sequence[str],
    imported: Sequence[str],
    test: SelfTest,
) -> None:
    """Print what was done; first what was saved from deletion."""
    settings = workspace.settings
    click.echo()
    for line in imported:
        say(line)
    with workspace.store() as store:
        totals = count_totals(store)
    rows = {
        "Memory": f"{settings.home}: {totals.sessions} sessions, {totals.turns} turns, {totals.episodes} memories",
        "Claude Code": claude.version
        or (claude.command or "not on this machine yet: it finds Engram at its first start"),
        "Service": _service(steps) if choices.service else "none: start it with `engram up`",
        "Writer": _writer(settings.extractor),
    }
    if not test.problem:
        rows["Self-test"] = f"passed in {test.seconds:.1f} s" + ("" if test.has_vectors else ", without the model")
    for name, value in rows.items():
        say(f"{name:<12} {value}")
    for note in [*notes, *(note for step in steps for note in step.notes)]:
        say(f"Note: {note}")
    click.echo("Next: start Claude Code in a project of yours and work as always, or ask yourself:")
    say(f"  {next_command(workspace)}")


def next_command(workspace: Workspace) -> str:
    """A recall that this memory can answer, or how to look whether all is well."""
    with workspace.store() as store:
        memories = latest_episodes(store, limit=200)
    important = [memory for memory in memories if memory.importance is Importance.HIGH]
    for memory in [*important, *memories]:
        words = [word for word in re.findall(r"[^\W_]+", visible(memory.summary)) if len(word) >= _MIN_WORD_LETTERS]
        if len(words) >= _QUERY_WORDS:
            return f'engram recall "{" ".join(words[:_QUERY_WORDS])}"'
    return "engram status"


def variable_notes(workspace: Workspace) -> list[str]:
    """Settings that this shell's variables make and a service does not see."""
    folders = ("home", "claude_folder")
    return [
        f"The service does not see ENGRAM_{name.upper()} of this shell: engram config set {name} …"
        for name, source in sorted(workspace.loaded.sources.items())
        if source == "environment" and name not in folders
    ]


def _service(steps: Sequence[Step]) -> str:
    return next((step.summary for step in steps if step.name == "service"), "none")


def _writer(extractor: str) -> str:
    if extractor in MODEL_EXTRACTORS:
        return f"{extractor}; `engram cost` shows what it spends"
    return f"{extractor}: nothing leaves this machine. To let Claude write: engram install --extractor claude"
