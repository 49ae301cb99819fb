"""``engram setup hooks``: the block, ready for Claude Code's settings, and the link that the hooks start by."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from engram.cli.main import engram


def test_the_block_is_printed_as_json_and_the_link_is_made(tmp_path: Path) -> None:
    run = CliRunner().invoke(engram, ["setup", "hooks", "--json"])

    assert run.exit_code == 0, run.output
    block = json.loads(run.stdout)
    assert set(block) == {"hooks", "mcpServers"}
    assert os.access(tmp_path / "home" / "python", os.X_OK)


def test_a_home_that_is_not_the_default_is_in_every_command(tmp_path: Path) -> None:
    block = json.loads(CliRunner().invoke(engram, ["setup", "hooks", "--json"]).stdout)

    commands = [found[0]["hooks"][0]["command"] for found in block["hooks"].values()]
    assert all(str(tmp_path / "home") in command for command in commands)


def test_the_default_home_is_left_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ENGRAM_HOME")

    block = json.loads(CliRunner().invoke(engram, ["setup", "hooks", "--json"]).stdout)

    command = block["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    assert command.startswith('P="${ENGRAM_HOME:-$HOME/.claude-memory}/python"')
    assert (tmp_path / "user" / ".claude-memory" / "python").is_symlink()
