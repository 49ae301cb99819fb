"""The todo list of a session, from calls as Claude Code writes them."""

from __future__ import annotations

from typing import Any

import pytest

from engram.models.engine.statement import pack_actions, unpack_actions
from engram.transcripts.calls import open_todos
from engram.transcripts.claude_code.calls import finish_action, start_action
from engram.transcripts.turns import MAX_TODOS, Action, Todo, TodoState


def call(tool: str, result: str = "done", *, is_error: bool = False, is_refused: bool = False, **given: Any) -> Action:
    action = start_action({"type": "tool_use", "id": "t1", "name": tool, "input": given}, "a1")
    assert action is not None
    return finish_action(action, {"content": result, "is_error": is_error}, "r1", is_refused=is_refused)


def write(**statuses: str) -> Action:
    return call("TodoWrite", todos=[{"content": text, "status": status} for text, status in statuses.items()])


def create(number: int, subject: str) -> Action:
    return call("TaskCreate", f"Task #{number} created successfully: {subject}", subject=subject, description="long")


def update(number: int, **given: str) -> Action:
    return call("TaskUpdate", f"Updated task #{number} status", taskId=str(number), **given)


def test_a_written_list_replaces_the_one_before() -> None:
    first = write(read="in_progress", repair="pending", check="pending")
    second = write(read="completed", repair="in_progress", check="pending")

    assert open_todos([first]) == ["read", "repair", "check"]
    assert open_todos([first, second]) == ["repair", "check"]
    assert open_todos([first, second, write(read="completed", repair="completed", check="completed")]) == []


def test_tasks_are_followed_by_their_numbers() -> None:
    actions = [create(1, "read"), create(2, "repair"), create(3, "check"), update(1, status="completed")]

    assert open_todos(actions) == ["repair", "check"]
    assert open_todos([*actions, update(3, status="deleted"), update(2, status="in_progress")]) == ["repair"]
    assert open_todos([*actions, update(2, subject="repair the cache"), update(3, addBlockedBy="2")]) == [
        "repair the cache",
        "check",
    ]


@pytest.mark.parametrize("fate", [{"is_error": True}, {"is_refused": True}])
def test_a_call_that_failed_changes_nothing(fate: dict[str, bool]) -> None:
    first = write(read="pending")

    assert open_todos([first, call("TodoWrite", todos=[], **fate), call("TaskCreate", subject="no", **fate)]) == [
        "read"
    ]


def test_a_task_whose_result_names_no_number_is_left_out() -> None:
    assert open_todos([call("TaskCreate", "created", subject="read")]) == []


@pytest.mark.parametrize(
    "given",
    [{}, {"todos": None}, {"todos": "text"}, {"todos": [None, 3, {}, {"content": 3, "status": "pending"}]}],
)
def test_malformed_lists_are_empty(given: dict[str, Any]) -> None:
    assert open_todos([call("TodoWrite", **given)]) == []
    assert open_todos([call("TaskCreate", subject=given), call("TaskUpdate", taskId=3, status=[])]) == []


def test_a_list_is_bounded() -> None:
    action = call("TodoWrite", todos=[{"content": f"todo {n}", "status": "pending"} for n in range(1000)])

    assert len(action.todos) == MAX_TODOS


def test_todos_come_back_from_storage_and_malformed_ones_are_left_out() -> None:
    actions = (write(read="pending", done="completed"), create(7, "repair"), write(done="completed"))

    stored = unpack_actions(pack_actions(actions, ()), ())

    assert [(a.todos, a.is_todo_list) for a in stored] == [(a.todos, a.is_todo_list) for a in actions]
    broken = '[{"tool": "x", "todos": [["", "a", "open"], ["", "b"], 3, ["", "c", "mood"]]}, {"todos": 5}]'
    assert [a.todos for a in unpack_actions(broken, ())] == [(Todo("", "a", TodoState.OPEN),), ()]
