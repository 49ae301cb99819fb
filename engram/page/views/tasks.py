"""The tasks: what is running or waiting, and what failed or was given up, with tracebacks."""

from __future__ import annotations

import contextlib
import dataclasses
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from engram.errors import BadRequest
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_vaults
from engram.models.sessions.sessions import session_titles, sessions_of
from engram.models.work import work
from engram.models.work.task_runs import RunState, list_task_runs
from engram.models.work.work import FOREVER_MS, TASKS_SCOPE, Work, WorkState, paused_scopes
from engram.models.work.work import pause as pause_scope
from engram.models.work.work import resume as resume_scope
from engram.page.view import Answer, Notice, PageRequest, Route, View, number_in
from engram.reports.task_report import failure_of_tasks, find_piece, find_tasks, rows_of_work, run_row, work_row
from engram.trust.display import cut_at_word

#: Maximum number of pieces of work and of runs listed, and of pieces shown for one task.
MAX_ROWS, MAX_RUNS, MAX_PIECES = 30, 15, 8
#: Maximum length of what a task is about, if that is no known session, in characters.
MAX_KEY_CHARACTERS = 36
#: State of a piece of work → the word for it on the page.
WORDS = {
    "dead": "given up",
    "failed": "failed",
    "running": "running",
    "pending": "waiting",
    "scheduled": "scheduled",
    "done": "done",
}
#: State of a run → the word for it on the page.
RUNS = {"running": "running", "done": "done", "failed": "failed", "interrupted": "did not finish"}
#: Task → what it does, for display.
WHAT = {
    "consolidate": "Consolidate memories",
    "embed": "Prepare the search by meaning",
    "extract": "Make memories",
    "flush": "Read the end of a session",
    "index_notes": "Read notes for the search",
    "ingest": "Read a session",
    "load_vectors": "Load the search by meaning",
    "log": "Write the daily log",
    "recollect": "Choose memories",
    "refresh": "Choose memories again",
    "scan": "Look for what to do next",
    "sync": "Exchange with other machines",
}
#: Why work is due, as it is stored → in words.
WHY = {
    "flush": "the session was compacted or ended",
    "messages": "something new was said",
    "prompt": "a prompt was sent",
}
#: Name of a pause → its length in seconds; 0 for a pause without an end.
PAUSES = {"30m": 1_800, "1h": 3_600, "": 0}


def show_one(request: PageRequest) -> Answer:
    """Show one piece of work, or the runs of one task, with the latest failure."""
    name = request.path["name"]
    pieces, latest = find_tasks(request.store, name)
    now = request.store.now_ms()
    rows = sorted((work_row(piece, now) for piece in pieces), key=lambda row: _ORDER.index(row["state"]))
    # The runs tell what was done.
    rows = [row for row in rows if row["state"] != WorkState.DONE] or rows[: len(rows) == 1]
    runs = [run_row(run, now) for run in latest]
    titles = _name(request.store, [*rows, *runs])
    return Answer(
        "task.html",
        {
            "title": _title(request.store, pieces[0]) if len(pieces) == 1 else WHAT.get(name, name),
            "words": WORDS,
            "ended": RUNS,
            "why": WHY,
            "titles": titles,
            "pieces": rows[:MAX_PIECES],
            "more": max(0, len(rows) - MAX_PIECES),
            "runs": runs,
            "failure": failure_of_tasks(request.store, pieces, latest),
        },
    )


def _title(store: Store, piece: Work) -> str:
    """Return what a piece of work does, and for which session."""
    row = work_row(piece, store.now_ms())
    _name(store, [row])
    return str(row["title"])


def _name(store: Store, rows: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Give every row as its title what it does and for which session; return session id → title of the session."""
    titles = session_titles(store, sessions_of(store, [key for row in rows for key in row["args"]]).values())
    for row in rows:
        about = [titles.get(key) or cut_at_word(key, MAX_KEY_CHARACTERS) for key in row["args"] if key != "all"]
        row["title"] = ": ".join([WHAT.get(row["name"], row["name"]), *about])
    return titles


def retry(request: PageRequest) -> Answer:
    """Make a piece of work due now."""
    piece = find_piece(request.store, request.path["task_id"])
    work.retry(request.store, piece.id)
    return show(request, Notice(f"Due now: {_title(request.store, piece)}", _way_back(piece, piece.version + 1)))


def cancel(request: PageRequest) -> Answer:
    """Mark a piece of work as done without doing it."""
    piece = find_piece(request.store, request.path["task_id"])
    work.cancel(request.store, piece.id)
    return show(request, Notice(f"Cancelled: {_title(request.store, piece)}", _way_back(piece, piece.version)))


def put_back(request: PageRequest) -> Answer:
    asked = request.path
    piece = find_piece(request.store, asked["task_id"])
    due_at_ms, attempts, version, left = (number_in(asked[name]) for name in ("due", "attempts", "version", "left"))
    is_known = asked["state"] in [state.value for state in WorkState]
    if not is_known or due_at_ms is None or attempts is None or version is None or left is None:
        raise BadRequest("give the previous state of the work")
    before = dataclasses.replace(
        piece, state=WorkState(asked["state"]), due_at_ms=due_at_ms, attempts=attempts, version=version
    )
    if not work.put_back(request.store, before, version=left):
        raise BadRequest(f"the work {piece.id} has changed since then, so this can't be undone")
    return show(request, Notice("The work is as it was before."))


def end_of_pause_ms(request: PageRequest) -> int:
    """Return when a pause ends, in milliseconds since 1970: after the chosen time, or as before if it is restored."""
    seconds = PAUSES.get(request.form.get("time", ""))
    until_ms = number_in(request.path["until"]) if "until" in request.path else FOREVER_MS
    if seconds is None or until_ms is None:
        raise BadRequest("choose how long")
    return min(until_ms, request.store.now_ms() + seconds * 1000 if seconds else FOREVER_MS)


def pause(request: PageRequest) -> Answer:
    """Keep the worker from starting work for some time."""
    until_ms = end_of_pause_ms(request)
    with _everything(request) as stores:
        for store in stores:
            pause_scope(store, TASKS_SCOPE, until_ms)
    return show(request, Notice("Paused: the worker starts no new work.", ("tasks", "resume")))


def resume(request: PageRequest) -> Answer:
    with _everything(request) as stores:
        until_ms = max(resume_scope(store, TASKS_SCOPE) for store in stores)
    if not until_ms:
        return show(request, Notice("Work was not paused."))
    return show(request, Notice("Work has resumed.", ("tasks", "pause", str(until_ms))))


@contextlib.contextmanager
def _everything(request: PageRequest) -> Iterator[list[Store]]:
    """Open the vaults, too; one that can't be opened does not work either."""
    settings = request.settings
    with open_vaults(settings.places, driver=settings.sqlite_driver) as (vaults, _):
        yield [request.store, *vaults]


def _way_back(piece: Work, left: int) -> tuple[str, ...]:
    """Return the path that restores a piece of work to the state in ``piece`` as long as its version is ``left``."""
    numbers = (piece.due_at_ms, piece.attempts, piece.version, left)
    return ("tasks", str(piece.id), "back", piece.state.value, *map(str, numbers))


def show(request: PageRequest, notice: Notice | None = None) -> Answer:
    store = request.store
    rows = rows_of_work(store, (WorkState.DUE, WorkState.DEAD))
    now = store.now_ms()
    shown = sorted(rows, key=lambda row: _ORDER.index(row["state"]))[:MAX_ROWS]
    runs = [run_row(run, now) for run in list_task_runs(store, limit=MAX_RUNS, states=tuple(RunState))]
    values = {
        "rows": shown,
        "titles": _name(store, [*shown, *runs]),
        "more": max(0, len(rows) - MAX_ROWS),
        "states": Counter(row["state"] for row in rows),
        "runs": _folded(runs),
        "is_paused": TASKS_SCOPE in paused_scopes(store),
        "pauses": PAUSES,
        "words": WORDS,
        "ended": RUNS,
    }
    return request.answer("tasks.html", values, notice)


def _folded(rows: Iterable[dict[str, Any]]) -> list[tuple[dict[str, Any], int]]:
    """Merge consecutive equal runs; return the latest of each group with the number of runs in it."""
    runs = groupby(rows, key=lambda row: (row["name"], row["args"], row["state"], row["outcome"]))
    return [(same[0], sum(max(1, row["times"]) for row in same)) for same in (list(some) for _, some in runs)]


#: States in the order of the list: what needs the user's attention comes first.
_ORDER = ("dead", "failed", "running", "pending", "scheduled", "done")

VIEW = View(
    name="tasks",
    title="Tasks",
    key="k",
    path="tasks",
    is_more=True,
    routes=(
        Route("/tasks", show),
        Route("/tasks/pause", pause, method="POST"),
        Route("/tasks/pause/{until}", pause, method="POST"),
        Route("/tasks/resume", resume, method="POST"),
        Route("/tasks/{task_id}/retry", retry, method="POST"),
        Route("/tasks/{task_id}/cancel", cancel, method="POST"),
        Route("/tasks/{task_id}/back/{state}/{due}/{attempts}/{version}/{left}", put_back, method="POST"),
        Route("/tasks/{name}", show_one),
    ),
)
