"""Leave out what was forgotten, so that no later reading stores it again. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from engram.transcripts.record import Turn, TurnUpdate


def without_erased(updates: Iterable[TurnUpdate], erased: Collection[str]) -> tuple[TurnUpdate, ...]:
    """Return the turns without the words of erased entries: their texts, and the facts of their tool calls.

    Args:
        updates: turns of one read.
        erased: ids of entries, and keys of turns whose prompt has no entry and is erased.
    """
    if not erased:
        return tuple(updates)
    return tuple(replace(update, turn=without_entries(update.turn, erased)) for update in updates)


def without_entries(turn: Turn, entries: Collection[str]) -> Turn:
    """Return the turn without the texts and calls of some entries; a text without an entry goes by the turn's key."""
    said = tuple(block for block in turn.said if (block.uuid or turn.key) not in entries)
    actions = tuple(
        action for action in turn.actions if action.uuid not in entries and action.result_uuid not in entries
    )
    if len(said) == len(turn.said) and len(actions) == len(turn.actions):
        return turn
    return replace(turn, said=said, actions=actions)
