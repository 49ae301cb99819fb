"""Leave out what was said while the user had Engram paused. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from engram.models.pauses import Span
from engram.transcripts.record import Action, Role, TurnUpdate
from engram.transcripts.source import PullRequest, SourceEntry


def without_paused(
    updates: Iterable[TurnUpdate], entries: Iterable[SourceEntry], pauses: Sequence[Span]
) -> tuple[TurnUpdate, ...]:
    """Return the turns without what was said and done in a pause; a turn that began in one is left out whole.

    What has no time is judged by its turn. What was stored before stays: it was said before the pause.

    Args:
        updates: turns of one read.
        entries: the entries of that read; they tell when a tool was called.
        pauses: those of this session's project, and those of everything.
    """
    if not pauses:
        return tuple(updates)
    times = {entry.uuid: entry.at_ms for entry in entries if entry.uuid}
    begun_outside = (update for update in updates if not _is_in(update.turn.started_at_ms, pauses))
    return tuple(rest for update in begun_outside if (rest := _cut(update, times, pauses)) is not None)


def pull_requests_outside(links: Iterable[PullRequest], pauses: Sequence[Span]) -> tuple[PullRequest, ...]:
    """Return the pull requests that were not named in a pause."""
    return tuple(link for link in links if not _is_in(link.at_ms, pauses))


def _cut(update: TurnUpdate, times: Mapping[str, int | None], pauses: Sequence[Span]) -> TurnUpdate | None:
    """Return the turn without what came in a pause; None for a new turn of which nothing is left."""
    turn = update.turn
    said = [
        block
        for number, block in enumerate(turn.said)
        if number < update.said_before or not _is_in(block.at_ms, pauses)
    ]
    actions = [
        action if number < update.actions_before else _without_result(action, times, pauses)
        for number, action in enumerate(turn.actions)
        if number < update.actions_before or not _is_in(times.get(action.uuid), pauses)
    ]
    if len(said) == len(turn.said) and actions == list(turn.actions):
        return update
    if update.is_new and not (said or actions):
        return None
    messages = {block.message_id or block.uuid for block in said if block.role is Role.ASSISTANT}
    turn = replace(turn, said=tuple(said), actions=tuple(actions), message_count=len(messages))
    return replace(update, turn=turn)


def _without_result(action: Action, times: Mapping[str, int | None], pauses: Sequence[Span]) -> Action:
    """Return a call from before the pause without the words of a result that came during it."""
    if not _is_in(times.get(action.result_uuid), pauses):
        return action
    return action._replace(error_line="", error_lines=(), error_keys=(), commit="", refusal="")


def _is_in(at_ms: int | None, pauses: Sequence[Span]) -> bool:
    return at_ms is not None and any(begin <= at_ms < end for begin, end in pauses)
