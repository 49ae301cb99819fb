"""Extract the facts about a tool call: files, command, exit status, most informative error line, commit."""

from __future__ import annotations

from typing import Any

from engram.system.lazy_regex import lazy_regex
from engram.text.shell import telling_lines
from engram.transcripts.calls import (
    MAX_PATH_CHARS,
    MAX_SEARCHED_CHARS,
    READ_AHEAD,
    commit_of,
    place_of,
    read_message,
    telling_line,
)
from engram.transcripts.json_values import (
    MAX_ID_CHARS,
    object_in,
    objects_in,
    storable,
    storable_id,
    storable_text,
    texts_in,
)
from engram.transcripts.turns import (
    MAX_COMMAND_CHARS,
    MAX_ERROR_CHARS,
    MAX_TODO_CHARS,
    MAX_TODOS,
    Action,
    Todo,
    TodoState,
)

# -- Read the changes to a session's todo list by the tools TodoWrite, TaskCreate and TaskUpdate.

_DONE = ("completed", "deleted", "cancelled")
_OPEN = ("pending", "in_progress")
#: The text with which the result of TaskCreate reports the id of the new entry.
_CREATED = lazy_regex(r"Task #(\w{1,40}) created")


def todos_of_call(tool: str, given: dict[str, Any]) -> tuple[tuple[Todo, ...], bool]:
    """Return a call's changes to the todo list, and whether they replace the whole list.

    TodoWrite contains the whole list, of which only the open entries are kept. For TaskCreate, the entry's id is in the
    result.
    """
    if tool == "TodoWrite":
        listed = given.get("todos")
        open_ones = [entry for entry in objects_in(listed) if entry.get("status") in _OPEN]
        todos = [Todo("", _text(entry.get("content")), TodoState.OPEN) for entry in open_ones]
        return tuple(todo for todo in todos if todo.text)[:MAX_TODOS], isinstance(listed, list)
    if tool == "TaskCreate":
        text = _text(given.get("subject"))
        return ((Todo("", text, TodoState.OPEN),) if text else ()), False
    if tool == "TaskUpdate":
        key, status = storable_id(given.get("taskId")), given.get("status")
        state = TodoState.DONE if status in _DONE else TodoState.OPEN if status in _OPEN else TodoState.SAME
        return ((Todo(key, _text(given.get("subject")), state),) if key else ()), False
    return (), False


def todos_of_result(action: Action, text: str, report: object, *, is_error: bool) -> Action:
    """Return an action with the call's changes to the todo list once the result is known; without any if it failed.

    The entry created by TaskCreate gets its id, which is in the text or in the report next to it.
    """
    if is_error:
        return action._replace(todos=(), is_todo_list=False) if action.todos or action.is_todo_list else action
    if action.tool != "TaskCreate":
        return action
    created = _CREATED.match(text)
    task = report.get("task") if isinstance(report, dict) else None
    key = created[1] if created else storable_id(task.get("id")) if isinstance(task, dict) else ""
    return action._replace(todos=tuple(todo._replace(key=key) for todo in action.todos) if key else ())


def _text(value: object) -> str:
    return storable(" ".join(value[: MAX_TODO_CHARS * READ_AHEAD].split())) if isinstance(value, str) else ""


EDIT_TOOLS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit", "apply_patch"})
SHELL_TOOLS = frozenset({"Bash", "PowerShell", "shell", "local_shell", "exec_command"})
_FILE_KEYS = ("file_path", "notebook_path")

#: Code Mode's tool, which runs a script that calls the other tools.
SCRIPT_TOOL = "REPL"
#: Keys of a report that contain what a call shows: the output of a command, search or agent, a web page, an old file.
_REPORTED = ("stdout", "stderr", "content", "result", "originalFile")
_SHA = lazy_regex(r"[0-9a-f]{7,40}")
#: Number of characters to keep of a full hash. Git prints about as many, and redaction would mistake a full hash for a
#: secret.
_SHA_CHARS = 12
_EXIT = lazy_regex(r"(?:Error: )?Exit code (-?\d{1,9})\b")


def start_action(block: dict[str, Any], uuid: str, at_ms: int | None = None) -> Action | None:
    """Return the action of a ``tool_use`` block; None if it has no usable id.

    Args:
        uuid: id of the entry that contains the block.
        at_ms: when the call was made, which is kept only for a command.
    """
    tool_use_id, tool = block.get("id"), block.get("name")
    if not isinstance(tool_use_id, str) or not 0 < len(tool_use_id) <= MAX_ID_CHARS:
        return None
    tool = tool[:MAX_ID_CHARS] if isinstance(tool, str) else ""
    given = object_in(block.get("input"))
    files = tuple(
        storable(f)
        for f in (given.get(key) for key in _FILE_KEYS)
        if isinstance(f, str) and 0 < len(f) <= MAX_PATH_CHARS
    )
    command = given.get("command")
    command = storable(command[: MAX_COMMAND_CHARS * READ_AHEAD]) if isinstance(command, str) else ""
    todos, is_todo_list = todos_of_call(tool, given)
    return Action(
        tool_use_id=storable(tool_use_id),
        tool=storable(tool),
        uuid=uuid,
        files=files,
        command=command,
        place=place_of(given),
        is_edit=tool in EDIT_TOOLS,
        todos=todos,
        is_todo_list=is_todo_list,
        at_ms=at_ms if command else None,
    )


def finish_action(
    action: Action, block: dict[str, Any], uuid: str, report: object = None, *, is_refused: bool = False
) -> Action:
    """Return the action with the facts from its result.

    Args:
        uuid: id of the entry that contains the block.
        report: Claude Code's own record of the result, which is next to the block (``toolUseResult``).
        is_refused: the user refused the call.
    """
    text = result_text(block, report)
    is_error = block.get("is_error") is True
    is_running = isinstance(report, dict) and bool(report.get("backgroundTaskId"))
    exit_code = None if is_running else _exit_code(action, text, is_error)
    return todos_of_result(action, text, report, is_error=is_error or is_refused)._replace(
        is_error=is_error,
        exit_code=exit_code,
        error_line=telling_line(text) if is_error and not is_refused else "",
        error_lines=telling_lines(text) if action.command and is_error and not is_refused else (),
        commit=(commit_of(action, text) or _reported_commit(action, report)) if not is_error else "",
        result_uuid=uuid,
        is_refused=is_refused,
    )


def thrown_action(block: dict[str, Any], uuid: str, report: object) -> Action | None:
    """Return the action of a Code Mode script that threw an error without calling a tool; None for all other results.

    The calls that a script makes have their own lines, which follow the script's result.
    """
    if not isinstance(report, dict) or "code" not in report or report.get("toolsUsed"):
        return None
    text = result_text(block)
    if not (block.get("is_error") is True or report.get("error")) or "<tools-used-before-summary>" in text:
        return None
    line = storable_text(report.get("error")) or text
    return Action(
        tool_use_id=storable_text(block.get("tool_use_id"))[:MAX_ID_CHARS],
        tool=SCRIPT_TOOL,
        uuid=uuid,
        is_error=True,
        error_line=telling_line(line),
        result_uuid=uuid,
    )


def result_text(block: dict[str, Any], report: object = None) -> str:
    """Return the text of a result, at most ``MAX_SEARCHED_CHARS``.

    In Code Mode, the block of a call within a script is empty, and only ``report`` contains the text.
    """
    content = block.get("content")
    if content == "" and not block.get("is_error"):
        return storable(_reported_text(report)[:MAX_SEARCHED_CHARS])
    return storable("\n".join(texts_in(content, "text"))[:MAX_SEARCHED_CHARS])


def everything_shown(block: dict[str, Any], report: object) -> str:
    """Return the text of a result's block and of the report next to it, such as a file before its change."""
    return f"{result_text(block)}\n{storable(_reported_text(report)[:MAX_SEARCHED_CHARS])}".strip()


def _reported_text(report: object) -> str:
    """Return the text of Claude Code's report on a result, which can have several forms."""
    if not isinstance(report, dict):
        return "\n".join(texts_in(report, "text"))
    file = report.get("file")
    parts = [report.get(key) for key in _REPORTED] + [file.get("content") if isinstance(file, dict) else None]
    return "\n".join(filter(None, ("\n".join(texts_in(part, "text")) for part in parts)))


def _reported_commit(action: Action, report: object) -> str:
    """Return the commit that a command made according to Claude Code: its hash, and the subject from the command."""
    if not isinstance(report, dict) or "gitOperation" not in report:
        return ""
    sha = storable_text(object_in(object_in(report["gitOperation"]).get("commit")).get("sha"))
    if not sha or not _SHA.fullmatch(sha):
        return ""
    message = read_message(action.command)[0]
    return f"{sha[:_SHA_CHARS]} {message}".strip()[: MAX_ERROR_CHARS * READ_AHEAD]


def _exit_code(action: Action, text: str, is_error: bool) -> int | None:
    if action.tool not in SHELL_TOOLS:
        return None
    match = _EXIT.match(text) if is_error else None
    if match:
        return int(match[1])
    return None if is_error or text.startswith("Command running in background") else 0
