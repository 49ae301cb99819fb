"""``engram status``, ``doctor``, ``logs`` and ``ui``: check the health of every stage, and open the page."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import click

from engram.cli import options
from engram.cli.options import json_command, limit_option, tell
from engram.cli.output import fitting_lines, print_facts, print_json, print_table, safe, say, to_json, when
from engram.cli.results import pauses_in_words
from engram.cli.workspace import Workspace, advise, as_called_here
from engram.consolidation.rejudge import Picked, picked_memories
from engram.errors import HomeError, StoreError
from engram.extraction.model.claude_provider import find_claude
from engram.extraction.model.compare_extractors import answer_of
from engram.log import LOG_KINDS, LogKind, read_records
from engram.models.engine.meta import get_meta, put_meta
from engram.models.engine.transaction import Store
from engram.models.rescue.restore import list_rescues
from engram.models.sessions.stored_turns import SecondChances, second_chances
from engram.models.shown import usage
from engram.models.work.work import current_pauses
from engram.page.open_page import ensure_page, open_browser, stop_page
from engram.page.page_access import ADDRESS, make_entry
from engram.paths import Home, current_folder
from engram.reports.engram_checks import Check, State, explain_missing, find_missing
from engram.reports.health import FEW, STAGE_NAMES, Health, disk_trouble, home_bytes, status_to_json, take_health
from engram.reports.hub_report import report_hubs
from engram.reports.processes import ProcessState, is_held
from engram.settings import MODEL_EXTRACTORS, Settings
from engram.setup.doctor.doctor_report import apply_fixes, write_report
from engram.setup.doctor.machine_checks import Machine, restarting, run_checks
from engram.transcripts.registry import present_folders, skipped, title_of
from engram.trust.display import counted, number_of, span
from engram.vaults import settings_around
from engram.version import code_version
from engram.worker.worker_client import ask_status

#: Meta key that says that the offer was made.
_OFFER_KEY = "offered_claude_extractor"
_OFFER = (
    "Memories are made by rules now. Your own Claude Code can write them instead, with your login: far more "
    "prompts then get a memory that helps. Redacted text from your sessions goes to Anthropic, within the caps that "
    "`engram cost` shows. To see one of your sessions both ways first, run: engram compare. To turn it on, run: "
    "engram config set extractor claude"
)


@click.command("status")
@click.option(
    "-v", "--verbose", is_flag=True, help="Also show every stage of the work (default: only what failed or is behind)."
)
@json_command
def status(workspace: Workspace, verbose: bool, as_json: bool) -> None:
    """Show what is running, how much was read and stored, what is pending, and what failed.

    A stage is one kind of work, such as reading or making memories. Each is shown with how much of it came in, how much
    is done, and how long the oldest remaining item has waited.

    Example: engram status --json
    """
    with workspace.store() as store:
        health = take_health(store, workspace.settings)
        projects = usage.count_projects(store)
        agents = usage.count_agents(store)
        paused = current_pauses(store)
        pauses = pauses_in_words(store, paused)
        chances = second_chances(store) if workspace.settings.extractor in MODEL_EXTRACTORS else None
        offer = "" if as_json else _offer_claude(store, workspace.settings)
        hubs = report_hubs(store)
        picked = picked_memories(store)
        rescues = list(list_rescues(store).values())
    serving = settings_around(workspace.settings).places
    worker = ask_status(serving) if health.worker.is_alive else None
    if as_json:
        facts = status_to_json(health, projects, agents, list(paused), workspace.settings)
        facts["hubs"] = [report.to_json() for report in hubs]
        facts["second_chance"] = chances and {
            "done": chances.done,
            "waiting": chances.waiting,
            "paused": _pause(chances, health) or None,
        }
        facts["picked"] = None if picked is None else dataclasses.asdict(picked)
        print_json(facts | {"worker": ({} if worker is None else worker.to_json()) | health.worker.as_json()})
        return
    totals = health.totals
    not_read = skipped(workspace.settings)
    print_facts(
        [
            ("engram", as_called_here(_off(serving, health))),
            ("disk", disk_trouble(serving)),
            ("paused", ", ".join(pauses)),
            ("worker", as_called_here(_worker(health.worker, serving, answers=worker is not None))),
            ("watcher", as_called_here(_process(health.watcher, serving))),
            ("model", f"{worker.model}, run by {worker.runtime}" if worker and worker.model else ""),
            ("extractor", _extractor(workspace.settings)),
            ("rewritten by model", _second_chances(chances, health)),
            ("memory folder", f"{workspace.settings.home}, {home_bytes(workspace.settings.home) / 1e6:.1f} MB"),
            ("transcripts", _transcripts(workspace.settings, health)),
            (
                "agents",
                ", ".join(f"{title_of(name)} ({number_of(number, 'session')})" for name, number in agents.items()),
            ),
            (
                "read",
                f"{number_of(totals.turns, 'turn')} of {number_of(totals.sessions, 'session')} in "
                f"{number_of(totals.projects, 'project')}",
            ),
            (
                "kept",
                f"{number_of(totals.memories, 'memory')}, {totals.superseded} replaced, {totals.archived} archived"
                + f" ({FEW})" * (workspace.settings.extractor == "local"),
            ),
            (
                "held back",
                as_called_here(f"{number_of(totals.suspects, 'memory')} that look like planted orders: `engram review`")
                if totals.suspects
                else "",
            ),
            ("picked by rules", "" if picked is None else as_called_here(_picked(picked))),
            ("shown to Claude", f"{number_of(totals.injections, 'time')}"),
            ("waiting", _waiting(health)),
            (
                "unreadable",
                f"{number_of(totals.bad_lines, 'line')}, {number_of(totals.unreadable, 'file')}"
                if totals.bad_lines or totals.unreadable
                else "",
            ),
            (
                "not read",
                as_called_here(f"{len(not_read)} files, folders and links: see `engram doctor`") if not_read else "",
            ),
            *(("hub", report.line()) for report in hubs),
            *(("rescued", as_called_here(text)) for text in rescues),
        ]
    )
    _print_stages(health, every=verbose)
    if offer:
        advise(f"\n{offer}")


def _waiting(health: Health) -> str:
    """Return what remains to be done; texts that are not prepared yet are found only by their words."""
    texts = counted(health.missing_vectors, "text")
    what = [health.tasks, f"{texts} to prepare for the search by meaning" if texts else ""]
    return ", ".join(filter(None, what)) or "nothing"


def _print_stages(health: Health, *, every: bool) -> None:
    """Print the stages of the work: all of them, or only those that have failed or are behind."""
    stages = {name: stage for name, stage in health.stages.items() if every or stage.has_trouble}
    if not stages:
        return
    click.echo()
    print_table(
        ["stage", "in#", "done#", "behind", "last success", "last error"],
        [
            (
                STAGE_NAMES.get(name, name),
                stage.seen,
                stage.done,
                span(stage.lag_seconds),
                when(stage.last_success_ms),
                stage.last_error or "–",
            )
            for name, stage in stages.items()
        ],
        empty="",
    )


def _transcripts(settings: Settings, health: Health) -> str:
    folders = [str(folder) for _, folder in present_folders(settings)]
    if not folders:
        return as_called_here(f"{explain_missing(settings)}: see `engram doctor`")
    gone = "" if settings.claude_folder.is_dir() else f"; {explain_missing(settings)}"
    return f"{', '.join(folders)} ({number_of(health.unread.found, 'file')}){gone}"


def _extractor(settings: Settings) -> str:
    model = {"claude": settings.claude_model, "openai": settings.llm_model}.get(settings.extractor, "")
    missing = find_missing(settings)
    if missing is not None:
        return f"{missing.detail.removeprefix('extractor = ')} (`engram doctor` says what to do)"
    if settings.extractor == "local":
        return "local (rules on this machine)"
    return f"{settings.extractor} ({model})" if model else settings.extractor


def _second_chances(chances: SecondChances | None, health: Health) -> str:
    """Return how many of the local extractor's sessions were distilled again; "" without a language model."""
    if chances is None or not (chances.done or chances.waiting):
        return ""
    pause = _pause(chances, health)
    return f"{number_of(chances.done, 'session')}, {chances.waiting} waiting" + (f" ({pause})" if pause else "")


def _pause(chances: SecondChances, health: Health) -> str:
    """Return why waiting sessions are not distilled; "" if nothing pauses them."""
    stage = health.stages.get("second chance")
    return stage.last_error if chances.waiting and stage is not None else ""


def _picked(picked: Picked) -> str:
    """Return what happens to memories that an earlier version picked by rules."""
    if picked.waiting:
        waiting = number_of(picked.waiting, "memory")
        return f"{waiting} to archive soon: see `engram consolidate --preview`"
    archived = number_of(picked.archived, "memory")
    return f"{archived} archived; to undo that, run: engram consolidate --undo {picked.run_id}"


def _off(places: Home, health: Health) -> str:
    """Return a message that Engram is off and, if known, why; "" while the worker or the watcher runs."""
    if health.worker.is_alive or health.watcher.is_alive:
        return ""
    lock = places.supervisor_lock
    was_killed = lock.exists() and lock.stat().st_size > 0 and not is_held(lock)
    why = "; its supervisor is no longer running" if was_killed else ""
    start = (
        "Run: engram service start"
        if places.install_journal.is_file()
        else "Engram is not installed. Run: engram install"
    )
    return f"OFF: nothing is read, and Claude is shown nothing{why}. {start}"


def _worker(state: ProcessState, places: Home, *, answers: bool) -> str:
    described = _process(state, places)
    silent = "but it does not answer: it is starting, or it hangs. See `engram doctor`"
    return described if answers or not state.is_alive else f"{described}, {silent}"


def _process(state: ProcessState, places: Home) -> str:
    if not state.is_alive:
        return "not running"
    memory = f", {state.rss_mb:.0f} MB" if state.rss_mb else ""
    advice = "install the same version there" if state.is_elsewhere else "run `engram install`"
    older = "" if state.code == code_version() else f", with code other than what is installed now: {advice}"
    hung = ""
    if state.hangs:
        hung = f", no sign of life for {state.silent_seconds:.0f} s: {restarting(places)['advice']}"
    return f"running, {state.described}{memory}{older}{hung}"


# -- ``engram doctor``: what is wrong, and what to do about it.

#: State → its colour, in the order of printing: what does not work comes first.
_COLOURS = {State.BAD: "red", State.WARN: "yellow", State.NOTE: "cyan", State.OK: "green"}


def _offer_claude(store: Store, settings: Settings) -> str:
    """Return, once per memory folder, the offer to use Claude as the extractor, unless the user was asked elsewhere."""
    was_made = get_meta(store, _OFFER_KEY) or answer_of(store) is not None
    if settings.extractor != "local" or was_made or find_claude(settings) is None:
        return ""
    try:
        with store.transaction() as tx:
            if get_meta(store, _OFFER_KEY):
                return ""
            put_meta(tx, _OFFER_KEY, str(store.now_ms()))
    except StoreError:  # the offer can't be recorded, so it is made later
        return ""
    return _OFFER


@click.command("doctor")
@click.option(
    "--fix",
    "is_fixed",
    is_flag=True,
    help="Repair what can be repaired safely: modes of the memory folder, the hooks' interpreter, processes that are "
    "down, hung or outdated (default: only say what to do).",
)
@click.option(
    "--report",
    "is_report",
    is_flag=True,
    help="Print a text for a bug report, without paths, names or contents (default: the findings).",
)
@click.option(
    "--quick",
    "is_quick",
    is_flag=True,
    help="Don't read the whole database (default: read it, which takes seconds per 10,000 memories).",
)
@json_command
@click.pass_context
def doctor(
    ctx: click.Context, workspace: Workspace, is_fixed: bool, is_report: bool, is_quick: bool, as_json: bool
) -> None:
    """Check everything and suggest what to do. The exit code is 1 if something does not work.

    Checks the program and its interpreter, other programs of the same name, the database and who can read and write the
    memory folder, the transcripts and whether Claude Code is about to delete some, the service, whether the watcher and
    the worker run, make progress and use the installed code, the models, the hooks or the plugin, the MCP server and
    its permission, an earlier or a half-done installation, stages that fail or are behind, unreadable lines, and tasks
    that were given up.

    Example: engram doctor --fix
    """
    if is_report and (as_json or is_fixed):
        raise click.UsageError("--report can't be combined with other options")
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
    facts = {"ok": is_well, "fixed": done, "checks": [dataclasses.asdict(check) for check in checks]}
    tell(as_json, facts, lambda: show_checks(checks, done))
    if is_fixed and not done and not as_json and not is_well:
        advise("`engram doctor --fix` can repair none of this: follow the arrows.")
    ctx.exit(options.OK if is_well else options.FAILED)


def show_checks(checks: list[Check], done: list[str]) -> None:
    """Print the findings, starting with what does not work, and a summary line. Advice for several is printed once."""
    for line in done:
        say(f"fixed: {line}" if not line.startswith("could not") else line)
    order = list(_COLOURS)
    alike: dict[str, list[Check]] = {}
    for check in sorted(checks, key=lambda check: order.index(check.state)):
        alike.setdefault(check.command or check.advice or check.state.value, []).append(check)
    for group in alike.values():
        for check in group:
            state = click.style(f"{check.state.value:<5}", fg=_COLOURS[check.state])
            first, *more = fitting_lines(f"{check.name}: {check.detail}", 5)
            click.echo(state + first)
            for line in more:
                click.echo(" " * 5 + line)
        advice = check.advice if len({check.advice for check in group}) == 1 else f"run: {check.command}"
        for line in fitting_lines(as_called_here(f"→ {advice}"), 5) if advice else ():
            click.echo(" " * 5 + line)
    wrong = sum(check.state is State.BAD for check in checks)
    open_questions = sum(check.state is State.WARN for check in checks)
    if wrong or open_questions:
        does_not_work = f"{wrong} {'thing does' if wrong == 1 else 'things do'} not work"
        to_look_at = f"{number_of(open_questions, 'thing')} to look at"
        parts = [does_not_work] * bool(wrong) + [to_look_at] * bool(open_questions)
        is_fixable = any(check.fix and check.state is not State.OK for check in checks)
        mends = " `engram doctor --fix` makes the safe repairs." if is_fixable else ""
        advise(f"\n{', '.join(parts)}.{mends}")
    else:
        click.echo("\nAll is well.")


@contextlib.contextmanager
def _machine(workspace: Workspace, is_quick: bool) -> Iterator[Machine]:
    """Yield what the checks examine: this machine, with the open memory or the reason why it can't be opened."""
    faults = workspace.load_around_faults()
    settings, folder = workspace.settings, Path(current_folder())
    with contextlib.ExitStack() as opened:
        try:
            store = opened.enter_context(workspace.store())
            health = take_health(store, settings)
            machine = Machine(settings, folder, store, health, is_quick=is_quick, faults=faults)
        except (HomeError, StoreError) as error:
            machine = Machine(settings, folder, error=error, faults=faults)
        yield machine


# -- ``engram ui``: open the local page in the browser.


@click.command("ui")
@click.option("--no-open", is_flag=True, help="Print the address instead of opening a browser (default: open one).")
@click.option(
    "--stop", is_flag=True, help="Stop the page (default: open it; it stops automatically after 30 idle minutes)."
)
@json_command
def ui(workspace: Workspace, no_open: bool, stop: bool, as_json: bool) -> None:
    """Open the page where you see, explain and correct what is remembered.

    It runs on this machine only, in a process of its own, and ends after 30 minutes without use. A second call opens
    the page that is already running. The printed address works once, within a minute.

    Example: engram ui
    """
    if stop and no_open:
        raise click.UsageError("--stop opens nothing: leave out --no-open")
    workspace.require_home()
    places = workspace.places.prepare()
    if stop:
        was_running = stop_page(places)
        tell(as_json, {"stopped": was_running}, "The page has ended." if was_running else "No page is running.")
        return
    page = ensure_page(places, workspace.flags, workspace.vault)
    entry, url = make_entry(places.page_entries, page.port)
    is_open = not no_open and open_browser(entry, url)
    if as_json:
        # One line, for scripts that read a single line.
        click.echo(to_json({"url": url}))
    elif is_open:
        advise(f"The page is open in your browser (http://{ADDRESS}:{page.port}). `engram ui --stop` stops it.")
    else:
        say(f"Open this address within a minute; it works once:\n{url}")
        advise("The page ends after half an hour without use; `engram ui --stop` stops it.")


# -- ``engram logs``: the latest log records, from all processes or from one.


@click.command("logs")
@click.argument("kind", type=click.Choice(LOG_KINDS), required=False)
@limit_option(40, "records", "--lines")
@click.option("--errors", is_flag=True, help="Only warnings and errors (default: all records).")
@json_command
def logs(workspace: Workspace, kind: LogKind | None, limit: int, errors: bool, as_json: bool) -> None:
    """Show the latest log records, in chronological order.

    Example: engram logs worker --errors
    """
    workspace.pass_over_faults()
    workspace.require_home()
    folder = workspace.places.logs
    kinds = LOG_KINDS if kind is None else (kind,)
    merged = heapq.merge(*(read_records(folder, name) for name in kinds))
    latest = deque((record for record in merged if record.is_problem or not errors), maxlen=limit)
    if as_json:
        print_json({"records": [{"process": record.kind, "text": record.text} for record in latest]})
        return
    for record in latest:
        say(f"{record.kind}: {safe(record.text)}" if kind is None else safe(record.text))
    if not latest:
        say(f"No errors are recorded in {folder}." if errors else f"No records in {folder}.")
