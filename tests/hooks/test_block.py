"""The block for Claude Code's settings, and what no part of Engram may ever say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hook_runs import Hooks

import engram_hooks
from engram.paths import Home
from engram_hooks.block import APART, link_interpreter, settings_block

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
    assert (server["command"], server["args"]) == (
        "/somewhere else/venv/bin/python",
        [*APART, "-m", "engram_mcp.server"],
    )


def shadow(folder: Path) -> Path:
    """A folder with modules that are called as some of Python's and Engram's are."""
    folder.mkdir()
    for name in ("types", "signal", "json", "engram", "engram_mcp"):
        (folder / f"{name}.py").write_text("raise SystemExit(3)")
    return folder


@pytest.mark.parametrize("variable", ["", "PYTHONPATH", "PYTHONHOME"])
def test_the_mcp_server_of_a_project_loads_none_of_its_modules(tmp_path: Path, variable: str) -> None:
    """Claude Code starts it in the project's folder, with the variables of the project's shell."""
    server = settings_block(Home(tmp_path / "home"))["mcpServers"]["engram"]
    project = shadow(tmp_path / "project")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}

    ended = subprocess.run(
        [server["command"], *server["args"]],
        input=json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n",
        capture_output=True,
        cwd=project,
        env=os.environ | server["env"] | ({variable: str(project)} if variable else {}),
        check=False,
    )

    assert (ended.returncode, json.loads(ended.stdout)["id"]) == (0, 1)


def test_packages_of_a_users_own_are_found_beside_the_projects_that_are_not() -> None:
    """``pip install --user`` is what pip does where the interpreter's folder can't be written to."""
    code = "import sys; print(sys.flags.no_user_site, sys.flags.ignore_environment, sys.flags.safe_path)"
    printed = subprocess.run([sys.executable, *APART, "-c", code], capture_output=True, text=True, check=True).stdout
    own = [hook["command"] for hook in entries(settings_block()).values() if sys.executable in hook["command"]]

    assert printed.split() == ["0", "1", "True"]
    assert len(own) == 4
    assert all(f'"$P" {" ".join(APART)} /' in command for command in own)


def test_a_home_of_its_own_is_laid_down_but_the_environment_counts_more(hooks: Hooks, tmp_path: Path) -> None:
    block = settings_block(Home(tmp_path / "it's mine"))
    command = entries(block)["PreToolUse"]["command"]
    hooks.commands["PreToolUse"] = command.partition("for F")[0] + 'printf %s "$ENGRAM_HOME"'

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
