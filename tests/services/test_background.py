"""The supervisor in the background, with real processes: kept running, stopped whole, started again after a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from processes import WAIT_SECONDS, end_processes_of_home, processes_of_home, wait_for, wait_until_gone
from workers import status, write_rule

from engram.cli.main import engram
from engram.errors import ServiceError
from engram.models.open_memory import open_store
from engram.reports.processes import holder_of, process_state
from engram.settings import Settings
from engram.setup.services import service_definition
from engram.setup.services.service_definition import last_lines
from engram.setup.services.service_plan import installed_system, plan_service, restart_if_running
from engram.setup.services.supervisor import Background

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are counted in /proc")


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Settings]:
    """A prepared memory folder; whatever was started for it is ended."""
    made = Settings(
        home=tmp_path / "home",
        claude_folder=tmp_path / "claude",
        codex_folder=tmp_path / "codex",
        embedding_model="hashed",
    )
    made.places.prepare()
    made.places.config_file.write_text('embedding_model = "hashed"\nextract_idle_seconds = 1\n')
    yield made
    end_processes_of_home(made.home)


def begin_start() -> subprocess.Popen[str]:
    command = [sys.executable, "-P", "-m", "engram.cli.main", "service", "start"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def run_service(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(engram, ["service", *arguments])
    assert result.exit_code == code, result.output
    return result.output


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(engram, ["doctor", *arguments])


def pids(settings: Settings) -> list[int]:
    home = settings.places
    holders = [holder_of(lock) for lock in (home.supervisor_lock, home.worker_lock, home.watcher_lock)]
    return [pid for pid in holders if pid is not None]


def test_starts_that_race_make_one_supervisor_and_a_killed_worker_is_back_with_nothing_lost(settings: Settings) -> None:
    racing = [begin_start(), begin_start()]
    outputs = [process.communicate(timeout=WAIT_SECONDS)[0] for process in racing]

    assert [process.returncode for process in racing] == [0, 0], outputs
    assert all("engram config set start_with_session true" in output for output in outputs)
    wait_for(lambda: len(processes_of_home(settings.home)) == 3)
    assert sum(words[-1] == "run" for words in processes_of_home(settings.home).values()) == 1
    wait_for(lambda: status(settings.places))

    write_rule(settings)
    worker = holder_of(settings.places.worker_lock)
    assert worker is not None
    os.kill(worker, signal.SIGKILL)
    wait_for(lambda: holder_of(settings.places.worker_lock) not in (None, worker))

    with open_store(settings.places.memory_db) as store:
        wait_for(lambda: store.value("SELECT count(*) FROM episode") == 1)
    said = json.loads(run_service("status", "--json"))
    assert (said["system"], said["running"], said["starts_by_itself"]) == ("background", True, False)
    assert "action=restart process=work" in run_service("logs")

    former = pids(settings)
    assert run_service("stop").startswith("Stopped the processes run by a supervisor in the background.")
    wait_until_gone(*former)
    assert processes_of_home(settings.home) == {}
    assert "not running" in run_service("status", code=1)
    assert run_service("status", code=1).startswith("run by            nothing; to run both in the background:")
    assert "supervisor" not in CliRunner().invoke(engram, ["status"]).output
    assert run_service("stop").startswith("Nothing was running.")


def test_after_everything_was_killed_a_fresh_start_continues(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The shell of the project that a session starts it from.
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "of-one-project")
    settings.claude_folder.mkdir()
    (settings.claude_folder / ".credentials.json").write_text("{}")
    Background(settings).start()
    wait_for(lambda: status(settings.places))
    former = pids(settings)
    assert len(former) == 3
    for pid in former:
        environment = Path(f"/proc/{pid}/environ").read_text()
        assert f"\0CODEX_HOME={tmp_path / 'codex'}\0" in environment
        assert "of-one-project" not in environment
        os.kill(pid, signal.SIGKILL)
    write_rule(settings)
    wait_for(lambda: not pids(settings))
    # A crash leaves the files of locks and sockets.
    assert settings.places.recall_socket.is_socket()
    assert settings.places.supervisor_lock.exists()
    assert "its supervisor is no longer running" in CliRunner().invoke(engram, ["status"]).output

    Background(settings).start()

    wait_for(lambda: status(settings.places))
    with open_store(settings.places.memory_db) as store:
        wait_for(lambda: store.value("SELECT count(*) FROM turn") == 1)
    assert not set(pids(settings)) & set(former)
    assert restart_if_running(settings)
    again = pids(settings)
    assert len(again) == 3
    installed_system(settings).stop()
    wait_until_gone(*again)
    assert not restart_if_running(settings)


def test_a_supervisor_leaves_the_work_of_others_alone_and_ends_with_its_folder(
    settings: Settings, tmp_path: Path
) -> None:
    other = subprocess.Popen(
        [sys.executable, "-P", "-m", "engram.cli.main", "service", "run", "worker"],
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
    )
    wait_for(lambda: process_state(settings.places.worker_lock).is_alive)

    Background(settings).start()
    wait_for(lambda: "action=start" in last_lines(settings.places.logs / "watcher.log", 9))
    assert holder_of(settings.places.worker_lock) == other.pid
    supervisor = holder_of(settings.places.supervisor_lock)
    assert supervisor is not None

    settings.home.rename(tmp_path / "moved")
    wait_until_gone(supervisor)
    # A worker in a terminal ends by itself, and not so that a service would start it again.
    assert other.wait(WAIT_SECONDS) == 0
    assert processes_of_home(settings.home) == {}
    assert not settings.home.exists()


def test_what_an_up_runs_in_a_terminal_is_named_and_left_alone(settings: Settings) -> None:
    up = subprocess.Popen(
        [sys.executable, "-P", "-m", "engram.cli.main", "up"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for(lambda: status(settings.places))
    wait_for(lambda: process_state(settings.places.watcher_lock).is_alive)
    before = pids(settings)

    for verb, done in (("restart", "restarted"), ("start", "started")):
        said = run_service(verb, code=1)
        assert f"nothing was {done}: `engram up` (pid {up.pid}) runs the worker and the watcher in a terminal" in said
    assert f"`engram up` in a terminal, pid {up.pid}" in run_service("status")
    assert f"`engram up` (pid {up.pid}) already runs them" in plan_service(settings).notes[0]
    with settings.places.config_file.open("a") as file:
        file.write("inject = false\n")
    later = time.time() + 60
    os.utime(settings.places.config_file, (later, later))
    (finding,) = [
        check for check in json.loads(doctor("--json").stdout)["checks"] if check["name"] == "worker's settings"
    ]
    assert not finding["command"]
    assert f"`engram up` (pid {up.pid}) runs it in a terminal: press Ctrl-C there" in finding["advice"]
    assert pids(settings) == before
    up.send_signal(signal.SIGINT)
    assert up.wait(WAIT_SECONDS) == 0


def test_a_start_that_fails_says_why(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_definition, "READY_SECONDS", 3.0)
    settings.places.config_file.write_text("sqlite_driver = 5\n")

    with pytest.raises(ServiceError, match=r"did not start.*sqlite_driver.*engram service logs"):
        Background(settings).start()


def test_a_start_on_a_full_disk_says_so(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    full = f"the disk of {settings.home} is full: free up some space"
    monkeypatch.setattr(service_definition, "READY_SECONDS", 0.0)
    monkeypatch.setattr(service_definition, "explain_disk", lambda path: full if path == settings.home else "")

    with pytest.raises(ServiceError, match=r"the worker and the watcher did not start: the disk of .* is full"):
        service_definition.wait_until_working(settings.places, lambda: "Traceback")


def test_a_supervisor_that_hangs_is_stopped_with_its_processes(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_service("start")
    signalled = Background._signal

    def hang(self: Background, number: signal.Signals, seconds: float) -> bool:
        return number is not signal.SIGTERM and signalled(self, number, seconds)

    monkeypatch.setattr(Background, "_signal", hang)

    said = run_service("stop")

    assert "Still running" not in said
    assert not process_state(settings.places.worker_lock).is_alive
    assert not process_state(settings.places.watcher_lock).is_alive
