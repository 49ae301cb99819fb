"""engram doctor names each thing that is wrong together with what to do about it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from planting import plant

from engram.cli.status_commands import show_checks
from engram.cli.up_commands import SAMPLES
from engram.models.engine.transaction import Store
from engram.models.memories import memory_history
from engram.models.sessions import reading_progress
from engram.models.work import task_runs, work
from engram.paths import Home, default_home
from engram.reports import claude_checks
from engram.reports.engram_checks import Check, State
from engram.settings import ConfigFault
from engram.setup.agents.registered import MOD, plugin_files
from engram.setup.doctor.machine_checks import restarting
from engram.transcripts.agents import Unreadable
from engram.version import VERSION

Run = Callable[..., Result]


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> Path:
    """An empty Claude configuration folder."""
    folder = tmp_path / "claude"
    (folder / "projects").mkdir(parents=True)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    return folder


def checks(run: Run, code: int = 1) -> dict[str, dict[str, str]]:
    found: dict[str, Any] = json.loads(run("doctor", "--json", code=code).stdout)
    assert found["ok"] is (code == 0)
    return {check["name"]: check for check in found["checks"]}


def install(run: Run, claude: Path) -> dict[str, Any]:
    block: dict[str, Any] = json.loads(run("setup", "hooks", "--json").stdout)
    (claude / "settings.json").write_text(json.dumps({"model": "opus", "hooks": block["hooks"]}))
    (claude / ".claude.json").write_text(json.dumps({"mcpServers": block["mcpServers"]}))
    return block


def test_a_fresh_machine_is_told_to_start_and_to_connect(run: Run, claude: Path) -> None:
    findings = checks(run)

    assert findings["watcher"]["state"] == findings["worker"]["state"] == "bad"
    assert "engram up" in findings["worker"]["advice"]
    assert findings["hooks' interpreter"]["command"] == findings["hooks"]["command"] == "engram install"
    assert findings["memory.db"]["state"] == findings["memory folder"]["state"] == "ok"
    assert "SQLite" in findings["driver"]["detail"]


def test_installed_hooks_and_server_are_found(run: Run, claude: Path) -> None:
    block = install(run, claude)
    # Claude Code keeps there what was typed in every project.
    typed = {f"/work/{number}": {"history": ["x" * 100_000]} for number in range(100)}
    (claude / ".claude.json").write_text(json.dumps({"projects": typed, "mcpServers": block["mcpServers"]}))

    findings = checks(run)

    assert (findings["hooks"]["state"], findings["MCP server"]["state"]) == ("ok", "ok")
    assert "hooks' interpreter" not in findings


def test_hooks_that_are_gone_switched_off_or_incomplete_are_named(run: Run, claude: Path) -> None:
    block = install(run, claude)

    settings = {"hooks": {**block["hooks"], "Stop": []}}
    (claude / "settings.json").write_text(json.dumps(settings))
    assert "Stop" in checks(run)["hooks"]["detail"]

    (claude / "settings.json").write_text(json.dumps({"hooks": block["hooks"], "disableAllHooks": True}))
    assert "disableAllHooks" in checks(run)["hooks"]["detail"]

    moved = json.dumps({"hooks": block["hooks"]}).replace("/engram_hooks/", "/elsewhere/engram_hooks/")
    (claude / "settings.json").write_text(moved)
    assert "do not exist" in checks(run)["hooks"]["detail"]


def test_hooks_of_an_earlier_version_are_named(run: Run, claude: Path) -> None:
    block = install(run, claude)
    assert "obsolete hooks" not in checks(run)

    old = {"matcher": "", "hooks": [block["hooks"]["Stop"][0]["hooks"][0] | {"async": True}]}
    settings = {"hooks": block["hooks"] | {"Stop": [old], "PreCompact": block["hooks"]["SessionEnd"]}}
    (claude / "settings.json").write_text(json.dumps(settings))
    findings = checks(run)["obsolete hooks"]
    assert (findings["state"], "PreCompact, Stop (async)" in findings["detail"]) == ("warn", True)

    settings = {"hooks": block["hooks"] | {"SessionStart": block["hooks"]["SessionStart"][:1]}}
    (claude / "settings.json").write_text(json.dumps(settings))
    assert "SessionStart" in checks(run)["hooks"]["detail"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{\n  // mine\n  "model": "opus"\n}', "line 2, column 3 is not JSON"),
        # Before Python 3.13, the error is at the brace behind the comma.
        ('{"model": "opus",}', f"line 1, column {18 if sys.version_info < (3, 13) else 17} is not JSON"),
        ("[]", "it contains no object in braces"),
    ],
)
def test_a_settings_file_that_claude_code_does_not_load_is_named_and_nothing_else_is_missed_in_it(
    run: Run, claude: Path, text: str, why: str
) -> None:
    """Another installation would change nothing about it."""
    (claude / "settings.json").write_text(text)
    (claude / ".claude.json").write_text('\ufeff{"mcpServers": {}}')

    findings = checks(run)

    assert findings["settings file"]["state"] == "bad"
    assert f"{claude}/settings.json, so nothing in it is in effect: {why}" in findings["settings file"]["detail"]
    assert not {"hooks", "permission"} & set(findings)
    assert "MCP server" in findings


def test_a_plugin_is_checked_instead_of_the_settings(run: Run, claude: Path, tmp_path: Path) -> None:
    run("setup", "hooks")
    folder = claude / "skills" / "engram"
    for name, content in plugin_files(Home(tmp_path / "home")).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (claude / "settings.json").write_text(json.dumps({"permissions": {"allow": ["mcp__plugin_engram_engram"]}}))

    findings = checks(run)
    assert (findings["plugin"]["state"], findings["permission"]["state"]) == ("ok", "ok")
    assert not {"hooks", "MCP server", "hooks' interpreter"} & set(findings)

    install(run, claude)
    assert "registered twice" in checks(run)["hooks"]["detail"]

    (folder / "hooks" / "hooks.json").write_text("{}")
    assert "hooks/hooks.json" in checks(run)["plugin"]["detail"]

    manifest = folder / ".claude-plugin" / "plugin.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": "0.0.3"}))
    assert "0.0.3" in checks(run)["plugin"]["detail"]

    (claude / "settings.json").write_text(json.dumps({"enabledPlugins": {"engram@skills-dir": False}}))
    disabled = checks(run)
    assert "claude plugin enable engram@skills-dir" in disabled["plugin"]["advice"]
    assert not {"hooks", "MCP server"} & set(disabled)  # What is switched off is not missing.


def test_of_two_plugins_the_one_that_is_loaded_is_named(run: Run, claude: Path, tmp_path: Path) -> None:
    run("setup", "hooks")
    folder = claude / "skills" / "engram"
    for name, content in plugin_files(Home(tmp_path / "home")).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    installed = {"version": 2, "plugins": {"engram@engram-local": [{"scope": "user", "version": VERSION}]}}
    (claude / "plugins").mkdir()
    (claude / "plugins" / "installed_plugins.json").write_text(json.dumps(installed))
    (claude / "settings.json").write_text(json.dumps({"enabledPlugins": {"engram@engram-local": True}}))

    told = json.loads(run("doctor", "--json", code=1).stdout)["checks"]
    plugins = [(check["state"], check["detail"]) for check in told if check["name"] == "plugin"]
    assert plugins == [
        ("note", "engram@skills-dir is not loaded, since engram@engram-local is installed"),
        ("ok", f"engram@engram-local, version {VERSION}"),
    ]


def test_the_prompt_history_is_no_file_among_the_transcripts(run: Run, claude: Path) -> None:
    sample = next((SAMPLES / "projects" / "-home-dev-harbor").glob("*.jsonl"))
    (claude / "projects" / "-home-dev-harbor").mkdir()
    shutil.copy(sample, claude / "projects" / "-home-dev-harbor")
    lines = [
        {"display": f"Ask number {number}.", "timestamp": 1767225600000 + number, "project": "/home/dev/harbor",
         "sessionId": f"0000000{number}-0000-4000-8000-000000000000", "pastedContents": {}}
        for number in (1, 2)
    ]  # fmt: skip
    (claude / "history.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    run("up", "--once")

    assert checks(run)["transcripts"]["detail"].startswith(f"1 file in {claude}/projects (Claude Code)")


@pytest.mark.parametrize(
    ("version", "report", "extra", "state", "detail"),
    [
        ("2.1.332", "", "", "ok", "which 2.1.332 (Claude Code) loads"),
        ("2.1.286", "", "", "warn", "ignores it"),
        ("2.1.332", '{"manifest": {"errors": []}, "contents": [{"errors": [{"message": "no such event"}]}]}', "",
         "warn", "refuses it: no such event"),
        ("2.1.332", "no JSON", "", "ok", "loads"),
        ("2.1.332", "", "commands/engram.md", "warn", "another /engram takes precedence"),
        ("2.1.332", "", "skills/theirs/hooks/mod.js", "warn", "another /engram takes precedence"),
        ("2.1.332", "", "skills/theirs/hooks/other.js", "ok", "loads"),
        ("2.1.332", "", "managed/managed-settings.json", "warn", "allowManagedModsOnly in"),
        ("2.1.332", "", "managed/managed-settings.d/20-mods.json", "warn", "allowManagedModsOnly in"),
    ],
)  # fmt: skip
def test_whether_claude_code_loads_the_mod(
    run: Run, claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    version: str, report: str, extra: str, state: str, detail: str,
) -> None:  # fmt: skip
    command = tmp_path / "bin" / "claude"
    command.parent.mkdir()
    command.write_text(f"#!/bin/sh\n[ \"$1\" = --version ] && echo '{version} (Claude Code)' || echo '{report}'\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    monkeypatch.setattr(claude_checks, "MANAGED", (claude / "managed",))
    texts = {
        "mod.js": "await $.command.register({ description: 'x', name: \"engram\" })",
        "other.js": "await $.command.register({ name: 'other' })",
        "engram.md": "mine",
    }
    folder = claude / "skills" / "engram"
    for name, content in plugin_files(Home(tmp_path / "home"), mod=True).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    if extra:
        (claude / extra).parent.mkdir(parents=True, exist_ok=True)
        (claude / extra).write_text(texts.get(Path(extra).name, '{"allowManagedModsOnly": true}'))
        (claude / extra).with_name("hooks.json").write_text("{}")

    found = checks(run)

    assert found["plugin"]["state"] == "ok"
    assert found["mod"]["state"] == state
    assert detail in found["mod"]["detail"]
    # Any value but false counts.
    (claude / "managed").mkdir(exist_ok=True)
    (claude / "managed" / "managed-settings.json").write_text('{"allowManagedHooksOnly": []}')
    refused = checks(run)
    assert ("mod" in refused, refused["hooks"]["state"]) == (False, "bad")
    (claude / "managed" / "managed-settings.json").unlink()
    (folder / MOD).unlink()
    assert "mod" not in checks(run)


def test_settings_from_another_version_are_named(run: Run, claude: Path) -> None:
    install(run, claude)
    settings = (claude / "settings.json").read_text()
    (claude / "settings.json").write_text(settings.replace(f"# Engram {VERSION}", "# Engram 0.0.3"))

    assert "from version 0.0.3" in checks(run)["hooks' version"]["detail"]


def test_the_permission_for_the_tools_is_looked_for_in_user_and_project_settings(
    run: Run, claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tmp_path / "repo"
    (project / ".git").mkdir(parents=True)
    (project / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (project / ".claude").mkdir()
    (project / "inner").mkdir()
    monkeypatch.chdir(project / "inner")

    def state(path: Path, permissions: object) -> tuple[str, str]:
        path.write_text(json.dumps({"permissions": permissions}))
        findings = checks(run)["permission"]
        path.unlink()
        return findings["state"], findings["detail"] + findings["advice"]

    missing = checks(run)["permission"]
    assert missing["state"] == "warn"
    assert '"mcp__engram" to permissions.allow' in missing["advice"]
    for path in (
        claude / "settings.json",
        project / ".claude" / "settings.json",
        project / ".claude" / "settings.local.json",
    ):
        assert state(path, {"allow": ["Bash(ls:*)", "mcp__engram"]})[0] == "ok"
        assert state(path, {"allow": ["mcp__engram__*"]})[0] == "ok"
        assert state(path, {"allow": ["mcp__engram"], "deny": ["mcp__engram__memory_forget"]})[0] == "warn"
        kind, text = state(path, {"allow": ["mcp__engram__memory_recall"]})
        assert (kind, "only mcp__engram__memory_recall" in text) == ("warn", True)
    for other in (None, [], {"allow": "mcp__engram"}, {"allow": [3]}):
        assert state(claude / "settings.json", other)[0] == "warn"


@pytest.mark.parametrize(
    ("place", "entry", "name", "said"),
    [
        ("user", {"disableAllHooks": True}, "hooks", "disables all hooks"),
        ("project", {"disableAllHooks": True}, "hooks", "disables all hooks"),
        ("user", {"env": {"ENGRAM_DISABLE": "1"}}, "hooks", "switches them off (ENGRAM_DISABLE)"),
        ("project", {"env": {"ENGRAM_HOME": "/elsewhere"}}, "hooks", "another memory folder (/elsewhere)"),
        ("user", {"permissions": {"deny": ["mcp__*"]}}, "permission", "denies memory tools (mcp__*)"),
        ("user", {"permissions": {"ask": ["mcp__engram"]}}, "permission", "makes Claude ask before using memory tools"),
        ("managed", {"permissions": {"deny": ["mcp__engram__*"]}}, "permission", "denies memory tools"),
        ("user", {"cleanupPeriodDays": 0}, "transcripts", "writes no transcripts"),
        ("managed", {"allowManagedHooksOnly": True}, "hooks", "allowManagedHooksOnly in"),
        ("managed", {"strictKnownMarketplaces": []}, "hooks and MCP server", "strictKnownMarketplaces in"),
        ("managed", {"allowedMcpServers": [{"serverName": "github"}]}, "MCP server", "allows only others"),
        ("user", {"deniedMcpServers": [{"serverName": "engram"}]}, "MCP server", "refuses it"),
    ],
)
def test_settings_that_switch_off_what_is_connected_are_named(
    run: Run,
    claude: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: str,
    entry: object,
    name: str,
    said: str,
) -> None:
    block = install(run, claude)
    user = {"hooks": block["hooks"], "permissions": {"allow": ["mcp__engram"]}}
    files = {"user": claude / "settings.json", "project": tmp_path / "repo" / ".claude" / "settings.local.json"}
    files["managed"] = tmp_path / "managed" / "managed-settings.d" / "10.json"
    monkeypatch.setattr(claude_checks, "MANAGED", (tmp_path / "managed",))
    assert isinstance(entry, dict)
    for path in files.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    (claude / "settings.json").write_text(json.dumps(user))
    monkeypatch.chdir(tmp_path / "repo")
    assert said not in run("doctor", "--quick", code=1).stdout
    files[place].write_text(json.dumps({**user, **entry} if place == "user" else entry))

    findings = json.loads(run("doctor", "--quick", "--json", code=1).stdout)["checks"]

    (found,) = [check for check in findings if check["name"] == name and said in check["detail"]]
    assert found["state"] != "ok"
    assert not [check for check in findings if check["name"] == name == "hooks" and check["state"] == "ok"]


def test_missing_hooks_are_named_beside_a_variable_that_only_leads_them_elsewhere(run: Run, claude: Path) -> None:
    install(run, claude)
    (claude / "settings.json").write_text(json.dumps({"env": {"ENGRAM_HOME": "/elsewhere"}}))

    findings = json.loads(run("doctor", "--quick", "--json", code=1).stdout)["checks"]

    hooks = [(check["state"], check["detail"].partition(" ")[0]) for check in findings if check["name"] == "hooks"]
    assert [state for state, _ in hooks] == ["warn", "bad"]
    assert hooks[1][1] == "missing"


def test_a_server_that_a_project_switched_off_and_rules_about_others_are_distinguished(
    run: Run, claude: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    block = install(run, claude)
    monkeypatch.chdir(tmp_path)
    project = {str(tmp_path): {"disabledMcpServers": ["engram"]}}
    (claude / ".claude.json").write_text(json.dumps({"mcpServers": block["mcpServers"], "projects": project}))
    rules = {"allow": ["mcp__engram"], "deny": ["mcp__engram2__x", "mcp__other__*"]}
    (claude / "settings.json").write_text(json.dumps({"hooks": block["hooks"], "permissions": rules}))

    said = run("doctor", "--quick", code=1).stdout

    assert "it is switched off in this project" in said
    assert "denies memory tools" not in said


def test_settings_of_another_form_do_no_harm(run: Run, claude: Path) -> None:
    for text in ("not json", "[]", '{"hooks": 3}', '{"hooks": {"Stop": [5, {"hooks": "x"}]}}'):
        (claude / "settings.json").write_text(text)

        findings = checks(run)
        assert findings["settings file" if text in ("not json", "[]") else "hooks"]["state"] == "bad"


def test_a_missing_transcript_folder_is_named(run: Run, claude: Path) -> None:
    (claude / "projects").rmdir()

    assert "CLAUDE_CONFIG_DIR" in checks(run)["transcripts"]["advice"]


def test_a_file_in_place_of_claudes_folder_is_named(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file := tmp_path / "file").touch()

    assert "is a file" in run("--claude-folder", str(file), "status", code=2).output
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(file))
    assert checks(run)["transcripts"]["detail"] == f"{file} is a file, not a folder"
    assert f"{file} is a file, not a folder: see `engram doctor`" in " ".join(run("status").output.split())


def test_a_file_in_place_of_the_sessions_is_named_as_one(run: Run, claude: Path) -> None:
    run("save", "--global", "Use tabs")
    (claude / "projects").rmdir()
    (claude / "projects").touch()

    found = checks(run)["transcripts"]

    assert found["detail"] == f"{claude / 'projects'} is a file, not a folder"
    assert "chmod" not in found["advice"]


def test_a_file_that_others_may_read_is_named(run: Run, claude: Path, home: Home) -> None:
    run("status")
    (home.logs / "worker.log").write_text("x")
    (home.logs / "worker.log").chmod(0o644)

    assert "worker.log" in checks(run)["memory folder"]["detail"]


def test_failing_stages_dead_work_bad_lines_and_pauses_are_named(run: Run, filled: Store) -> None:
    transcript_id = int(filled.value("SELECT min(id) FROM transcript"))
    with filled.transaction() as tx:
        reading_progress.add_unreadable(tx, transcript_id, 0, [Unreadable(10, 5, "not JSON")])
        work.make_due(tx, "extract", "broken", 0)
    task = work.find_work(filled, "extract", "broken")
    assert task is not None
    work.fail(filled, task, "no answer", max_attempts=1)
    task_runs.note_failure(filled, "extract", "no answer")
    run("pause", "--for", "1h")
    plant(filled, "UPDATE episode SET suspect = 'tells the reader what to do' WHERE id = 1")

    findings = checks(run)

    assert "tasks retry --dead" in findings["given up"]["advice"]
    assert findings["stage extract"]["detail"] == "no answer"
    path = os.fsdecode(filled.value("SELECT path FROM transcript ORDER BY id LIMIT 1"))
    told = f"line 1 of {path} can't be read (not JSON): what it says is not remembered"
    assert findings["unreadable"]["detail"] == told
    assert "engram pause --off" in findings["paused"]["advice"]
    assert findings["suspect"]["state"] == "warn"
    assert "→ remove the cause" in run("doctor", code=1).stdout


def test_what_is_switched_off_is_named(run: Run, claude: Path) -> None:
    result = run("--set", "inject=off", "--set", "extractor=off", "doctor", code=1)

    assert "inject, extractor" in result.stdout


def test_a_row_that_cannot_be_read_is_found_unless_the_check_is_to_be_quick(
    run: Run, claude: Path, store: Store
) -> None:
    with store.transaction() as tx:
        memory_history.add_run(tx, "decide")
    plant(store, "UPDATE run SET report = 'no json'")

    found, quick = (json.loads(run("doctor", "--json", *more, code=1).stdout)["checks"] for more in ((), ("--quick",)))

    (damage,) = (check["detail"] for check in found if check["name"] == "memory.db")
    assert damage.startswith("row 1 of run cannot be read")
    assert [check["state"] for check in quick if check["name"] == "memory.db"] == ["ok"]


def test_a_damaged_memory_is_a_finding_not_a_failure(run: Run, claude: Path, home: Home) -> None:
    home.prepare()
    home.memory_db.write_bytes(b"no database at all, but long enough to be taken for a damaged one" * 100)

    findings = checks(run)

    assert findings["memory.db"]["state"] == "bad"
    assert "engram up" in findings["memory.db"]["advice"]


def test_a_memory_folder_that_cannot_be_made_is_a_finding(run: Run, claude: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    found = json.loads(run("--home", str(tmp_path / "file" / "home"), "doctor", "--json", code=1).stdout)

    assert "ENGRAM_HOME" in found["checks"][0]["advice"]


def test_the_last_line_names_the_fix_only_if_it_mends_something(capsys: pytest.CaptureFixture[str]) -> None:
    for fix, is_named in (("", False), ("start", True)):
        show_checks([Check("worker", State.WARN, "old", fix=fix), Check("disk", State.OK, "free", fix="start")], [])
        assert ("doctor --fix" in capsys.readouterr().out) is is_named


def test_a_repair_that_could_mend_nothing_says_so(run: Run, claude: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.cli.status_commands.apply_fixes", lambda machine, checks: [])

    assert "`engram doctor --fix` can repair none of this" in run("doctor", "--fix", code=1).output
    assert "can repair none of this" not in run("doctor", code=1).output


def test_advice_that_several_findings_share_is_printed_once(run: Run, claude: Path) -> None:
    said = " ".join(run("doctor", "--quick", code=1).stdout.split())

    assert said.count("engram install") == 1
    assert "hooks: missing" in said.partition("→ run: engram install")[0]


def test_what_needs_no_action_is_not_counted(capsys: pytest.CaptureFixture[str]) -> None:
    show_checks([Check("unreadable", State.NOTE, "line 3", "nothing to do: the rest is read")], [])

    said = capsys.readouterr().out

    assert said.startswith("note unreadable: line 3\n")
    assert said.endswith("\nAll is well.\n")


def test_no_restart_is_advised_while_config_toml_would_stop_it() -> None:
    places = Home(default_home())

    broken = restarting(places, [ConfigFault("", "it is not TOML")])
    mild = restarting(places, [ConfigFault("bites", "it is too large, which is used", stops=False)])

    assert broken == {
        "advice": "correct config.toml first, since nothing starts with it; then run: engram service restart"
    }
    assert mild == restarting(places)
