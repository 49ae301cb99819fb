"""Memory and threads of a worker: limits that may be set again, and that the user's own wish comes before."""

from __future__ import annotations

import contextlib
import gc
import os

import pytest

from engram.system import process_limits
from engram.system.process_limits import collector_paused, give_back_memory, limit_arenas, limit_matrix_threads, rss_mb


def test_a_matrix_is_multiplied_in_one_thread_unless_the_user_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    environment = {"OPENBLAS_NUM_THREADS": "4"}
    monkeypatch.setattr(os, "environ", environment)

    limit_matrix_threads()

    assert environment["OPENBLAS_NUM_THREADS"] == "4"
    assert environment["MKL_NUM_THREADS"] == "1"


def test_memory_is_bounded_and_given_back_wherever_the_system_can() -> None:
    limit_arenas()
    give_back_memory()

    assert rss_mb() > 0


def test_the_collector_runs_again_after_a_pause_within_a_pause_and_after_an_error() -> None:
    with contextlib.suppress(ValueError), collector_paused():
        with collector_paused():
            pass
        assert not gc.isenabled()
        raise ValueError

    assert gc.isenabled()


@pytest.mark.parametrize(
    ("processors", "load", "is_quiet"),
    [(1, 0.0, False), (2, 0.3, True), (2, 2.4, True), (2, 2.6, False), (8, 8.2, True), (8, 12.0, False)],
)
def test_a_machine_is_quiet_while_nobody_else_wants_its_processors(
    monkeypatch: pytest.MonkeyPatch, processors: int, load: float, is_quiet: bool
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: processors)
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))

    assert process_limits.is_quiet() is is_quiet
