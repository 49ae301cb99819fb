"""What was forgotten is never stored again by another reading. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from engram.transcripts.claude_code.draft import TurnUpdate
from engram.transcripts.record import Turn


def without_erased(updates: Iterable[TurnUpdate], erased: Collection[str]) -> tuple[TurnUpdate, ...]:
    """The turns without the words of erased entries: what they said, and the facts of their tool calls.

    Args:
        updates: turns of one read.
        erased: uuids of entries, and keys of turns whose queued prompt is erased.
    """
    if not erased:
        return tuple(updates)
    return tuple(replace(update, turn=without_entries(update.turn, erased)) for update in updates)


def without_entries(turn: Turn, entries: Collection[str]) -> Turn:
    """The turn without what some of its entries said or did; a queued prompt goes by the key of its turn."""
    said = tuple(one for one in turn.said if (one.uuid or turn.key) not in entries)
    actions = tuple(one for one in turn.actions if one.uuid not in entries and one.result_uuid not in entries)
    if len(said) == len(turn.said) and len(actions) == len(turn.actions):
        return turn
    return replace(turn, said=said, actions=actions)
