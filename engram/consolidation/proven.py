"""Which memories are proven and belong in MEMORY.md, and why the others do not yet. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from engram.consolidation.ageing import DAY_MS
from engram.consolidation.confirm import TEST_PASSED, USER_AGREED
from engram.enums import Actor, Importance, Judgement, Scope, Source, Status, Voice
from engram.models.episode_history import JUDGEMENT_ACTIONS, Change, standing_steps
from engram.models.episodes import Episode
from engram.models.judgements import standing_judgements
from engram.models.usefulness import Usefulness

#: Sessions that must have used a memory.
MIN_USED_SESSIONS = 3
#: Days after which an important global memory of the user's needs no use.
MIN_GLOBAL_DAYS = 14
#: Changes by which a user confirms a memory.
_CONFIRMING_ACTIONS = ("edit", "pin", "confirm")


def confirmed_by(episode: Episode, history: Sequence[Change]) -> str:
    """Return how a person or a test confirmed a memory; "" if neither did."""
    if episode.voice in (Voice.USER, Voice.CHOSEN):
        return "the user said it" if episode.source == Source.AUTO else "the user saved it"
    for change in standing_steps(history):
        if change.action == "confirm" and change.reason.startswith((USER_AGREED, TEST_PASSED)):
            return change.reason
        if change.actor is Actor.USER and change.action in _CONFIRMING_ACTIONS:
            return f"the user's {change.action}"
    for change in standing_judgements(history)[-1:]:
        if change.actor is Actor.USER and change.action == JUDGEMENT_ACTIONS[Judgement.HELPFUL]:
            return "the user judged it helpful"
    return ""


def is_standing_rule(episode: Episode, now_ms: int) -> bool:
    """Return True for what the user said or saved for every project, if it is important and 14 days old."""
    is_users = episode.voice == Voice.USER or (episode.source == Source.MANUAL and episode.voice != Voice.IMPORTED)
    is_old = now_ms - episode.created_at_ms >= MIN_GLOBAL_DAYS * DAY_MS
    return is_users and episode.importance == Importance.HIGH and episode.scope == Scope.GLOBAL and is_old


def why_not_proven(episode: Episode, uses: Usefulness, history: Sequence[Change], now_ms: int) -> str:
    """Return why a memory does not become a line of MEMORY.md; "" if it does.

    It was used in three sessions and confirmed by a person or a test, or it is a standing rule of the user's.
    """
    if episode.graduated_at_ms is not None:
        return "it became one already"
    if episode.is_lowered:
        return "judged wrong"
    if episode.origin:
        return f"it is {episode.origin}'s"
    if episode.suspect:
        return f"suspect: {episode.suspect}"
    missing = [] if episode.status == Status.ACTIVE else [episode.status.value]
    if not is_standing_rule(episode, now_ms):
        if uses.used < MIN_USED_SESSIONS:
            missing.append(f"used in {uses.used} of {MIN_USED_SESSIONS} sessions")
        if not confirmed_by(episode, history):
            missing.append("not confirmed by the user or a test")
    return ", ".join(missing)
