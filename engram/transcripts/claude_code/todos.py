"""The todo list of a session: what the tools TodoWrite, TaskCreate and TaskUpdate make of it."""

from __future__ import annotations

import re
from typing import Any

from engram.transcripts.call_facts import READ_AHEAD
from engram.transcripts.record import MAX_TODO_CHARS, MAX_TODOS, Action, Todo, TodoState
from engram.transcripts.text import storable, storable_id

_DONE = ("completed", "deleted", "cancelled")
_OPEN = ("pending", "in_progress")
#: How the result of TaskCreate names the id of the new entry.
_CREATED = re.compile(r"Task #(\w{1,40}) created")


def todos_of_call(tool: str, given: dict[str, Any]) -> tuple[tuple[Todo, ...], bool]:
    """Return what a call changes in the todo list, and whether that is the whole list.

    TodoWrite gives the whole list, of which only open entries are kept. The id of an entry of TaskCreate is in the
    result.
    """
    if tool == "TodoWrite":
        listed = given.get("todos")
        entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
        todos = [
            Todo("", _text(entry.get("content")), TodoState.OPEN) for entry in entries if entry.get("status") in _OPEN
        ]
        return tuple(todo for todo in todos if todo.text)[:MAX_TODOS], isinstance(listed, list)
    if tool == "TaskCreate":
        text = _text(given.get("subject"))
        return ((Todo("", text, TodoState.OPEN),) if text else ()), False
    if tool == "TaskUpdate":
        key, status = storable_id(given.get("taskId")), given.get("status")
        state = TodoState.DONE if status in _DONE else TodoState.OPEN if status in _OPEN else TodoState.SAME
        return ((Todo(key, _text(given.get("subject")), state),) if key else ()), False
    return (), False


def todos_of_result(action: Action, text: str, *, is_error: bool) -> Action:
    """Return an action with what its call changed in the todo list, now that the result is known: nothing if it failed.

    The entry of TaskCreate gets its id.
    """
    if is_error:
        return action._replace(todos=(), is_todo_list=False) if action.todos or action.is_todo_list else action
    if action.tool != "TaskCreate":
        return action
    created = _CREATED.match(text)
    return action._replace(todos=tuple(todo._replace(key=created[1]) for todo in action.todos) if created else ())


def _text(value: object) -> str:
    return storable(" ".join(value[: MAX_TODO_CHARS * READ_AHEAD].split())) if isinstance(value, str) else ""
