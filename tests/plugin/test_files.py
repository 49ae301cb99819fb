"""The files of the plugin, and what the real Claude Code says about them."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from claude_binary import find_claude_with_mods, find_real_claude

from engram.paths import Home
from engram.setup.agents.registered import MANIFEST, MOD, marketplace_files, plugin_files
from engram.version import VERSION
from engram_hooks.block import settings_block
from engram_mcp.catalog import INSTRUCTIONS, TOOLS

#: Words of the skill: what stands in the context each time it is read, and what stands there always.
MAX_SKILL_WORDS = 220
MAX_DESCRIPTION_WORDS = 40


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for path, content in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def test_the_plugin_runs_the_hooks_and_the_server_that_the_settings_would(tmp_path: Path) -> None:
    home = Home(tmp_path / "it's mine")
    files = plugin_files(home, "/opt/engram/bin/python")
    block = settings_block(home, "/opt/engram/bin/python")

    assert json.loads(files["hooks/hooks.json"])["hooks"] == block["hooks"]
    assert json.loads(files[".mcp.json"]) == {"mcpServers": block["mcpServers"]}
    assert json.loads(files[MANIFEST])["version"] == VERSION
    assert files == plugin_files(home, "/opt/engram/bin/python")


def test_the_marketplace_holds_the_same_plugin() -> None:
    files = marketplace_files()
    (listed,) = json.loads(files[".claude-plugin/marketplace.json"])["plugins"]

    folder = listed["source"].removeprefix("./")
    inside = {path.removeprefix(f"{folder}/"): content for path, content in files.items() if path.startswith(folder)}
    assert inside == plugin_files()


def test_the_skill_is_short_and_repeats_no_sentence_of_the_tools() -> None:
    skill = plugin_files()["skills/memory/SKILL.md"].decode()
    _, head, body = skill.split("---\n", 2)
    told = " ".join([INSTRUCTIONS, *[tool.description for tool in TOOLS.values()]])

    description = next(line for line in head.splitlines() if line.startswith("description: "))
    assert len(description.split()) - 1 <= MAX_DESCRIPTION_WORDS
    assert len(body.split()) <= MAX_SKILL_WORDS
    words = body.lower().split()
    sixes = {" ".join(words[at : at + 6]) for at in range(len(words) - 5)}
    assert [run for run in sixes if run in " ".join(told.lower().split())] == []


def test_every_tool_that_the_skill_names_exists() -> None:
    skill = plugin_files()["skills/memory/SKILL.md"].decode()
    named = {word.strip("`,.:;()") for word in skill.split() if "memory_" in word}
    assert named
    assert named <= set(TOOLS)


#: What the mod may call of Claude Code: no model, no host, no prompt.
CALLS = {"command.register", "mcp.call", "mcp.connect", "ui.log"}
EVENTS = [
    "session.start",
    "classic.SessionStart",
    "classic.UserPromptSubmit",
    "classic.SubagentStart",
    "classic.PostToolUseFailure",
]


def test_the_mod_is_short_and_guards_every_hook() -> None:
    files = plugin_files(mod=True)
    text = files[MOD].decode()

    assert MOD not in plugin_files()
    assert set(files) - set(plugin_files()) == {MOD}
    assert json.loads(files["hooks/hooks.json"])["modules"] == ["./engram.js"]
    assert json.loads(files[MANIFEST])["engines"] == {"claude-code": ">=2.1.287"}
    assert len(text.splitlines()) <= 60
    assert max(map(len, text.splitlines())) <= 120
    assert re.findall(r"  on\('([^']+)'", text) == [*EVENTS, "command.run"]
    assert text.count(".catch(") == len(EVENTS) + 1
    assert set(re.findall(r"\$\.(\w+\.\w+)", text)) == CALLS


def test_claude_code_validates_the_mod_strictly_and_lists_what_it_does(tmp_path: Path) -> None:
    folder = write(tmp_path / "engram", plugin_files(declares_hosts=True, mod=True))

    said = validate(find_claude_with_mods(), tmp_path, folder)

    assert f"hooks: {', '.join(EVENTS)}, command.run{{command=engram}}" in said
    assert "calls: $.command.register, $.mcp.call (via ask), $.mcp.connect (via ask), $.ui.log (via note)" in said
    assert "gating hook without .catch" not in said


@pytest.mark.parametrize("kind", ["plugin", "marketplace"])
def test_claude_code_validates_it_strictly(tmp_path: Path, kind: str) -> None:
    folder = write(tmp_path / kind, plugin_files() if kind == "plugin" else marketplace_files())

    assert validate(find_real_claude(), tmp_path, folder)


def validate(claude: str, home: Path, folder: Path) -> str:
    """Return what Claude Code says about a folder that passes its strict check."""
    done = subprocess.run(
        [claude, "plugin", "validate", str(folder), "--strict"],
        env={"PATH": os.environ["PATH"], "HOME": str(home), "DISABLE_AUTOUPDATER": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
