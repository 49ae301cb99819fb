"""``engram tasks``: what is running, waiting, done and failed; ``engram consolidate`` and ``propose``: do it now."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from engram.cli.options import (
    DefaultGroup,
    confirm,
    duration_option,
    json_command,
    limit_option,
    require_alone,
    tell,
    yes_option,
)
from engram.cli.output import local, one_line, print_facts, print_json, print_table, safe, say, when
from engram.cli.results import print_rest
from engram.cli.workspace import Workspace, advise, chosen_project
from engram.consolidation.consolidation_run import consolidate as run_consolidation
from engram.consolidation.undo import undo_run
from engram.embedding.embedder import duplicate_cosine
from engram.enums import Actor
from engram.errors import EngramError
from engram.memories.propose import MIN_NEEDED_SESSIONS, Proposal, apply_proposal, propose_lines
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import list_runs
from engram.models.work import work
from engram.models.work.task_runs import RunState, list_task_runs
from engram.models.work.work import FOREVER_MS, TASKS_SCOPE, Work, WorkState
from engram.models.work.work import pause as pause_scope
from engram.models.work.work import resume as resume_scope
from engram.reports.memory_report import undo_in_words
from engram.reports.task_report import failure_of_tasks, find_piece, find_tasks, rows_of_work, run_row, work_row
from engram.reports.use_report import run_to_json
from engram.system.clock import iso_or_none
from engram.trust.display import number_of, span

# -- Tables of work and runs, and the queue's messages, as ``engram tasks`` prints them.


def queue_rows(workspace: Workspace) -> list[dict[str, Any]]:
    """Return the messages in the queue. There may be no queue: it only notifies the worker, so nothing is lost."""
    if not workspace.places.queue_db.exists():
        return []
    from engram.tasks.queue import JsonSerializer, huey

    huey.bind(workspace.places, workspace.settings.sqlite_driver)
    rows: list[dict[str, Any]] = []
    for data in huey.storage.waiting():
        row = {"id": "?", "name": "?", "args": [], "state": "queued", "attempts": 0, "error": None}
        try:
            message = JsonSerializer().deserialize(data)
            row |= {"id": message.id, "name": message.name, "args": list(message.args)}
        except EngramError as error:
            row["error"] = str(error)
        rows.append(row)
    return rows


def print_work(rows: Sequence[Mapping[str, Any]], empty: str) -> None:
    """Print pieces of work and messages as a table."""
    print_table(
        ["id", "name", "about", "state", "due", "tries#", "last error"],
        [
            (
                row["id"][:8],
                row["name"],
                _about(row["args"]),
                f"running {span(row['running_seconds'])}" if row["state"] == "running" else row["state"],
                local(row.get("due_at")),
                row["attempts"],
                one_line(row["error"] or "", 80),
            )
            for row in rows
        ],
        empty=empty,
    )


def print_runs(rows: Sequence[Mapping[str, Any]], empty: str) -> None:
    print_table(
        ["started", "name", "about", "state", "took", "outcome"],
        [
            (
                local(row["started_at"]),
                row["name"],
                _about(row["args"]),
                row["state"] if row["times"] == 1 else f"{row['state']} ×{row['times']}",
                "–" if (ms := row["duration_ms"]) is None else f"{ms} ms" if ms < 10_000 else span(ms / 1000),
                one_line(row["outcome"], 80),
            )
            for row in rows
        ],
        empty=empty,
    )


def _about(args: Collection[object]) -> str:
    return one_line(", ".join(map(str, args)), 14)


# -- ``engram tasks retry``, ``cancel``, ``pause`` and ``resume``: change what the worker does.


@click.command("retry")
@click.argument("task_ids", metavar="ID...", nargs=-1)
@click.option("--dead", "all_dead", is_flag=True, help="Retry all work that was given up (default: only the IDs).")
@json_command
def retry(workspace: Workspace, task_ids: tuple[str, ...], all_dead: bool, as_json: bool) -> None:
    """Make work due now, whether it is waiting, failed, given up or done.

    Example: engram tasks retry --dead
    """
    if not task_ids and not all_dead:
        raise click.UsageError("name the work by its ID, or use --dead")
    with workspace.store() as store:
        pieces = [find_piece(store, task_id) for task_id in dict.fromkeys(task_ids)]
        pieces += work.list_work(store, (WorkState.DEAD,)) if all_dead else []
        for piece in pieces:
            work.retry(store, piece.id)
    workspace.wake_worker()
    finished = sum(piece.state is WorkState.DONE for piece in pieces)
    which = "It" if len(pieces) == 1 else f"{finished} of them"
    again = f"{which} {'was' if finished == 1 else 'were'} already finished, and will be done again."
    _report(pieces, "due now", as_json, again if finished else "")


@click.command("cancel", short_help="Mark work as done without doing it.")
@click.argument("task_ids", metavar="ID...", nargs=-1, required=True)
@json_command
def cancel(workspace: Workspace, task_ids: tuple[str, ...], as_json: bool) -> None:
    """Mark work as done without doing it; a new change, such as a new turn, makes it due again.

    Example: engram tasks cancel 12
    """
    with workspace.store() as store:
        pieces = [find_piece(store, task_id) for task_id in dict.fromkeys(task_ids)]
        for piece in pieces:
            work.cancel(store, piece.id)
    _report(pieces, "cancelled", as_json)


@click.command("pause", short_help="Keep the worker from starting work.")
@duration_option("30m or 2h", end="engram tasks resume")
@json_command
def pause(workspace: Workspace, seconds: float | None, as_json: bool) -> None:
    """Keep the worker from starting work; transcripts are still read, and work that becomes due is left pending.

    Example: engram tasks pause --for 1h
    """
    with workspace.stores() as stores:
        until_ms = FOREVER_MS if seconds is None else stores[0].now_ms() + int(seconds * 1000)
        for store in stores:
            pause_scope(store, TASKS_SCOPE, until_ms)
    end = f"until {when(until_ms)}" if seconds else "until `engram tasks resume`"
    facts = {"paused": True, "until": iso_or_none(until_ms) if seconds is not None else None}
    tell(as_json, facts, f"Work is paused {end}: the worker starts no new work.")


@click.command("resume")
@json_command
def resume(workspace: Workspace, as_json: bool) -> None:
    """End the pause that `engram tasks pause` began.

    Example: engram tasks resume
    """
    with workspace.stores() as stores:
        were_paused = [resume_scope(store, TASKS_SCOPE) for store in stores]
    workspace.wake_worker()
    told = "Work continues." if any(were_paused) else "Work was not paused."
    tell(as_json, {"paused": False, "was_paused": any(were_paused)}, told)


def _report(pieces: list[Work], state: str, as_json: bool, note: str = "") -> None:
    facts = [{"id": str(piece.id), "name": piece.kind, "state": state} for piece in pieces]
    done = f"{number_of(len(pieces), 'piece')} of work: {state}." if pieces else "No work was given up."
    tell(as_json, {"tasks": facts}, f"{done} {note}".rstrip())


@click.group("tasks", cls=DefaultGroup)
def tasks() -> None:
    """Show and control tasks: running, due, scheduled, done, failed or given up (default: list).

    Example: engram tasks retry 12
    """


@tasks.command("list", short_help="List running tasks and pieces of work.")
@click.option(
    "--all", "with_done", is_flag=True, help="Also list finished work (default: running, waiting, failed or given up)."
)
@json_command
def list_tasks(workspace: Workspace, with_done: bool, as_json: bool) -> None:
    """List running tasks, pieces of work with their state, and messages in the queue.

    running: a worker is doing it, and for how long. pending: due now. scheduled: due later. failed: will be tried again
    later. dead: given up; `engram tasks retry` makes it due. queued: a message that notifies the worker.

    Example: engram tasks list --json
    """
    states = tuple(WorkState) if with_done else (WorkState.DUE, WorkState.DEAD)
    with workspace.store() as store:
        rows = rows_of_work(store, states)
    rows += queue_rows(workspace)
    tell(as_json, {"tasks": rows}, lambda: print_work(rows, "Nothing is running or pending."))


@tasks.command("dead")
@json_command
def dead(workspace: Workspace, as_json: bool) -> None:
    """List work that was given up after too many failures.

    Example: engram tasks dead
    """
    with workspace.store() as store:
        rows = [work_row(piece, store.now_ms()) for piece in work.list_work(store, (WorkState.DEAD,))]
    tell(as_json, {"tasks": rows}, lambda: print_work(rows, "No work was given up."))


@tasks.command("runs", short_help="List what ran recently, latest first.")
@click.argument("name", metavar="[NAME]", default="")
@click.option("--failed", is_flag=True, help="Only runs that failed or were interrupted (default: all).")
@limit_option(20, "runs")
@json_command
def runs(workspace: Workspace, name: str, failed: bool, limit: int, as_json: bool) -> None:
    """List what ran recently, latest first: when it started, how long it took, and its outcome.

    NAME is a task (such as scan) or what a task is about (a session id). Fifty runs of each task are kept, and fifty
    failed ones. Consecutive runs that had nothing to do are printed as one line with their number.

    Example: engram tasks runs scan
    """
    states = (RunState.FAILED, RunState.INTERRUPTED) if failed else tuple(RunState)
    with workspace.store() as store:
        every = list_task_runs(store, name=name, states=states, limit=None)
        rows = [run_row(run, store.now_ms()) for run in every[:limit]]
    if as_json:
        print_json({"runs": rows})
    else:
        print_runs(rows, "No such run is recorded.")
        print_rest(len(every), len(rows))


@tasks.command("show", short_help="Show a task with its latest runs and failure.")
@click.argument("name", metavar="ID|NAME")
@json_command
def show(workspace: Workspace, name: str, as_json: bool) -> None:
    """Show a task with its latest runs and its latest failure, including the traceback.

    ID is the number of a piece of work in `engram tasks list`; NAME is a task (such as scan) or what a task is about (a
    session id).

    Example: engram tasks show 12
    """
    with workspace.store() as store:
        pieces, latest = find_tasks(store, name)
        facts = [work_row(piece, store.now_ms()) for piece in pieces]
        rows = [run_row(run, store.now_ms()) for run in latest]
        failure = failure_of_tasks(store, pieces, latest)
    if as_json:
        print_json({"tasks": facts, "runs": rows, "failure": failure})
        return
    for fact in facts:
        shown = fact | {key: local(at) for key, at in fact.items() if key.endswith("_at") and at}
        print_facts((shown | {"args": ", ".join(fact["args"])}).items())
        click.echo()
    print_runs(rows, "No run is recorded.")
    if failure is not None:
        say(f"\nLatest failure, {local(failure['started_at'])}: {failure['outcome']}\n{failure['traceback']}")


for command in (retry, cancel, pause, resume):
    tasks.add_command(command)


# -- Consolidate the memories now, preview that, or undo a run; propose lines for CLAUDE.md.


@click.command("consolidate")
@click.option("--preview", "--dry-run", "dry_run", is_flag=True, help="Show what would change (default: change it).")
@click.option(
    "--undo",
    "undo_id",
    type=click.IntRange(1),
    default=None,
    metavar="RUN",
    help="Undo the changes of a run (default: consolidate).",
)
@click.option(
    "--list",
    "only_list",
    is_flag=True,
    help="List the latest runs: of this command, and of extractions, saves and decisions (default: consolidate).",
)
@json_command
def consolidate(workspace: Workspace, dry_run: bool, undo_id: int | None, only_list: bool, as_json: bool) -> None:
    """Archive duplicates, merge similar memories, replace outdated ones, fade unused ones, and graduate proven ones.

    The worker does this every four hours. Nothing is deleted; every change is logged and can be undone.

    Example: engram consolidate --preview
    """
    require_alone("undo_id", "only_list")
    with workspace.store() as store:
        if only_list:
            _list(store, as_json)
            return
        if undo_id is not None:
            lines = undo_run(store, workspace.settings, undo_id, actor=Actor.USER)
            facts: dict[str, Any] = {"run": undo_id, "undone": True, "lines": lines}
        else:
            facts = _consolidate(workspace, store, dry_run)
    workspace.wake_worker()
    if as_json:
        print_json(facts)
        return
    for line in facts["lines"]:
        click.echo(safe(undo_in_words(line)))
    for line in facts.get("not_graduating", ()):
        click.echo(f"not graduating yet: {one_line(line, 160)}")
    advise(_sentence(facts))


def _consolidate(workspace: Workspace, store: Store, dry_run: bool) -> dict[str, Any]:
    from engram.embedding.load_model import load_model
    from engram.search.vectors.loaded_vectors import similar_pairs
    from engram.tasks.runtime import find_model_steps

    embedder, _ = load_model(workspace.settings)
    distilling, reconciling = find_model_steps(workspace.settings, store)
    report = run_consolidation(
        store,
        workspace.settings,
        similar=None if embedder is None else partial(similar_pairs, store, embedder.model_id),
        duplicate_cosine=duplicate_cosine(embedder),
        distilling=distilling,
        reconciling=reconciling,
        is_dry=dry_run,
        is_forced=True,
    )
    return {
        "run": report.run_id or None,
        "dry": dry_run,
        "has_run": report.has_run,
        "complete": report.is_complete,
        "lines": list(report.lines),
        "not_graduating": list(report.not_graduating),
    }


def _sentence(facts: dict[str, Any]) -> str:
    if facts.get("undone"):
        return f"Run {facts['run']} was undone."
    if not facts["has_run"]:
        return "Another process is consolidating. Nothing was done; try again later."
    if facts["dry"]:
        return "Nothing was changed." if facts["lines"] else "There is nothing to do."
    return f"Done. To undo it, run: engram consolidate --undo {facts['run']}"


def _list(store: Store, as_json: bool) -> None:
    rows = [run_to_json(run) for run in list_runs(store)]
    cells = [(row["run"], row["kind"], local(row["started_at"]), row["state"], row["changes"]) for row in rows]
    headings = ["run#", "kind", "started", "state", "changes#"]
    tell(as_json, {"runs": rows}, lambda: print_table(headings, cells, empty="No runs yet."))


# -- ``engram propose``: show lines for CLAUDE.md that are needed repeatedly, as a diff.


@click.command("propose")
@click.option(
    "--project", metavar="NAME", default=None, help="The project's name or folder (default: the current folder's)."
)
@click.option(
    "--to",
    "target",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="The file for the project's lines, such as .claude/rules/learned.md (default: its CLAUDE.md).",
)
@click.option("--apply", "is_applied", is_flag=True, help="Write the lines after asking (default: only show them).")
@yes_option
@json_command
def propose(
    workspace: Workspace, project: str | None, target: Path | None, is_applied: bool, yes: bool, as_json: bool
) -> None:
    """Show lines for CLAUDE.md as a diff: your rules that were said or used in three sessions.

    Rules of a project go into its CLAUDE.md; rules for all projects, and rules that you gave in two projects, go into
    your personal one. Rules that your CLAUDE.md or rules files already contain are left out. Nothing is written without
    --apply.

    Example: engram propose --apply
    """
    with workspace.store() as store:
        place = chosen_project(store, workspace.settings, project)
        proposals = propose_lines(store, workspace.settings, place, target)
    diffs = safe("\n".join(proposal.diff for proposal in proposals))
    if is_applied and proposals:
        if not as_json:
            click.echo(diffs)
        files = ", ".join(str(proposal.path) for proposal in proposals)
        confirm(yes, as_json, f"Write this to {files}?")
        for proposal in proposals:
            apply_proposal(proposal)
        workspace.wake_worker()
    if as_json:
        print_json({"applied": is_applied, "proposals": [_to_json(proposal) for proposal in proposals]})
    elif not proposals:
        say(
            f"Nothing to propose: no rule that was said or used in {MIN_NEEDED_SESSIONS} sessions is missing from your "
            "files."
        )
    elif is_applied:
        say("Written.")
    else:
        click.echo(diffs)
        advise("Nothing was written. `engram propose --apply` writes it.")


def _to_json(proposal: Proposal) -> dict[str, object]:
    return {
        "path": str(proposal.path),
        "diff": proposal.diff,
        "lines": [
            {"id": line.episode_id, "text": line.text, "said_sessions": line.said, "used_sessions": line.used}
            for line in proposal.lines
        ],
    }
