"""The doctor looks at real processes: dead, hung, from another version; and starts or restarts them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from processes import fall_silent, processes_of_home, wait_for, wait_until_gone

from engram.reports import processes
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


def test_dead_processes_are_started_and_old_ones_restarted_by_the_fix(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    findings = doctor.findings()
    assert (findings["worker"]["state"], findings["watcher"]["state"]) == ("bad", "bad")
    assert findings["worker"]["command"] == "engram install"

    assert "started the worker and the watcher" in doctor.fix()
    findings = doctor.findings()
    assert (findings["worker"]["state"], findings["watcher"]["state"]) == ("ok", "ok")
    assert "worker's version" not in findings

    former = holder_of(doctor.home.worker_lock)
    # An update replaces the code below a running process; its lock still says what it runs.
    with monkeypatch.context() as update:
        for module in (machine_checks, processes):
            update.setattr(module, "code_version", lambda: "9.9.9+abcd")
        finding = doctor.findings()["worker's version"]
        assert f"runs {code_version()}, and 9.9.9+abcd is installed" in finding["detail"]
        assert any(line.startswith(f"ended worker (pid {former}, {code_version()})") for line in doctor.fix())
    assert "worker's version" not in doctor.findings()
    assert holder_of(doctor.home.worker_lock) not in (None, former)
    Background(load().settings).stop()


def test_a_watcher_of_other_code_and_one_that_hangs_are_named(doctor: Doctor) -> None:
    watcher = subprocess.Popen([sys.executable, "-c", OLD_WATCHER])
    lock = doctor.home.watcher_lock
    try:
        wait_for(lambda: process_state(lock).code)
        assert "runs 0.0.9+abcd" in doctor.findings()["watcher's version"]["detail"]

        watcher.send_signal(signal.SIGSTOP)
        fall_silent(lock, 400)
        finding = doctor.findings()["watcher's heartbeat"]
        assert (finding["state"], finding["command"]) == ("bad", "engram service restart")

        watcher.send_signal(signal.SIGCONT)
        wait_for(lambda: "watcher's heartbeat" not in doctor.findings())
    finally:
        watcher.kill()
        watcher.wait()
