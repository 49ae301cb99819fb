"""One heavy task at a time; nobody waits in a thread."""

from __future__ import annotations

import threading

import pytest

from engram.tasks.runtime import SerialExecutor


def test_what_comes_meanwhile_is_run_afterwards_by_the_same_thread() -> None:
    executor = SerialExecutor()
    ran: list[tuple[str, int]] = []

    def note(name: str) -> None:
        ran.append((name, threading.get_ident()))

    def first() -> None:
        others = [
            threading.Thread(target=executor.run, args=(key, lambda key=key: note(key))) for key in ("b", "c", "b")
        ]
        for other in others:
            other.start()
            other.join(10)
            assert not other.is_alive()
        note("a")

    executor.run("a", first)

    assert [name for name, _ in ran] == ["a", "b", "c"]
    assert {thread for _, thread in ran} == {threading.get_ident()}


def test_a_task_may_get_in_line_again_behind_the_others() -> None:
    executor = SerialExecutor()
    ran: list[str] = []

    def slice_of_two() -> None:
        ran.append("slice")
        if ran.count("slice") < 2:
            executor.run("other", lambda: ran.append("other"))
            executor.run("slice", slice_of_two)

    executor.run("slice", slice_of_two)

    assert ran == ["slice", "other", "slice"]


def test_a_closed_lane_begins_nothing() -> None:
    executor = SerialExecutor()
    ran: list[str] = []

    def first() -> None:
        executor.run("b", lambda: ran.append("b"))
        executor.close()
        ran.append("a")

    executor.run("a", first)
    executor.run("c", lambda: ran.append("c"))

    assert ran == ["a"]
    assert not executor.is_busy


def test_a_task_that_raises_does_not_block_the_lane() -> None:
    executor = SerialExecutor()
    ran: list[str] = []

    def fail() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        executor.run("a", fail)
    executor.run("b", lambda: ran.append("b"))

    assert ran == ["b"]
