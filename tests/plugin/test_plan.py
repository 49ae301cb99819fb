"""What the installer is told to change: the plugin's folder, or Claude Code's own files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engram.paths import Home
from engram.setup.agents.claude_code import ClaudeCode
from engram.setup.agents.plugin import (
    permission_rule,
    plan_plugin,
    plan_settings,
    without_our_hooks,
    without_our_server,
)
from engram.setup.agents.registered import MOD, find_registrations, plugin_files, read_documents
from engram.setup.edits.install_steps import JsonEdit, JsonEntry, Step
from engram.setup.edits.json_edit import apply_json, drop_json
from engram_hooks.block import settings_block

OTHERS = {"type": "command", "command": "prettier --write"}


def apply(step: Step) -> None:
    for change in step.changes:
        if change.content is None:
            change.path.unlink()
        else:
            change.path.parent.mkdir(parents=True, exist_ok=True)
            change.path.write_bytes(change.content)


def test_the_plan_of_the_plugin_is_its_files_and_changes_nothing_itself(tmp_path: Path) -> None:
    step = plan_plugin(tmp_path / "claude", Home(tmp_path / "memory"))

    folder = tmp_path / "claude" / "skills" / "engram"
    planned = {str(change.path.relative_to(folder)): change.content for change in step.changes}
    assert planned == plugin_files(Home(tmp_path / "memory"))
    assert all(change.mode == 0o644 for change in step.changes)
    assert list(tmp_path.iterdir()) == []


def test_an_upgrade_removes_what_an_earlier_version_left_and_leaves_hidden_files(tmp_path: Path) -> None:
    apply(plan_plugin(tmp_path))
    folder = tmp_path / "skills" / "engram"
    (folder / "commands").mkdir()
    (folder / "commands" / "old.md").write_text("of an earlier version")
    (folder / ".DS_Store").write_text("of the system")

    removed = [change.path for change in plan_plugin(tmp_path).changes if change.is_removal]

    assert removed == [folder / "commands" / "old.md"]


def test_the_mod_comes_and_goes_with_the_choice_and_a_version_that_leaves_it_out_is_named(tmp_path: Path) -> None:
    apply(plan_plugin(tmp_path, mod=True))
    mod = tmp_path / "skills" / "engram" / MOD
    assert mod.is_file()
    assert [change.path for change in plan_plugin(tmp_path).changes if change.is_removal] == [mod]

    def notes(version: str) -> str:
        return "\n".join(plan_plugin(tmp_path, mod=True, version=version).notes)

    assert "(2.1.197 (Claude Code)) ignores the mod, which needs version 2.1.287 or later" in notes(
        "2.1.197 (Claude Code)"
    )
    assert not plan_plugin(tmp_path, is_found=False).notes  # no session can be running
    assert not any("leaves" in notes(version) for version in ("2.1.287 (Claude Code)", "2.2.0", "3.0.0", ""))


def test_an_interrupted_installation_is_finished(tmp_path: Path) -> None:
    apply(plan_plugin(tmp_path))
    (tmp_path / "skills" / "engram" / ".claude-plugin" / "plugin.json").unlink()

    apply(plan_plugin(tmp_path))

    assert (tmp_path / "skills" / "engram" / ".claude-plugin" / "plugin.json").is_file()


@pytest.mark.parametrize("name", ["SKILL.md", ".claude-plugin/plugin.json"])
def test_a_skill_or_plugin_of_somebody_else_is_left_alone(tmp_path: Path, name: str) -> None:
    path = tmp_path / "skills" / "engram" / name
    path.parent.mkdir(parents=True)
    path.write_text('{"name": "engram"}')
    (tmp_path / "skills" / "engram" / "notes.md").write_text("mine")

    step = plan_plugin(tmp_path)

    assert {change.path.relative_to(tmp_path).parts[1] for change in step.changes} == {"engram-recall"}
    assert "which is left unchanged. Engram's is named “engram-recall”" in step.notes[0]
    apply(step)
    assert [found.plugin_id for found in find_registrations(read_documents(tmp_path))] == ["engram-recall@skills-dir"]
    assert not [change for change in plan_plugin(tmp_path).changes if change.is_removal]


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("2.1.330 (Claude Code)", True),
        ("2.1.157", True),
        ("2.1.156 (Claude Code)", False),
        ("1.0.128", False),
        ("", True),
        ("unknown", False),
    ],
)
def test_which_claude_code_gets_the_plugin(version: str, supported: bool) -> None:
    assert ClaudeCode(None, version).supports_plugin is supported


def test_each_way_has_its_permission_rule() -> None:
    rules = permission_rule(is_plugin=True), permission_rule(is_plugin=False)

    assert rules == ("mcp__plugin_engram_engram", "mcp__engram")


def edit_of(step: Step, name: str) -> JsonEdit:
    (edit,) = [change.edit for change in step.changes if change.path.name == name]
    assert isinstance(edit, JsonEdit)
    return edit


def edited(settings: dict[str, Any], edit: JsonEdit) -> dict[str, list[Any]]:
    """The hooks after an edit."""
    text, _ = apply_json(drop_json(json.dumps(settings), edit.drop), edit)
    hooks: dict[str, list[Any]] = json.loads(text)["hooks"]
    return hooks


def test_settings_get_every_hook_and_the_server_beside_those_of_others(tmp_path: Path) -> None:
    block = settings_block(Home(tmp_path / "memory"))
    settings = {"hooks": {"PreToolUse": [{"matcher": "Edit", "hooks": [OTHERS]}]}}

    step = plan_settings(tmp_path, tmp_path / ".claude.json", settings, Home(tmp_path / "memory"))

    after = edited(settings, edit_of(step, "settings.json"))
    assert after["PreToolUse"] == [*settings["hooks"]["PreToolUse"], *block["hooks"]["PreToolUse"]]
    assert {event: groups for event, groups in after.items() if event != "PreToolUse"} == {
        event: groups for event, groups in block["hooks"].items() if event != "PreToolUse"
    }
    servers = edit_of(step, ".claude.json")
    assert servers.add == (JsonEntry(("mcpServers", "engram"), block["mcpServers"]["engram"], marker="engram_mcp"),)


def test_settings_that_are_complete_stay_the_same(tmp_path: Path) -> None:
    settings = {"hooks": settings_block()["hooks"]}

    edit = edit_of(plan_settings(tmp_path, tmp_path / ".claude.json", settings), "settings.json")

    assert edited(settings, edit) == settings["hooks"]


def test_hooks_from_another_version_are_replaced_and_those_of_others_stay(tmp_path: Path) -> None:
    earlier = {"type": "command", "command": "/old/python /old/engram_hooks/stop.py", "async": True}
    settings = {
        "hooks": {
            "Stop": [{"matcher": "", "hooks": [OTHERS, earlier]}],
            "PreCompact": [{"matcher": "", "hooks": [earlier]}],
            "Notification": [{"hooks": [OTHERS]}],
        }
    }

    after = edited(settings, edit_of(plan_settings(tmp_path, tmp_path / ".claude.json", settings), "settings.json"))

    assert after == {
        **settings_block()["hooks"],
        "Stop": [{"matcher": "", "hooks": [OTHERS]}, *settings_block()["hooks"]["Stop"]],
        "Notification": [{"hooks": [OTHERS]}],
    }


def test_the_server_is_taken_out_for_the_plugin_and_that_of_another_program_is_not() -> None:
    ours = settings_block()["mcpServers"]

    assert without_our_server({"mcpServers": ours}).drop == (JsonEntry(("mcpServers", "engram"), ours["engram"]),)
    assert without_our_server({"mcpServers": {"engram": {"command": "bun"}}}) == JsonEdit()


def test_all_hooks_are_taken_out_for_the_plugin(tmp_path: Path) -> None:
    settings = {"hooks": {**settings_block()["hooks"], "Notification": [{"hooks": [OTHERS]}]}, "model": "opus"}

    assert edited(settings, without_our_hooks(settings)) == {"Notification": [{"hooks": [OTHERS]}]}
    assert without_our_hooks({"hooks": ["of", "another", "form"]}) == JsonEdit()
