"""The heartbeat of watcher and worker: seen at the lock file, and by systemd at its socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import fall_silent, wait_for
from workers import RUN as RUN_WORKER

from engram.errors import AlreadyRunning
from engram.reports.processes import process_state
from engram.settings import Settings
from engram.system.process_lock import EXIT_RESTART, Heartbeat, ProcessLock
from engram.version import code_version

RUN_WATCHER = RUN_WORKER.replace("engram.worker.lifecycle", "engram.watcher.watch").replace("run_worker", "run_watcher")


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket of a service manager; reading it never waits for longer than a minute."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(60)
        yield listener


def test_a_beat_shows_at_the_lock_and_at_the_socket(
    tmp_path: Path, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    lock = ProcessLock(tmp_path / "lock", "0.1.0+abc")
    fall_silent(tmp_path / "lock", 400)

    heartbeat = Heartbeat(lock)
    heartbeat.beat()
    heartbeat.beat()
    heartbeat.announce_stop()

    assert [listener.recv(100), listener.recv(100)] == [b"WATCHDOG=1", b"STOPPING=1"]
    assert "NOTIFY_SOCKET" not in os.environ
    state = process_state(tmp_path / "lock")
    assert (state.is_alive, state.pid, state.code) == (True, os.getpid(), "0.1.0+abc")
    assert state.silent_seconds is not None
    assert state.silent_seconds < 60
    lock.release()


def test_a_deleted_lock_is_put_back_by_its_holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    path = tmp_path / "lock"
    lock = ProcessLock(path, "0.1.0+abc")
    heartbeat = Heartbeat(lock)
    path.unlink()

    heartbeat.beat()

    state = process_state(path)
    assert (state.is_alive, state.pid, state.code) == (True, os.getpid(), "0.1.0+abc")
    with pytest.raises(AlreadyRunning):
        ProcessLock(path)
    lock.release()


def test_a_process_whose_lock_another_has_taken_ends(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from engram.system.process_lock import Heartbeat, ProcessLock\n"
        "heartbeat = Heartbeat(ProcessLock(Path(sys.argv[1])))\n"
        "print('locked', flush=True)\n"
        "sys.stdin.readline()\n"
        "heartbeat.beat()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        path.unlink()
        second = ProcessLock(path)
        first.stdin.write("\n")
        first.stdin.close()
        assert first.wait(60) == EXIT_RESTART
        assert second.is_in_place()
        second.release()


@pytest.mark.skipif(sys.platform != "linux", reason="addresses outside the file system exist on Linux only")
def test_systemd_may_listen_outside_the_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"engram-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}")
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        lock = ProcessLock(tmp_path / "lock")

        Heartbeat(lock).announce_ready()

        assert [listener.recv(100), listener.recv(100)] == [b"WATCHDOG=1", b"READY=1"]
        lock.release()


def test_a_missing_listener_is_not_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for address in (str(tmp_path / "nobody"), "relative", "@"):
        monkeypatch.setenv("NOTIFY_SOCKET", address)
        lock = ProcessLock(tmp_path / "lock")
        Heartbeat(lock).announce_ready()
        lock.release()


@pytest.mark.parametrize("code", [RUN_WORKER, RUN_WATCHER], ids=["worker", "watcher"])
def test_the_processes_say_when_they_are_ready_that_they_go_on_and_that_they_stop(
    settings: Settings, listener: socket.socket, tmp_path: Path, code: str
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "ENGRAM_EMBEDDING_MODEL": "hashed", "NOTIFY_SOCKET": str(tmp_path / "notify")},
    )
    try:
        messages = [listener.recv(100)]
        while messages.count(b"WATCHDOG=1") < 3:
            messages.append(listener.recv(100))
        process.send_signal(signal.SIGTERM)
        while messages[-1] != b"STOPPING=1":
            messages.append(listener.recv(100))
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()

    assert messages.index(b"READY=1") < 3
    assert messages.count(b"READY=1") == 1


def test_a_process_that_was_stopped_falls_silent(settings: Settings) -> None:
    process = subprocess.Popen([sys.executable, "-c", RUN_WATCHER])
    lock = settings.places.watcher_lock
    try:
        wait_for(lambda: process_state(lock).code == code_version())
        process.send_signal(signal.SIGSTOP)
        fall_silent(lock, 400)
        silent_seconds = process_state(lock).silent_seconds
        assert silent_seconds is not None
        assert silent_seconds > 300

        process.send_signal(signal.SIGCONT)
        wait_for(lambda: (process_state(lock).silent_seconds or 0.0) < 60)
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("jump_seconds", [-86_400, 86_400, 365 * 86_400])
def test_a_clock_that_is_set_makes_nobody_silent(tmp_path: Path, jump_seconds: int) -> None:
    path = tmp_path / "lock"
    lock = ProcessLock(path)
    # What a file says of the time is as far from now as the clock was set.
    os.utime(path, (path.stat().st_mtime - jump_seconds,) * 2)
    now = process_state(path)
    fall_silent(path, 400)
    os.utime(path, (path.stat().st_mtime - jump_seconds,) * 2)
    later = process_state(path)
    lock.release()

    assert (now.silent_seconds is not None, now.hangs, later.hangs) == (True, False, True)


@pytest.mark.parametrize(("ahead", "is_known"), [(0.0005, True), (5.0, False)])
def test_a_beat_that_was_rounded_up_is_known_and_one_before_a_restart_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, is_known: bool
) -> None:
    path = tmp_path / "lock"
    lock = ProcessLock(path)
    beat = float(path.read_text().splitlines()[3])
    monkeypatch.setattr(time, "monotonic", lambda: beat - ahead)

    assert (process_state(path).silent_seconds is not None) == is_known
    lock.release()


def test_the_version_of_the_code_changes_with_every_edit(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("1")
    first = code_version(tmp_path)
    os.utime(tmp_path / "a.py", (1, 1))  # installed again
    assert first == code_version(tmp_path)

    (tmp_path / "a.py").write_text("12")
    second = code_version(tmp_path)
    (tmp_path / "b.py").write_text("")

    assert len({first, second, code_version(tmp_path)}) == 3


#: A process that announces itself and then does nothing more, with short times.
SILENT = """
import sys, threading
from pathlib import Path
from engram.system import process_lock as heartbeat
from engram.system.process_lock import ProcessLock
heartbeat.MAX_SILENCE_SECONDS, heartbeat.LOOK_SECONDS = 0.2, 0.05
beats = heartbeat.Heartbeat(ProcessLock(Path(sys.argv[1])))
beats.announce_ready()
if sys.argv[2] != "hangs":
    beats.announce_stop() if sys.argv[2] == "stops" else None
    del beats
    threading.Event().wait(1.0)
    sys.exit(0)
threading.Event().wait(60)
"""


@pytest.mark.parametrize(("how", "code"), [("hangs", EXIT_RESTART), ("stops", 0), ("gives it up", 0)])
def test_a_process_that_falls_silent_ends_itself_so_that_it_is_started_again(
    tmp_path: Path, how: str, code: int
) -> None:
    process = subprocess.run(
        [sys.executable, "-c", SILENT, str(tmp_path / "lock"), how], capture_output=True, text=True, timeout=60
    )

    assert process.returncode == code
    # It says where its threads were.
    assert ("most recent call first" in process.stderr) is (how == "hangs")
