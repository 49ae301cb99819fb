"""The start page: what Claude was shown, what was kept, and what needs the user's attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from engram.enums import Channel
from engram.models.engine.transaction import Store
from engram.models.memories.memory_history import list_runs
from engram.models.memories.memory_records import Memory, memories_of_ids
from engram.models.projects.notes import list_standing_files
from engram.models.projects.projects import list_projects
from engram.models.search.memory_lists import latest_kept
from engram.models.sessions.passage_rows import find_quotation, is_quotation_id
from engram.models.sessions.prompt_outcomes import SAME_MOMENT_MS, Outcome, count_outcomes_since, list_outcomes
from engram.models.sessions.sessions import list_sessions
from engram.models.shown.usage import (
    LatestPrompt,
    count_memories_since,
    counts_since,
    kept_by_day,
    latest_turn_prompts,
    shown_by_day,
)
from engram.page.rendering import day_chart
from engram.page.view import Answer, PageRequest, Route, View, day_spans, latest_project, list_needs, repair_of
from engram.reports.health import take_vitals
from engram.reports.session_report import REASONS, SHOWN_VERDICTS
from engram.system.clock import day_of, noon_of
from engram.transcripts.registry import discover
from engram.trust.display import number_of
from engram.worker.worker_client import ask_worker

#: Maximum number of prompts, kept memories and runs listed.
MAX_PROMPTS, MAX_KEPT, MAX_RUNS = 10, 6, 2
#: Number of days in the charts.
DAYS = 30
#: Timeout for the worker's briefing, in seconds.
BRIEFING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a day: a prompt with its outcome, a kept memory, or a run."""

    at_ms: int
    project: str
    prompt: str = ""
    outcome: Outcome | None = None
    reason: str = ""
    shown: tuple[tuple[Memory, float], ...] = ()
    #: Id and text of each quotation that Claude was shown.
    quoted: tuple[tuple[str, str], ...] = ()
    #: True if Claude was shown something, even if it has been deleted since.
    is_shown: bool = False
    kept: Memory | None = None
    run: str = ""
    run_id: int = 0


def show(request: PageRequest) -> Answer:
    store, project_id = request.store, request.project_id
    days = day_spans(store.now_ms(), DAYS)
    vitals = take_vitals(store, request.settings, with_files=False)
    events = _events(store, project_id)
    is_empty = not events and not list_sessions(store, 1)
    today_ms = days[-1][0]
    counts = counts_since(store, today_ms, project_id)
    return request.answer(
        "today.html",
        {
            "counts": counts,
            "kept_chart": day_chart(days, kept_by_day(store, days, project_id)),
            "shown_chart": day_chart(days, shown_by_day(store, days, project_id)),
            "days": [(at_ms, list(some)) for at_ms, some in groupby(events, lambda event: _noon_of(event.at_ms))],
            "more_kept": counts.kept - sum(event.kept is not None and event.at_ms >= today_ms for event in events),
            "needs": list_needs(store, vitals, request.settings, request.checked, with_folders=True),
            "start": repair_of(store, vitals, request.settings) if is_empty else "",
            "claude_folder": str(request.settings.projects_folder),
            "has_files": bool(list_standing_files(store)),
            "starting": request.project or latest_project(store),
            "is_empty": is_empty,
            "transcripts": sum(1 for _ in discover(request.settings)) if is_empty else 0,
        },
    )


def show_briefing(request: PageRequest) -> Answer:
    """Show the briefing that the next session of a project would get, chosen by the worker. Nothing counts as shown."""
    if request.project is None:
        return Answer("parts/briefing.html", {"briefing": None, "is_missing": False})
    question = {"op": "briefing", "project_id": request.project.id}
    answer = ask_worker(request.settings.places, question, timeout_seconds=BRIEFING_SECONDS)
    text = None if answer is None else str(answer.get("text", ""))
    return Answer("parts/briefing.html", {"briefing": text, "is_missing": text is None})


def count_new(store: Store, since_ms: int, project_id: int | None) -> int:
    prompts = count_outcomes_since(store, since_ms, project_id, Channel.PROMPT)
    return prompts + count_memories_since(store, since_ms, project_id)


def _events(store: Store, project_id: int | None) -> list[Event]:
    names = {project.id: project.name for project in list_projects(store)}
    outcomes = list_outcomes(store, project_id=project_id, channels=(Channel.PROMPT,), limit=MAX_PROMPTS)
    ids = {candidate.episode_id for outcome in outcomes for candidate in outcome.considered}
    memories = memories_of_ids(store, sorted(ids))
    prompts = latest_turn_prompts(store)
    events = [_prompt_event(store, outcome, names, memories, prompts) for outcome in outcomes]
    events += [
        Event(at_ms=memory.kept_at_ms, project=memory.project, kept=memory)
        for memory in latest_kept(store, MAX_KEPT, project_id=project_id)
    ]
    if project_id is None:
        events += [
            Event(
                at_ms=run.started_at_ms,
                project="",
                run=f"Tidied: {number_of(len(run.report['lines']), 'change')}",
                run_id=run.id,
            )
            for run in list_runs(store, MAX_RUNS)
            if run.kind == "consolidate" and run.report.get("lines")
        ]
    return sorted(events, key=lambda event: -event.at_ms)


def _prompt_event(
    store: Store,
    outcome: Outcome,
    names: Mapping[int, str],
    memories: Mapping[str, Memory],
    prompts: Sequence[LatestPrompt],
) -> Event:
    shown = [candidate for candidate in outcome.considered if candidate.verdict in SHOWN_VERDICTS]
    quoted = [find_quotation(store, rated.episode_id) for rated in shown if is_quotation_id(rated.episode_id)]
    near = [
        prompt
        for prompt in prompts
        if prompt.session_id == outcome.session_id and abs(prompt.at_ms - outcome.at_ms) <= SAME_MOMENT_MS
    ]
    return Event(
        at_ms=outcome.at_ms,
        project=names.get(outcome.project_id or 0, ""),
        prompt=min(near, key=lambda prompt: abs(prompt.at_ms - outcome.at_ms)).text if near else "",
        outcome=outcome,
        reason=REASONS[outcome.verdict],
        is_shown=outcome.verdict in SHOWN_VERDICTS,
        shown=tuple((memories[rated.episode_id], rated.score) for rated in shown if rated.episode_id in memories),
        quoted=tuple((quotation.quotation_id, quotation.text) for quotation in quoted if quotation is not None),
    )


def _noon_of(at_ms: int) -> int:
    """Return noon of a time's local day, which is on the same day in most zones."""
    return noon_of(day_of(at_ms)) or at_ms


VIEW = View(
    name="today",
    title="Today",
    key="t",
    routes=(Route("/", show), Route("/briefing", show_briefing, is_part=True)),
    count_new=count_new,
)
