"""Code Mode: a script calls the tools, and the results of its calls are next to their empty blocks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from turn_memory import Memory, Script

from engram.ingest.read_sources import ingest_path
from engram.models.open_memory import open_store
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.calls import shows_environment
from engram.transcripts.claude_code.calls import SCRIPT_TOOL, finish_action, result_text, start_action
from engram.transcripts.registry import resume_command
from engram.transcripts.turns import Action, Role

SESSION = "55555555-6666-4777-8888-999999999999"


def call(tool: str, **given: Any) -> Action:
    action = start_action({"type": "tool_use", "id": "repl_1", "name": tool, "input": given}, "a1")
    assert action is not None
    return action


def result(action: Action, report: object, content: str = "", *, is_error: bool = False) -> Action:
    return finish_action(action, {"type": "tool_result", "content": content, "is_error": is_error}, "r1", report)


def inner(script: Script, tool: str, report: object, number: int = 1, /, **given: Any) -> None:
    """A call of a script, with its result: two virtual lines."""
    block = {"type": "tool_use", "id": f"repl_{number}", "name": tool, "input": given}
    message = {"id": f"v{number}", "model": "<synthetic>", "content": [block]}
    script.add({"type": "assistant", "isVirtual": True, "madeBy": "other", "message": message})
    empty = {"type": "tool_result", "tool_use_id": f"repl_{number}", "content": "", "is_error": False}
    script.user([empty], isVirtual=True, turnCompanion=True, toolUseResult=report)


@pytest.mark.parametrize(
    ("report", "text"),
    [
        ({"stdout": "a\nb", "stderr": ""}, "a\nb"),
        ({"stdout": "out", "stderr": "warning: err"}, "out\nwarning: err"),
        ({"type": "text", "file": {"filePath": "/p/.env", "content": "KEY=1"}}, "KEY=1"),
        ("the answer of an MCP tool", "the answer of an MCP tool"),
        ([{"type": "text", "text": "of a"}, {"type": "text", "text": "server"}], "of a\nserver"),
        ({"content": [{"type": "text", "text": "an agent's report"}], "status": "completed"}, "an agent's report"),
        ({"mode": "content", "content": "a.py:1:KEY=1", "numLines": 1}, "a.py:1:KEY=1"),
        ({"url": "https://x.example", "result": "a web page"}, "a web page"),
        ({"filePath": "/p/.env", "originalFile": "KEY=1", "newString": "x"}, "KEY=1"),
        ({"filePath": "/p/a.py", "newString": "x"}, ""),
        ({"stdout": 7, "file": ["x"]}, ""),
        (None, ""),
        ([], ""),
    ],
)
def test_the_text_of_an_empty_result_is_what_is_reported_beside_it(report: object, text: str) -> None:
    assert result_text({"type": "tool_result", "content": ""}, report) == text
    assert result_text({"type": "tool_result", "content": "shown"}, report) == "shown"
    assert result_text({"type": "tool_result", "content": "", "is_error": True}, report) == ""


@pytest.mark.parametrize(
    ("report", "commit"),
    [
        ({"stdout": "[main bb14198] keep sessions in redis\n 1 file changed", "stderr": ""}, "bb14198"),
        ({"stdout": "", "gitOperation": {"commit": {"sha": "bb14198", "kind": "committed"}}}, "bb14198"),
        ({"stdout": "[main bb14198] keep", "gitOperation": {"commit": {"sha": "bb14198"}}}, "bb14198"),
        ({"stdout": "ok", "gitOperation": {"commit": {"sha": "bb14198" + "0" * 33}}}, "bb1419800000"),
        ({"stdout": "nothing to commit", "gitOperation": {"commit": {"sha": "not a sha"}}}, ""),
        ({"stdout": "nothing to commit", "gitOperation": {"push": {"branch": "main"}}}, ""),
        ({"stdout": "nothing to commit", "gitOperation": "commit"}, ""),
    ],
)
def test_a_commit_within_a_script_is_found(report: object, commit: str) -> None:
    action = call("Bash", command='git commit -m "keep sessions in redis"')

    found = result(action, report).commit

    assert found.split(" ")[0] == commit
    assert found in ("", f"{commit} keep sessions in redis", f"{commit} keep")


@pytest.mark.parametrize("report", [{"backgroundTaskId": "b1"}, {"stdout": "", "backgroundTaskId": "x", "stderr": ""}])
@pytest.mark.parametrize("command", ["make watch", "npm run dev", "sleep 600"])
def test_a_command_in_the_background_is_not_done(report: object, command: str) -> None:
    done = result(call("Bash", command=command), {"stdout": "", "stderr": ""})
    running = result(call("Bash", command=command), report)

    assert (done.exit_code, running.exit_code, running.is_error) == (0, None, False)


def test_a_script_with_calls_is_not_itself_a_call(memory: Memory, script: Script) -> None:
    script.user("count them")
    script.calls(SCRIPT_TOOL, code="await $`ls`; await $`false`")
    script.result("<repl-output><tools-used-before-summary>Bash</tools-used-before-summary></repl-output>")
    inner(script, "Bash", {"stdout": "a.py", "stderr": ""}, command="ls")
    inner(script, "Read", {"file": {"content": "x"}}, 2, file_path="/p/a.py")
    inner(script, "Edit", {"filePath": "/p/a.py"}, 3, file_path="/p/a.py")
    script.says("Three.")

    memory.feed("s", script.entries)
    (turn,) = memory.turns.values()

    assert [(action.tool, action.is_error) for action in turn.actions] == [
        ("Bash", False),
        ("Read", False),
        ("Edit", False),
    ]
    assert (turn.prompt, turn.reply, memory.uuids) == ("count them", "Three.", script.uuids)


@pytest.mark.parametrize(
    ("report", "is_error", "line"),
    [
        ({"code": "x()", "error": "ReferenceError: x is not defined"}, True, "ReferenceError: x is not defined"),
        ({"code": "throw 1", "error": "Error: 1", "toolsUsed": []}, False, "Error: 1"),
        ({"code": "x()", "error": "TypeError: x", "toolsUsed": ["Bash"]}, True, None),
        ({"code": "1 + 1", "result": 2}, False, None),
    ],
)
def test_a_script_counts_where_it_threw_without_a_call(
    memory: Memory, script: Script, report: dict[str, Any], is_error: bool, line: str | None
) -> None:
    script.user("count them")
    script.calls(SCRIPT_TOOL, code=report["code"])
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "<error>x</error>", "is_error": is_error}
    script.user([block], toolUseResult=report)

    memory.feed("s", script.entries)
    (turn,) = memory.turns.values()

    assert [action.error_line for action in turn.actions] == ([] if line is None else [line])
    assert all(action.tool == SCRIPT_TOOL and action.is_error for action in turn.actions)


@pytest.mark.parametrize(
    ("tool", "given", "report"),
    [
        ("Read", {"file_path": "/p/.env"}, {"file": {"content": "DEPLOY_KEY=orchid-lagoon-7741-quartz\n"}}),
        ("Bash", {"command": "cat .env"}, {"stdout": "DEPLOY_KEY=orchid-lagoon-7741-quartz\n", "stderr": ""}),
        ("Bash", {"command": "cat .env.local >&2"}, {"stdout": "", "stderr": "DEPLOY_KEY=orchid-lagoon-7741-quartz"}),
        ("Grep", {"pattern": "KEY", "path": "/p/.env"}, {"content": ".env:2:DEPLOY_KEY=orchid-lagoon-7741-quartz"}),
        ("mcp__files__read", {"path": "/p/.env"}, "DEPLOY_KEY=orchid-lagoon-7741-quartz\n"),
        ("Edit", {"file_path": "/p/.env"}, {"originalFile": "DEPLOY_KEY=orchid-lagoon-7741-quartz\n"}),
        ("Agent", {"prompt": "look"}, {"content": [{"type": "text", "text": "DEPLOY_KEY=orchid-lagoon-7741-quartz"}]}),
    ],
)
def test_the_secrets_of_an_environment_file_are_learned(
    tmp_path: Path, script: Script, tool: str, given: dict[str, str], report: object
) -> None:
    script.user("read the settings")
    script.calls(SCRIPT_TOOL, code="…")
    script.result("<repl-output></repl-output>")
    inner(script, tool, report, **given)

    assert shows_environment(call(tool, **given))
    assert_learned(tmp_path, script)


@pytest.mark.parametrize("code", ["process.env", "await file('.env').text()", "await $`printenv`.text()"])
def test_the_secrets_that_a_script_prints_are_learned(tmp_path: Path, script: Script, code: str) -> None:
    script.user("read the settings")
    script.calls(SCRIPT_TOOL, code=code)
    text = "<repl-output><result>\nDEPLOY_KEY=orchid-lagoon-7741-quartz\n</result></repl-output>"
    script.user([{"type": "tool_result", "tool_use_id": "t1", "content": text}], toolUseResult={"code": code})

    assert_learned(tmp_path, script)


def assert_learned(tmp_path: Path, script: Script) -> None:
    """Read a session in which the assistant repeats the secret: it is stored nowhere."""
    script.says("The value is orchid-lagoon-7741-quartz, and it works.")
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    settings.places.prepare()
    path = settings.projects_folder / "-p" / f"{SESSION}.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(entry.data) + "\n" for entry in script.entries), encoding="utf-8")

    with open_store(settings.places.memory_db) as store:
        ingest_path(store, path, settings=settings, redact=redact, close=True)
    stored = settings.places.memory_db.read_bytes()

    assert b"orchid-lagoon" not in stored
    assert b"and it works" in stored


@pytest.mark.parametrize(
    ("lines", "is_code_mode"),
    [
        (['{"type":"repl-mode","replMode":true,"sessionId":"s"}'], True),
        (['{"sessionId":"s","type":"repl-mode","replMode":true}', '{"type":"user"}'], True),
        (['{"type":"repl-mode","replMode":true}', '{"type":"repl-mode","replMode":false}'], False),
        (['{"type":"repl-mode","replMode":false}'], False),
        ([json.dumps({"type": "user", "message": '{"type":"repl-mode","replMode":true}'})], False),
        ([], False),
    ],
)
def test_the_command_that_resumes_a_session_names_its_mode(
    tmp_path: Path, lines: list[str], is_code_mode: bool
) -> None:
    path = tmp_path / f"{SESSION}.jsonl"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")

    command = resume_command("claude-code", SESSION, path)

    assert command.endswith(f"claude --resume {SESSION}")
    assert ("CLAUDE_CODE_EXPERIMENTAL_CODE_MODE=1 claude" in command) is is_code_mode


def test_without_a_transcript_a_session_is_resumed_as_usual(tmp_path: Path) -> None:
    assert resume_command("claude-code", SESSION) == f"claude --resume {SESSION}"
    assert resume_command("claude-code", SESSION, tmp_path / "gone.jsonl") == f"claude --resume {SESSION}"


QUESTION: dict[str, Any] = {
    "questions": [{"question": "Which port?", "options": [{"label": "8080"}, {"label": "9090"}]}]
}


@pytest.mark.parametrize(
    "more", [{}, {"isVirtual": True, "turnCompanion": True}, {"turnCompanion": True}, {"isMeta": True}]
)
@pytest.mark.parametrize(
    ("session", "is_answered"),
    [({"entrypoint": "cli"}, True), ({}, True), ({"entrypoint": "sdk-ts"}, False), ({"entrypoint": "sdk-cli"}, False)],
)
def test_a_program_answers_the_dialogs_of_its_session_within_a_script_too(
    memory: Memory, script: Script, more: dict[str, Any], session: dict[str, Any], is_answered: bool
) -> None:
    script.user("set it up", **session)
    block = {"type": "tool_use", "id": "repl_1", "name": "AskUserQuestion", "input": QUESTION}
    script.add({"type": "assistant", "message": {"id": "v1", "content": [block]}} | session | more)
    result = {"type": "tool_result", "tool_use_id": "repl_1", "content": ""}
    script.user([result], toolUseResult=QUESTION | {"answers": {"Which port?": "always 7070"}}, **session, **more)

    memory.feed("s", script.entries)
    (turn,) = memory.turns.values()

    assert ("always 7070" in [text.text for text in turn.users_texts]) == is_answered
    assert any(text.role is Role.PROPOSED for text in turn.said) == is_answered
