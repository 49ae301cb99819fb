"""What doctor and status say of the language model: asked of nobody, offered once, with what to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from processes import read_pid, wait_until_gone

from engram.cli.main import engram
from engram.extraction.model.provider import STAGE
from engram.extraction.model.second_chance import STAGE as SECOND_CHANCE
from engram.models.engine.transaction import Store
from engram.models.sessions.stored_turns import waiting_sessions
from engram.models.work.task_runs import note_failure
from engram.paths import Home

Run = Callable[..., Result]

FLAGS = "--safe-mode --json-schema --no-session-persistence --strict-mcp-config --max-budget-usd"


class Command:
    """A ``claude`` that tells its flags, and writes down how it was called."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "claude"
        self.log = folder / "calls.jsonl"
        self.child = folder / "child.pid"

    def write(self, told: str = FLAGS, then: str = "") -> None:
        self.path.write_text(
            f"#!{sys.executable}\nimport json, os, subprocess, sys\n"
            f"with open({str(self.log)!r}, 'a') as log:\n"
            "    log.write(json.dumps({'argv': sys.argv[1:], 'environ': dict(os.environ), "
            "'cwd': os.getcwd()}) + '\\n')\n"
            f"print({told!r})\n{then}\n"
        )
        self.path.chmod(0o755)

    def calls(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The only ``claude`` on PATH."""
    folder = tmp_path / "claude-bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("CLAUDE_CODE_OAUTH_TOKEN", "made up")
    command = Command(folder)
    command.write()
    return command


def check(run: Run, *flags: str) -> dict[str, str]:
    """What doctor says about the language model; the rest doesn't matter here."""
    told = run(*flags, "doctor", "--json", code=1).stdout
    (check,) = (check for check in json.loads(told)["checks"] if check["name"] == "language model")
    return dict(check)


CHOSEN = ("--set", "extractor=claude")


def test_a_claude_that_knows_the_flags_is_well_and_is_asked_for_its_help_alone(
    run: Run, claude: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", "/somewhere")

    assert check(run, *CHOSEN)["state"] == "ok"

    (call,) = claude.calls()
    assert call["argv"] == ["--help"]
    assert call["environ"]["ENGRAM_DISABLE"] == "1"
    assert not {"CLAUDECODE", "CLAUDE_PROJECT_DIR"} & set(call["environ"])
    assert call["cwd"] != os.getcwd()


def test_without_a_login_the_model_is_not_said_to_be_well(
    run: Run, claude: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CLAUDE_CODE_OAUTH_TOKEN")

    found = check(run, *CHOSEN)

    assert (found["state"], "/login" in found["advice"]) == ("warn", True)


@pytest.mark.parametrize("new_session", [False, True])
def test_what_the_help_leaves_behind_holds_doctor_up_no_longer(run: Run, claude: Command, new_session: bool) -> None:
    sleep = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    claude.write(
        then=f"p = subprocess.Popen({sleep}, start_new_session={new_session})\n"
        f"open({str(claude.child)!r}, 'w').write(str(p.pid))"
    )

    assert check(run, *CHOSEN)["state"] == "ok"

    if not new_session or Path("/proc").is_dir():
        wait_until_gone(read_pid(claude.child))


def test_an_old_claude_and_none_are_told_with_what_to_do(run: Run, claude: Command) -> None:
    claude.write(told="--model --json-schema")
    language_model = check(run, *CHOSEN)
    assert language_model["state"] == "bad"
    assert "--safe-mode" in language_model["detail"]
    assert "--json-schema" not in language_model["detail"]
    assert "claude update" in language_model["advice"]

    claude.path.unlink()
    language_model = check(run, *CHOSEN)
    assert language_model["state"] == "bad"
    assert "engram config set claude_command" in language_model["advice"]


def test_a_claude_of_the_current_folder_is_not_run(
    run: Run, claude: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claude.path.rename(folder / "claude")
    monkeypatch.setenv("PATH", ".::/usr/bin:/bin")

    assert check(run, *CHOSEN)["state"] == "bad"
    assert "engram config set extractor claude" not in run("status").stdout
    assert claude.calls() == []


def test_why_the_model_serves_nobody_stands_in_status_and_doctor(run: Run, claude: Command, filled: Store) -> None:
    reason = "claude is not logged in (Not logged in): run `claude` and log in with /login"
    note_failure(filled, STAGE, reason)

    assert "log in with /login" in run(*CHOSEN, "status").stdout
    checks = json.loads(run(*CHOSEN, "doctor", "--json", code=1).stdout)["checks"]
    assert any(check["state"] != "ok" and "log in with /login" in check["detail"] for check in checks)


@pytest.mark.parametrize("stage", ["llm", "second chance", "hub"])
def test_what_failed_before_it_was_switched_off_no_longer_counts_as_trouble(
    run: Run, claude: Command, filled: Store, stage: str
) -> None:
    note_failure(filled, stage, "it did not answer")

    assert "it did not answer" not in run("status").stdout
    assert "it did not answer" not in CliRunner().invoke(engram, ["doctor", "--quick"]).output


def test_the_doctor_names_the_log_only_if_it_holds_something(
    run: Run, claude: Command, filled: Store, home: Home
) -> None:
    note_failure(filled, "extract", "it did not answer")

    def advice() -> str:
        # In a process of its own: what a thread of another test logs in this one would count as the doctor's.
        command = [sys.executable, "-m", "engram.cli.main", "doctor", "--quick", "--json"]
        checks = json.loads(subprocess.run(command, capture_output=True, text=True, check=False).stdout)["checks"]
        return next(str(check["advice"]) for check in checks if check["name"] == "stage extract")

    assert "engram logs" not in advice(), [path.read_text("utf-8") for path in home.logs.glob("*")]
    home.logs.mkdir(exist_ok=True)
    (home.logs / "worker.log").write_text("2026-01-01 10:00:00,000 WARNING 1 engram it did not answer\n")
    assert "engram logs --errors" in advice()
    assert "it did not answer" in run("logs", "--errors").stdout


def test_status_offers_claude_exactly_once(run: Run, claude: Command) -> None:
    offer = "engram config set extractor claude"
    assert offer not in run("status", "--json").stdout
    assert offer not in run(*CHOSEN, "status").stdout

    assert [offer in run("status").stdout for _ in range(3)] == [True, False, False]

    assert claude.calls() == []


def test_nothing_is_offered_where_there_is_no_claude(run: Run, claude: Command) -> None:
    claude.path.chmod(0o644)
    assert "extractor claude" not in run("status").stdout

    claude.path.chmod(0o755)
    assert "extractor claude" in run("status").stdout


def test_status_tells_how_many_sessions_wait_to_be_distilled_again_and_why(run: Run, filled: Store) -> None:
    waiting = len(waiting_sessions(filled))
    note_failure(filled, SECOND_CHANCE, "paused: the cap of 1 dollars a day is reached")

    status = run(*CHOSEN, "status").stdout

    assert waiting
    assert f"0 sessions, {waiting} waiting (paused: the cap of 1 dollars a day is reached)" in status
    assert json.loads(run(*CHOSEN, "status", "--json").stdout)["second_chance"] == {
        "done": 0,
        "waiting": waiting,
        "paused": "paused: the cap of 1 dollars a day is reached",
    }
    assert "rewritten by model" not in run("status").stdout


def test_what_a_model_lacks_is_one_problem_with_what_to_do(run: Run, filled: Store) -> None:
    note_failure(filled, STAGE, "OPENAI_API_KEY is not set")

    told = run("--set", "extractor=openai", "doctor", "--json", code=1).stdout

    bad = [check for check in json.loads(told)["checks"] if "OPENAI_API_KEY" in check["detail"]]
    assert [check["name"] for check in bad] == ["language model"]
