"""The doctor looks at real processes: dead, hung, from another version; and starts or restarts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from processes import processes_of_home, wait_for, wait_until_gone

from engram.reports.processes import holder_of, process_state
from engram.settings import load
from engram.setup.doctor import machine_checks
from engram.setup.services.supervisor import Background
from engram.version import code_version
from tests.doctor.conftest import Doctor

#: A watcher of an earlier state of the code.
OLD_WATCHER = """
import engram.version
engram.version.code_version = lambda: "0.0.9+abcd"
from engram.settings import load
from engram.watcher.watch import run_watcher
raise SystemExit(run_watcher(load().settings))
"""


@pytest.fixture(autouse=True)
def ended(doctor: Doctor) -> Iterator[None]:
    """Whatever was started is ended."""
    yield
    for pid in processes_of_home(doctor.home.root):
        os.kill(pid, signal.SIGKILL)
        wait_until_gone(pid)


def test_dead_processes_are_started_and_old_ones_restarted_by_the_fix(doctor: Doctor) -> None:
    findings = doctor.findings()
    assert (findings["worker"]["state"], findings["watcher"]["state"]) == ("bad", "bad")
    assert findings["worker"]["command"] == "engram service start"

    assert "started the worker and the watcher" in doctor.fix()
    findings = doctor.findings()
    assert (findings["worker"]["state"], findings["watcher"]["state"]) == ("ok", "ok")
    assert "worker's version" not in findings

    former = holder_of(doctor.home.worker_lock)
    # An update replaces the code below a running process; its lock still says what it runs.
    doctor.home.worker_lock.write_text(f"{former}\n0.0.9+abcd\n")
    finding = doctor.findings()["worker's version"]
    assert "runs 0.0.9+abcd" in finding["detail"]
    assert code_version() in finding["detail"]
    assert any(line.startswith(f"ended worker (pid {former}, 0.0.9+abcd)") for line in doctor.fix())
    assert "worker's version" not in doctor.findings()
    assert holder_of(doctor.home.worker_lock) not in (None, former)
    Background(load().settings).stop()


def test_a_watcher_of_other_code_and_one_that_hangs_are_named(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = subprocess.Popen([sys.executable, "-c", OLD_WATCHER])
    lock = doctor.home.watcher_lock
    try:
        wait_for(lambda: process_state(lock).code)
        assert "runs 0.0.9+abcd" in doctor.findings()["watcher's version"]["detail"]

        watcher.send_signal(signal.SIGSTOP)
        os.utime(lock, (1, 1))
        monkeypatch.setattr(machine_checks, "PATIENCE_SECONDS", 0.0)
        finding = doctor.findings()["watcher's heartbeat"]
        assert (finding["state"], finding["command"]) == ("bad", "engram service restart")

        # A laptop that just woke up: the next heartbeat comes within seconds.
        monkeypatch.setattr(machine_checks, "PATIENCE_SECONDS", 60.0)
        watcher.send_signal(signal.SIGCONT)
        assert "watcher's heartbeat" not in doctor.findings()
    finally:
        watcher.kill()
        watcher.wait()
