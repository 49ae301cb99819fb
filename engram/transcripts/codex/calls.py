"""Extract the facts about a Codex tool call and its result: files, command, exit status, error line, plan."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from engram.system.lazy_regex import any_case, lazy_regex
from engram.text.shell import telling_lines
from engram.transcripts.calls import MAX_PATH_CHARS, MAX_SEARCHED_CHARS, READ_AHEAD, commit_of, place_of, telling_line
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
    ARROW,
    MAX_COMMAND_CHARS,
    MAX_TODO_CHARS,
    MAX_TODOS,
    Action,
    Role,
    TextBlock,
    Todo,
    TodoState,
)

#: The tool that requests further output of a command that is still running.
POLL_TOOL = "write_stdin"
#: The tool that asks the user questions and waits for the answers. No tool of an MCP server has this name, because
#: theirs begin with a namespace.
QUESTION_TOOL = "request_user_input"
#: Codex's prefix for what the user typed, as an answer or in addition to a label, and its label for choosing no option.
_TYPED = "user_note: "
_NO_OPTION = "None of the above"
_PLAN_TOOL = "update_plan"
_PATCH_TOOL = "apply_patch"
_PATCH_BEGIN = "*** Begin Patch"
#: Maximum number of files in one patch.
_MAX_FILES = 100
_PATCHED = lazy_regex(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)[ \t]*$", re.MULTILINE)
_SHELLS = ("bash", "sh", "zsh", "fish")
_EXIT = lazy_regex(r"^(?:Process exited with code|Exit code:) (-?\d{1,9})[ \t]*$", re.MULTILINE)
_RUNNING = lazy_regex(r"^Process running with session ID (\d{1,12})[ \t]*$", re.MULTILINE)
#: Number of characters at the beginning of a result in which Codex reports how the command ended.
_HEAD_CHARS = 400
_OUTPUT = lazy_regex(r"^Output:\n", re.MULTILINE)
_REFUSED = any_case(r"rejected by user|denied by the user|approval was denied")
_ABORTED = any_case(r"aborted by user")
_FAILED = any_case(r"apply_patch verification failed|exec_command failed|failed to |error:|Unknown process id")


class Result(NamedTuple):
    #: The output of the call, at most ``MAX_SEARCHED_CHARS``; never stored.
    text: str
    is_error: bool = False
    exit_code: int | None = None
    is_refused: bool = False
    #: Codex's id for the process, if the command is still running; otherwise "".
    process: str = ""


def start_action(payload: dict[str, Any], uuid: str) -> Action | None:
    """Return the action of a call; None if it has no usable id."""
    call_id = storable_id(payload.get("call_id") or payload.get("id"))
    if not call_id:
        return None
    tool = ".".join(filter(None, (storable_id(payload.get("namespace")), storable_id(payload.get("name")))))
    given = arguments_of(payload)
    patch = storable_text(payload.get("input"))
    command = _command_text(given.get("cmd") or given.get("command"))
    if payload.get("type") == "local_shell_call":
        action = payload.get("action")
        tool, command = "local_shell", _command_text(action.get("command") if isinstance(action, dict) else None)
    patch = patch or (command if _PATCH_BEGIN in command else storable_text(given.get("input")))
    files = _paths(dict.fromkeys(_PATCHED.findall(patch))) if _PATCH_BEGIN in patch else ()
    todos = _todos_of(given) if tool == _PLAN_TOOL else None
    return Action(
        tool_use_id=call_id,
        tool=tool[:MAX_ID_CHARS],
        uuid=uuid,
        files=files or _path_of(given),
        command="" if tool == _PATCH_TOOL else command[: MAX_COMMAND_CHARS * READ_AHEAD],
        place=place_of(given),
        is_edit=bool(files) or tool == _PATCH_TOOL,
        todos=todos or (),
        is_todo_list=todos is not None,
    )


def finish_action(action: Action, result: Result, uuid: str) -> Action:
    is_failure = result.is_error and not result.is_refused
    is_done = not result.is_error and not result.is_refused
    return action._replace(
        is_error=result.is_error or result.is_refused,
        exit_code=result.exit_code,
        error_line=telling_line(result.text) if is_failure else "",
        error_lines=telling_lines(result.text) if is_failure and action.command else (),
        commit=commit_of(action, result.text) if is_done else "",
        todos=action.todos if is_done else (),
        is_todo_list=action.is_todo_list and is_done,
        result_uuid=uuid,
        is_refused=result.is_refused,
    )


def asked_in(action: Action, payload: dict[str, Any]) -> Iterator[tuple[Role, str, str]]:
    """Yield the role, text and link of each question that a call asks the user, except those that ask for a secret."""
    questions = arguments_of(payload).get("questions") if action.tool == QUESTION_TOOL else None
    for question in objects_in(questions):
        name = storable_id(question.get("id"))
        if not name or question.get("isSecret"):
            continue
        lines = [storable_text(question.get("question")).strip()]
        for option in objects_in(question.get("options")):
            texts = (storable_text(option.get(key)).strip() for key in ("label", "description"))
            if text := ": ".join(filter(None, texts)):
                lines.append(f"- {text}")
        yield Role.PROPOSED, "\n".join(lines), f"{action.tool_use_id}#{name}"


def answered_in(result: Result, proposed: Sequence[TextBlock]) -> Iterator[tuple[Role, str, str]]:
    """Yield the role, text and link of each answer that the user chose or typed, from the result of a call that asked.

    Args:
        proposed: the questions that the call asked.
    """
    try:
        answers = json.loads(result.text).get("answers")
    except (ValueError, AttributeError, RecursionError):
        return
    for asked in proposed if isinstance(answers, dict) else ():
        answer = answers.get(asked.message_id.partition("#")[2])
        given = answer.get("answers") if isinstance(answer, dict) else None
        texts = [text for text in given if isinstance(text, str)] if isinstance(given, list) else []
        labels = [text for text in texts if not text.startswith(_TYPED) and text != _NO_OPTION]
        if labels:
            question = asked.text.partition("\n- ")[0]
            yield Role.CHOSEN, storable(f"{question} {ARROW} {', '.join(labels)}"), asked.message_id
        for text in texts:
            if text.startswith(_TYPED):
                yield Role.USER, storable(text.removeprefix(_TYPED)).strip(), asked.message_id


def read_result(payload: dict[str, Any]) -> Result:
    """Return the outcome of a call, from its output or from the event that ends it."""
    if payload.get("type") == "exec_command_end":
        return _of_command(payload, payload.get("exit_code"), payload.get("status"))
    if payload.get("type") == "patch_apply_end":
        text = _printed(payload)
        return Result(text, is_error=payload.get("success") is False)
    output = payload.get("output")
    if isinstance(output, dict):
        return Result(_cut("\n".join(texts_in(output.get("content")))), is_error=output.get("success") is False)
    text = "\n".join(texts_in(output))
    return _of_json(text) or _of_text(text)


def finished_action(item: dict[str, Any], uuid: str) -> tuple[Action, Result] | None:
    """Return the action of an item that contains a call and its result; None if it has no usable id."""
    call_id = storable_id(item.get("id"))
    if not call_id:
        return None
    match item.get("type"):
        case "CommandExecution":
            action = Action(
                tool_use_id=call_id,
                tool="exec_command",
                uuid=uuid,
                command=_command_text(item.get("command"))[: MAX_COMMAND_CHARS * READ_AHEAD],
                place=place_of(item),
            )
            result = _of_command(item, item.get("exit_code"), item.get("status"))
        case "FileChange":
            changes = item.get("changes")
            files = _paths(changes) if isinstance(changes, dict) else ()
            action = Action(tool_use_id=call_id, tool=_PATCH_TOOL, uuid=uuid, files=files, is_edit=True)
            result = _of_command(item, None, item.get("status"))
        case _:
            name = ".".join(filter(None, (storable_id(item.get("server")), storable_id(item.get("tool")))))
            action = Action(tool_use_id=call_id, tool=name[:MAX_ID_CHARS], uuid=uuid)
            error = storable_text(item.get("error"))
            result = Result(_cut(error), is_error=bool(error) or item.get("status") == "failed")
    return finish_action(action, result, uuid), result


def arguments_of(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function call, decoded from JSON if they are a string; {} if they are not an object."""
    text = payload.get("arguments")
    try:
        given = json.loads(text) if isinstance(text, str) else text
    except (ValueError, RecursionError):
        return {}
    return object_in(given)


def _of_command(payload: dict[str, Any], exit_code: object, status: object) -> Result:
    code = exit_code if isinstance(exit_code, int) and not isinstance(exit_code, bool) else None
    return Result(
        _printed(payload),
        is_error=bool(code) or status == "failed",
        exit_code=code,
        is_refused=status == "declined",
    )


def _of_json(text: str) -> Result | None:
    """Return a result in the JSON of some versions of Codex, with output and exit status; None for other text."""
    if not text.startswith('{"output":'):
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    facts = data.get("metadata")
    code = facts.get("exit_code") if isinstance(facts, dict) else None
    return _of_command({"aggregated_output": data.get("output")}, code, None)


def _of_text(text: str) -> Result:
    """Return the result from a text that begins with lines about how the command ended."""
    output = _OUTPUT.search(text[:_HEAD_CHARS])
    head = text[: output.start()] if output else text[:_HEAD_CHARS]
    printed = _cut(text[output.end() :] if output else text)
    running, ended = _RUNNING.search(head), _EXIT.search(head)
    if running:
        return Result(printed, process=running[1])
    if ended:
        return Result(printed, is_error=int(ended[1]) != 0, exit_code=int(ended[1]))
    if output is None and _REFUSED.search(head):
        return Result(printed, is_refused=True)
    if output is None and _ABORTED.match(head):
        return Result("", is_error=True)
    return Result(printed, is_error=output is None and _FAILED.match(head) is not None)


def _printed(payload: dict[str, Any]) -> str:
    whole = storable_text(payload.get("aggregated_output"))
    return _cut(whole or "\n".join(filter(None, (storable_text(payload.get(key)) for key in ("stdout", "stderr")))))


def _cut(text: str) -> str:
    return storable(text[:MAX_SEARCHED_CHARS])


def _command_text(command: object) -> str:
    """Return a command as it would be typed: for ``bash -lc "…"``, only what the shell runs."""
    if isinstance(command, str):
        return storable(command)
    words = [word for word in command if isinstance(word, str)] if isinstance(command, list) else []
    if len(words) == 3 and words[0].rpartition("/")[2] in _SHELLS and words[1] in ("-c", "-lc"):
        return storable(words[2])
    return storable(shlex.join(words))


def _path_of(given: dict[str, Any]) -> tuple[str, ...]:
    return _paths([given.get("path") or given.get("file_path")])


def _paths(paths: Any) -> tuple[str, ...]:
    kept = [storable(path) for path in paths if isinstance(path, str) and 0 < len(path) <= MAX_PATH_CHARS]
    return tuple(kept[:_MAX_FILES])


def _todos_of(given: dict[str, Any]) -> tuple[Todo, ...] | None:
    """Return the open steps of a plan; None if the call has no list of steps."""
    plan = given.get("plan")
    if not isinstance(plan, list):
        return None
    texts = [
        " ".join(storable_text(step.get("step"))[: MAX_TODO_CHARS * READ_AHEAD].split())
        for step in objects_in(plan)
        if step.get("status") in ("pending", "in_progress")
    ]
    return tuple(Todo("", text, TodoState.OPEN) for text in texts if text)[:MAX_TODOS]
