"""Reads existing sessions while Engram is installed: the latest project whole, and what is about to be deleted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import click

from engram.cli.output import say
from engram.cli.workspace import Workspace
from engram.errors import EngramError
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.transcripts.claude_code.discover import SOON_DAYS, Retention, find_expiring


@dataclass(frozen=True, slots=True)
class Existing:
    """The sessions that there are."""

    #: Of the project with the latest change, the newest first.
    first: tuple[Source, ...]
    #: All others, the newest first.
    rest: tuple[Source, ...]
    retention: Retention

    @property
    def number(self) -> int:
        """All sessions."""
        return len(self.first) + len(self.rest)


def find_existing(settings: Settings, now_seconds: float) -> Existing:
    """Find the sessions of all agents; no file is opened."""
    sources = sorted(registry.discover(settings), key=lambda source: -source.changed_at_ns)
    folder = sources[0].path.parent if sources else None
    return Existing(
        first=tuple(source for source in sources if source.path.parent == folder),
        rest=tuple(source for source in sources if source.path.parent != folder),
        retention=find_expiring(sources, settings.all_claude_folders, now_seconds),
    )


def import_existing(workspace: Workspace, existing: Existing, *, has_service: bool, is_quiet: bool) -> dict[str, Any]:
    """Read sessions and make memories of them, with a progress bar. A failure or Ctrl-C ends only the import.

    Args:
        has_service: the rest is left to the service; otherwise everything is done now.
    """
    from engram.cli.once import run_once

    if not existing.number:
        say_unless(is_quiet, "There are no sessions yet. Engram reads each one while you work.")
        return {}
    # The rules make memories of all of it in a minute. A language model improves them later, within its cap.
    flags = {"extractor": "local"} if workspace.settings.extractor in MODEL_EXTRACTORS else {}
    first = workspace.with_flags(**flags)
    sources = existing.first if has_service else (*existing.first, *existing.rest)
    try:
        report = run_once(first, is_quiet=is_quiet, sources=sources, with_consolidation=not has_service, is_told=False)
        expiring = [source for source in existing.retention.expiring if source not in set(sources)]
        if expiring:
            report |= _read_only(first, expiring, is_quiet)
    except KeyboardInterrupt:
        click.echo("\nThe import was stopped. It goes on in the background, or with `engram up`.", err=True)
        return {}
    except EngramError as error:
        say(f"The import failed: {error}. It is tried again in the background, or by `engram up`.", err=True)
        return {}
    return report


def import_earlier(workspace: Workspace) -> str:
    """Import the memories of the earlier Engram; what was imported before is not added again. Returns a line."""
    from engram.exchange.formats import open_source
    from engram.exchange.importing import Outcome, PlaceFinder, import_memories

    settings = workspace.settings
    try:
        with (
            workspace.store() as store,
            open_source(None, "earlier", settings, has_project=False, is_global=False) as source,
        ):
            places = PlaceFinder(store, settings)
            report = import_memories(store, source, workspace.redactor(), places)
    except EngramError as error:
        return f"The earlier Engram's memories were not imported: {error}. Try again: engram import --from earlier"
    workspace.wake_worker()
    if not report.counts[Outcome.ADDED]:
        return ""
    undo = f"`engram import --undo {report.run_id}` takes that back"
    return f"Imported {report.counts[Outcome.ADDED]} memories of the earlier Engram; {undo}."


def _read_only(workspace: Workspace, sources: Sequence[Source], is_quiet: bool) -> dict[str, Any]:
    """Store the turns of sessions; memories are made of them later."""
    from engram.cli.once import read_sources

    return read_sources(workspace, sources, is_quiet=is_quiet)


def import_lines(existing: Existing, report: dict[str, Any], *, has_service: bool) -> list[str]:
    """What to tell of the import; first what Claude Code is about to delete."""
    if not report:
        return []
    retention, lines = existing.retention, []
    if retention.expiring:
        lines.append(
            f"{len(retention.expiring)} of your {retention.sessions} Claude Code sessions are deleted by Claude Code "
            f"within {SOON_DAYS} days (it keeps them for {retention.days}). They are safe in Engram now."
        )
    elif retention.sessions:
        lines.append(f"Claude Code deletes sessions after {retention.days} days. Engram keeps what was said in them.")
    lines.append(f"Read {report['turns']} turns; {report['episodes']} memories so far.")
    if has_service and existing.rest:
        lines.append(f"{len(existing.rest)} older sessions of other projects are read in the background: engram status")
    return lines


def say_unless(is_quiet: bool, text: str) -> None:
    """Print a line, unless nothing but JSON may be printed."""
    if not is_quiet:
        say(text)
