"""Report sessions: a summary of each, or everything known about one."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engram.enums import Channel, Scope, Verdict
from engram.errors import NotFound
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import Memory
from engram.models.projects.projects import list_projects
from engram.models.sessions import reading_progress
from engram.models.sessions.prompt_outcomes import Candidate, Outcome, count_verdicts, sessions_with_outcomes
from engram.models.sessions.reading_progress import FileTotals
from engram.models.sessions.sessions import (
    SessionRow,
    copies_beginning_with,
    find_session,
    list_sessions,
    session_titles,
)
from engram.models.sessions.stored_turns import StoredTurn, projects_of_sessions, turns_of_session
from engram.models.shown import injections, usage
from engram.models.shown.injections import Injection
from engram.models.shown.usage import SessionTotals
from engram.reports.memory_report import MAX_CANDIDATES, injection_to_json, several_begin
from engram.settings import Settings
from engram.system.clock import iso_or_none, iso_time
from engram.transcripts.registry import resume_command

# -- Outcomes of prompts, in words and as JSON.

#: Verdict → what it means, as the end of a sentence.
REASONS: Mapping[Verdict, str] = {
    Verdict.SHOWN: "Claude was shown it",
    Verdict.PENDING: "it is waiting for the next tool call",
    Verdict.WITHDRAWN: "it was waiting for a tool call that did not come in time",
    Verdict.TOO_LATE: "the hook ended before the answer came",
    Verdict.INJECT_OFF: "showing memories is switched off (inject = false)",
    Verdict.EXCLUDED: "the folder is excluded (exclude)",
    Verdict.PAUSED: "Engram was paused (`engram pause`)",
    Verdict.NOT_TYPED: "it was not typed by a person",
    Verdict.SUBAGENT: "a subagent sent it",
    Verdict.TOO_SHORT: "it has no topic to search for",
    Verdict.ASKED_BEFORE: "the same prompt was answered before",
    Verdict.SAME_TOPIC: "Claude was reminded of this topic shortly before",
    Verdict.UNREAD_FORK: "the session is a fork whose transcript has not been read yet",
    Verdict.REPLAYED: "the session replays its context, including what it was shown",
    Verdict.USED_UP: "this prompt already has the maximum number of memories (bites)",
    Verdict.NO_RECORD: "no hook ran, no worker answered, or the record has not been written yet or has been deleted "
    "(outcome_days)",
    Verdict.BEFORE_ENGRAM: "Engram's memory did not exist yet",
    Verdict.NOTHING_NEAR: "no memory is related to it",
    Verdict.BELOW_FLOOR: "the best memory is not relevant enough",
    Verdict.NOT_NAMED: "no memory names the file, command or error",
    Verdict.ALREADY_SHOWN: "it has already been shown in the session",
    Verdict.IN_CONTEXT: "the session still contains what it was made from",
    Verdict.SUSPECT: "it reads like an order from someone else",
    Verdict.NOT_CURRENT: "it no longer counts: replaced, contradicted, archived, marked wrong, expired, or doubtful",
    Verdict.OTHER_PROJECT: "it belongs to another project",
    Verdict.REPEATS: "a better memory says the same thing",
    Verdict.NOT_QUOTABLE: "what was said about it is unclear out of context",
    Verdict.STANDS_IN_FILE: "one of your own files (CLAUDE.md, rules, auto memory) says the same thing",
    Verdict.FAR_BELOW_BEST: "it is much less relevant than the best one",
    Verdict.NO_ROOM: "better memories used up the space (bites, bite_tokens)",
}
#: Reasons for one of the memories considered, not necessarily the best.
CANDIDATE_REASONS = {**REASONS, Verdict.BELOW_FLOOR: "it is not relevant enough"}
#: Reasons that are worded differently for a prompt that is only tried; other verdicts use ``REASONS``.
_TRIAL_REASONS = {
    Verdict.SHOWN: "Claude would be shown it",
    Verdict.PENDING: "it would wait for the next tool call",
    Verdict.NO_ROOM: "better memories would use up the space (bites, bite_tokens)",
}
#: Verdicts of memories that Claude was shown or may still be shown.
SHOWN_VERDICTS = (Verdict.SHOWN, Verdict.PENDING)


def trial_reason(verdict: Verdict, reasons: Mapping[Verdict, str] = REASONS) -> str:
    """Return the reason for a verdict on a prompt that was only tried, or on one of its candidates."""
    return _TRIAL_REASONS.get(verdict, reasons[verdict])


def outcome_to_json(outcome: Outcome, summaries: Mapping[str, str]) -> dict[str, Any]:
    """Return an outcome as JSON; ``summaries`` maps memory ids to summaries."""
    return {
        "at": iso_or_none(outcome.at_ms),
        "session": outcome.session_id,
        "channel": outcome.channel,
        "verdict": outcome.verdict,
        "why": REASONS[outcome.verdict],
        "score": outcome.score,
        "floor": outcome.floor,
        "candidates": outcome.candidates,
        "text_only": outcome.is_text_only,
        "duration_ms": outcome.duration_ms,
        "memories": [candidate_to_json(candidate, summaries) for candidate in outcome.considered],
    }


def candidate_to_json(candidate: Candidate, summaries: Mapping[str, str]) -> dict[str, Any]:
    return {
        "id": candidate.episode_id,
        "summary": summaries.get(candidate.episode_id, ""),
        "verdict": candidate.verdict,
        "why": REASONS[candidate.verdict],
        "score": candidate.score,
        "floor": candidate.floor,
        "place": candidate.place,
        "features": dict(candidate.features),
    }


def summarize_verdicts(counts: Mapping[tuple[Channel, Verdict], int], channel: Channel) -> str:
    """Summarise a channel's verdicts: ``3 shown, 2 silent (2: it has no topic to search for)``; "" if none."""
    shown = sum(number for (of, verdict), number in counts.items() if of is channel and verdict in SHOWN_VERDICTS)
    silent = {
        verdict: number for (of, verdict), number in counts.items() if of is channel and verdict not in SHOWN_VERDICTS
    }
    if not shown and not silent:
        return ""
    ranked = sorted(silent.items(), key=lambda item: -item[1])
    reasons = "; ".join(f"{number}: {REASONS[verdict]}" for verdict, number in ranked)
    return f"{shown} shown, {sum(silent.values())} silent" + (f" ({reasons})" if reasons else "")


class Activity(StrEnum):
    """Whether a session is still in progress, judging by the time since its last entry."""

    ACTIVE = "active"
    #: No entry for ``idle_seconds``.
    IDLE = "idle"
    #: No entry for ``live_seconds``, or its transcript is gone.
    OVER = "over"


@dataclass(frozen=True, slots=True)
class SessionSummary:
    session: SessionRow
    #: Title by which a person recognises it; "" without a prompt.
    title: str
    #: Display name of the project in which it began; "" for none.
    project: str
    #: Display names of the other projects in which it worked.
    other_projects: tuple[str, ...]
    activity: Activity
    totals: SessionTotals

    def to_json(self) -> dict[str, Any]:
        session = self.session
        return {
            "id": session.session_id,
            "title": self.title,
            "project": self.project,
            "other_projects": list(self.other_projects),
            "scope": Scope.GLOBAL if session.is_global else Scope.PROJECT,
            "agent": session.agent,
            "cwd": session.cwd,
            "branch": session.branch,
            "first_at": iso_or_none(session.first_at_ms),
            "last_at": iso_or_none(session.last_at_ms),
            "state": self.activity.value,
            "messages": session.message_count,
            "turns": self.totals.turns,
            "episodes": self.totals.memories,
            "shown": self.totals.shown,
            "tokens": self.totals.tokens,
            "summary": session.rolling_summary,
        }


@dataclass(frozen=True, slots=True)
class Briefing:
    """A briefing or other text that Claude was shown at the start of a session."""

    what: str
    at_ms: int
    tokens: int


@dataclass(frozen=True, slots=True)
class SessionReport:
    summary: SessionSummary
    files: tuple[FileTotals, ...]
    turns: tuple[StoredTurn, ...]
    memories: tuple[Memory, ...]
    injections: tuple[Injection, ...]
    briefings: tuple[Briefing, ...]
    #: How many prompts got memories, and why the others did not; "" if nothing was recorded.
    prompts: str
    verdicts: Mapping[tuple[Channel, Verdict], int]

    def to_json(self) -> dict[str, Any]:
        return self.summary.to_json() | {
            "files": [_file_to_json(file) for file in self.files],
            "turn_list": [_turn_to_json(stored) for stored in self.turns],
            "episode_list": [
                {"id": memory.episode_id, "kind": memory.kind, "summary": memory.summary, "status": memory.status}
                for memory in self.memories
            ],
            "injections": [
                {"episode": injection.episode_id, **injection_to_json(injection)} for injection in self.injections
            ],
            "verdicts": [
                {"channel": channel, "verdict": verdict, "times": times}
                for (channel, verdict), times in self.verdicts.items()
            ],
            "briefings": [
                {"what": briefing.what, "at": iso_time(briefing.at_ms), "tokens": briefing.tokens}
                for briefing in self.briefings
            ],
        }


def find_session_row(store: Store, text: str) -> SessionRow:
    """Return the session with the given id, or with a unique id that begins with the given text. Raises NotFound."""
    text = memory_records.typed_id(text)
    session = find_session(store, text)
    if session is not None and (
        turns_of_session(store, session.id, limit=1) or text in sessions_with_outcomes(store, text)
    ):
        return session
    matches = [row for row in list_sessions(store) if text and row.session_id.startswith(text)]
    if len(matches) == 1:
        return matches[0]
    if matches:
        titles = session_titles(store, matches[: MAX_CANDIDATES + 1])
        raise NotFound(several_begin(text, [(name, title) for name, title in titles.items()]))
    # Of the sessions that a copy repeats, name the one that it repeats longest.
    copies = dict(reversed(copies_beginning_with(store, text))) if text else {}
    if len(copies) == 1 or text in copies:
        copy = text if text in copies else next(iter(copies))
        raise NotFound(f"session {copy} only repeats what was said in another one: engram sessions {copies[copy]}")
    if copies:
        raise NotFound(several_begin(text, [(name, f"a copy of {original}") for name, original in copies.items()]))
    if text.startswith(("ep_", "q_")):
        raise NotFound(f"{text!r} is not the id of a session; `engram expand` shows memories and quotations")
    raise NotFound(f"there is no session {text!r}; `engram sessions` lists them")


def report_session(store: Store, settings: Settings, session: SessionRow) -> SessionReport:
    (summary,) = summarize_rows(store, settings, [session])
    session_id = session.session_id
    verdicts = count_verdicts(store, session_id)
    return SessionReport(
        summary=summary,
        files=tuple(reading_progress.files_of_session(store, session_id)),
        turns=tuple(turns_of_session(store, session.id)),
        memories=tuple(memory_records.memories_of_session(store, session_id)),
        injections=tuple(injections.injections_of_session(store, session_id)),
        briefings=tuple(
            Briefing(what, at_ms, tokens) for what, at_ms, tokens in injections.shown_of_session(store, session_id)
        ),
        prompts=summarize_verdicts(verdicts, Channel.PROMPT),
        verdicts=verdicts,
    )


def resume_of(store: Store, session: SessionRow) -> str:
    """Return the command that resumes a session; "" if none of its files is left."""
    files = reading_progress.files_of_session(store, session.session_id)
    paths = (Path(file.path) for file in files if not file.is_gone and os.path.exists(file.path))
    path = next(paths, None)
    return resume_command(session.agent, session.session_id, path) if path else ""


def find_activity(store: Store, session: SessionRow, settings: Settings) -> Activity:
    silent_seconds = (store.now_ms() - session.last_at_ms) / 1000
    if silent_seconds >= settings.live_seconds or not resume_of(store, session):
        return Activity.OVER
    return Activity.ACTIVE if silent_seconds < settings.idle_seconds else Activity.IDLE


def summarize_rows(store: Store, settings: Settings, sessions: Sequence[SessionRow]) -> list[SessionSummary]:
    totals = usage.count_sessions(store, [session.session_id for session in sessions])
    names = {project.id: project.name for project in list_projects(store)}
    titles = session_titles(store, sessions)
    visited = projects_of_sessions(store, [session.id for session in sessions])
    return [
        SessionSummary(
            session=session,
            title=titles[session.session_id],
            project="" if session.project_id is None else names[session.project_id],
            other_projects=tuple(
                names[project_id] for project_id in visited.get(session.id, ()) if project_id != session.project_id
            ),
            activity=find_activity(store, session, settings),
            totals=totals[session.session_id],
        )
        for session in sessions
    ]


def _file_to_json(file: FileTotals) -> dict[str, Any]:
    return {
        "path": file.path,
        "offset": file.offset,
        "size": file.size,
        "lines": file.lines,
        "gone": file.is_gone,
        "error": file.last_error or None,
    }


def _turn_to_json(stored: StoredTurn) -> dict[str, Any]:
    turn = stored.turn
    return {
        "key": turn.key,
        "prompt": turn.prompt,
        "at": iso_or_none(turn.started_at_ms),
        "start": turn.start_offset,
        "end": turn.end_offset,
        "closed": turn.is_closed,
        "revision": stored.revision,
        "extracted_revision": stored.extracted_revision,
        "files": list(turn.files),
    }
