"""Whether Engram is working: the stages with their lag, the processes, the checks, and the latest runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history
from engram.models.memories.memory_records import Memory
from engram.page.view import (
    Answer,
    Checked,
    Notice,
    PageRequest,
    Route,
    View,
    ask_command,
    count_broken,
    is_process,
    list_needs,
    list_troubles,
    name_memories,
    number_in,
    said,
    start_of,
    state_of,
)
from engram.reports.engram_checks import State
from engram.reports.health import STAGE_NAMES, Health, StageHealth, take_health, take_vitals
from engram.reports.hub_report import report_hubs
from engram.reports.memory_report import ACTIONS, undo_in_words
from engram.reports.use_report import REPORT_DAYS, late_of_days
from engram.trust.display import capitalised, number_of

#: Maximum number of runs listed, and of lines shown per run.
MAX_RUNS, MAX_LINES = 12, 60
#: Kind of run → what it did.
KINDS = {
    "consolidate": "Tidied",
    "extract": "Learned from a session",
    "save": "Saved a memory",
    "decide": "Decided by you",
    "undo": "Undone",
    "purge": "Purged",
    "import": "Imported",
}
#: Check → what it is about, in words that a new user knows.
TITLES = {
    "answers in time": "Answers in time",
    "cleanup": "Sessions that Claude Code will delete",
    "driver": "Database program",
    "given up": "Work that was given up",
    "hooks": "Connection to Claude Code",
    "MCP server": "Claude's own search",
    "memory folder": "Privacy of the memory folder",
    "model": "Search by meaning",
    "permission": "Permission for Claude's own search",
    "service": "Start after a reboot",
    "suspect": "Memories held back from Claude",
    "unreadable": "Lines that could not be read",
}
#: Failed check → its consequence, if the check's detail doesn't state it.
EFFECTS = {"hooks": "Without these hooks, Claude Code does not call Engram, and Claude is shown nothing:"}
#: Check → path and title of the view in which the user can resolve it.
WHERE = {
    "given up": ("tasks", "Tasks"),
    "moved project": ("projects", "Projects"),
    "suspect": ("decide", "To decide"),
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step from a transcript to Claude: its count, and how far it is behind."""

    name: str
    number: int
    #: What is counted.
    about: str
    #: What is pending, such as ``3 files to read``; "" for nothing.
    waiting: str
    lag_seconds: float
    is_broken: bool
    has_trouble: bool
    #: True if its process is not running.
    is_stopped: bool

    @property
    def is_late(self) -> bool:
        return self.is_broken or self.is_stopped or self.has_trouble or self.lag_seconds >= 60 or bool(self.waiting)


@dataclass(frozen=True, slots=True)
class Fix:
    """All findings that the same command or view resolves."""

    state: State
    #: Title and detail of each check.
    found: tuple[tuple[str, str], ...]
    #: The advice before the command, the command, and the advice after it.
    advice: tuple[str, str, str]
    #: Path and title of the view that resolves it; None if there is none.
    where: tuple[str, str] | None


def show_checks(request: PageRequest) -> Answer:
    """Show the checks of ``engram doctor --quick``, without the full check of the database."""
    checks = ask_command(request.settings, "doctor", "--quick")["checks"]
    vitals = take_vitals(request.store, request.settings)
    told = {name for trouble in vitals.troubles() for name in (trouble.about, f"stage {trouble.about}")}
    fixes = list_fixes(checks, told)
    bad = [fix for fix in fixes if fix.state is State.BAD]
    troubles = len(list_troubles(vitals))
    request.checked.broken = max(0, troubles + len(bad) - _count_quickly(request))
    frame = request.frame_values()
    values = {
        "frame": frame,
        "broken": count_broken(frame.needs),
        "bad": bad,
        "doubtful": [fix for fix in fixes if fix.state is State.WARN],
        "settled": [fix for fix in fixes if fix.state is State.NOTE],
        "fine": [(_title(check), check["detail"]) for check in checks if check["state"] == State.OK],
        "troubles": troubles,
    }
    return Answer("parts/checks.html", values)


def _count_quickly(request: PageRequest) -> int:
    """Return how many things every view finds broken without the checks."""
    vitals = take_vitals(request.store, request.settings, with_files=False)
    return count_broken(list_needs(request.store, vitals, request.settings, Checked()))


def list_fixes(checks: Sequence[Mapping[str, str]], told: Collection[str]) -> list[Fix]:
    """Return what failed checks call for, with one entry for all that the same command or view settles.

    Args:
        told: names of checks that are shown elsewhere.
    """
    by_way: dict[object, list[Mapping[str, str]]] = {}
    for check in checks:
        if check["state"] != State.OK and check["name"] not in told:
            way = WHERE.get(check["name"]) or check["command"] or check["advice"] or check["name"]
            by_way.setdefault(way, []).append(check)
    fixes = []
    for some in by_way.values():
        ordered = sorted(some, key=lambda check: check["state"] != State.BAD)
        first = ordered[0]
        before, command, after = first["advice"].partition(first["command"] or "\0")
        advice = (capitalised(before.strip()), command, "" if len(some) > 1 else capitalised(after.strip(" .;,")))
        found = tuple((_title(check), _detail(check)) for check in ordered)
        fixes.append(Fix(State(first["state"]), found, advice, WHERE.get(first["name"])))
    return fixes


def _title(check: Mapping[str, str]) -> str:
    return TITLES.get(check["name"], capitalised(check["name"]))


def _detail(check: Mapping[str, str]) -> str:
    detail, effect = check["detail"], EFFECTS.get(check["name"], "")
    return capitalised(f"{effect} {detail}" if effect and check["state"] == State.BAD else detail)


def preview(request: PageRequest) -> Answer:
    report = ask_command(request.settings, "consolidate", "--dry-run")
    return Answer("parts/preview.html", {"report": report, "lines": _named(request.store, report.get("lines", []))})


def _named(store: Store, lines: Sequence[str]) -> list[list[tuple[str, Memory | None]]]:
    """Return at most ``MAX_LINES`` lines of a report, split into texts and, in place of ids, memories."""
    return name_memories(store, [_capitalised(line) for line in lines[:MAX_LINES]])


def _capitalised(line: str) -> str:
    """Return a line of a report with the action in words."""
    line = undo_in_words(line)
    action, _, rest = line.partition(" ")
    return f"{capitalised(ACTIONS[action])}: {rest}" if action in ACTIONS else line


def show_run(request: PageRequest) -> Answer:
    run = memory_history.find_run(request.store, _number(request))
    if run is None:
        raise NotFound("there is no such run; the list shows the latest")
    lines = [str(line) for line in run.report.get("lines", [])]
    values = {
        "run": run,
        "kinds": KINDS,
        "lines": _named(request.store, lines),
        "more": max(0, len(lines) - MAX_LINES),
        "changes": bool(memory_history.changing_runs(request.store, [run])),
    }
    return Answer("run.html", values)


def undo(request: PageRequest) -> Answer:
    """Undo everything that a run changed; the undo is itself a run."""
    from engram.consolidation.undo import undo_run  # it takes a while to load

    number = _number(request)
    lines = undo_run(request.store, request.settings, number, actor=Actor.USER)
    latest = memory_history.list_runs(request.store, 1)
    way_back = ("health", "runs", str(latest[0].id), "undo") if latest and latest[0].kind == "undo" else ()
    return show(request, Notice(f"Run {number} was undone: {number_of(len(lines), 'change')}.", way_back))


def flow_of(health: Health) -> list[Step]:
    totals, unread, stages = health.totals, health.unread, health.stages
    files = f"{number_of(unread.files, 'file')} to read" if unread.files else ""

    def step(name: str, number: int, about: str, waiting: str, stage: str) -> Step:
        known = stages.get(stage) or StageHealth(seen=0, done=0, lag_seconds=0.0)
        process = health.watcher if stage == "ingest" else health.worker
        is_broken, is_stopped = bool(known.last_error), not process.is_alive
        return Step(name, number, about, waiting, known.lag_seconds, is_broken, known.has_trouble, is_stopped)

    due = {work.kind: work.due or 0 for work in health.work}
    sessions = f"{number_of(due['extract'], 'session')} to work on" if due.get("extract") else ""
    return [
        step("transcripts found", unread.found, "files of your sessions", files, "ingest"),
        step("turns read", totals.turns, "a prompt with its answer each", "", "ingest"),
        step("memories kept", totals.memories, "what is worth knowing later", sessions, "extract"),
        step("times shown to Claude", totals.injections, "where they fit a prompt", "", "recollect"),
    ]


def _number(request: PageRequest) -> int:
    number = number_in(request.path["number"])
    if number is None:
        raise BadRequest("give the number of a run")
    return number


def show(request: PageRequest, notice: Notice | None = None) -> Answer:
    """Show the steps, the processes and the latest runs, with the figures of ``engram status``."""
    health = take_health(request.store, request.settings)
    late, prompts = late_of_days(request.store)
    runs = memory_history.list_runs(request.store, MAX_RUNS)
    quickly, troubles = _count_quickly(request), list_troubles(health)
    # Unread files are counted here alone.
    unread = len(troubles) - len(list_troubles(take_vitals(request.store, request.settings, with_files=False)))
    request.checked.broken = max(request.checked.broken, unread)
    start = start_of(request.store, health, request.settings)
    values = {
        "health": health,
        "broken": quickly + request.checked.broken,
        "state": state_of(request.store)[0],
        "flow": flow_of(health),
        "troubles": [
            (trouble, said(trouble), *((start, "") if is_process(trouble) else ("", capitalised(trouble.advice))))
            for trouble in troubles
        ],
        "stage_names": STAGE_NAMES,
        "late": list(late.items()),
        "late_days": REPORT_DAYS,
        "late_prompts": prompts,
        "hubs": report_hubs(request.store),
        "runs": runs,
        "kinds": KINDS,
        "changed": memory_history.changing_runs(request.store, runs),
    }
    return request.answer("health.html", values, notice)


VIEW = View(
    name="health",
    title="Health",
    key="h",
    path="health",
    is_more=True,
    routes=(
        Route("/health", show),
        Route("/health/checks", show_checks, is_part=True, runs_command=True),
        Route("/health/preview", preview, is_part=True, runs_command=True),
        Route("/health/runs/{number}", show_run),
        Route("/health/runs/{number}/undo", undo, method="POST"),
    ),
)
