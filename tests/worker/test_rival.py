"""A worker and another program on the same socket never run together unnoticed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from engram.models.engine.transaction import Store
from engram.models.work.task_runs import list_stages
from engram.settings import Settings
from engram.worker.request_reader import close_listener, open_listener
from engram.worker.socket_server import STAGE, SocketGuard
from tests.earlier_machine import EarlierMachine, make_machine


@pytest.fixture
def machine(tmp_path: Path, settings: Settings) -> EarlierMachine:
    return make_machine(tmp_path / "user", settings.home, settings.claude_folder, [])


@pytest.fixture
def guard(settings: Settings, tmp_path: Path) -> Iterator[tuple[SocketGuard, Store]]:
    store = Store(tmp_path / "own" / "memory.db").open()
    yield SocketGuard(store, settings.places.recall_socket), store
    store.close()


def said(store: Store) -> str:
    return {stage.name: stage.last_error for stage in list_stages(store)}.get(STAGE, "")


def test_a_program_that_takes_the_socket_is_named_and_the_socket_is_reclaimed(
    machine: EarlierMachine, settings: Settings, guard: tuple[SocketGuard, Store]
) -> None:
    watching, store = guard
    path = settings.places.recall_socket
    own = open_listener(path)
    watching.opened()
    assert not watching.check()
    assert said(store) == ""

    daemon = machine.start_daemon()
    try:
        assert watching.check()
        close_listener(own)
        again = open_listener(path)
        watching.opened()
        assert f"process {daemon.pid} (" in said(store)
        assert "processor/index.ts" in said(store)
        assert not watching.check()  # it is ours again, and the other program still runs
        assert said(store) != ""
    finally:
        daemon.kill()
        daemon.communicate()
    assert not watching.check()
    assert said(store) == ""
    close_listener(again)


def test_a_socket_that_nobody_serves_is_opened_without_a_word(
    settings: Settings, guard: tuple[SocketGuard, Store]
) -> None:
    watching, store = guard
    path = settings.places.recall_socket
    for leave_file in (True, False):
        close_listener(open_listener(path))
        if not leave_file:
            os.unlink(path)
        assert watching.check()
    assert said(store) == ""
