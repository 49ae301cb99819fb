"""Turns that a reader gives whole: keep what is theirs, and find out what is new against the stored turns.

The reader of a source that is rewritten, or of a database, need not know what is stored. It gives each turn as the
source holds it now, and the same turn again at the next read. Here that becomes a new turn, a longer one, a replaced
one, or nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from engram.ingest.forgotten import without_entries
from engram.ingest.stored import TurnsInStore
from engram.models.store import Store
from engram.models.turns import load_turn
from engram.transcripts.record import Action, TextBlock, Turn, TurnUpdate


def keep_own_entries(stored_turns: TurnsInStore, updates: Iterable[TurnUpdate]) -> tuple[TurnUpdate, ...]:
    """Return the updates without forgotten turns, and without entries that another turn holds or that were forgotten.

    An entry belongs to one turn, across all sources: copies of a session count once. Only whole turns are changed.
    """
    kept = []
    taken: set[str] = set()
    for update in updates:
        if update.is_whole:
            turn = _own_part(stored_turns, update.turn, taken)
            if turn is None:
                continue
            taken.update(entry.uuid for entry in turn.entries)
            update = replace(update, turn=turn)
        kept.append(update)
    return tuple(kept)


def _own_part(stored_turns: TurnsInStore, turn: Turn, taken: set[str]) -> Turn | None:
    """Return what of a turn may be stored under its key; None if nothing may."""
    stored = stored_turns.load(turn.key)
    if stored is None and stored_turns.is_known(turn.key):
        return None
    if stored is not None and stored.session_id != turn.session_id:
        return None
    uuids = {entry.uuid for entry in turn.entries}
    own = {entry.uuid for entry in stored.entries} if stored is not None else set()
    others = stored_turns.known_entries(sorted(uuids - own)) | (uuids & taken)
    if not others:
        return turn
    left = replace(
        without_entries(turn, others), entries=tuple(entry for entry in turn.entries if entry.uuid not in others)
    )
    return left if left.said or left.actions or left.entries else None


def compare_with_stored(store: Store, updates: Iterable[TurnUpdate]) -> tuple[TurnUpdate, ...]:
    """Return what has to be written of whole turns whose texts are redacted; other updates as they are."""
    compared = (_compare(store, update) if update.is_whole else update for update in updates)
    return tuple(update for update in compared if update is not None)


def _compare(store: Store, update: TurnUpdate) -> TurnUpdate | None:
    turn = update.turn
    stored = load_turn(store, turn.key)
    if stored is None:
        return update
    before = stored.turn
    entries = {entry.uuid for entry in turn.entries}
    entries_before = {entry.uuid for entry in before.entries}
    same_actions = _count_same_actions(before.actions, turn.actions)
    is_longer = (
        _words(turn.said[: len(before.said)]) == _words(before.said)
        and entries_before <= entries
        and same_actions == len(before.actions)
    )
    is_same = (
        is_longer
        and len(turn.said) == len(before.said)
        and entries == entries_before
        and tuple(map(_as_stored, turn.actions)) == before.actions
        and _facts(turn) == _facts(before)
    )
    if is_same:
        is_closed_now = turn.is_closed and not before.is_closed
        return replace(update, is_new=False, has_grown=False) if is_closed_now else None
    return replace(
        update,
        said_before=len(before.said) if is_longer else 0,
        entries_before=len(entries & entries_before),
        actions_before=same_actions,
        is_new=False,
        is_replaced=not is_longer,
    )


def _words(said: Iterable[TextBlock]) -> list[tuple[str, str, str, str]]:
    """Return what makes texts equal: their positions may differ in a source that was rewritten."""
    return [(block.uuid, block.role.value, block.text, block.message_id) for block in said]


def _facts(turn: Turn) -> tuple[object, ...]:
    return turn.opening, turn.is_interrupted, turn.extra


def _count_same_actions(before: tuple[Action, ...], now: tuple[Action, ...]) -> int:
    """Return how many tool calls at the beginning are those that are stored; a result may have come."""
    count = 0
    for stored, action in zip(before, now, strict=False):
        is_same = _as_stored(action) == stored or (
            not stored.result_uuid and (stored.uuid, stored.tool) == (action.uuid, action.tool)
        )
        if not is_same:
            break
        count += 1
    return count


def _as_stored(action: Action) -> Action:
    """Return the action as it is stored: without the id that a result is found by, once the result is there."""
    return action._replace(tool_use_id="") if action.result_uuid else action
