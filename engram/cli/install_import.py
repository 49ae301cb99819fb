"""Reads existing sessions while Engram is installed, and shows the user what of their own history is kept now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import click

from engram.cli.output import say, say_wrapped
from engram.cli.results import counted, hit_result, print_results
from engram.cli.workspace import Workspace, current_folder
from engram.errors import EngramError
from engram.models.engine.transaction import Store
from engram.models.shown.usage import count_of_agent, count_projects, count_totals, latest_turn_prompts
from engram.search.hits import PublicHit
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.transcripts.claude_code.discover import SOON_DAYS, Retention, find_expiring
from engram.transcripts.claude_code.history import AGENT as HISTORY_AGENT
from engram.trust.display import visible
from engram.worker.recall_client import Operation, RecallRequest, ask_memory

# -- The import.


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
    """Read all sessions and make memories of them, with a progress bar. A failure or Ctrl-C ends only the import.

    Args:
        workspace: the memory.
        existing: what there is.
        has_service: the vectors are left to the service; otherwise everything is done now.
        is_quiet: print nothing but warnings.
    """
    from engram.cli.once import run_once

    if not existing.number:
        say_unless(is_quiet, "There are no sessions yet. Engram reads each one while you work.")
        return {}
    # The rules make memories of all of it in a minute. A language model improves them later, within its cap.
    flags = {"extractor": "local"} if workspace.settings.extractor in MODEL_EXTRACTORS else {}
    say_unless(is_quiet, f"• Reading your {existing.number} sessions")
    try:
        return run_once(
            workspace.with_flags(**flags),
            is_quiet=is_quiet,
            sources=(*existing.first, *existing.rest),
            with_consolidation=not has_service,
            with_vectors=not has_service,
            is_told=False,
        )
    except KeyboardInterrupt:
        click.echo("\nThe import was stopped. It goes on in the background, or with `engram up`.", err=True)
    except EngramError as error:
        say(f"The import failed: {error}. It is tried again in the background, or by `engram up`.", err=True)
    return {}


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


def say_unless(is_quiet: bool, text: str) -> None:
    """Print a line, unless nothing but JSON may be printed."""
    if not is_quiet:
        say(text)


# -- The first screen: the user's own history, and a question that they asked once with what came of it.

#: Words of a question of the user's that is shown again.
_QUESTION_WORDS = range(4, 22)
_QUESTION = re.compile(
    r"(?:why|how|what|which|where|when|is|are|does|do|did|can|could|should|warum|wie|was|welche)\b", re.IGNORECASE
)
_REASON = re.compile(r"(?:why|how|warum|wie)\b", re.IGNORECASE)
#: What a question is not shown with: paths of attachments, images, masked values, quotes that a shell would end.
_UNFIT = re.compile(r"[\[\]@\"`$\\!<>{}]|https?:")
#: Questions that are tried until one is answered by its own session.
_MAX_TRIES = 12


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A question that the user asked once, and what is found for it now."""

    question: str
    hit: PublicHit

    @property
    def command(self) -> str:
        """What asks it."""
        return f'engram recall "{self.question}"'


def history_lines(workspace: Workspace, existing: Existing) -> list[str]:
    """Return what of the user's history is kept, a sentence a line; each figure is of what is stored."""
    retention = existing.retention
    with workspace.store() as store:
        totals = count_totals(store)
        projects = [project for project in count_projects(store) if project.turns and project.name]
        prompts = sum(project.prompts for project in count_projects(store))
        recovered, recovered_prompts = count_of_agent(store, HISTORY_AGENT)
    if not totals.sessions:
        return []
    memories = counted(totals.memories, "memory", "memories") or "no memories"
    lines = [
        f"{counted(totals.sessions, 'session')} with {counted(prompts, 'prompt')} in "
        f"{counted(len(projects), 'project')}; {memories} so far."
    ]
    if len(retention.expiring):
        lines.append(
            f"Claude Code deletes {len(retention.expiring)} of its {counted(retention.sessions, 'session')} within "
            f"{SOON_DAYS} days (it keeps them for {retention.days}). They are safe in Engram now."
        )
    elif retention.sessions:
        lines.append(f"Claude Code deletes sessions after {retention.days} days. Engram keeps what was said in them.")
    if recovered:
        lines.append(
            f"Recovered from history.jsonl: {counted(recovered_prompts, 'prompt')} of "
            f"{counted(recovered, 'session')} that Claude Code has deleted."
        )
    return lines


def find_own_question(store: Store, settings: Settings) -> OwnQuestion | None:
    """Return one of the latest questions of the user's that its own session answered; None if there is none.

    Only words are searched: no model is loaded.
    """
    asked = [(prompt.session_id, text) for prompt in latest_turn_prompts(store) if (text := _as_question(prompt.text))]
    asked.sort(key=lambda one: not _REASON.match(one[1]))
    for session_id, text in asked[:_MAX_TRIES]:
        request = RecallRequest(Operation.RECALL, text, limit=3, project_id=None, max_hits=3)
        hits = ask_memory(store, settings, request, with_worker=False, with_model=False).hits
        if hits and hits[0].session_id == session_id and hits[0].outcome and not hits[0].is_doubtful:
            return OwnQuestion(text, hits[0])
    return None


def print_history(lines: Sequence[str], question: OwnQuestion | None) -> None:
    """Print what of the user's history is kept, and a question of theirs with its answer."""
    if not lines:
        return
    click.secho("\nYour history is kept", bold=True)
    for line in lines:
        say_wrapped(line, first="  ", rest="  ")
    if question is not None:
        click.secho("\nYou asked once, and can ask again:", bold=True)
        say(f"  {question.command}\n")
        lines = [line for line in question.hit.text.splitlines() if " ".join(line.split()) != question.question]
        print_results([hit_result(replace(question.hit, text="\n".join(lines)), current_folder())], is_numbered=False)


def _as_question(prompt: str) -> str:
    """Return a prompt as one line if it is a question that can be typed again; else ""."""
    text = " ".join(visible(prompt).split())
    is_question = text.endswith("?") and bool(_QUESTION.match(text)) and len(text.split()) in _QUESTION_WORDS
    return text if is_question and not _UNFIT.search(text) and text.count("?") == 1 else ""
