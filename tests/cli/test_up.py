"""``engram up``: both processes run, are started again when they should be, and none is ever left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import wait_for

from engram.cli.up_command import SAMPLES
from engram.paths import Home
from engram.reports.processes import is_held, process_state
from engram.services.supervisor import MAX_FAILURES, Child, Supervisor

#: Longest wait for anything in these tests, in seconds.
PATIENCE_SECONDS = 60


def child_that(code: str) -> Child:
    """A child process that runs Python code; the lifeline's number is ``int(sys.argv[2])``."""
    return Child("work", [sys.executable, "-c", f"import sys, os, time\n{code}"])


def run_out(child: Child) -> None:
    assert child.process is not None
    child.process.wait(PATIENCE_SECONDS)
    child.look()


def test_a_child_that_asks_for_it_is_started_again_at_once() -> None:
    child = child_that("sys.exit(75)")
    child.start()

    run_out(child)

    assert (child.starts, child.ended, child.failures) == (2, "", 0)
    child.wait(PATIENCE_SECONDS)


def test_a_child_that_ends_well_is_left_alone_with_its_last_words() -> None:
    child = child_that("print('another one runs', file=sys.stderr)")
    child.start()

    run_out(child)

    assert (child.starts, child.ended, child.has_failed) == (1, "another one runs", False)


def test_a_child_that_fails_as_expected_is_given_up_with_its_reason() -> None:
    child = child_that("print('Error: no such folder', file=sys.stderr); sys.exit(1)")
    supervisor = Supervisor([child, child_that("pass")])
    child.start()

    run_out(child)

    assert (child.ended, child.has_failed) == ("Error: no such folder", True)
    assert supervisor.look() is False


def test_a_child_that_was_killed_is_started_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    child = child_that("os.kill(os.getpid(), 9)")
    child.start()

    run_out(child)
    child.look()

    assert (child.starts, child.failures) == (1, 1)
    assert child.again_seconds is not None
    monkeypatch.setattr("engram.services.supervisor.THROTTLE_SECONDS", 0)
    child.again_seconds = 0
    for _ in range(MAX_FAILURES):
        run_out(child)
    assert child.has_failed
    assert child.starts == MAX_FAILURES


def test_stopping_waits_for_a_clean_end_and_kills_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.services.supervisor.STOP_SECONDS", 1.0)
    deaf = child_that(
        "import signal; signal.signal(15, signal.SIG_IGN); print(1, file=sys.stderr, flush=True)\n"
        "while True: time.sleep(9)"
    )
    good = child_that("time.sleep(99)")
    supervisor = Supervisor([deaf, good])
    supervisor.start()
    assert deaf.errors is not None
    wait_for(lambda: os.fstat(deaf.errors.fileno()).st_size > 0)  # type: ignore[union-attr]

    was_clean = supervisor.stop()

    assert was_clean is False
    assert not deaf.is_running
    assert not good.is_running


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """``engram up`` on the sample sessions, with both processes running."""
    environment = {**os.environ, "ENGRAM_EMBEDDING_MODEL": "hashed", "CLAUDE_CONFIG_DIR": str(SAMPLES)}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "engram.cli.main", "up"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    home = Home(tmp_path / "home")
    try:
        wait_for(lambda: home.recall_socket.exists() and is_held(home.watcher_lock))
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_SECONDS)
        assert process.stdout is not None
        process.stdout.close()
        wait_for(lambda: not is_held(home.watcher_lock) and not is_held(home.worker_lock))


def test_ctrl_c_stops_both_cleanly(started: subprocess.Popen[bytes], home: Home) -> None:
    started.send_signal(signal.SIGINT)

    output, _ = started.communicate(timeout=PATIENCE_SECONDS)

    assert started.returncode == 0
    assert output.decode().rstrip().endswith("Stopped.")
    assert not process_state(home.worker_lock).is_alive
    assert not process_state(home.watcher_lock).is_alive


def test_no_process_outlives_an_up_that_was_killed(started: subprocess.Popen[bytes], home: Home) -> None:
    started.kill()

    wait_for(lambda: not is_held(home.watcher_lock) and not is_held(home.worker_lock))


def test_a_running_worker_answers_recall(
    started: subprocess.Popen[bytes], home: Home, run: Callable[..., object], run_json: Callable[..., object]
) -> None:
    def hits() -> list[dict[str, object]]:
        answer = run_json("recall", "the VAT is a cent too low")
        assert isinstance(answer, dict)
        assert answer["by"] == "worker"
        return list(answer["hits"])

    wait_for(lambda: any("vat_cents" in json.dumps(hit) for hit in hits()))
