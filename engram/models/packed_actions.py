"""The facts of a turn's tool calls as they are stored in its row: JSON of what differs from the defaults,
compressed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engram.models.packed import pack_text, unpack_text
from engram.transcripts.record import Action, EntryRef, Todo, TodoState

_ACTION_DEFAULTS = Action("", "")._asdict()
_ACTION_ITEMS = tuple(_ACTION_DEFAULTS.items())
_TODO_STATES = frozenset(state.value for state in TodoState)
#: Facts that name an entry; stored as its place among the turn's entries.
ENTRY_FACTS = ("uuid", "result_uuid")
#: Facts with several values.
_LISTS = ("files", "error_lines", "error_keys")


def pack_actions(actions: Iterable[Action], entries: Sequence[EntryRef]) -> str | bytes:
    """The stored form of tool calls; ``entries`` are those of their turn, in order."""
    places = {entry.uuid: place for place, entry in enumerate(entries)}
    return pack_text(json.dumps([_action_to_json(action, places) for action in actions], ensure_ascii=False))


def unpack_actions(stored: str | bytes, entries: Sequence[EntryRef]) -> tuple[Action, ...]:
    """Tool calls out of their column. Raises BrokenDatabase where it is damaged."""
    return tuple(_action_from_json(facts, entries) for facts in unpack_facts(stored))


def todos_of(facts: Mapping[str, Any]) -> tuple[Todo, ...]:
    """The changes of a todo list among the facts of a tool call; malformed ones are left out."""
    listed = facts.get("todos")
    return tuple(todo for change in listed if (todo := _todo_of(change))) if isinstance(listed, list) else ()


def _todo_of(change: object) -> Todo | None:
    """The change of a todo list; None where it is malformed."""
    match change:
        case [str(key), str(text), str(state)] if state in _TODO_STATES:
            return Todo(key, text, TodoState(state))
    return None


def _action_to_json(action: Action, places: Mapping[str, int]) -> dict[str, Any]:
    """Only what differs from the defaults: most calls have few facts. The id serves until the result is there."""
    given: Iterable[tuple[Any, tuple[str, Any]]] = zip(action, _ACTION_ITEMS, strict=True)
    facts = {name: value for value, (name, default) in given if value != default}
    if action.result_uuid:
        facts.pop("tool_use_id", None)
    for name in ENTRY_FACTS:
        if name in facts:
            facts[name] = places.get(facts[name], facts[name])
    return facts


def unpack_calls(stored: str | bytes) -> tuple[Action, ...]:
    """Tool calls out of their column, without the ids of their entries. Raises BrokenDatabase where it is damaged."""
    facts = ({k: v for k, v in fact.items() if k not in ENTRY_FACTS} for fact in unpack_facts(stored))
    return tuple(_action_from_json(fact, ()) for fact in facts)


def unpack_facts(stored: str | bytes) -> list[dict[str, Any]]:
    """The facts of tool calls out of their column; none where it is malformed. Raises BrokenDatabase."""
    try:
        facts = json.loads(unpack_text(stored))
    except (ValueError, RecursionError):
        return []
    return [fact for fact in facts if isinstance(fact, dict)] if isinstance(facts, list) else []


def _action_from_json(facts: dict[str, Any], entries: Sequence[EntryRef]) -> Action:
    known = {k: v for k, v in facts.items() if k in _ACTION_DEFAULTS}
    for name in _LISTS:
        known[name] = tuple(known.get(name, ()))
    known["todos"] = todos_of(known)
    for name in ENTRY_FACTS:
        if isinstance(known.get(name), int):
            known[name] = entries[known[name]].uuid
    return Action(**({"tool_use_id": "", "tool": ""} | known))
