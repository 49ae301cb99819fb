"""A command runs to its end or is ended with everything that it started, whatever happens to who started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from processes import WAIT_SECONDS, read_pid, wait_until_gone

from engram.extraction.model.bounded_command import MAX_ERROR_BYTES, MAX_OUTPUT_BYTES, Finished, run_bounded

ENVIRONMENT = {"PATH": os.environ["PATH"]}


def run(
    program: str,
    folder: Path,
    *,
    text: bytes = b"",
    seconds: float = 60,
    cancelled: threading.Event | None = None,
) -> Finished:
    command = [sys.executable, "-c", program]
    return run_bounded(command, text, folder=folder, environment=ENVIRONMENT, seconds=seconds, cancelled=cancelled)


CHILD = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']); "
    "open({!r}, 'w').write(str(p.pid))"
)


def test_a_command_gets_its_input_and_its_output_and_exit_code_come_back(tmp_path: Path) -> None:
    text = b"line\n" * 200_000
    program = "import sys; t = sys.stdin.read(); print(len(t)); sys.stderr.write('hm'); sys.exit(3)"

    finished = run(program, tmp_path, text=text)

    assert finished == Finished(exit_code=3, output=b"1000000\n", errors=b"hm")


def test_a_command_that_never_reads_its_input_is_not_an_error(tmp_path: Path) -> None:
    finished = run("print('done')", tmp_path, text=b"x" * 5_000_000)

    assert (finished.exit_code, finished.output) == (0, b"done\n")


def test_a_command_ended_by_a_signal_is_told(tmp_path: Path) -> None:
    finished = run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", tmp_path)

    assert finished.exit_code == 128 + signal.SIGSEGV


def test_a_command_that_cannot_be_started_is_told(tmp_path: Path) -> None:
    finished = run_bounded(["/nowhere/claude"], b"", folder=tmp_path, environment=ENVIRONMENT, seconds=60)

    assert finished.exit_code == 127
    assert b"/nowhere/claude" in finished.errors


@pytest.mark.parametrize("ignore", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_after_the_time_limit_the_command_and_its_children_are_gone(tmp_path: Path, ignore: str) -> None:
    child = tmp_path / "child.pid"
    own = tmp_path / "own.pid"
    program = (
        f"import os, signal, time; {ignore}open({str(own)!r}, 'w').write(str(os.getpid())); "
        f"{CHILD.format(str(child))}; time.sleep(600)"
    )

    finished = run(program, tmp_path, seconds=2)

    assert finished.has_timed_out
    wait_until_gone(read_pid(own), read_pid(child))


def test_what_a_command_leaves_behind_is_ended_with_it(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"

    finished = run(CHILD.format(str(child)) + "; print('ok')", tmp_path)

    assert (finished.exit_code, finished.output) == (0, b"ok\n")
    wait_until_gone(read_pid(child))


needs_proc = pytest.mark.skipif(not Path("/proc").is_dir(), reason="only Linux tells whose descendant a process is")
DETACHED = (
    "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], "
    "start_new_session={new_session}); open({path!r}, 'w').write(str(p.pid))"
)


@pytest.mark.parametrize("new_session", [False, pytest.param(True, marks=needs_proc)])
def test_what_a_command_leaves_behind_with_its_output_open_holds_nobody_up(tmp_path: Path, new_session: bool) -> None:
    child = tmp_path / "child.pid"
    program = DETACHED.format(new_session=new_session, path=str(child)) + "; print('ok' * 30_000)"

    finished = run(program, tmp_path, seconds=600)

    assert (finished.exit_code, finished.output) == (0, b"ok" * 30_000 + b"\n")
    wait_until_gone(read_pid(child))


@needs_proc
def test_after_the_time_limit_a_child_in_its_own_session_is_gone(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    program = DETACHED.format(new_session=True, path=str(child)) + "; import time; time.sleep(600)"

    finished = run(program, tmp_path, seconds=2)

    assert finished.has_timed_out
    wait_until_gone(read_pid(child))


@needs_proc
def test_output_without_end_ends_children_with_a_session_of_their_own(tmp_path: Path) -> None:
    child = tmp_path / "child.pid"
    program = DETACHED.format(new_session=True, path=str(child)) + "\nwhile True: sys.stdout.write('x' * 65536)"

    finished = run(program, tmp_path)

    assert finished.has_overflowed
    wait_until_gone(read_pid(child))


def test_a_guard_that_is_killed_leaves_no_command_behind(tmp_path: Path) -> None:
    own = tmp_path / "own.pid"
    program = (
        f"import os, signal, time; open({str(own)!r}, 'w').write(str(os.getpid())); "
        "os.kill(os.getppid(), signal.SIGKILL); time.sleep(600)"
    )

    finished = run(program, tmp_path, seconds=600)

    assert finished.exit_code == 128 + signal.SIGKILL
    wait_until_gone(read_pid(own))


def test_output_without_end_is_cut_and_the_command_ended(tmp_path: Path) -> None:
    finished = run("import sys\nwhile True: sys.stdout.write('x' * 65536)", tmp_path)

    assert finished.has_overflowed
    assert len(finished.output) <= MAX_OUTPUT_BYTES + 65_536


def test_errors_without_end_are_read_and_dropped(tmp_path: Path) -> None:
    finished = run("import sys\nfor _ in range(1000): sys.stderr.write('x' * 65536)", tmp_path)

    assert finished.exit_code == 0
    assert len(finished.errors) <= MAX_ERROR_BYTES + 65_536


def test_a_cancelled_command_is_ended(tmp_path: Path) -> None:
    own = tmp_path / "own.pid"
    cancelled = threading.Event()
    program = f"import os, time; open({str(own)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    finished: list[Finished] = []
    caller = threading.Thread(
        target=lambda: finished.append(run(program, tmp_path, seconds=600, cancelled=cancelled)), daemon=True
    )
    caller.start()
    pid = read_pid(own)

    cancelled.set()
    caller.join(WAIT_SECONDS)

    assert finished[0].has_timed_out
    wait_until_gone(pid)


def test_the_command_ends_when_its_caller_is_killed(tmp_path: Path) -> None:
    child, own = tmp_path / "child.pid", tmp_path / "own.pid"
    program = (
        f"import os, time; {CHILD.format(str(child))}; open({str(own)!r}, 'w').write(str(os.getpid())); time.sleep(600)"
    )
    caller = (
        "import sys; from pathlib import Path; from engram.extraction.model.bounded_command import run_bounded; "
        f"run_bounded([sys.executable, '-c', {program!r}], b'', folder=Path('.'), environment={{}}, seconds=600)"
    )
    process = subprocess.Popen([sys.executable, "-c", caller], cwd=tmp_path)
    pids = read_pid(own), read_pid(child)

    process.kill()
    process.wait(WAIT_SECONDS)

    wait_until_gone(*pids)
