"""What became of prompts, in words for people and in JSON for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engram.clock import iso_time
from engram.enums import Channel, Verdict
from engram.models.outcomes import Candidate, Outcome

#: Verdict → what it means, as the end of a sentence.
REASONS: Mapping[Verdict, str] = {
    Verdict.SHOWN: "Claude was shown it",
    Verdict.PENDING: "it waits for the next tool call",
    Verdict.WITHDRAWN: "it waited for a tool call, and none came in time",
    Verdict.TOO_LATE: "the hook had ended before the answer came",
    Verdict.INJECT_OFF: "injection is switched off (inject = false)",
    Verdict.EXCLUDED: "the folder is excluded (exclude)",
    Verdict.PAUSED: "Engram was paused (`engram pause`)",
    Verdict.NOT_TYPED: "no person typed it",
    Verdict.SUBAGENT: "a subagent sent it",
    Verdict.TOO_SHORT: "it names no topic to search for",
    Verdict.ASKED_BEFORE: "the same prompt was answered before",
    Verdict.SAME_TOPIC: "it is about the topic of the last recollection, which still stands in the context",
    Verdict.UNREAD_FORK: "the session is a fork whose transcript was not read yet",
    Verdict.REPLAYED: "the session replays its context, with what it was shown",
    Verdict.USED_UP: "the prompt has had all its bites (bites)",
    Verdict.NO_WORKER: "no worker answered when it was sent, or the record is gone (outcome_days)",
    Verdict.NOTHING_NEAR: "no memory has anything to do with it",
    Verdict.BELOW_FLOOR: "the best memory is not relevant enough",
    Verdict.NOT_NAMED: "no memory names the file, command or error",
    Verdict.ALREADY_SHOWN: "the session was shown it before",
    Verdict.IN_CONTEXT: "what it rests on still stands in the session's context",
    Verdict.SUSPECT: "it is suspect: it reads like an instruction of somebody else",
    Verdict.NOT_CURRENT: "it is not in force: superseded, contradicted, archived, lowered, over, or doubtful",
    Verdict.OTHER_PROJECT: "it belongs to another project",
    Verdict.REPEATS: "a better memory says the same",
    Verdict.NOT_QUOTABLE: "no whole sentence of what was said stands alone",
    Verdict.STANDS_IN_FILE: "one of your own files (CLAUDE.md, rules, auto memory) says the same",
    Verdict.FAR_BELOW_BEST: "it is much less relevant than the best one",
    Verdict.NO_ROOM: "better memories used up the number of bites or tokens (bites, bite_tokens)",
}
#: Share of its floor from which on a memory that was not shown is near enough to be recorded beside the best one.
MIN_FLOOR_SHARE = 0.5
#: Verdicts after which Claude was shown something, or may still be.
SHOWN_VERDICTS = (Verdict.SHOWN, Verdict.PENDING)


def is_near(candidate: Candidate) -> bool:
    """Return True for a memory that was shown or nearly was."""
    return candidate.score >= candidate.floor * MIN_FLOOR_SHARE


def outcome_to_json(outcome: Outcome, summaries: Mapping[str, str]) -> dict[str, Any]:
    """Return an outcome for scripts.

    Args:
        outcome: what became of a prompt.
        summaries: id of a memory → its summary.
    """
    return {
        "at": iso_time(outcome.at_ms) if outcome.at_ms else None,
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
    """Return a memory that was considered, for scripts."""
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
    """Return a line such as ``3 shown, 5 silent (3 too short, 2 below floor)`` about one channel; "" for nothing."""
    shown = sum(number for (of, verdict), number in counts.items() if of is channel and verdict in SHOWN_VERDICTS)
    silent = {
        verdict: number for (of, verdict), number in counts.items() if of is channel and verdict not in SHOWN_VERDICTS
    }
    if not shown and not silent:
        return ""
    reasons = ", ".join(f"{number} {verdict}" for verdict, number in sorted(silent.items(), key=lambda item: -item[1]))
    return f"{shown} shown, {sum(silent.values())} silent" + (f" ({reasons})" if reasons else "")
