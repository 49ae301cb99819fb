"""Read sessions in this process and make memories from them, for ``engram up --once`` and ``engram install``."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from engram.cli.output import print_json, print_table, say, say_wrapped
from engram.cli.results import hit_result, print_excerpt
from engram.cli.workspace import Workspace, advise
from engram.errors import EngramError, NotFound, StoreError
from engram.forgetting.whole_project import note_repository
from engram.ingest.read_sources import in_order_of_change, ingest_all
from engram.ingest.write_portion import IngestResult
from engram.log import start_logging
from engram.models.engine.database import is_read_only
from engram.models.engine.transaction import Store
from engram.models.memories.tombstones import has_forgotten_turns
from engram.models.sessions.reading_progress import unread_of
from engram.models.shown import usage
from engram.models.shown.usage import count_agents, count_of_agent, count_projects, count_totals, latest_turn_prompts
from engram.models.work.task_runs import list_stages
from engram.paths import absolute_path
from engram.redaction import redact
from engram.reports.health import STAGE_NAMES, Unread, count_unread
from engram.reports.processes import process_state
from engram.search.hits import PublicHit
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.system.lazy_regex import any_case, lazy_regex
from engram.tasks.drain import drain
from engram.tasks.runtime import make_runtime
from engram.text.words import stems, topic_words
from engram.transcripts import registry
from engram.transcripts.agents import Source
from engram.transcripts.claude_code.discover import SOON_DAYS, Retention, find_expiring
from engram.transcripts.claude_code.history import AGENT as HISTORY_AGENT
from engram.trust.display import counted, number_of, visible
from engram.vaults import own_vault
from engram.worker.recall_client import Operation, RecallRequest, ask_memory

#: Seconds between two progress lines if there is no terminal.
LINE_SECONDS = 10.0
#: Time that reading transcripts and preparing all their texts takes on two idle processors, in seconds
#: (docs/install.md: about two minutes for 100 MB).
SECONDS_PER_BYTE = 1.2e-6
#: Maximum number of threads for the model when nothing else runs.
MAX_THREADS = 4


def run_once(
    workspace: Workspace,
    *,
    is_quiet: bool,
    sources: Sequence[Source | Path] | None = None,
    with_consolidation: bool = True,
    with_vectors: bool = True,
    prints_counts: bool = True,
) -> dict[str, Any]:
    """Do all pending work in this process and return the counts.

    Args:
        is_quiet: print nothing but warnings.
        sources: what to read; None for all sessions of all agents, starting with the oldest change.
        with_consolidation: also consolidate if that is due.
        with_vectors: False leaves the vectors to a worker.
        prints_counts: print the counts at the end.
    """
    started = time.monotonic()
    settings = workspace.settings
    start_logging(workspace.places.prepare().logs, "cli", settings.log_level, redact)
    with workspace.store(may_upgrade=True) as store, _bars(is_quiet) as bars:
        if not is_quiet and process_state(workspace.places.worker_lock).is_alive:
            advise(
                "Engram is already running and does this work in the background; this command does it now, too. To "
                "only read what is new and leave the rest to it: engram up --once --no-memories",
                err=True,
            )
        if is_read_only(store.path):  # else this could go unnoticed, and pending work would wait forever
            raise StoreError(f"{workspace.places.root} can't be written; run `engram doctor` to see what to do")
        own = own_vault(workspace.places)
        if own is not None:
            note_repository(store, own)
        report = _read(workspace, store, bars, sources)
        # The user is waiting, and no recall runs at the same time.
        threads = max(settings.embedding_threads, min(os.cpu_count() or 1, MAX_THREADS))
        runtime = make_runtime(replace(settings, embedding_threads=threads), store)
        texts = embedded = 0

        def step(stage: str, done: int, total: int) -> None:
            nonlocal texts
            if stage == "embed":
                done += embedded
                texts = max(texts or done + usage.count_without_vector(store), done)
                total = texts
            bars.show(_STAGES.get(stage, stage), done, total)

        drained = drain(
            runtime, with_waiting=True, with_consolidation=with_consolidation, with_vectors=with_vectors, progress=step
        )
        embedded, texts = drained.embedded, 0
        if drained.has_consolidated:
            # Consolidation writes notes, which must also be indexed and embedded.
            embedded += drain(runtime, with_vectors=with_vectors, progress=step).embedded
        report |= {
            "episodes": usage.count_totals(store).memories,
            "sessions_extracted": drained.sessions,
            "failed": drained.failed,
            "embedded": embedded,
            "missing_vectors": usage.count_without_vector(store),
            "model": runtime.embedder.model_id if runtime.embedder else None,
            "seconds": round(time.monotonic() - started, 1),
        }
    if prints_counts and not is_quiet:
        _print(report, workspace)
    return report


_STAGES = {"extract": "Making memories", "embed": "Preparing the search by meaning"}


def _read(workspace: Workspace, store: Store, bars: Bars, sources: Sequence[Source | Path] | None) -> dict[str, Any]:
    """Read sources, or all sessions of all agents, and return what was read."""
    todo = find_sources(workspace, ()) if sources is None else sources

    def step(done: int, total: int, _: IngestResult) -> None:
        bars.show("Reading sessions", done, total)

    results = ingest_all(store, settings=workspace.settings, redact=redact, progress=step, sources=todo)
    return ingest_report(store, results)


class Bars:
    """Shows progress: bars on a terminal, otherwise a line now and then."""

    def __init__(self, progress: Progress, *, is_quiet: bool) -> None:
        """Use ``progress`` on a terminal; print nothing if ``is_quiet``."""
        self._progress = progress
        self._with_lines = not is_quiet and not progress.console.is_terminal
        self._tasks: dict[str, TaskID] = {}
        self._printed_seconds = time.monotonic()

    def show(self, what: str, done: int, total: int) -> None:
        """Show a step of the work; a total of 0 means unknown."""
        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(what, total=total or None)
        self._progress.update(self._tasks[what], completed=done, total=total or None)
        now = time.monotonic()
        if self._with_lines and now - self._printed_seconds >= LINE_SECONDS:
            self._printed_seconds = now
            say(f"{what}: {done}" + (f" of {total}" if total else "") + " …", err=True)


@contextlib.contextmanager
def _bars(is_quiet: bool) -> Iterator[Bars]:
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True),
        transient=True,
        disable=is_quiet,
    ) as progress:
        yield Bars(progress, is_quiet=is_quiet)


def _skip_reason(workspace: Workspace, reason: str) -> str:
    """Return why files were not read, in words. A vault excludes the sessions of all other projects."""
    if reason != "excluded" or own_vault(workspace.places) is None:
        return reason
    return "of other projects, or excluded" if workspace.settings.exclude else "of other projects"


def _print(report: dict[str, Any], workspace: Workspace) -> None:
    say(
        f"Read       {number_of(report['files'], 'file')}: {number_of(report['new_turns'], 'new turn')}; "
        f"{number_of(report['sessions'], 'session')} with {number_of(report['turns'], 'turn')} in all"
    )
    for reason, number in report["skipped"].items():
        say(f"Skipped    {number_of(number, 'file')}: {_skip_reason(workspace, reason)}")
    click.echo(f"Kept       {number_of(report['episodes'], 'memory')} in all")
    say(
        f"Prepared   {number_of(report['embedded'], 'text')} for the search by meaning, "
        f"{report['missing_vectors']} left"
    )
    with workspace.store() as store:
        failing = [stage for stage in list_stages(store) if stage.last_error]
    for stage in failing:
        advise(f"Problem    {STAGE_NAMES.get(stage.name, stage.name)}: {stage.last_error}")
    for problem, word in (("bad_lines", "unreadable line"), ("failed", "failed task")):
        if report[problem]:
            advise(f"Problems   {number_of(report[problem], word)}. Run `engram doctor` to see what to do.")
    try_it = ' Try it: engram recall "…"' if report["sessions"] else ""
    advise(f"Done in {report['seconds']} s.{try_it}")


# -- ``engram up --once --no-memories``: transcripts are read, and the worker makes the memories later.


def read_only(workspace: Workspace, paths: Sequence[Path], *, as_json: bool) -> None:
    """Read transcripts to their end and print what was read. A worker may run at the same time.

    Args:
        paths: transcripts, folders of transcripts, or configuration folders of an agent; all transcripts if empty.
        as_json: print JSON, without a progress bar.
    """
    with workspace.store() as store:
        todo = find_sources(workspace, paths)
        with _bars(as_json) as bars:
            report = _read(workspace, store, bars, todo)
    if as_json:
        print_json(report)
        return
    say(
        f"Read {number_of(report['files'], 'file')}: {number_of(report['new_turns'], 'new turn')}, "
        f"{report['turns']} in all."
    )
    if report["bad_lines"]:
        advise(f"{number_of(report['bad_lines'], 'unreadable line')}. `engram doctor` lists them.")
    for reason, number in report["skipped"].items():
        say(f"{number_of(number, 'file')} skipped: {_skip_reason(workspace, reason)}")
    print_table(
        ["project", "sessions#", "turns#"],
        [(name or "(no project)", totals["sessions"], totals["turns"]) for name, totals in report["projects"].items()],
        empty=f"There are no transcripts in {workspace.settings.projects_folder}.",
    )


def find_sources(workspace: Workspace, paths: Sequence[Path]) -> list[Source | Path]:
    """Return what to read, oldest change first.

    Raises:
        NotFound: a path does not exist, or contains no session.
    """
    settings = workspace.settings
    if not paths:
        return [*in_order_of_change(registry.discover(settings))]
    in_folders: list[Source] = []
    named: list[Source] = []
    for path in map(absolute_path, paths):
        if not path.exists():
            raise NotFound(f"{path} does not exist; give a transcript or a folder of them, or nothing for all")
        sources = registry.sources_at(path, settings)
        if not sources:
            raise NotFound(f"{path} contains no session; `engram up --once` reads transcripts, and folders with them")
        if path.is_dir():
            in_folders += sources
        else:
            named += sources
    return list(dict.fromkeys([*in_order_of_change(in_folders), *named]))


def ingest_report(store: Store, results: Sequence[IngestResult]) -> dict[str, Any]:
    """Return what was read, for scripts: files and new turns are those of this run; all other figures are totals."""
    totals = usage.count_totals(store)
    skipped: dict[str, int] = {}
    for result in results:
        if result.skipped:
            skipped[result.skipped] = skipped.get(result.skipped, 0) + 1
    return {
        "files": len(results) - sum(skipped.values()),
        "sessions": totals.sessions,
        "turns": totals.turns,
        "new_turns": sum(result.new_turns for result in results),
        "episodes": totals.memories,
        "bad_lines": totals.bad_lines,
        "skipped": skipped,
        "projects": {
            project.name: {
                "sessions": project.sessions,
                "turns": project.turns,
                "prompts": project.prompts,
                "episodes": project.memories,
            }
            for project in usage.count_projects(store)
        },
    }


# -- Read existing sessions during installation, and show users their own history.


@dataclass(frozen=True, slots=True)
class Existing:
    #: The sessions of the project with the latest change, newest first.
    first: tuple[Source, ...]
    #: All others, newest first.
    rest: tuple[Source, ...]
    retention: Retention

    @property
    def number(self) -> int:
        return len(self.first) + len(self.rest)


def find_existing(settings: Settings, now_seconds: float) -> Existing:
    """Find the sessions of all agents, without opening any files."""
    sources = sorted(registry.discover(settings), key=lambda source: -source.changed_at_ns)
    folder = sources[0].path.parent if sources else None
    return Existing(
        first=tuple(source for source in sources if source.path.parent == folder),
        rest=tuple(source for source in sources if source.path.parent != folder),
        retention=find_expiring(sources, settings.all_claude_folders, now_seconds),
    )


def find_new(workspace: Workspace, existing: Existing) -> Unread:
    """Return how much an earlier installation has not read already."""
    if workspace.places.memory_db.exists():
        with contextlib.suppress(EngramError), workspace.store() as store:
            return count_unread(store, workspace.settings)
    size = sum(source.size or 0 for source in (*existing.first, *existing.rest))
    return Unread(existing.number, size, 0.0, existing.number)


def waiting_note(workspace: Workspace, *, has_service: bool) -> str:
    """Return how many texts are found only by their words so far, to be appended to a sentence; "" for none."""
    with workspace.store() as store:
        waiting = usage.count_without_vector(store)
    who = "the service prepares" if has_service else "`engram up` prepares"
    return f"; {who} {number_of(waiting, 'more text')} for the search by meaning" if waiting else ""


def import_existing(
    workspace: Workspace, existing: Existing, *, new: int, preparing: str, has_service: bool, is_quiet: bool
) -> dict[str, Any]:
    """Read all sessions and make memories from them, with a progress bar. A failure or Ctrl-C stops only the import.

    Args:
        new: number of transcripts that were not read to their end yet; nothing is said about the others.
        preparing: how long preparing the search by meaning takes; "" if the service does that.
        has_service: leave the vectors to the service; otherwise everything is done now.
        is_quiet: print nothing but warnings.
    """
    if not existing.number:
        say_unless(is_quiet, "There are no sessions yet. Engram reads each one while you work.")
        return {}
    # The rules make memories from all sessions in a minute. A language model improves them later, within its cap.
    flags = {"extractor": "local"} if workspace.settings.extractor in MODEL_EXTRACTORS else {}
    if new:
        also = f" and preparing the search by meaning (about {preparing})" if preparing else ""
        say_unless(is_quiet, f"• Reading your {number_of(new, 'transcript')}{also}")
    try:
        return run_once(
            workspace.with_flags(**flags),
            is_quiet=is_quiet,
            sources=(*existing.first, *existing.rest),
            with_consolidation=not has_service,
            with_vectors=not has_service,
            prints_counts=False,
        )
    except KeyboardInterrupt:
        with workspace.store() as store:
            unread = count_unread(store, workspace.settings)
        advise(
            f"\nReading was stopped: {unread.found - unread.files} of {number_of(unread.found, 'transcript')} were "
            f"read. Installation continues, and {'the service' if has_service else '`engram up`'} reads the rest. "
            "To undo everything, type: engram uninstall",
            err=True,
        )
    except EngramError as error:
        advise(f"The import failed: {error}. It will be tried again in the background, or by `engram up`.", err=True)
    return {}


def reading_time(new: Unread) -> str:
    """Return how long it takes to read what is new and to prepare its texts, in words."""
    return number_of(max(1, round(new.bytes * SECONDS_PER_BYTE / 60)), "minute")


def import_earlier(workspace: Workspace) -> str:
    """Import the earlier Engram's memories, except those imported before, and return a report line."""
    from engram.exchange.importing import Outcome, PlaceFinder, import_memories
    from engram.exchange.other_programs import open_source

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
    undo = f"`engram import --undo {report.run_id}` undoes that"
    return f"Imported {number_of(report.counts[Outcome.ADDED], 'memory')} from the earlier Engram; {undo}."


def say_unless(is_quiet: bool, text: str) -> None:
    if not is_quiet:
        say(text)


# -- The first screen: the user's own history, and a question that they once asked, with how it ended.

#: How many words a question may have to be shown to the user again.
_QUESTION_WORDS = range(4, 22)
_QUESTION = any_case(r"(?:why|how|what|which|where|when|is|are|does|do|did|can|could|should|warum|wie|was|welche)\b")
#: Patterns of questions that ask for a reason, and of others that "yes" does not answer.
_REASON = any_case(r"(?:why|how|warum|wie)\b")
_OPEN = any_case(r"(?:what|which|where|when|was|welche)\b")
#: Text that rules out a question: attachment paths, images, masked values, quotes that would end a shell string.
_UNFIT = lazy_regex(r"[\[\]@\"`$\\!<>{}]|https?:")
#: Questions that nobody asks again: they request work, or are about the moment or the assistant itself.
_REQUEST = any_case(
    r"(?:can|could|would|will|should|shall|may) (?:you|we|i)\b|"
    r"(?:are|is|did|do|does|have|has) (?:it|you|they|this|that)\b|"
    r".*\b(?:now|still|yet|again|already|yours?|you)\b"
)
#: Minimum number of a question's informative words that its answer must contain to be about the same thing.
_MIN_SHARED_WORDS = 2
#: Maximum number of questions that are tried.
_MAX_TRIES = 12


@dataclass(frozen=True, slots=True)
class OwnQuestion:
    """A question that the user once asked, and what a search for it finds now."""

    question: str
    hit: PublicHit

    @property
    def command(self) -> str:
        return f'engram recall "{self.question}"'


def history_lines(workspace: Workspace, existing: Existing) -> list[str]:
    """Return what is stored of the user's history, one sentence per line."""
    retention = existing.retention
    sources = [source for source in registry.discover(workspace.settings) if source.agent != HISTORY_AGENT]
    with workspace.store() as store:
        totals = count_totals(store)
        counts = count_projects(store)
        own = sum(number for agent, number in count_agents(store).items() if agent != HISTORY_AGENT)
        recovered, recovered_prompts = count_of_agent(store, HISTORY_AGENT)
        unread = {source.place for source in unread_of(store, sources)}
        has_forgotten = has_forgotten_turns(store)
    endangered = len(unread & {source.place for source in retention.expiring})
    if not totals.sessions:
        return []
    memories = counted(totals.memories, "memory") or "no memories"
    lines = [
        f"{counted(totals.sessions, 'session')} with {counted(sum(count.prompts for count in counts), 'prompt')} in "
        f"{counted(sum(bool(count.turns and count.name) for count in counts), 'project')}; {memories} so far."
    ]
    silent = len(sources) - own - len(unread)
    if unread:
        lines.append(f"{counted(len(unread), 'more transcript')} {'is' if len(unread) == 1 else 'are'} not read yet.")
    elif silent > 0:
        lines.append(_silent_line(silent, has_forgotten=has_forgotten))
    if expiring := len(retention.expiring):
        safe = f"{'It is' if expiring == 1 else 'They are'} safe in Engram now."
        some = "It is" if expiring == 1 else f"{endangered} of them {'is' if endangered == 1 else 'are'}"
        unsafe = f"{some} not read yet."
        lines.append(
            f"Claude Code deletes {expiring} of its {counted(retention.sessions, 'transcript')} within "
            f"{SOON_DAYS} days (it keeps them for {retention.days}). {unsafe if endangered else safe}"
        )
    elif retention.sessions:
        lines.append(f"Claude Code deletes sessions after {retention.days} days. Engram keeps what was said in them.")
    if recovered:
        lines.append(
            f"Recovered from history.jsonl: {counted(recovered_prompts, 'prompt')} of "
            f"{counted(recovered, 'session')} that Claude Code has deleted."
        )
    return lines


def _silent_line(silent: int, *, has_forgotten: bool) -> str:
    """Return why transcripts were read and nothing of them is stored, as far as it is known."""
    is_one = silent == 1
    reasons = ["contains no prompt of its own" if is_one else "contain no prompts of their own"]
    reasons += [f"{'was' if is_one else 'were'} forgotten"] * has_forgotten
    left_out = f"{'is' if is_one else 'are'} left out by your settings"
    return f"{counted(silent, 'more transcript')} {', '.join(reasons)}, or {left_out}."


def find_own_question(store: Store, settings: Settings) -> OwnQuestion | None:
    """Return the question, of the user's latest ones, that its own session answers best; None if none is answered.

    Questions that ask for a reason take precedence, then those that "yes" does not answer. Among equals, the question
    with the largest share of its informative words in its answer wins. The search uses only words, not the model.
    """
    asked = [(prompt.session_id, text) for prompt in latest_turn_prompts(store) if (text := _as_question(prompt.text))]
    asked.sort(key=lambda one: -_openness(one[1]))
    best, most = None, (0, 0.0)
    for session_id, text in asked[:_MAX_TRIES]:
        request = RecallRequest(Operation.RECALL, text, limit=3, project_id=None, max_hits=3)
        hits = ask_memory(store, settings, request, with_worker=False, with_model=False).hits
        if not (hits and hits[0].session_id == session_id and not hits[0].is_doubtful):
            continue
        answer = f"{_without_question(hits[0].text, text)}\n{hits[0].outcome}"
        wanted = stems(topic_words(text))
        shared = len(wanted & stems(topic_words(answer)))
        value = (_openness(text), shared / max(len(wanted), 1))
        if shared >= _MIN_SHARED_WORDS and value > most:
            best, most = OwnQuestion(text, hits[0]), value
    return best


def _openness(question: str) -> int:
    """Return 2 for a question that asks for a reason, 1 for another that "yes" does not answer, else 0."""
    return 2 if _REASON.match(question) else 1 if _OPEN.match(question) else 0


def _without_question(text: str, question: str) -> str:
    """Return the lines of a hit without the question itself, whoever is named as its speaker."""
    return "\n".join(line for line in text.splitlines() if not " ".join(line.split()).endswith(question))


def print_history(lines: Sequence[str], question: OwnQuestion | None) -> None:
    """Print what is stored of the user's history, and one of their questions with its answer."""
    if not lines:
        return
    click.secho("\nYour history is kept", bold=True)
    for line in lines:
        say_wrapped(line, first="  ", rest="  ")
    if question is not None:
        click.secho("You asked once, and can ask again:", bold=True)
        advise(f"  {question.command}")
        text = _without_question(question.hit.text, question.question)
        print_excerpt(hit_result(replace(question.hit, text=text)))


def _as_question(prompt: str) -> str:
    """Return a prompt as one line if it is a question that can be typed again; else ""."""
    text = " ".join(visible(prompt).split())
    is_question = text.endswith("?") and bool(_QUESTION.match(text)) and len(text.split()) in _QUESTION_WORDS
    is_asked_again = _REASON.match(text) or not _REQUEST.match(text)
    is_fit = is_asked_again and not _UNFIT.search(text) and text.count("?") == 1
    return text if is_question and is_fit else ""
