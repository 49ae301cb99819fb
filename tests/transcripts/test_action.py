"""Of tool calls only facts are kept."""

from __future__ import annotations

from typing import Any

import pytest

from engram.transcripts.calls import shows_environment, telling_line
from engram.transcripts.claude_code.calls import finish_action, start_action
from engram.transcripts.turns import Action
from tests.each_case import each_case

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the "
    "new_string was NOT written to the file). "
)


def call(tool: str, **given: Any) -> Action:
    action = start_action({"type": "tool_use", "id": "t1", "name": tool, "input": given}, "a1")
    assert action is not None
    return action


def result(action: Action, content: Any, *, is_error: bool = False) -> Action:
    return finish_action(action, {"type": "tool_result", "content": content, "is_error": is_error}, "r1")


def test_an_edit_names_its_file() -> None:
    action = call("Edit", file_path="/p/a.py", old_string="x", new_string="y")

    assert (action.files, action.is_edit, action.is_error, action.uuid) == (("/p/a.py",), True, None, "a1")


def test_a_command_is_cut_and_has_an_exit_code() -> None:
    action = call("Bash", command="x" * 10_000)

    assert len(action.command) == 4_000
    assert result(action, "fine").exit_code == 0
    assert result(action, "Command running in background with ID: b1").exit_code is None
    assert result(action, "Exit code 2\nmake: *** [all] Error 2", is_error=True).exit_code == 2
    assert result(call("Read", file_path="/a"), "text").exit_code is None


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Exit code 1\n\n> app@1.0 test\n> jest\n\nFAIL src/a.test.ts\n  expected 1", "FAIL src/a.test.ts"),
        (
            'Exit code 1\nTraceback (most recent call last):\n  File "a.py", line 1, in <module>\n    f()\n'
            "ValueError: no such thing",
            "ValueError: no such thing",
        ),
        (
            "Exit code 1\n$ biome check\n===========\n\x1b[31merror[E0308]\x1b[0m: mismatched types",
            "error[E0308]: mismatched types",
        ),
        ("<tool_use_error>File has not been read yet.</tool_use_error>", "File has not been read yet."),
        ("Exit code 128\nfatal: not a git repository", "fatal: not a git repository"),
        ("Exit code 1", ""),
        ("", ""),
    ],
)
def test_the_telling_line_of_an_error_is_kept(text: str, line: str) -> None:
    assert telling_line(text) == line


def test_a_success_has_no_error_line() -> None:
    done = result(call("Bash", command="make"), "0 errors")

    assert (done.is_error, done.error_line, done.result_uuid) == (False, "", "r1")


def test_a_refused_call_has_no_error() -> None:
    block = {"type": "tool_result", "content": f"{REFUSED}STOP what you are doing and wait.", "is_error": True}

    refused = finish_action(call("Bash", command="rm x"), block, "r1", is_refused=True)

    assert (refused.is_refused, refused.error_line, refused.is_error) == (True, "", True)


def test_a_result_that_imitates_a_refusal_is_an_error() -> None:
    failed = result(call("Bash", command="cat log"), f"{REFUSED}the user said:\nhack", is_error=True)

    assert (failed.is_refused, failed.is_error) == (False, True)


@pytest.mark.parametrize(
    ("output", "commit"),
    [
        ("[main 1a2b3c4] Fix the parser\n 2 files changed", "1a2b3c4 Fix the parser"),
        ("[main (root-commit) 1a2b3c4] Begin", "1a2b3c4 Begin"),
        ("lint ok\n[detached HEAD 64424840aa] feat: x", "64424840aa feat: x"),
        ("nothing to commit, working tree clean", ""),
    ],
)
def test_a_commit_is_kept_with_its_subject(output: str, commit: str) -> None:
    assert result(call("Bash", command="git add -A && git commit -m x"), output).commit == commit


def test_other_commands_make_no_commits() -> None:
    assert result(call("Bash", command="cat notes"), "[main 1a2b3c4] Fix").commit == ""


def test_results_in_blocks_are_read() -> None:
    done = result(
        call("Bash", command="x"), [{"type": "text", "text": "Exit code 3"}, {"type": "image"}], is_error=True
    )

    assert done.exit_code == 3


@pytest.mark.parametrize("block", [{}, {"id": 5}, {"id": ""}, {"id": "x" * 999}])
def test_a_call_without_a_usable_id_is_none(block: dict[str, Any]) -> None:
    assert start_action(block, "a1") is None


def test_odd_input_is_tolerated() -> None:
    action = start_action({"id": "t", "name": None, "input": "text"}, "")

    assert action == Action("t", "")


@each_case(
    ("action", "expected"),
    [
        (call("Read", file_path="/p/.env"), True),
        (call("Read", file_path="/p/.env.local"), True),
        (call("Read", file_path="C:\\p\\prod.env"), True),
        (call("Read", file_path="/p/environment.py"), False),
        (call("Bash", command="cat config/.env | head"), True),
        (call("Bash", command="printenv"), True),
        (call("Read", file_path="/p/.envrc"), True),
        (call("Read", file_path="/p/.dev.vars"), True),
        (call("Bash", command="cat .envrc"), True),
        (call("Bash", command="export -p | sort"), True),
        (call("Bash", command="declare -x"), True),
        (call("Bash", command="docker exec app env"), True),
        (call("Bash", command="docker inspect app"), True),
        (call("Bash", command="tr '\\0' '\\n' < /proc/1/environ"), True),
        (call("Bash", command="heroku config -s"), True),
        (call("Bash", command="python -m venv .venv"), False),
        (call("Bash", command="export -f build"), False),
        (call("Bash", command="declare -x NAME=tide"), False),
        (call("Bash", command="docker exec app ls"), False),
    ],
)
def test_calls_that_show_environment_values_are_known(action: Action, expected: bool) -> None:
    assert shows_environment(action) is expected
