"""Confirm provisional memories: the user agreed, a test passed, or another session said the same."""

from __future__ import annotations

from collections.abc import Sequence

from engram.consolidation.context import Context
from engram.enums import Actor, Kind, Status
from engram.models import episodes, runs
from engram.models.episodes import Episode, Evidence
from engram.models.sessions import find_session
from engram.models.turns import StoredTurn, turns_of_session
from engram.text.agreement import agrees
from engram.text.commands import is_test_command
from engram.transcripts.record import Role, Turn

#: Kinds that a passing test confirms.
_TESTED = (Kind.FIX, Kind.FACT, Kind.DEAD_END)

#: What the reason of a confirmation is, or begins with, where a person or a test confirmed.
USER_AGREED, TEST_PASSED = "the user agreed", "a test passed"


def passed_test(turn: Turn) -> str:
    """Return the last test command of a turn if it passed; "" if it failed, or none ran."""
    ran = [a for a in turn.actions if a.command and a.is_error is not None and is_test_command(a.command)]
    return ran[-1].command[:80] if ran and not ran[-1].is_error else ""


def why_confirmed(episode: Episode, evidence: Sequence[Evidence], turns: Sequence[StoredTurn]) -> str:
    """Return what confirms a provisional memory; "" if nothing does.

    Args:
        episode: the memory.
        evidence: its entries, the main one first.
        turns: the turns of its session, in order.
    """
    if len({entry.session_id for entry in evidence if entry.session_id}) > 1:
        return "it came back in another session"
    places = {stored.id: place for place, stored in enumerate(turns)}
    place = places.get(evidence[0].turn_id or -1) if evidence else None
    if place is None:
        return ""
    turn = turns[place].turn
    following = turns[place + 1].turn if place + 1 < len(turns) else None
    replies = [said.uuid for said in turn.said if said.role is Role.ASSISTANT]
    if following and replies and evidence[0].uuid == replies[-1] and agrees(following.users_prompt):
        return USER_AGREED
    if episode.kind not in _TESTED or not turn.has_edits:
        return ""
    command = passed_test(turn) or (passed_test(following) if following and not following.has_edits else "")
    return f"{TEST_PASSED}: {command}" if command else ""


def confirm_session(context: Context, session_id: str) -> None:
    """Confirm the provisional memories of a session for which there is a reason."""
    session = find_session(context.store, session_id)
    provisional = [
        episode
        for episode in episodes.episodes_of_session(context.store, session_id)
        if episode.status == Status.PROVISIONAL and not episode.suspect
    ]
    if session is None or not provisional:
        return
    turns = turns_of_session(context.store, session.id)
    for episode in provisional:
        evidence = episodes.evidence_of(context.store, episode.id)
        reason = why_confirmed(episode, evidence, turns)
        if reason and context.change(
            episode,
            "confirm",
            reason,
            status=Status.ACTIVE,
            confirmations=episode.confirmations + 1,
            confidence=max(episode.confidence, 0.75),
            actor=Actor.TIDYING,
        ):
            context.tell(f"confirm {episode.episode_id} ({reason})")


def confirm_recent(context: Context, since_ms: int) -> None:
    """Confirm memories of the sessions that grew since the last run."""
    for session_id in runs.sessions_grown_since(context.store, since_ms):
        context.check_time()
        confirm_session(context, session_id)
