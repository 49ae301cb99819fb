"""``engram setup plugin``: shows the plugin, and writes it as a marketplace folder."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from engram.cli.main import engram
from engram.paths import Home
from engram.setup.agents.registered import marketplace_files


@pytest.fixture(autouse=True)
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    return tmp_path / "claude"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(engram, ["setup", "plugin", *arguments])


def test_the_plugin_is_shown_and_nothing_is_written(tmp_path: Path, claude: Path) -> None:
    shown = run()
    assert shown.exit_code == 0, shown.output
    assert str(claude / "skills" / "engram") in shown.output
    assert "Not registered" in shown.output

    found = json.loads(run("--json").stdout)
    assert json.loads(found["files"][".claude-plugin/plugin.json"])["name"] == "engram"
    assert found["registered"] == []
    assert not claude.exists()


def test_a_marketplace_folder_is_written_and_written_again(tmp_path: Path) -> None:
    folder = tmp_path / "market place"

    first = run("--out", str(folder))
    (folder / "engram" / "README.md").write_text("changed")
    second = run("--out", str(folder), "--json")

    assert f"claude plugin marketplace add '{folder}'" in first.output
    assert json.loads(second.stdout) == {"folder": str(folder)}
    written = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert written == marketplace_files(Home(tmp_path / "home"))
    assert os.access(tmp_path / "home" / "python", os.X_OK)


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("mine")

    refused = run("--out", str(tmp_path))

    assert refused.exit_code == 1
    assert "other files" in refused.output
    assert not (tmp_path / ".claude-plugin").exists()
