"""The supervisor's children: restarted when they should be, left or given up otherwise, ended when they hang."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from processes import wait_for

from engram.setup.services.supervisor import (
    LOOK_SECONDS,
    MAX_FAILURES,
    MAX_THROTTLE_SECONDS,
    THROTTLE_SECONDS,
    Child,
    Supervisor,
)
from engram.system.process_lock import ProcessLock

#: Longest wait for anything in these tests, in seconds.
PATIENCE_SECONDS = 60
#: The longest that a killed worker may be missing, in seconds, without the time that its start takes.
MAX_RETURN_SECONDS = 10.0


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
    monkeypatch.setattr("engram.setup.services.supervisor.THROTTLE_SECONDS", 0)
    child.again_seconds = 0
    for _ in range(MAX_FAILURES):
        run_out(child)
    assert child.has_failed
    assert child.starts == MAX_FAILURES


def test_stopping_waits_for_a_clean_end_and_kills_what_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.setup.services.supervisor.STOP_SECONDS", 1.0)
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
def no_throttle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engram.setup.services.supervisor.THROTTLE_SECONDS", 0.0)


@pytest.mark.parametrize("code", [0, 1, 2, 70])
def test_a_kept_child_is_restarted_after_any_end(no_throttle: None, code: int) -> None:
    child = child_that(f"print('Error: no such folder', file=sys.stderr); sys.exit({code})")
    child.is_kept = True
    child.start()

    for _ in range(2):
        run_out(child)

    assert (child.starts, child.ended, child.has_failed) == (3, "", False)
    assert child.last_words == "Error: no such folder"
    child.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize(
    ("end", "pause_seconds"), [("sys.exit(1)", MAX_THROTTLE_SECONDS), ("os.kill(os.getpid(), 9)", THROTTLE_SECONDS)]
)
def test_a_refused_child_waits_up_to_a_minute_and_a_killed_one_never_longer(end: str, pause_seconds: float) -> None:
    child = child_that(end)
    child.is_kept, child.failures = True, 30
    child.start()

    run_out(child)

    assert child.again_seconds == child.started_seconds + pause_seconds
    assert THROTTLE_SECONDS + LOOK_SECONDS < MAX_RETURN_SECONDS


def test_a_kept_child_is_not_started_while_somebody_else_does_its_work(no_throttle: None, tmp_path: Path) -> None:
    child = child_that("pass")
    child.is_kept, child.lock = True, tmp_path / "lock"
    other = ProcessLock(tmp_path / "lock")
    child.start()

    run_out(child)
    child.look()
    assert child.starts == 1

    other.release()
    child.look()
    assert child.starts == 2
    child.wait(PATIENCE_SECONDS)


def test_a_child_whose_heartbeat_stops_is_ended_and_started_again(
    no_throttle: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    child = child_that("time.sleep(99)")
    child.is_kept, child.lock = True, tmp_path / "lock"
    child.lock.touch()
    child.start()
    # A laptop that slept finds an old file: that alone is no silence.
    os.utime(child.lock, (1, 1))
    child.look()
    assert (child.starts, child.is_running) == (1, True)

    monkeypatch.setattr("engram.setup.services.supervisor.MAX_SILENCE_SECONDS", -1.0)
    child.look()
    monkeypatch.undo()
    child.look()

    assert (child.starts, child.is_running) == (2, True)
    assert child.process is not None
    child.process.kill()
    child.wait(PATIENCE_SECONDS)


def test_a_child_whose_program_is_gone_is_tried_after_a_while(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.symlink_to(sys.executable)
    child = Child("work", [str(program), "-c", "import sys; sys.exit(75)"], is_kept=True)
    child.start()
    assert child.process is not None
    child.process.wait(PATIENCE_SECONDS)
    program.unlink()

    with pytest.raises(FileNotFoundError):
        child.look()
    child.look()

    assert child.starts == 1
    assert child.again_seconds is not None
    child.again_seconds = 0.0
    program.symlink_to(sys.executable)
    child.look()
    assert child.starts == 2
    child.wait(PATIENCE_SECONDS)
