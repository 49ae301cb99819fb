"""The worker under Huey's own command line, as a user types it: ``huey_consumer engram.tasks.queue.huey``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from processes import WAIT_SECONDS, members_of_group, wait_for, wait_until_group_gone
from workers import RUN, SESSION, status, write_rule

from engram.models.open_memory import open_store
from engram.settings import Settings
from engram_hooks.block import settings_block

#: What the documentation tells a user to type, with the interpreter of this environment.
STOCK = (sys.executable, "-m", "huey.bin.huey_consumer", "engram.tasks.queue.huey", "-w", "4", "-k", "thread")
ENGRAM_WORK = (sys.executable, "-c", RUN)
PROMPT = "What do I have to run before every commit in this project, is it make lint?"

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    return os.environ | {
        "ENGRAM_HOME": str(tmp_path / "home"),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
        "ENGRAM_EMBEDDING_MODEL": "hashed",
        "OMP_NUM_THREADS": "1",
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")


@pytest.fixture
def start(environment: Mapping[str, str], tmp_path: Path) -> Iterator[Start]:
    """Starts commands in process groups of their own, from a folder that has nothing to do with Engram."""
    started: list[subprocess.Popen[str]] = []

    def begin(*command: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def run_hook(environment: Mapping[str, str], event: str, session: str, **more: str) -> str:
    """Run a hook as Claude Code does; return its output."""
    payload = {"session_id": session, "cwd": "/work/demo", "hook_event_name": event, "transcript_path": "", **more}
    done = subprocess.run(
        ["/bin/sh", "-c", settings_block()["hooks"][event][0]["hooks"][0]["command"]],
        env=environment | {"CLAUDE_CODE_SESSION_ID": session},
        input=json.dumps(payload),
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=True,
    )
    return done.stdout


def test_it_makes_a_memory_answers_a_hook_and_leaves_nothing_behind(
    start: Start, environment: Mapping[str, str], settings: Settings
) -> None:
    home = settings.places
    worker = start(*STOCK)
    running = wait_for(lambda: status(home))
    assert running["pid"] == worker.pid

    write_rule(settings)
    run_hook(environment, "SessionEnd", SESSION, reason="other")
    with open_store(home.memory_db) as store:
        wait_for(lambda: store.value("SELECT count(*) FROM episode"))
        wait_for(lambda: store.value("SELECT count(*) FROM work WHERE state = 'due'") == 0)
        scans = wait_for(lambda: store.value("SELECT done + seen FROM stage WHERE name = 'scan'"))

    def ask() -> str:
        """A hook on a busy machine is silent after 250 ms, so each attempt is the first prompt of a new session."""
        return run_hook(environment, "UserPromptSubmit", str(uuid.uuid4()), prompt=PROMPT)

    shown = wait_for(ask)
    assert scans
    assert "make lint before every commit" in json.loads(shown)["hookSpecificOutput"]["additionalContext"]

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=WAIT_SECONDS)
    wait_until_group_gone(worker.pid)
    assert worker.returncode == 0
    assert members_of_group(worker.pid) == []
    assert not home.recall_socket.exists()
    assert not home.wake_socket.exists()


@pytest.mark.parametrize(("first", "second"), [(ENGRAM_WORK, STOCK), (STOCK, ENGRAM_WORK)])
def test_a_second_worker_is_refused_by_the_lock_of_the_first(
    start: Start, settings: Settings, first: tuple[str, ...], second: tuple[str, ...]
) -> None:
    worker = start(*first)
    wait_for(lambda: status(settings.places))

    refused = start(*second)
    _, message = refused.communicate(timeout=WAIT_SECONDS)

    assert (refused.returncode, message.count("\n")) == (0, 1)
    assert f"a worker is already running for {settings.home}" in message
    assert worker.poll() is None
    assert status(settings.places) is not None


def test_workers_that_are_processes_are_refused(start: Start) -> None:
    worker = start(*STOCK[:-1], "process")

    _, message = worker.communicate(timeout=WAIT_SECONDS)

    assert worker.returncode == 1
    assert "use `-k thread`" in message
    assert "Traceback" not in message


def test_a_memory_folder_that_cannot_be_used_is_one_line(start: Start, settings: Settings) -> None:
    settings.home.write_text("a file\n")

    worker = start(*STOCK)
    _, message = worker.communicate(timeout=WAIT_SECONDS)

    assert worker.returncode == 1
    assert message.startswith("Error: ")
    assert message.count("\n") == 1
