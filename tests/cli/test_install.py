"""`engram install` on a fresh machine, again, and taken back."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from engram.cli.main import engram, main
from engram.cli.up_commands import SAMPLES
from engram.models.engine.migrations import newest_version
from engram.models.open_memory import open_store
from engram.models.rescue.backup import list_backups
from engram.paths import Home, default_claude_folder
from engram.reports.processes import process_state
from engram.setup.agents.plugin import statusline_entry
from engram.setup.agents.registered import MOD
from engram.setup.edits.journal import explain_half_done
from engram.setup.installing.preflight import SelfTest, run_self_test
from engram.system.process_lock import is_process_alive
from engram_hooks.block import settings_block
from tests.cli.test_upgrade import hold
from tests.earlier_machine import make_machine, memory_row
from tests.install.conftest import SETTINGS, snapshot
from tests.models.version_1 import put_version
from tests.processes import end_processes_of_home

DAY_SECONDS = 86_400


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's home folder with the sample sessions in ``.claude``; no variable names a folder, no claude is there.

    What was started for it is ended.
    """
    home = tmp_path / "user"
    shutil.copytree(SAMPLES / "projects", home / ".claude" / "projects")
    for name in ("ENGRAM_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr("engram.cli.install_commands.run_self_test", lambda _: SelfTest("", 0.0))
    yield home
    end_processes_of_home(home / ".claude-memory")


@pytest.fixture
def self_test(user: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the installer run its self-test, which makes and searches a memory of its own; else it passes unrun."""
    monkeypatch.setattr("engram.cli.install_commands.run_self_test", run_self_test)


@pytest.fixture
def run(user: Path) -> Callable[..., Result]:
    """Run ``engram …`` in this process."""

    def invoke(*arguments: str, code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(engram, list(arguments), input=stdin)
        assert result.exit_code == code, (result.output, result.exception)
        return result

    return invoke


@pytest.fixture
def home(user: Path) -> Home:
    """The memory folder."""
    return Home(user / ".claude-memory")


def add_claude(user: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> Path:
    """Put a stand-in for Claude Code on PATH that knows its version."""
    command = user / "bin" / "claude"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "{version} (Claude Code)"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/usr/bin:/bin")
    return command


def checkpoint(database: Path) -> None:
    """Move what the write-ahead log holds into the file."""
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def claude_folder(user: Path) -> dict[str, Any]:
    return snapshot(user / ".claude")


@pytest.mark.usefixtures("self_test")
def test_from_nothing_to_a_recall_and_back_without_a_trace(run: Callable[..., Result], user: Path) -> None:
    old = next((user / ".claude" / "projects" / "-home-dev-harbor").glob("*.jsonl"))
    seconds = old.stat().st_mtime - 25 * DAY_SECONDS
    os.utime(old, (seconds, seconds))
    before = snapshot(user)

    said = run("install", "--yes", "--no-service").stdout  # on a busy machine, stderr says how far it is
    answer = run("recall", "why did we leave SQLite").output

    whole = said.splitlines()
    first, *rest = [line.strip() for line in whole if line and not line.startswith("•")]
    # The user's folder is long here, so the lines with it wrap.
    assert len([line for line in whole if str(user) not in line]) <= 22, said
    assert first.startswith("Installed; the self-test passed in ")
    lines = rest[rest.index("Your history is kept") + 1 :]
    assert lines[0] == "5 sessions with 13 prompts in 2 projects; 5 memories so far."
    assert " ".join(lines[1:3]).startswith("Claude Code deletes 1 of its 5 transcripts within 7 days")
    [asked] = [line for line in lines if line.startswith("engram recall")]
    assert asked.endswith('?"')
    assert " ".join(lines[-2:]).endswith("type: engram status")
    assert "Postgres" in answer
    assert (user / ".claude-memory").stat().st_mode & 0o777 == 0o700
    assert json.loads((user / ".claude" / "settings.json").read_text()) == {
        "permissions": {"allow": ["mcp__plugin_engram_engram"]}
    }
    hooks = (user / ".claude" / "skills" / "engram" / "hooks" / "hooks.json").read_text()
    assert sys.executable in hooks
    assert not list((user / ".claude-memory").glob(".self-test*"))

    run("uninstall", "--yes", "--purge")

    assert snapshot(user) == before


def test_what_was_not_read_is_not_called_safe(run: Callable[..., Result], user: Path) -> None:
    files = sorted((user / ".claude" / "projects").rglob("*.jsonl"))
    for file in files:
        seconds = file.stat().st_mtime - 25 * DAY_SECONDS
        os.utime(file, (seconds, seconds))
    run("up", "--once", str(next(file for file in files if "harbor" in str(file))))

    said = " ".join(run("install", "--yes", "--no-service", "--no-import").output.split())

    assert "1 session with" in said
    assert "4 more transcripts are not read yet." in said
    assert "deletes 5 of its 5 transcripts within 7 days (it keeps them for 30). 4 of them are not read yet." in said
    assert "safe" not in said


def test_the_service_runs_is_restarted_by_an_update_and_leaves_no_process(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("systemctl", "launchctl"):
        stand_in = user / "none" / name
        stand_in.parent.mkdir(exist_ok=True)
        stand_in.write_text("#!/bin/sh\nexit 1\n")
        stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", f"{user / 'none'}:/usr/bin:/bin")
    monkeypatch.setenv("HTTPS_PROXY", "http://me:secret@proxy.example:3128")
    before = snapshot(user)

    said = run("install", stdin="y\nlocal\ny\n").output
    config = home.config_file.read_text()
    first = process_state(home.worker_lock).pid
    again = json.loads(run("install", "--yes", "--json").stdout)
    second = process_state(home.worker_lock).pid
    answer = json.loads(run("recall", "why did we leave SQLite", "--json").stdout)
    planned = run("install", "--no-service", "--dry-run").output
    dropped = run("install", "--no-service", "--yes").output
    off = run("status").output
    run("uninstall", "--yes", "--purge")

    assert config == "start_with_session = true\n"
    assert "Your history is kept" in said
    assert "The service does not see this shell's ENGRAM_EMBEDDING_MODEL" in said
    assert "HTTPS_PROXY" not in said  # a supervisor has it
    assert first is not None
    assert second not in (None, first)
    assert again["changed"] == []
    assert answer["by"] == "worker"
    assert all("Undo: Start the worker and the watcher in the background" in text for text in (planned, dropped))
    assert "OFF: nothing is read, and Claude is shown nothing. Run: engram service start" in off
    assert not any(is_process_alive(pid) for pid in (first, second))
    assert snapshot(user) == before


def test_a_dry_run_shows_every_line_and_writes_nothing(run: Callable[..., Result], user: Path) -> None:
    (user / ".claude" / "settings.json").write_text('{\n  "env": {"KEY": "secret"}\n}')
    before = snapshot(user)

    said = run("install", "--dry-run").output
    told = json.loads(run("install", "--dry-run", "--json").stdout)

    assert '+      "mcp__plugin_engram_engram"' in said
    assert f"create {user}/.claude/skills/engram/hooks/hooks.json" in said
    assert told["sessions"] == 5
    assert snapshot(user) == before


def test_a_dry_run_lists_the_settings_that_the_run_writes(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = add_claude(user, monkeypatch, "2.1.330")
    options = ("--yes", "--no-service", "--no-import", "--extractor", "claude")

    told = json.loads(run("install", "--dry-run", *options, "--json").stdout)
    assert not home.config_file.exists()
    run("install", *options)

    written = tomllib.loads(home.config_file.read_text())
    assert told["asks"] == []
    assert [line for line in told["plan"] if " = " in line][:2] == [f"  {name} = {written[name]}" for name in written]
    assert written == {"extractor": "claude", "claude_command": str(command)}
    assert "Leave what is not read yet to the service or `engram up`" in told["plan"]
    assert f"Create the memory {home.memory_db}" in told["plan"]


def test_a_dry_run_names_the_questions_and_what_they_write(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(user / "none"))

    told = run("install", "--dry-run").output
    asked = run("install", stdin="y\nlocal\n", code=1).output

    assert f"Ask who writes the memories (extractor in {home.config_file})" in told
    assert f"Ask whether a Claude Code session may start it (start_with_session in {home.config_file})" in told
    assert "With --yes, no questions are asked, and this would be done:" in told
    assert "that could start Engram again after a restart." in asked
    assert not home.config_file.exists()


@pytest.mark.usefixtures("self_test")
def test_a_dry_run_says_what_is_read_and_prepared_as_the_run_does(run: Callable[..., Result], home: Home) -> None:
    planned = run("install", "--yes", "--no-service", "--dry-run").output
    done = run("install", "--yes", "--no-service").output
    again = run("install", "--yes").output

    assert f"Read 5 transcripts into {home.root} and prepare the search by meaning (about 1 minute)\n" in planned
    assert "• Reading your 5 transcripts and preparing the search by meaning (about 1 minute)\n" in done
    assert "Reading your" not in again
    assert "Read " not in run("install", "--yes", "--dry-run").output


@pytest.mark.usefixtures("self_test")
def test_the_time_that_preparing_takes_is_that_of_the_new_sessions(
    run: Callable[..., Result], user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("install", "--yes", "--no-service")
    line = {"type": "user", "message": {"role": "user", "content": "Why is the crane blocked?"}, "uuid": "u1"}
    path = user / ".claude" / "projects" / "-src-pier" / "0a7f6c5e-1111-4222-8333-444455556666.jsonl"
    path.parent.mkdir()
    path.write_text(json.dumps(line) + "\n")
    monkeypatch.setattr("engram.cli.up_once.SECONDS_PER_BYTE", 60)

    planned = run("install", "--yes", "--no-service", "--dry-run").output

    assert f"Read 1 transcript into {user / '.claude-memory'} and prepare" in planned
    assert f"(about {path.stat().st_size} minutes)" in planned


def test_hooks_that_were_removed_for_good_are_not_called_undone(run: Callable[..., Result]) -> None:
    run("install", "--yes", "--no-service", "--no-import", "--no-plugin", "--statusline")
    switched = run("install", "--yes", "--no-import", "--plugin").output
    again = run("install", "--yes", "--no-import").output

    assert "• Remove Engram's hooks from Claude Code's settings: the plugin has them" in switched
    assert "Undo" not in again
    assert "• Undo: " in run("install", "--yes", "--no-import", "--no-statusline").output
    assert "Remove Engram's hooks" not in run("uninstall", "--dry-run").output


def test_a_claude_that_is_not_here_takes_one_line_of_the_question(run: Callable[..., Result], user: Path) -> None:
    said = run("install", "--no-service", "--no-import", stdin="n\n\n").output

    assert "  claude  Your own Claude Code. It was not found here, so it can't be chosen yet.\n" in said
    assert said.count("not found") == 2  # the other: what Claude Code is, in the report
    assert "What then leaves this machine" not in said
    assert "$" not in said.partition("Choose (")[0]


def test_a_second_installation_keeps_the_choices_and_changes_nothing(run: Callable[..., Result], user: Path) -> None:
    run("install", "--yes", "--no-service", "--no-plugin")
    before = claude_folder(user)

    told = json.loads(run("install", "--yes", "--json").stdout)

    again = run("install", "--dry-run", "--yes").stdout

    assert "This would be done:" in again
    assert re.search(r"\nConnect Claude Code .*\n  already done\n", again)
    assert "keep " not in again  # only what changes is listed
    assert "Read " not in again  # everything has been read
    assert told["steps"] == ["settings", "permissions"]
    assert told["changed"] == []
    assert told["self_test"] == {"ok": True, "problem": None}
    assert claude_folder(user) == before


def test_the_plugin_and_the_settings_are_never_both_there(run: Callable[..., Result], user: Path) -> None:
    settings = user / ".claude" / "settings.json"
    theirs = {"matcher": "", "hooks": [{"type": "command", "command": "their-tool"}]}
    by_hand = settings_block(None)
    settings.write_text(json.dumps({"hooks": {**by_hand["hooks"], "Notification": [theirs]}}))
    (user / ".claude.json").write_text(json.dumps({"mcpServers": by_hand["mcpServers"], "numStartups": 3}))
    plugin = user / ".claude" / "skills" / "engram"

    run("install", "--yes", "--no-service", "--no-import")
    assert json.loads(settings.read_text())["hooks"] == {"Notification": [theirs]}
    assert json.loads((user / ".claude.json").read_text()) == {"numStartups": 3}
    assert plugin.is_dir()

    run("install", "--yes", "--no-plugin", "--no-import")
    value = json.loads(settings.read_text())
    assert value["hooks"] == {"Notification": [theirs], **by_hand["hooks"]}
    assert value["permissions"] == {"allow": ["mcp__engram"]}
    assert "engram" in json.loads((user / ".claude.json").read_text())["mcpServers"]
    assert not plugin.exists()

    run("install", "--yes", "--plugin", "--no-import")
    assert json.loads(settings.read_text())["hooks"] == {"Notification": [theirs]}
    assert plugin.is_dir()

    run("uninstall", "--yes")
    assert json.loads(settings.read_text()) == {"hooks": {"Notification": [theirs]}}
    assert json.loads((user / ".claude.json").read_text()) == {"numStartups": 3}
    assert not plugin.parent.exists()


def test_what_the_user_put_in_the_place_of_the_link_stays(run: Callable[..., Result], home: Home, user: Path) -> None:
    run("install", "--yes", "--no-service", "--no-import")
    home.python_link.unlink()
    home.python_link.mkdir()
    (home.python_link / "mine.py").write_text("pass")

    run("uninstall", "--yes")
    assert (home.python_link / "mine.py").is_file()


def test_the_status_line_stays_with_an_update_and_goes_when_it_is_not_wanted(
    run: Callable[..., Result], user: Path
) -> None:
    settings = user / ".claude" / "settings.json"

    settings.write_text('{"model": "opus"}')

    run("install", "--yes", "--no-service", "--no-import", "--statusline")
    of_before = json.loads(settings.read_text())
    of_before["statusLine"]["command"] += " of before"
    settings.write_text(json.dumps(of_before))
    run("install", "--yes", "--no-service", "--no-import")
    assert json.loads(settings.read_text())["statusLine"] == statusline_entry()
    run("install", "--yes", "--no-service", "--no-import", "--no-statusline")
    assert "statusLine" not in json.loads(settings.read_text())
    run("install", "--yes", "--no-service", "--no-import", "--statusline")
    run("uninstall", "--yes")
    assert json.loads(settings.read_text()) == {"model": "opus"}

    settings.write_text('{"statusLine": {"type": "command", "command": "theirs"}}')
    assert (
        "belongs to another tool and is left unchanged"
        in run("install", "--yes", "--no-service", "--no-import", "--statusline").output
    )
    assert json.loads(settings.read_text())["statusLine"]["command"] == "theirs"


def test_the_mod_is_asked_about_once_with_its_price_and_goes_without_a_trace(
    run: Callable[..., Result], user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_claude(user, monkeypatch, "2.1.332")
    monkeypatch.setattr("engram.cli.install_commands.has_terminal", lambda: True)
    before = snapshot(user)
    mod = user / ".claude" / "skills" / "engram" / MOD

    asked = run("install", "--no-service", "--no-import", "--extractor", "local", stdin="y\ny\n").output
    assert "It takes 37 to 48 MB for each open session" in asked
    assert "Add it?" in asked
    assert mod.is_file()
    assert "Add it?" not in run("install", "--no-import").output
    run("install", "--yes", "--no-import", "--no-mod")
    assert not mod.exists()
    assert "Add it?" not in run("install", "--no-import").output
    run("install", "--yes", "--no-import", "--mod")
    run("uninstall", "--yes", "--purge")

    assert snapshot(user) == before


@pytest.mark.parametrize(
    ("version", "options", "has_terminal"),
    [
        ("2.1.332", [], False),
        ("2.1.332", ["--no-plugin"], True),
        ("2.1.286", [], True),
        ("2.1.197", [], True),
        ("unknown", [], True),
    ],
)
def test_nobody_is_asked_about_the_mod_where_it_would_not_run_or_nobody_could_answer(
    run: Callable[..., Result],
    user: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    options: list[str],
    has_terminal: bool,
) -> None:
    add_claude(user, monkeypatch, version)
    monkeypatch.setattr("engram.cli.install_commands.has_terminal", lambda: has_terminal)
    way = ["--no-service", "--no-import", "--extractor", "local", *options]

    said = run("install", *way, stdin="y\n").output

    assert "Add it?" not in said
    assert not (user / ".claude" / "skills" / "engram" / MOD).exists()
    monkeypatch.setattr("engram.cli.install_commands.has_terminal", lambda: True)
    (user / "bin" / "claude").write_text('#!/bin/sh\n[ "$1" = --version ] && echo "2.1.332 (Claude Code)"\n')
    assert "Add it?" in run("install", "--no-import", "--plugin", stdin="n\n").output


def test_an_older_claude_code_gets_its_settings(
    run: Callable[..., Result], user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_claude(user, monkeypatch, "2.1.90")

    run("install", "--yes", "--no-service", "--no-import")

    assert "Stop" in json.loads((user / ".claude" / "settings.json").read_text())["hooks"]
    assert not (user / ".claude" / "skills").exists()


def test_yes_never_chooses_a_model_and_a_choice_is_kept_with_an_absolute_command(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("install", "--yes", "--no-service", "--no-import")
    assert not home.config_file.exists()
    said = run("install", "--yes", "--extractor", "claude", code=1).output
    assert "Claude Code was not found" in said
    said = run("install", "--yes", "--extractor", "openai", code=1).output
    assert "OPENAI_API_KEY is not set, so a model can't write the memories. Write OPENAI_API_KEY=" in said
    assert "service restart" not in said
    assert not home.config_file.exists()
    command = add_claude(user, monkeypatch, "2.1.330")

    said = run("install", "--yes", "--no-import", "--extractor", "claude").output
    run("install", "--yes", "--no-import")

    assert home.config_file.read_text() == f'extractor = "claude"\nclaude_command = "{command}"\n'
    assert "2.1.330" in said


def test_a_claude_that_moved_is_found_by_the_next_installation_and_named_by_doctor(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A version manager keeps one folder a version of Node."""
    command = add_claude(user, monkeypatch, "2.1.330")
    run("install", "--yes", "--no-service", "--no-import", "--extractor", "claude")
    moved = command.parent.with_name("newer") / command.name
    command.parent.rename(moved.parent)
    monkeypatch.setenv("PATH", f"{moved.parent}{os.pathsep}{os.environ['PATH']}")
    findings = json.loads(run("doctor", "--json", code=1).output)["checks"]
    (advice,) = [found["advice"] for found in findings if found["name"] == "language model"]

    run("install", "--yes", "--no-service", "--no-import")

    assert advice == f"run: engram config set claude_command {moved}"
    assert home.config_file.read_text() == f'extractor = "claude"\nclaude_command = "{moved}"\n'


def test_the_questions_say_what_leaves_the_machine_and_what_it_costs(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_claude(user, monkeypatch, "2.1.330")
    yesterday = (datetime.now(UTC) - timedelta(days=1)).date().isoformat()
    for path in (user / ".claude" / "projects").rglob("*.jsonl"):
        path.write_text(re.sub(r'"timestamp":"[\d-]{10}', f'"timestamp":"{yesterday}', path.read_text()))

    said = run("install", "--no-service", "--no-import", stdin="n\nclaude\n").output

    flat = " ".join(said.split())
    assert (
        "Your last 30 days (5 sessions, about 13 turns) would have cost less than a cent with Claude Haiku 5.5" in flat
    )
    assert "$0.02 to $0.04 with Claude Haiku 4.5, at the list prices of 2026-11-26" in flat
    assert "At most $1.00 a day" in flat
    assert "What then leaves this machine" in flat
    assert 'extractor = "claude"' in home.config_file.read_text()
    assert not (user / ".claude" / "settings.json").exists()
    # Asked once.
    assert "Who writes" not in run("install", "--no-import").output


def test_who_only_presses_enter_keeps_everything_on_this_machine(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_claude(user, monkeypatch, "2.1.330")

    said = run("install", "--no-service", "--no-import", stdin="\n\n").output

    assert "(claude, local, openai) [local]" in said
    assert not home.config_file.exists() or "extractor" not in home.config_file.read_text()
    assert "nothing leaves this machine" in " ".join(said.split())


# The other forms: tests/install/test_transaction.py.
@pytest.mark.parametrize(
    "form", ["absent", "odd order and formatting", "hooks of other tools", "link", "linked folder", "hard link"]
)
def test_both_ways_give_every_byte_mode_and_link_back(
    run: Callable[..., Result], user: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    if "link" in form:
        monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "elsewhere" / "claude"))
        shutil.move(user / ".claude", tmp_path / "elsewhere" / "claude")
    folder = default_claude_folder()
    SETTINGS[form](folder / "settings.json")
    before = snapshot(user, tmp_path / "elsewhere")

    run("install", "--yes", "--no-service", "--no-import", "--no-plugin")
    assert "engram_hooks" in (folder / "settings.json").read_text()
    run("install", "--yes", "--no-import", "--plugin")
    assert "engram_hooks" not in (folder / "settings.json").read_text()
    run("uninstall", "--yes", "--purge")

    assert snapshot(user, tmp_path / "elsewhere") == before


@pytest.mark.parametrize("spoil", ["comments", "trailing commas", "broken", "read-only"])
def test_settings_that_claude_code_does_not_load_or_that_are_read_only_stay_as_they_are(
    run: Callable[..., Result], user: Path, spoil: str
) -> None:
    settings = user / ".claude" / "settings.json"
    why = "settings.json, so nothing in it is in effect: line "
    if spoil == "read-only":
        settings.write_text('{"model": "opus"}')
        settings.chmod(0o444)
        why = "is read-only"
    elif spoil == "broken":
        settings.write_text("{,}")
    else:
        SETTINGS[spoil](settings)
    before = snapshot(settings)

    refused = run("install", "--yes", "--no-service", "--no-import", "--no-plugin", code=1).output
    output = run("install", "--yes", "--no-service", "--no-import", "--statusline", "--plugin", code=1).output
    said = " ".join(output.split())

    assert why in " ".join(refused.split())
    assert said.count(f"Not done: {'Claude Code does not load' if why != 'is read-only' else str(settings)}") == 2
    assert why in said
    assert "add mcp__plugin_engram_engram to permissions.allow yourself" in said
    mend = "Make it writable (chmod u+w " if spoil == "read-only" else "Correct it in an editor. Then run `engram"
    assert mend in said
    assert "Note: Not done" not in said
    assert "• Let Claude" not in said
    assert snapshot(settings) == before
    assert json.loads(run("uninstall", "--dry-run", "--json").stdout)["steps"] == [
        f"Connect Claude Code through the plugin {user / '.claude' / 'skills' / 'engram'}"
    ]


def test_read_only_settings_that_have_what_is_needed_are_no_failure(run: Callable[..., Result], user: Path) -> None:
    settings = user / ".claude" / "settings.json"
    settings.write_text('{"permissions": {"allow": ["mcp__plugin_engram_engram"]}}')
    settings.chmod(0o444)
    before = snapshot(settings)

    said = run("install", "--yes", "--no-service", "--no-import").output
    assert "Not done" not in said
    assert "Note: " not in said
    assert snapshot(settings) == before
    assert "Not done" in run("install", "--yes", "--no-import", "--statusline", code=1).output
    assert snapshot(settings) == before


def test_a_broken_file_that_need_not_be_changed_is_no_failure(run: Callable[..., Result], user: Path) -> None:
    (user / ".claude.json").write_text("{,}")

    assert "Note: Claude Code does not load" in run("install", "--yes", "--no-service", "--no-import").output


@pytest.mark.parametrize("form", ["BOM and CRLF", "blank"])
def test_settings_that_claude_code_loads_are_edited(run: Callable[..., Result], user: Path, form: str) -> None:
    SETTINGS[form](user / ".claude" / "settings.json")

    assert "Not done" not in run("install", "--yes", "--no-service", "--no-import").output
    assert "mcp__plugin_engram_engram" in (user / ".claude" / "settings.json").read_text("utf-8-sig")


def test_settings_that_the_user_broke_since_are_left_with_our_rule_until_uninstall(
    run: Callable[..., Result], user: Path
) -> None:
    settings = user / ".claude" / "settings.json"
    settings.write_text('{"model": "opus"}')
    run("install", "--yes", "--no-service", "--no-import")
    settings.write_text("// mine\n" + settings.read_text())
    before = snapshot(settings)

    run("install", "--yes", "--no-import", code=1)

    assert snapshot(settings) == before
    assert run("uninstall", "--yes").output.count("• Undo: ") == 2
    assert settings.read_text() == '// mine\n{"model": "opus"}'


def test_without_a_terminal_nothing_is_asked_or_changed(run: Callable[..., Result], user: Path) -> None:
    before = claude_folder(user)

    assert "There is no terminal to ask in: add --yes" in run("install", "--no-service", stdin="", code=1).output
    assert claude_folder(user) == before


def test_a_refused_installation_leaves_nothing(run: Callable[..., Result], home: Home, user: Path) -> None:
    """Neither one that nobody could answer nor one for a Claude Code whose folder is a file."""
    run("install", code=1)
    run("install", "--json", code=1)
    shutil.rmtree(user / ".claude")
    (user / ".claude").touch()
    assert "is not a folder" in run("install", "--yes", code=1).stderr

    assert not home.root.exists()


def test_codex_gets_the_tools_too_and_loses_them_at_the_end(run: Callable[..., Result], user: Path) -> None:
    config = user / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('model = "o9"\n# mine\n')
    before = snapshot(config.parent)

    run("install", "--yes", "--no-service", "--no-import", "--agent", "codex")
    told = json.loads(run("install", "--yes", "--no-import", "--json").stdout)

    assert told["steps"] == ["plugin", "permissions", "codex"]
    assert tomllib.loads(config.read_text())["mcp_servers"]["engram"]["command"] == sys.executable
    run("uninstall", "--yes")
    assert snapshot(config.parent) == before


def test_gemini_and_opencode_get_the_tools_too_and_lose_them_at_the_end(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    gemini, opencode = user / ".gemini" / "settings.json", user / ".config" / "opencode" / "opencode.jsonc"
    theirs = '{\n  // mine\n  "mcp": {"a": {"type": "local"}}\n}\n'
    for path, text in ((gemini, '{"theme": "x"}\n'), (opencode, theirs)):
        path.parent.mkdir(parents=True)
        path.write_text(text)
    before = snapshot(gemini.parent) | snapshot(opencode.parent)
    wanted = ("--agent", "gemini", "--agent", "opencode")

    for is_home_gone in (False, True):
        run("install", "--yes", "--no-service", "--no-import", *wanted)
        assert json.loads(gemini.read_text())["mcpServers"]["engram"]["command"] == sys.executable
        assert f'"{sys.executable}"' in opencode.read_text()
        assert "// mine" in opencode.read_text()
        if is_home_gone:
            shutil.rmtree(home.root)
        run("uninstall", "--yes")
        assert snapshot(gemini.parent) | snapshot(opencode.parent) == before


def test_a_plugin_of_a_marketplace_is_left_as_it_is(run: Callable[..., Result], user: Path) -> None:
    plugins = user / ".claude" / "plugins"
    plugins.mkdir()
    installed = {"plugins": {"engram@team": [{"installPath": str(plugins), "version": "1"}]}}
    (plugins / "installed_plugins.json").write_text(json.dumps(installed))
    (user / ".claude" / "settings.json").write_text('{"enabledPlugins": {"engram@team": true}}')

    said = run("install", "--yes", "--no-service", "--no-import").output

    assert "already has Engram: the plugin engram@team" in " ".join(said.split())
    assert not (user / ".claude" / "skills").exists()


def test_of_the_earlier_engram_nothing_runs_its_memories_are_found_and_its_files_come_back(
    run: Callable[..., Result], user: Path, home: Home
) -> None:
    home.root.mkdir(mode=0o700)
    rows = [
        memory_row(1, summary="The barge Wilhelmina is moored at pier 3", scope="global", project=None),
        memory_row(2, summary="Tide tables come from the harbour's own gauge", scope="global", project=None),
    ]
    machine = make_machine(user, home.root, user / ".claude", rows)
    checkpoint(home.memory_db)
    before = snapshot(user)

    refused = run("install", "--no-service", "--no-import", stdin="n\n", code=1).output
    assert "An earlier Engram is on this machine" in refused
    assert "approves every tool call" in refused
    daemon = machine.start_daemon()
    try:
        said = run("install", "--yes", "--no-service").output
        assert daemon.wait(60) is not None
    finally:
        daemon.kill()
        daemon.communicate()
        shutil.rmtree(user / ".bun")
    assert "Imported 2 memories from the earlier Engram" in said
    assert not machine.plist.exists()
    assert "pretooluse-recollection" not in machine.settings_file.read_text()
    assert "Wilhelmina" in run("recall", "where is the barge Wilhelmina moored").output
    told = json.loads(run("install", "--yes", "--json").stdout)
    assert (told["changed"], told["earlier"]) == ([], None)
    assert not any("import" in note for note in told["notes"])
    assert "pretooluse-recollection" not in machine.settings_file.read_text()

    run("uninstall", "--yes", "--purge")

    left = {name: facts for name, facts in snapshot(user).items() if not name.endswith(("engram.sock", "engram.pid"))}
    assert left == before


def test_an_installer_that_was_killed_is_finished_by_the_next(
    user: Path, run: Callable[..., Result], home: Home
) -> None:
    command = [sys.executable, "-m", "engram.cli.main", "install", "--yes", "--no-service", "--no-import"]
    killed = subprocess.run(command, env={**os.environ, "ENGRAM_CRASH": "install.written:3"}, capture_output=True)
    assert killed.returncode == -9
    what, advice = explain_half_done(home) or ("", "")
    assert "plugin" in what
    assert "engram install" in advice

    run("install", "--yes")

    assert explain_half_done(home) is None
    assert len(list((user / ".claude" / "skills" / "engram").rglob("*.json"))) == 3


@pytest.mark.parametrize("way", ["--plugin", "--no-plugin"])
def test_what_was_installed_before_the_memory_folder_was_deleted_is_undone_too(
    run: Callable[..., Result], user: Path, home: Home, way: str
) -> None:
    (user / ".claude" / "settings.json").write_text('{"model": "opus"}')
    before = claude_folder(user)
    run("install", "--yes", "--no-service", "--no-import")
    shutil.rmtree(home.root)

    run("install", "--yes", "--no-service", "--no-import", way)
    checks = json.loads(run("doctor", "--json", code=1).stdout)["checks"]
    run("uninstall", "--yes")

    assert not [check for check in checks if "registered twice" in check["detail"]]
    (user / ".claude" / "skills").rmdir()  # nobody knows whether it was there
    assert claude_folder(user) == before


def test_a_plugin_for_another_memory_folder_comes_back(run: Callable[..., Result], user: Path, tmp_path: Path) -> None:
    run("install", "--yes", "--no-service", "--no-import")
    before = claude_folder(user)

    run("--home", str(tmp_path / "other"), "install", "--yes", "--no-service", "--no-import")
    assert claude_folder(user) != before
    run("--home", str(tmp_path / "other"), "uninstall", "--yes")

    assert claude_folder(user) == before


def test_with_a_damaged_journal_the_advice_leads_on_and_the_original_files_stay(
    run: Callable[..., Result], user: Path, home: Home
) -> None:
    own = '{"model": "opus"}'
    (user / ".claude" / "settings.json").write_text(own)
    run("install", "--yes", "--no-service", "--no-import")
    home.install_journal.write_bytes(home.install_journal.read_bytes()[:100])

    said = run("install", "--yes", "--no-service", "--no-import", code=1).output
    checks = json.loads(run("doctor", "--json", code=1).stdout)["checks"]

    (finding,) = [check for check in checks if check["name"] == "installation"]
    command = finding["advice"].removeprefix("run: ").partition(",")[0]
    assert command.startswith("mv ")
    assert command in said
    subprocess.run(command, shell=True, check=True)
    run("install", "--yes", "--no-service", "--no-import")
    run("uninstall", "--yes")
    (original,) = (home.root / "install-damaged" / "originals").iterdir()
    assert original.read_text() == own
    assert not (user / ".claude" / "skills" / "engram").exists()


def test_an_interrupted_import_leaves_the_installation_and_continues_later(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("engram.cli.up_once.run_once", interrupt)
        said = run("install", "--yes", "--no-service").output
    assert "Reading was stopped: 0 of " in said
    assert "Installation continues, and `engram up` reads the rest." in said
    assert "type: engram uninstall" in said
    assert (user / ".claude" / "skills" / "engram").is_dir()

    run("install", "--yes")

    with open_store(home.memory_db) as store:
        from engram.models.shown.usage import count_totals

        assert count_totals(store).turns == 13


@pytest.mark.parametrize("way", ["--plugin", "--no-plugin"])
def test_uninstall_works_after_the_memory_folder_was_deleted(
    run: Callable[..., Result], user: Path, home: Home, way: str
) -> None:
    settings = user / ".claude" / "settings.json"
    settings.write_text('{\n  "permissions": {\n\n    "allow": ["Read"]\n  }\n}\n')
    (user / ".claude" / "skills").mkdir()
    codex = user / ".codex" / "config.toml"
    codex.parent.mkdir()
    codex.write_text('model = "o9"\n\n[mcp_servers.theirs]\ncommand = "theirs"\n')
    before = claude_folder(user) | snapshot(codex.parent)
    run("install", "--yes", "--no-service", "--no-import", way, "--statusline", "--agent", "codex")
    assert "engram_mcp" in codex.read_text()
    shutil.rmtree(home.root)

    told = json.loads(run("uninstall", "--yes", "--json").stdout)

    assert told["problems"] == []
    assert claude_folder(user) | snapshot(codex.parent) == before
    assert not home.root.exists()
    assert not (user / ".claude.json").exists()
    assert "not installed" in run("uninstall").output


def test_uninstall_promises_to_keep_only_what_is_there(run: Callable[..., Result], home: Home) -> None:
    run("install", "--yes", "--no-service", "--no-import")
    shutil.rmtree(home.root)
    assert f"There is no memory in {home.root}." in " ".join(run("uninstall", "--yes").output.split())

    run("install", "--yes", "--no-service", "--no-import")
    home.memory_db.unlink()
    told = " ".join(run("uninstall", "--yes").output.split())
    assert f"There is no memory in {home.root}. What else is in that folder is kept." in told

    run("install", "--yes", "--no-service")
    assert f"The memory is kept in {home.root};" in " ".join(run("uninstall", "--yes").output.split())


def test_what_was_forgotten_is_among_the_reasons_why_nothing_of_a_transcript_is_stored(
    run: Callable[..., Result],
) -> None:
    run("install", "--yes", "--no-service")
    project = json.loads(run("projects", "--json").stdout)["projects"][0]["name"]
    run("projects", "forget", project, "--yes")

    said = " ".join(run("install", "--yes", "--no-service").output.split())

    assert "of their own, were forgotten, or are left out by your settings." in said


def test_a_settings_file_that_cant_be_read_does_not_stop_an_uninstallation(
    run: Callable[..., Result], user: Path, home: Home
) -> None:
    codex, settings = user / ".codex" / "config.toml", user / ".claude" / "settings.json"
    codex.parent.mkdir()
    codex.write_text('model = "o9"\n')
    run("install", "--yes", "--no-service", "--no-import", "--no-plugin", "--agent", "codex")
    shutil.rmtree(home.root)
    whole = settings.read_text()
    assert "engram" in whole
    settings.write_text(whole[:-20])

    told = json.loads(run("uninstall", "--yes", "--json", code=1).stdout)

    assert [str(settings) in problem for problem in told["problems"]] == [True]
    assert codex.read_text() == 'model = "o9"\n'
    settings.write_text(whole)
    run("uninstall", "--yes")
    assert not settings.exists()


def test_what_is_gone_is_not_deleted_once_more(run: Callable[..., Result], home: Home, user: Path) -> None:
    run("install", "--yes", "--no-service", "--no-import")

    first = run("uninstall", "--yes", "--purge").output
    second = run("uninstall", "--yes", "--purge").output

    assert "Uninstalled; the memory is deleted." in first
    assert "Uninstalled" not in second
    assert f"There is no memory in {home.root} either." in second
    assert not home.root.exists()


@pytest.mark.parametrize("purge", [(), ("--purge",)])
def test_a_dry_run_of_uninstall_changes_nothing_and_says_what_would_go(
    run: Callable[..., Result], home: Home, user: Path, purge: tuple[str, ...]
) -> None:
    run("install", "--yes", "--no-service", "--no-import")
    before = snapshot(user)

    shown = run("uninstall", "--dry-run", *purge).output
    told = json.loads(run("uninstall", "--dry-run", *purge, "--json").stdout)

    assert snapshot(user) == before
    assert [f"Would be undone: {step}" in shown for step in told["steps"]] == [True] * len(told["steps"])
    assert told["steps"]
    assert f"{'Would be deleted' if purge else 'Would be kept'}: the memory in {home.root}" in shown
    assert "Nothing was changed." in shown


def test_a_dry_run_of_uninstall_where_nothing_is_makes_nothing(run: Callable[..., Result], home: Home) -> None:
    shown = run("uninstall", "--dry-run", "--purge").output

    assert "not installed" in shown
    assert not home.root.exists()


def test_uninstall_tells_where_nothing_was_installed_and_keeps_files_of_others(
    run: Callable[..., Result], home: Home
) -> None:
    assert "not installed" in run("uninstall").output
    run("install", "--yes", "--no-service", "--no-import")
    (home.root / "mine.txt").write_text("mine")

    told = json.loads(run("uninstall", "--yes", "--purge", "--json").stdout)

    assert told["left"] == [str(home.root / "mine.txt")]
    assert [path.name for path in home.root.iterdir()] == ["mine.txt"]


def test_a_question_cannot_be_asked_in_json(run: Callable[..., Result]) -> None:
    assert "--json can't ask: add --yes" in run("install", "--json", code=1).output


def test_hooks_of_the_user_beside_ours_merged_by_hand_are_there_at_the_end(
    run: Callable[..., Result], user: Path
) -> None:
    theirs = {"type": "command", "command": "mine.sh"}
    settings = user / ".claude" / "settings.json"
    block = settings_block()["hooks"]["Stop"][0]
    settings.write_text(json.dumps({"hooks": {"Stop": [{**block, "hooks": [theirs, *block["hooks"]]}]}}))

    run("install", "--yes", "--no-service", "--no-import")
    run("uninstall", "--yes")

    assert json.loads(settings.read_text())["hooks"]["Stop"] == [{**block, "hooks": [theirs]}]


@pytest.mark.parametrize("form", ["link to itself", "skills is a file"])
def test_what_is_in_the_way_is_named_once_and_the_memory_can_be_deleted(
    run: Callable[..., Result], user: Path, form: str
) -> None:
    settings = user / ".claude" / "settings.json"
    if form == "link to itself":
        settings.symlink_to(settings.name)
    else:
        (user / ".claude" / "skills").write_text("x")
    before = snapshot(user)

    said = run("install", "--yes", "--no-service", "--no-import", code=1).output
    run("uninstall", "--yes", "--purge")

    assert said.lower().count("nothing was changed") <= 1
    assert "Move it away" in said or "it points to itself" in said or "Correct it" in said
    assert snapshot(user) == before


@pytest.mark.parametrize("failure", ["self-test", "memory.db", "earlier version", "interrupt"])
def test_an_installation_that_fails_at_its_end_leaves_nothing(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    def interrupt(_: object) -> SelfTest:
        raise KeyboardInterrupt

    before = claude_folder(user)
    home.prepare()
    if failure == "memory.db":
        home.memory_db.write_bytes(b"garbage" * 5000)
    else:
        test = interrupt if failure == "interrupt" else lambda _: SelfTest("no memory was made from a session", 0.0)
        monkeypatch.setattr("engram.cli.install_commands.run_self_test", test)
    if failure == "earlier version":
        put_version(home.memory_db, 2)

    result = CliRunner().invoke(engram, ["install", "--yes", "--no-service", "--no-import"])

    assert result.exit_code == 1, result.output
    if failure != "interrupt":
        assert "Nothing was changed" in result.output.splitlines()[-1]
    assert claude_folder(user) == before
    assert not home.install_journal.exists()
    if failure == "earlier version":
        connection = sqlite3.connect(home.memory_db)
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        connection.close()
        assert list_backups(home.backups) == []


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (
            "install_commands.run_self_test",
            ("The changes of this installation were undone", "type: engram install"),
        ),
        ("install_commands.print_report", ("Engram is installed", "type: engram uninstall")),
        ("setup_commands.take_back", ("Not everything has been undone yet", "type: engram uninstall")),
        ("up_once.run_once", ("What was read is kept", "type the same command again")),
    ],
)
def test_ctrl_c_says_what_was_done_and_what_to_type(
    run: Callable[..., Result],
    user: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    what: str,
    words: tuple[str, ...],
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    command = ["install", "--yes", "--no-service", "--no-import"]
    if "take_back" in what:
        run(*command)
        command = ["uninstall", "--yes"]
    monkeypatch.setattr(f"engram.cli.{what}", interrupt)

    with pytest.raises(SystemExit) as ended:
        main(["up", "--once"] if "run_once" in what else command)

    said = capsys.readouterr().err
    assert ended.value.code == 130
    assert said.strip().startswith("Stopped. ")
    assert all(word in said for word in words), said


def test_a_question_that_is_not_answered_leaves_nothing_behind(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_claude(user, monkeypatch, "2.1.332")
    monkeypatch.setattr("engram.cli.install_commands._may_ask_session_start", lambda *_: True)
    monkeypatch.setattr("engram.cli.install_commands.has_terminal", lambda: True)

    def interrupt(*_: object) -> None:
        raise click.Abort

    monkeypatch.setattr("engram.cli.install_commands.ask_mod", interrupt)

    said = run("install", "--no-service", stdin="y\nlocal\ny\n", code=1).output

    assert "To continue, type: engram install" in said
    assert not home.config_file.exists()


@pytest.mark.parametrize("code", ["0.0.9+0ld", ""])
@pytest.mark.parametrize("lock", ["worker_lock", "watcher_lock", "supervisor_lock"])
def test_running_processes_of_another_version_are_shown_and_stopped_with_consent(
    run: Callable[..., Result], home: Home, code: str, lock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_version(home.prepare().memory_db, 3)
    with hold(getattr(home, lock), code) as other:
        said = run("install", "--no-service", "--no-import", stdin="n\n", code=1).output
        assert f"(pid {other.pid}, {code or 'unknown version'})" in said
        assert other.poll() is None

        run("install", "--yes", "--no-service", "--no-import")

        assert other.wait() == -signal.SIGTERM
    with open_store(home.memory_db, may_upgrade=False) as store:
        assert store.schema_version() == newest_version()


def test_a_memory_of_a_newer_version_is_refused_before_anything_is_asked(
    run: Callable[..., Result], user: Path, home: Home
) -> None:
    before = claude_folder(user)
    open_store(home.prepare().memory_db).close()
    connection = sqlite3.connect(home.memory_db)
    connection.execute("UPDATE meta SET value = '9999' WHERE key = 'schema_version'")
    connection.execute("PRAGMA user_version = 9999")
    connection.commit()
    connection.close()

    said = run("install", "--yes", "--no-service", "--no-import", code=1).output

    assert "A newer version of Engram wrote the memory database" in said
    assert claude_folder(user) == before


def test_several_configuration_folders_are_read_connected_and_undone(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = user / "work claude"
    (work / "projects").mkdir(parents=True)
    (user / ".claude" / "projects" / "-home-dev-harbor").rename(work / "projects" / "-home-dev-harbor")
    (work / "CLAUDE.md").write_text("Always write tests at work.\n")
    run("config", "set", "claude_folders", str(work))
    before = claude_folder(user) | snapshot(work)

    run("install", "--yes", "--no-service")

    assert json.loads((work / "settings.json").read_text())["permissions"]["allow"] == ["mcp__plugin_engram_engram"]
    for folder in (user / ".claude", work):
        assert (folder / "skills" / "engram" / "hooks" / "hooks.json").is_file()
    assert "Postgres" in run("recall", "why did we leave SQLite").output
    checks = json.loads(run("doctor", "--json", code=1).stdout)["checks"]
    assert not {"configuration folder", "sessions elsewhere"} & {check["name"] for check in checks}
    assert str(work / "projects") in run("status").output

    run("config", "unset", "claude_folders")
    run("install", "--yes", "--no-import")
    assert not (work / "skills").exists()
    run("uninstall", "--yes")
    assert claude_folder(user) | snapshot(work) == before


def test_the_default_folder_keeps_its_user_file_beside_it_where_the_variable_names_another(
    run: Callable[..., Result], user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(user / "work"))
    (user / "work").mkdir()
    run("config", "set", "claude_folders", str(user / ".claude"))
    before = claude_folder(user) | snapshot(user / "work")

    run("install", "--yes", "--no-service", "--no-import", "--no-plugin")

    for file in (user / ".claude.json", user / "work" / ".claude.json"):
        assert list(json.loads(file.read_text())["mcpServers"]) == ["engram"]
    assert not (user / ".claude" / ".claude.json").exists()
    run("uninstall", "--yes")
    assert claude_folder(user) | snapshot(user / "work") == before
    assert not (user / ".claude.json").exists()


def test_a_further_folder_that_is_not_connected_is_named_and_undone_without_a_journal(
    run: Callable[..., Result], user: Path, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("install", "--yes", "--no-service", "--no-import")
    work = user / "work"
    work.mkdir()
    run("config", "set", "claude_folders", str(work))

    checks = json.loads(run("doctor", "--json", code=1).stdout)["checks"]
    (finding,) = [check for check in checks if check["name"] == "configuration folder"]
    assert (finding["command"], str(work) in finding["detail"]) == ("engram install", True)

    run("install", "--yes", "--no-import")
    assert (work / "skills" / "engram").is_dir()
    home.install_journal.unlink()
    run("uninstall", "--yes")
    assert [path for path in work.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(
    ("version", "hosts"), [("2.1.329", None), ("2.1.330", []), ("2.2.0", []), ("3.0.0-beta", None), ("", None)]
)
def test_the_plugin_declares_that_it_talks_to_no_host_where_that_is_known(
    run: Callable[..., Result], user: Path, monkeypatch: pytest.MonkeyPatch, version: str, hosts: list[str] | None
) -> None:
    if version:
        add_claude(user, monkeypatch, version)

    run("install", "--yes", "--no-service", "--no-import", "--plugin")

    manifests = list((user / ".claude" / "skills").glob("engram/.claude-plugin/plugin.json"))
    found = [json.loads(manifest.read_text()).get("network", {}).get("hosts") for manifest in manifests]
    assert found == ([] if version == "3.0.0-beta" else [hosts])
    checks = json.loads(run("doctor", "--json", code=1).stdout)["checks"]
    assert not [check for check in checks if check["name"] == "plugin" and check["state"] != "ok"]
