"""The worker with the user's Claude Code as extractor: killed or stopped during a call, and what continues
meanwhile.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from processes import WAIT_SECONDS, wait_for, wait_until_gone, wait_until_group_gone
from transcript_lines import say
from workers import RUN, SESSION

from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.tasks.session_tasks import flush
from engram.worker.worker_client import ask_worker
from tests.fork_server import ForkedProcess

STAND_IN = Path(__file__).parent.parent / "extraction" / "stand_in_claude.py"
Start = Callable[[str], ForkedProcess]


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """The calls that the stand-in got."""
    log = tmp_path / "calls.jsonl"

    def read() -> list[dict[str, Any]]:
        text = log.read_text(encoding="utf-8") if log.exists() else ""
        # The last line may be half written.
        return [json.loads(line) for line in text.rpartition("\n")[0].splitlines()]

    return read


@pytest.fixture
def start(settings: Settings, tmp_path: Path) -> Iterator[Start]:
    """Start a worker whose ``claude`` behaves in a way; all are ended."""
    command = tmp_path / "claude-stand-in"
    command.write_text(f"#!{sys.executable}\n" + STAND_IN.read_text(encoding="utf-8"), encoding="utf-8")
    command.chmod(0o755)
    started: list[ForkedProcess] = []

    def begin(mode: str) -> ForkedProcess:
        environment = os.environ | {
            "ENGRAM_HOME": str(settings.home),
            "CLAUDE_CONFIG_DIR": str(settings.claude_folder),
            "ENGRAM_EMBEDDING_MODEL": "hashed",
            "ENGRAM_EXTRACTOR": "claude",
            "ENGRAM_CLAUDE_COMMAND": str(command),
            "STAND_IN_MODE": mode,
            "STAND_IN_LOG": str(tmp_path / "calls.jsonl"),
            "OMP_NUM_THREADS": "1",
        }
        process = ForkedProcess(RUN, environment)
        started.append(process)
        wait_for(lambda: ask_worker(settings.places, {"op": "status"}))
        return process

    yield begin
    for process in started:
        process.kill()
        process.wait()


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with open_store(settings.places.memory_db) as opened:
        yield opened


def write_session(settings: Settings) -> None:
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    say(path, "user", "For invoices we round VAT half up because the tax office does.", at=now)
    say(path, "assistant", "Understood: VAT is rounded half up on invoices, as the tax office does.", at=now)


def summaries(store: Store) -> list[str]:
    return [value for (value,) in store.rows("SELECT summary FROM episode ORDER BY id")]


def ring(settings: Settings) -> None:
    huey.bind(settings.places, settings.sqlite_driver)
    flush(SESSION)


def test_killed_in_a_call_it_leaves_no_process_and_makes_the_memory_once_after_a_new_start(
    start: Start, settings: Settings, store: Store, calls: Callable[[], list[dict[str, Any]]]
) -> None:
    write_session(settings)
    worker = start("never")
    ring(settings)
    call = wait_for(calls)[0]

    worker.kill()
    worker.wait()
    wait_until_gone(call["pid"])
    wait_until_group_gone(call["group"])
    assert summaries(store) == []

    start("well")
    ring(settings)
    wait_for(lambda: summaries(store))

    assert len(summaries(store)) == 1
    assert "round VAT half up" in summaries(store)[0]
    assert len(calls()) == 2


def test_a_stop_ends_the_call_at_once_and_the_turns_stay_due(
    start: Start, settings: Settings, store: Store, calls: Callable[[], list[dict[str, Any]]]
) -> None:
    write_session(settings)
    worker = start("never")
    ring(settings)
    call = wait_for(calls)[0]

    worker.send_signal(signal.SIGTERM)

    assert worker.wait(WAIT_SECONDS) == 0
    wait_until_gone(call["pid"])
    assert store.value("SELECT count(*) FROM turn WHERE extracted_revision < revision") == 1


def test_while_a_call_hangs_questions_are_answered_and_other_tasks_run(
    start: Start, settings: Settings, calls: Callable[[], list[dict[str, Any]]]
) -> None:
    from engram.tasks.upkeep_tasks import index_notes

    write_session(settings)
    start("never")
    ring(settings)
    wait_for(calls)
    note = settings.places.notes / "daily" / "2026-02-03.md"
    note.write_text("## Harbor\n\nThe crane is called Bertha.\n")

    index_notes()

    def has_note() -> bool:
        with open_store(settings.places.memory_db) as opened:
            return opened.value("SELECT count(*) FROM note_chunk WHERE text LIKE '%Bertha%'") == 1

    wait_for(has_note)
    answer = ask_worker(settings.places, {"op": "recall", "query": "VAT", "limit": 3})
    assert answer is not None
    assert "hits" in answer
    assert len(calls()) == 1
