"""The sessions, the outcome of each prompt in one of them, its turns, and a form to try a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from engram.enums import Channel, Verdict
from engram.errors import BadRequest, NotFound
from engram.models.engine.meta import made_at_ms
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import Memory, memories_of_ids, memories_of_turns
from engram.models.projects.projects import find_project, project_by_id
from engram.models.sessions.prompt_outcomes import count_outcomes_since, outcomes_of_session
from engram.models.sessions.sessions import find_session, list_sessions, session_titles
from engram.models.sessions.stored_turns import load_turn_row
from engram.models.shown.injections import shown_of_session
from engram.page.rendering import date, feature_bars, month
from engram.page.view import Answer, PageRequest, Route, View, assistants_of, latest_project, number_in, start_of
from engram.paths import is_session_id
from engram.recollection.why import Moment, why_session
from engram.reports.health import take_vitals
from engram.reports.session_report import (
    CANDIDATE_REASONS,
    REASONS,
    SHOWN_VERDICTS,
    Briefing,
    summarize_rows,
    trial_reason,
)
from engram.worker.worker_client import ask_worker

#: Maximum number of sessions in a list.
MAX_SESSIONS = 30
#: Maximum number of prompts on one page of a trace; the first page has the latest.
MAX_MOMENTS = 15
#: Maximum number of characters of a turn on one page.
MAX_TURN_CHARACTERS = 12_000
#: Maximum length of a prompt that can be tried, in characters.
MAX_PROMPT_CHARACTERS = 20_000
#: Timeout for the worker's answer, in seconds.
TRY_SECONDS = 10.0


def show_all(request: PageRequest) -> Answer:
    """List the sessions by day, latest first, in pages."""
    offset = request.number("from")
    upto = offset + MAX_SESSIONS
    rows = list_sessions(request.store, upto + 1, project_id=request.project_id)
    listed = summarize_rows(request.store, request.settings, rows[offset:upto])
    made_ms = made_at_ms(request.store)
    return Answer(
        "sessions.html",
        {
            "groups": [
                (name, list(some)) for name, some in groupby(listed, lambda summary: month(summary.session.last_at_ms))
            ],
            "made_ms": made_ms,
            # The heading for sessions that are older than Engram appears once, on the page on which they begin.
            "is_later": bool(offset) and rows[offset - 1].last_at_ms < made_ms if len(rows) > offset else False,
            "next": upto if len(rows) > upto else 0,
        },
    )


def show(request: PageRequest) -> Answer:
    """Show the outcome of each prompt of a session."""
    store, session_id = request.store, _session_id(request)
    session = find_session(store, session_id)
    why = why_session(store, session_id, session)
    if session is None and not why.moments:
        raise NotFound(f"there is no session {session_id}")
    upto = number_in(request.query.get("upto", ""))
    last = len(why.moments) if upto is None else min(upto, len(why.moments))
    first = max(0, last - MAX_MOMENTS)
    moments = _with_kept(store, why.moments[first:last])
    return Answer(
        "trace.html",
        {
            "session_id": session_id,
            "asked_in": session and session.project_id and project_by_id(store, session.project_id),
            "summary": next(iter(summarize_rows(store, request.settings, [session] if session else [])), None),
            "briefings": [Briefing(what, at_ms, tokens) for what, at_ms, tokens in shown_of_session(store, session_id)],
            "days": [list(some) for _, some in groupby(moments, lambda pair: date(pair[0].at_ms))],
            "summaries": why.summaries,
            "reasons": REASONS,
            "shown_verdicts": SHOWN_VERDICTS,
            "before_engram": Verdict.BEFORE_ENGRAM,
            "made_ms": made_at_ms(store),
            "unknown": sum(moment.verdict is Verdict.BEFORE_ENGRAM for moment in why.moments),
            "earlier": first,
            "later": min(last + MAX_MOMENTS, len(why.moments)) if last < len(why.moments) else 0,
            "total": len(why.moments),
        },
    )


def show_candidates(request: PageRequest) -> Answer:
    """Show the memories considered for one outcome, with what made each relevant."""
    session_id, wanted = _session_id(request), request.path["outcome_id"]
    outcome = next((found for found in outcomes_of_session(request.store, session_id) if str(found.id) == wanted), None)
    if outcome is None:
        raise NotFound("the outcome of this prompt is no longer recorded")
    summaries = why_session(request.store, session_id, find_session(request.store, session_id)).summaries
    considered = [
        (candidate, summaries.get(candidate.episode_id, ""), feature_bars(candidate.features))
        for candidate in sorted(outcome.considered, key=lambda row: (row.verdict not in SHOWN_VERDICTS, -row.score))
    ]
    values = {
        "considered": considered,
        "others": max(0, outcome.candidates - len(considered)),
        "reasons": CANDIDATE_REASONS,
        "session_id": session_id,
        "session_title": _title(request.store, session_id),
        "at_ms": outcome.at_ms,
    }
    return Answer("parts/candidates.html" if request.is_fragment else "candidates.html", values)


def show_turn(request: PageRequest) -> Answer:
    turn_id = number_in(request.path["turn_id"])
    stored = None if turn_id is None else load_turn_row(request.store, turn_id)
    if stored is None or stored.turn.session_id != request.path["session_id"]:
        raise NotFound("this turn is not stored")
    start = request.number("from")
    cited = request.query.get("cited", "").split(",")
    texts, position = [], 0
    for block in stored.turn.said:
        begin, end = max(start - position, 0), max(start + MAX_TURN_CHARACTERS - position, 0)
        if part := block.text[begin:end]:
            texts.append((block, part, bool(block.line) and str(block.line) in cited))
        position += len(block.text)
    more = start + MAX_TURN_CHARACTERS if position > start + MAX_TURN_CHARACTERS else None
    return Answer(
        "turn.html",
        {
            "stored": stored,
            "session_title": _title(request.store, stored.turn.session_id),
            "texts": texts,
            "assistant": assistants_of(request.store, [stored.turn.session_id])[stored.turn.session_id],
            "more": more,
            "actions": stored.turn.actions[:30],
        },
    )


def show_try_form(request: PageRequest) -> Answer:
    asked_in = request.project or latest_project(request.store)
    return Answer("try.html", {"prompt": "", "asked_in": asked_in, "result": None, "is_missing": False})


def try_prompt(request: PageRequest) -> Answer:
    """Show what Claude would be shown for a prompt, decided as for a hook. Nothing is stored."""
    prompt = request.form.get("prompt", "").strip()
    if not prompt or len(prompt) > MAX_PROMPT_CHARACTERS:
        raise BadRequest(f"type a prompt of 1 to {MAX_PROMPT_CHARACTERS:,} characters")
    name = request.form.get("in", "")
    project = find_project(request.store, name) if name else None
    question = {"op": "explain", "prompt": prompt, "project_id": None if project is None else project.id}
    answer = ask_worker(request.settings.places, question, timeout_seconds=TRY_SECONDS)
    values: dict[str, Any] = {"prompt": prompt, "result": None, "is_missing": answer is None, "considered": []}
    if answer is None:
        vitals = take_vitals(request.store, request.settings, with_files=False)
        values["start"] = start_of(request.store, vitals, request.settings)
    if answer is not None and "verdict" in answer:
        why = _why_not_current(request.store, answer["memories"])
        values |= {
            "result": answer,
            "is_shown": Verdict.from_stored(answer["verdict"]) in SHOWN_VERDICTS,
            "reason": trial_reason(Verdict.from_stored(answer["verdict"])),
            "considered": [
                (
                    memory,
                    why.get(memory["id"]) or trial_reason(Verdict.from_stored(memory["verdict"]), CANDIDATE_REASONS),
                    feature_bars(memory["features"])[:4],
                )
                for memory in answer["memories"]
            ],
        }
    elif answer is not None:
        raise BadRequest(f"the worker can't answer: {answer.get('error', 'it is running another version')}")
    return Answer("try.html", values, block="result")


def _why_not_current(store: Store, memories: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return id of a memory that was left out for not being current → why it isn't."""
    from engram.recollection.choose_bites import why_not_in_force  # it takes a while to load

    left_out = [memory["id"] for memory in memories if memory["verdict"] == Verdict.NOT_CURRENT]
    found = memories_of_ids(store, left_out)
    return {name: why_not_in_force(memory, store.now_ms()) for name, memory in found.items()}


def count_new(store: Store, since_ms: int, project_id: int | None) -> int:
    return count_outcomes_since(store, since_ms, project_id, Channel.PROMPT)


def _title(store: Store, session_id: str) -> str:
    session = find_session(store, session_id)
    return "" if session is None else session_titles(store, [session])[session_id]


def _session_id(request: PageRequest) -> str:
    session_id = request.path["session_id"]
    if not is_session_id(session_id):
        raise NotFound("there is no such session")
    return session_id


def _with_kept(store: Store, moments: Sequence[Moment]) -> Iterator[tuple[Moment, list[Memory]]]:
    """Yield each prompt with the memories kept from its turn, except those yielded with an earlier one."""
    listed: set[str] = set()
    for moment in moments:
        of_turn = [] if moment.turn_id is None else memories_of_turns(store, [moment.turn_id])
        yield moment, [memory for memory in of_turn if memory.episode_id not in listed]
        listed |= {memory.episode_id for memory in of_turn}


VIEW = View(
    name="sessions",
    title="Sessions",
    key="s",
    path="s",
    routes=(
        Route("/s", show_all),
        Route("/s/try", show_try_form),
        Route("/s/try", try_prompt, method="POST"),
        Route("/s/{session_id}", show),
        Route("/s/{session_id}/at/{outcome_id}", show_candidates),
        Route("/s/{session_id}/t/{turn_id}", show_turn),
    ),
    count_new=count_new,
)
