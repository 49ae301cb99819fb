"""Who holds a lock, told while its holder is still writing its name."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO

import pytest

from engram.errors import ServiceError
from engram.page.open_page import PageState, stop_page, write_state
from engram.reports import processes
from engram.reports.processes import holder_of, process_state, terminal_run
from engram.settings import Settings
from engram.setup.services.service_plan import end_other_versions
from engram.setup.services.supervisor import Background
from engram.system.process_lock import ProcessLock


def name_at_next_pause(monkeypatch: pytest.MonkeyPatch, file: IO[str], pid: int) -> list[float]:
    """Let the holder of ``file`` write its id when somebody waits for it. Gives the pauses."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        file.seek(0)
        file.truncate()
        file.write(f"{pid}\nnew\n")
        file.flush()

    monkeypatch.setattr(processes.time, "sleep", pause)
    return pauses


@pytest.mark.parametrize("former", [False, True])
def test_a_process_that_has_just_taken_the_lock_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, former: bool
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    path = tmp_path / "lock"
    path.write_text(f"{ended.pid}\nold\n" if former else "")
    with path.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        pauses = name_at_next_pause(monkeypatch, file, os.getpid())

        assert holder_of(path) == os.getpid()
        assert len(pauses) == 1
        assert process_state(path).code == "new"
        assert len(pauses) == 1


def test_a_free_lock_has_no_holder_and_a_nameless_one_is_told_as_held(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = ProcessLock(path, "v")
    assert holder_of(path) == os.getpid()
    os.truncate(path, 0)
    assert holder_of(path) is None
    assert process_state(path).is_alive
    held.release()
    assert not process_state(path).is_alive
    path.write_text(f"{os.getpid()}\nv\n")
    assert holder_of(path) is None


def test_the_number_of_a_process_of_another_container_says_nothing_here(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    monkeypatch.setattr(processes.time, "sleep", lambda seconds: pytest.fail("waited for what it can't know"))
    monkeypatch.setattr(processes, "ask_ps", lambda *_: pytest.fail("asked about another process"))
    path = settings.places.worker_lock
    lock = ProcessLock(path, "v")
    for number in (ended.pid, os.getpid()):
        path.write_text(f"{number}\nv\npid:[1]\n")
        state = process_state(path)
        assert (state.pid, state.rss_mb, state.described) == (number, None, f"pid {number} in another container")
        assert terminal_run(settings.places) is None
    lock.release()


@pytest.mark.parametrize("name", ["supervisor.lock", "worker.lock", "page.lock"])
def test_a_process_of_another_container_is_left_alone_whatever_has_its_number_here(tmp_path: Path, name: str) -> None:
    """Containers and their host may share a memory folder, but each counts its processes from 1."""
    settings = Settings(home=tmp_path, claude_folder=tmp_path)
    stop: Callable[[], object] = {
        "supervisor.lock": Background(settings).stop,
        "worker.lock": lambda: end_other_versions(settings),
        "page.lock": lambda: stop_page(settings.places),
    }[name]
    bystander = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    lock = ProcessLock(tmp_path / name, "another version")
    (tmp_path / name).write_text(f"{bystander.pid}\nanother version\npid:[1]\n")
    write_state(settings.places.page_state, PageState(bystander.pid, 1, "another version"))

    with pytest.raises(ServiceError, match=rf"process {bystander.pid} of {name} runs in another container"):
        stop()

    bystander.communicate(b"\n")
    assert bystander.returncode == 0
    lock.release()
