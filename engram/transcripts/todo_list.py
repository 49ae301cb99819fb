"""The open entries of a session's todo list, from its tool calls in order."""

from __future__ import annotations

from collections.abc import Iterable

from engram.transcripts.record import Action, TodoState


def open_todos(actions: Iterable[Action]) -> list[str]:
    """Return the texts of the entries that no later call completed, in their order."""
    whole: list[str] = []
    single: dict[str, str] = {}
    for action in actions:
        if action.is_todo_list:
            whole = [todo.text for todo in action.todos if todo.state is TodoState.OPEN]
            continue
        for todo in action.todos:
            if todo.state is TodoState.DONE:
                single.pop(todo.key, None)
            elif todo.text and (todo.state is TodoState.OPEN or todo.key in single):
                single[todo.key] = todo.text
    return list(dict.fromkeys([*whole, *single.values()]))
