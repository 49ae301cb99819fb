"""The report for a bug tracker says what is wrong, and nothing private: no planted word stands in it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from transcript_lines import say

from engram.enums import Actor, Scope
from engram.log import start_logging
from engram.memories.save import save_memory
from engram.models.open_memory import open_store
from engram.models.work import task_runs, work
from engram.redaction import redact
from tests.doctor.conftest import Doctor

#: A word in every place where something private may stand.
CANARY = "Zanzibar"


def log_failures(doctor: Doctor) -> None:
    """Write failures into the worker's log, as the worker does."""
    start_logging(doctor.home.logs, "worker", "info", redact)
    logger = logging.getLogger("engram.tasks.runtime")
    try:
        (doctor.home.root / CANARY / CANARY).read_text()
    except OSError as error:
        logger.warning("action=extract about=%s failed=%s", CANARY, error, exc_info=error)
    try:
        from engram.config_file import set_value

        set_value(doctor.home.root / CANARY, CANARY, CANARY)
    except Exception as error:
        logger.error("action=command about=%s fault=%s", CANARY, type(error).__name__, exc_info=error)
    logger.warning("%s: free text about %s", CANARY, CANARY)
    for handler in list(logging.getLogger().handlers):
        logging.getLogger().removeHandler(handler)
        handler.close()


def plant(doctor: Doctor, folder: Path) -> None:
    """Plant the word in settings, projects, memories, errors, logs and Claude Code's files."""
    say(doctor.claude / "projects" / f"-{CANARY}" / f"{CANARY}.jsonl", "user", f"We call it {CANARY}.", cwd=str(folder))
    assert doctor.run("up", "--once", "--json").exit_code == 0
    for name, value in {
        "exclude": f"/home/{CANARY}/*",
        "claude_command": f"/home/{CANARY}/claude",
        "claude_model": CANARY,
        "llm_base_url": f"http://{CANARY}",
        "recall_limit": "7",
        "extractor": "claude",
    }.items():
        assert doctor.run("config", "set", name, value).exit_code == 0
    with open_store(doctor.home.memory_db) as store:
        save_memory(store, f"{CANARY} ships on Mondays.", redact, actor=Actor.USER, scope=Scope.GLOBAL)
        with store.transaction() as tx:
            work.make_due(tx, "extract", CANARY, 0)
        task = work.find_work(store, "extract", CANARY)
        assert task is not None
        work.fail(store, task, f"no answer from {CANARY}", max_attempts=1)
        task_runs.note_failure(store, "extract", f"no answer from {CANARY}")
    doctor.write_claude("settings.json", {"hooks": {"Stop": [{"hooks": [{"command": f"engram_hooks {CANARY}"}]}]}})
    doctor.write_claude(".claude.json", {"mcpServers": {"engram": {"command": f"/home/{CANARY}/python"}}})
    log_failures(doctor)


def test_no_private_word_stands_in_the_report(doctor: Doctor, tmp_path: Path) -> None:
    folder = tmp_path / CANARY
    folder.mkdir()
    os.chdir(folder)
    plant(doctor, folder)
    assert CANARY in doctor.run("doctor").stdout

    result = doctor.run("doctor", "--report")

    assert result.exit_code == 0
    report = result.stdout
    for private in (CANARY, str(tmp_path), "Mondays", str(Path.home())):
        assert private not in report
    assert "recall_limit = 7" in report
    assert "extractor = claude" in report
    assert "claude_model: changed" in report
    assert "exclude: changed" in report
    assert "bad  worker: not running" in report
    assert "bad  given up: 1 task\n" in report
    assert "stage extract: " in report
    assert ", failing" in report
    assert "worker WARNING action=extract FileNotFoundError" in report
    assert "engram/config_file.py:" in report


def test_a_memory_that_cannot_be_opened_is_reported_too(doctor: Doctor) -> None:
    doctor.home.memory_db.write_bytes(b"no database at all, but long enough to be taken for a damaged one" * 100)

    report = doctor.run("doctor", "--report").stdout

    assert "the memory can't be opened" in report
    assert "bad  memory.db: damaged" in report


def test_a_report_is_asked_for_alone(doctor: Doctor) -> None:
    for other in ("--json", "--fix"):
        assert doctor.run("doctor", "--report", other).exit_code == 2
