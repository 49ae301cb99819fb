"""PostToolUseFailure: the worker is asked only about programs that have failed before, and its answer is printed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hook_runs import Hooks, Serve

from engram.paths import Home
from engram.recollection.hook_files import RecollectionFiles
from engram.recollection.render_bites import hook_output
from engram_hooks.block import FOLDER, tool_command

SESSION = "4d5305c0-d908-490f-9de8-316cdfa26529"
LINE = hook_output("PostToolUseFailure", "`git push` failed like this and passed as `git push -u origin x`.")


def failed(command: str = 'git push 2>&1 && echo "done"', **fields: Any) -> dict[str, Any]:
    """The payload of a failing command, with the fields that Claude Code 2.1.197 sends."""
    return {
        "session_id": SESSION,
        "transcript_path": f"/home/dev/.claude/projects/-w/{SESSION}.jsonl",
        "cwd": "/w",
        "hook_event_name": "PostToolUseFailure",
        "tool_name": "Bash",
        "tool_input": {"command": command, "description": "push"},
        "tool_use_id": "toolu_0",
        "error": "Exit code 128\nfatal: The current branch x has no upstream branch.",
        "is_interrupt": False,
        "duration_ms": 103,
    } | fields


@pytest.fixture
def known(hooks: Hooks) -> Path:
    """The list of programs that have failed in earlier sessions."""
    RecollectionFiles(hooks.home.recollections).put_failed_programs(SESSION, ["bun run lint", "git push"])
    return hooks.home.recollections / f"{SESSION}.failures"


def test_a_program_that_failed_before_is_asked_about_and_the_answer_printed(
    hooks: Hooks, serve: Serve, known: Path
) -> None:
    heard: list[bytes] = []
    serve(hooks.home, lambda request: heard.append(request) or LINE)

    run = hooks.run("PostToolUseFailure", failed(), session=SESSION)

    assert run.output == LINE
    assert run.context.startswith("`git push` failed")
    assert [json.loads(request) for request in heard] == [failed()]


def test_a_program_that_failed_before_in_a_vault_is_asked_about(hooks: Hooks, serve: Serve) -> None:
    vault = Home(hooks.home.root / "vaults" / "my client").prepare()
    RecollectionFiles(vault.recollections).put_failed_programs(SESSION, ["git push"])
    serve(hooks.home, lambda _: LINE)

    assert hooks.run("PostToolUseFailure", failed(), session=SESSION).output == LINE
    assert hooks.run("PostToolUseFailure", failed("make all"), session=SESSION).is_silent


def test_a_subagents_failure_is_asked_about_too(hooks: Hooks, serve: Serve, known: Path) -> None:
    heard: list[bytes] = []
    serve(hooks.home, lambda request: heard.append(request) or LINE)

    assert hooks.run("PostToolUseFailure", failed(agent_id="a1"), session=SESSION).output == LINE
    assert json.loads(heard[0])["agent_id"] == "a1"


@pytest.mark.parametrize("command", ["make all", "git pull", "bun run build"])
def test_any_other_program_is_not_asked_about(hooks: Hooks, serve: Serve, known: Path, command: str) -> None:
    heard: list[bytes] = []
    serve(hooks.home, lambda request: heard.append(request) or LINE)

    assert hooks.run("PostToolUseFailure", failed(command), session=SESSION).is_silent
    assert heard == []


def test_where_nothing_failed_before_only_the_shell_is_needed(hooks: Hooks) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", hooks.commands["PostToolUseFailure"]],
        input=json.dumps(failed()).encode(),
        capture_output=True,
        env={"ENGRAM_HOME": str(hooks.home.root), "PATH": "/nowhere", "CLAUDE_CODE_SESSION_ID": SESSION},
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        LINE[:-4],
        b"words",
        b'{"hookSpecificOutput":{"hookEventName":"PostToolUseFailure","additionalContext":"x"},'
        b'"continue":false,"a":{}}',
    ],
)
def test_an_answer_of_any_other_form_is_not_printed(hooks: Hooks, serve: Serve, known: Path, answer: bytes) -> None:
    serve(hooks.home, lambda _: answer)

    assert hooks.run("PostToolUseFailure", failed(), session=SESSION).is_silent


@pytest.mark.parametrize("broken", ["no worker", "fifo", "folder", "switched off", "no interpreter", "other session"])
def test_whatever_is_broken_prints_nothing(hooks: Hooks, serve: Serve, known: Path, broken: str) -> None:
    if broken != "no worker":
        serve(hooks.home, lambda _: LINE)
    if broken in ("fifo", "folder"):
        known.unlink()
        os.mkfifo(known) if broken == "fifo" else known.mkdir()
    if broken == "no interpreter":
        hooks.home.python_link.unlink()
    session = "../recollections/x" if broken == "other session" else SESSION
    more = {"ENGRAM_DISABLE": "1"} if broken == "switched off" else {}

    assert hooks.run("PostToolUseFailure", failed(), session=session, **more).is_silent


def test_a_missing_script_prints_nothing(hooks: Hooks, known: Path, tmp_path: Path) -> None:
    hooks.commands["PostToolUseFailure"] = tool_command(tmp_path / "gone.sh", waits_for="failures")

    assert hooks.run("PostToolUseFailure", failed(), session=SESSION).is_silent


@pytest.mark.parametrize("script", ["failure.sh", "pretooluse.sh", "payload.sh"])
@pytest.mark.parametrize("kept", [0, 0.5, 0.9])
def test_half_a_script_never_blocks_a_call(hooks: Hooks, known: Path, tmp_path: Path, script: str, kept: float) -> None:
    """Status 2 of PreToolUse blocks the tool call, and a shell ends with it when it sources half a file."""
    folder = tmp_path / "scripts"
    shutil.copytree(FOLDER, folder)
    text = (folder / script).read_text(encoding="utf-8")
    (folder / script).write_text(text[: int(len(text) * kept)] + "case ", encoding="utf-8")
    RecollectionFiles(hooks.home.recollections).put(SESSION, LINE)
    for event, name, waits_for in (
        ("PostToolUseFailure", "failure.sh", "failures"),
        ("PreToolUse", "pretooluse.sh", "pending"),
    ):
        hooks.commands[event] = tool_command(folder / name, waits_for=waits_for)

        assert hooks.run(event, failed(), session=SESSION).status == 0


def test_any_error_comes_through_as_it_is(hooks: Hooks, serve: Serve, known: Path) -> None:
    heard: list[bytes] = []
    serve(hooks.home, lambda request: heard.append(request) or b"")
    sent = failed(error="Exit code 1\n" + "%s \\n \\\\ $HOME `id` é \"'\n" * 2_000)

    assert hooks.run("PostToolUseFailure", sent, session=SESSION).is_silent
    assert json.loads(heard[0]) == sent
