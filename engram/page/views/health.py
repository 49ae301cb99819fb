"""Whether memory works: the flow with its lag, the two processes, the checks, and what consolidations did."""

from __future__ import annotations

from dataclasses import dataclass

from engram.enums import Actor
from engram.errors import BadRequest, NotFound
from engram.models.memories import memory_history
from engram.page.view import Answer, Notice, PageRequest, Route, View, ask_command
from engram.reports.health import MAX_LAG_SECONDS, Health, take_health
from engram.reports.hub_report import report_hubs
from engram.reports.use_report import REPORT_DAYS, late_of_days, late_text

#: Runs that are listed, and lines of one that are shown.
MAX_RUNS, MAX_LINES = 12, 100


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the flow: what arrived there, and how far it is behind."""

    name: str
    number: int
    #: What waits before it, such as ``3 files to read``; "" for nothing.
    waiting: str
    lag_seconds: float
    is_broken: bool

    @property
    def is_late(self) -> bool:
        """True if it fails, or is behind for so long that a person should look."""
        return self.is_broken or self.lag_seconds > MAX_LAG_SECONDS


def show(request: PageRequest) -> Answer:
    """Show the flow, the processes and the latest runs; the figures are those of ``engram status``."""
    return _answer(request)


def show_checks(request: PageRequest) -> Answer:
    """Show the checks of ``engram doctor``; the whole check of the database is left to the command."""
    return Answer("parts/checks.html", {"checks": ask_command(request.settings, "doctor", "--quick")["checks"]})


def preview(request: PageRequest) -> Answer:
    """Show what the next consolidation would change."""
    return Answer("parts/preview.html", {"report": ask_command(request.settings, "consolidate", "--dry-run")})


def show_run(request: PageRequest) -> Answer:
    """Show what one run changed."""
    run = memory_history.find_run(request.store, _number(request))
    if run is None:
        raise NotFound("there is no such run; the list shows the latest")
    lines = [str(line) for line in run.report.get("lines", [])]
    return Answer("run.html", {"run": run, "lines": lines[:MAX_LINES], "more": max(0, len(lines) - MAX_LINES)})


def undo(request: PageRequest) -> Answer:
    """Take back everything that a run changed; that is a run too."""
    from engram.consolidation.tidying import undo_run  # it takes a while to load

    number = _number(request)
    lines = undo_run(request.store, request.settings, number, actor=Actor.USER)
    latest = memory_history.list_runs(request.store, 1)
    way_back = ("health", "runs", str(latest[0].id), "undo") if latest and latest[0].kind == "undo" else ()
    return _answer(request, Notice(f"Run {number} was taken back: {len(lines)} changes.", way_back))


def flow_of(health: Health) -> list[Step]:
    """Return the steps from a transcript to what Claude is shown."""
    totals, unread, stages = health.totals, health.unread, health.stages
    texts = f"{health.missing_vectors:,} without a vector" if health.missing_vectors else ""
    files = f"{unread.files:,} files to read" if unread.files else ""

    def step(name: str, number: int, waiting: str, stage: str) -> Step:
        known = stages.get(stage)
        lag = 0.0 if known is None else known.lag_seconds
        return Step(name, number, waiting, lag, bool(known and known.last_error))

    due = {work.kind: work.due or 0 for work in health.work}
    sessions = f"{due['extract']:,} sessions to work on" if due.get("extract") else ""
    return [
        step("transcripts", unread.found, files, "ingest"),
        step("turns read", totals.turns, "", "ingest"),
        step("memories kept", totals.memories, sessions, "extract"),
        step("texts with a vector", 0, texts, "embed"),
        step("shown to Claude", totals.injections, "", "recollect"),
    ]


def _number(request: PageRequest) -> int:
    number = request.path["number"]
    if not number.isdecimal() or len(number) > 15:
        raise BadRequest("a run has a number")
    return int(number)


def _answer(request: PageRequest, notice: Notice | None = None) -> Answer:
    health = take_health(request.store, request.settings)
    late, prompts = late_of_days(request.store)
    values = {
        "health": health,
        "flow": flow_of(health),
        "troubles": health.troubles(),
        "late": late_text(late),
        "late_days": REPORT_DAYS,
        "late_prompts": prompts,
        "hubs": report_hubs(request.store),
        "runs": memory_history.list_runs(request.store, MAX_RUNS),
    }
    block = "main" if request.is_fragment else ""
    return Answer("health.html", values, block=block, notice=notice, is_change=notice is not None)


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
