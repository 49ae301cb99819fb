"""Messages as JSON: what a task needs comes back, and nothing else is queued or run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as given_settings
from hypothesis import strategies as st

from engram.errors import BadRequest
from engram.paths import Home
from engram.tasks.queue import EngramQueue, JsonSerializer


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[EngramQueue]:
    queue = EngramQueue().bind(Home(tmp_path / "home").prepare(), "sqlite3")
    yield queue
    queue.storage.close()


def test_a_task_comes_back_with_its_ids_and_priority(queue: EngramQueue) -> None:
    ran: list[object] = []
    queue.task(name="some", priority=30)(lambda *ids: ran.extend(ids))("a", 7, None)

    task = queue.dequeue()
    queue.execute(task)

    assert (task.name, task.priority, ran) == ("some", 30, ["a", 7, None])
    assert queue.dequeue() is None


def test_a_body_cannot_be_queued(queue: EngramQueue) -> None:
    task = queue.task(name="ids_only")(lambda one: None)

    for wrong in (lambda: task(b"a whole transcript"), lambda: task(one="a")):
        with pytest.raises(BadRequest, match="ids"):
            wrong()


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@given_settings(max_examples=60, deadline=None)
def test_any_bytes_are_a_value_or_a_clear_error(data: bytes) -> None:
    try:
        JsonSerializer().deserialize(data)
    except BadRequest:
        pass
