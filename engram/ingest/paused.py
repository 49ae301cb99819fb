"""What was said while the user had Engram paused is never stored. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from engram.models.pauses import Span
from engram.transcripts.claude_code.draft import TurnUpdate
from engram.transcripts.claude_code.entry import Entry
from engram.transcripts.record import Action, Role


def without_paused(
    updates: Iterable[TurnUpdate], entries: Iterable[Entry], pauses: Sequence[Span]
) -> tuple[TurnUpdate, ...]:
    """The turns without what was said and done in a pause; a turn that began in one is left out whole.

    What has no time is judged by its turn. What was stored before stays: it was said before the pause.

    Args:
        updates: turns of one read.
        entries: the entries of that read; they tell when a tool was called.
        pauses: of this session's project and of everything.
    """
    if not pauses:
        return tuple(updates)
    times = {entry.uuid: entry.at_ms for entry in entries if entry.uuid}
    begun_outside = (one for one in updates if not _is_in(one.turn.started_at_ms, pauses))
    return tuple(cut for one in begun_outside if (cut := _cut(one, times, pauses)) is not None)


def _cut(update: TurnUpdate, times: Mapping[str, int | None], pauses: Sequence[Span]) -> TurnUpdate | None:
    """The turn without what came in a pause; None for a new one of which nothing is left."""
    turn = update.turn
    said = [one for number, one in enumerate(turn.said) if number < update.said_before or not _is_in(one.at_ms, pauses)]
    actions = [
        one if number < update.actions_before else _without_result(one, times, pauses)
        for number, one in enumerate(turn.actions)
        if number < update.actions_before or not _is_in(times.get(one.uuid), pauses)
    ]
    if len(said) == len(turn.said) and actions == list(turn.actions):
        return update
    if update.is_new and not (said or actions):
        return None
    messages = {one.message_id or one.uuid for one in said if one.role is Role.ASSISTANT}
    turn = replace(turn, said=tuple(said), actions=tuple(actions), message_count=len(messages))
    return replace(update, turn=turn)


def _without_result(action: Action, times: Mapping[str, int | None], pauses: Sequence[Span]) -> Action:
    """A call from before the pause without the words of a result that came in it."""
    if not _is_in(times.get(action.result_uuid), pauses):
        return action
    return replace(action, error_line="", commit="", refusal="")


def _is_in(at_ms: int | None, pauses: Sequence[Span]) -> bool:
    return at_ms is not None and any(begin <= at_ms < end for begin, end in pauses)
