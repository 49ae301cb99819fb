"""The block for Claude Code's settings, and what no part of Engram may ever say."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hook_runs import Hooks

import engram_hooks
from engram.paths import Home
from engram_hooks.block import link_interpreter, settings_block

REPO = Path(__file__).resolve().parent.parent.parent


def entries(block: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every hook, by its event and matcher."""
    return {
        f"{event}({found['matcher']})" if found["matcher"] else event: found["hooks"][0]
        for event, some in block["hooks"].items()
        for found in some
    }


def test_every_event_has_one_command_with_a_limit_in_seconds() -> None:
    commands = entries(settings_block())

    assert set(commands) == {
        "UserPromptSubmit",
        "SessionStart",
        "PreToolUse",
        "PreToolUse(Agent|Task)",
        "PostToolUseFailure(Bash)",
        "SubagentStart",
        "Stop",
        "SessionStart(compact)",
        "SessionStart(startup|resume)",
        "SessionEnd",
    }
    assert all(hook["type"] == "command" and 1 <= hook["timeout"] <= 10 for hook in commands.values())
    assert not any("async" in hook for hook in commands.values())


def test_every_command_names_existing_files_by_their_absolute_paths() -> None:
    folder = Path(engram_hooks.__file__).resolve().parent

    for hook in entries(settings_block()).values():
        words = [word.rpartition("=")[2] for word in hook["command"].split()]
        names = [word for word in words if word.endswith((".py", ".sh"))]
        assert names
        assert {Path(name).parent for name in names} == {folder}
        assert all(Path(name).is_file() for name in names)


def test_the_block_is_json_and_only_the_flush_hooks_name_the_virtual_environment() -> None:
    block = settings_block(interpreter="/somewhere else/venv/bin/python")

    assert json.loads(json.dumps(block)) == block
    named = {event for event, hook in entries(block).items() if "'/somewhere else/venv/bin/python'" in hook["command"]}
    assert named == {"Stop", "SessionStart(compact)", "SessionStart(startup|resume)", "SessionEnd"}
    server = block["mcpServers"]["engram"]
    assert (server["command"], server["args"]) == ("/somewhere else/venv/bin/python", ["-m", "engram_mcp.server"])


def test_a_home_of_its_own_is_laid_down_but_the_environment_counts_more(hooks: Hooks, tmp_path: Path) -> None:
    block = settings_block(Home(tmp_path / "it's mine"))
    command = entries(block)["PreToolUse"]["command"]
    hooks.commands["PreToolUse"] = command.rpartition("[ -e")[0] + 'printf %s "$ENGRAM_HOME"'

    assert hooks.run("PreToolUse").output == str(hooks.home.root).encode()
    del hooks.environment["ENGRAM_HOME"]
    assert hooks.run("PreToolUse").output == str(tmp_path / "it's mine").encode()
    assert block["mcpServers"]["engram"]["env"] == {"ENGRAM_HOME": str(tmp_path / "it's mine")}


def test_the_link_leads_to_the_real_interpreter_and_is_renewed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.root.mkdir()
    home.python_link.symlink_to("/somewhere/old/python")

    link_interpreter(home)
    link_interpreter(home)

    assert os.readlink(home.python_link) == os.path.realpath(sys.executable)
    assert [path.name for path in home.root.iterdir()] == ["python"]


@pytest.mark.parametrize("word", ["permission" + "Decision", "updated" + "Input"])
def test_the_words_that_grant_or_change_a_tool_call_stand_nowhere_in_the_source(word: str) -> None:
    folders = ("engram", "hooks", "mcp_server", "launchd", "systemd", "benchmarks")
    files = [
        path for name in folders for path in (REPO / name).rglob("*") if path.suffix in {".py", ".sh", ".json", ".toml"}
    ]

    assert files
    assert [str(path) for path in files if word in path.read_text(encoding="utf-8", errors="replace")] == []
