"""Messages as JSON: what Huey needs comes back with its types; schedule, retry and expiry work."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
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


def now() -> datetime:
    return datetime.now(UTC).replace(tzinfo=None)


def test_a_task_for_later_waits_and_comes_when_it_is_time(queue: EngramQueue) -> None:
    ran: list[str] = []
    task = queue.task(name="later")(ran.append)
    task.schedule(("a",), delay=60)
    queue.execute(queue.dequeue())
    assert ran == []
    assert queue.read_schedule(now()) == []

    (due,) = queue.read_schedule(now() + timedelta(seconds=61))
    queue.execute(due, now() + timedelta(seconds=61))

    assert ran == ["a"]


def test_a_failed_task_is_tried_again_after_its_delay(queue: EngramQueue) -> None:
    tries: list[int] = []

    def fail_once() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")

    queue.task(name="flaky", retries=2, retry_delay=30)(fail_once)()
    queue.execute(queue.dequeue())

    (again,) = queue.read_schedule(now() + timedelta(seconds=31))
    assert again.retries == 1
    assert again.retry_delay == 30
    queue.execute(again, now() + timedelta(seconds=31))
    assert len(tries) == 2


@pytest.mark.parametrize("expires", [60, timedelta(seconds=60)])
def test_an_expired_task_is_not_run(queue: EngramQueue, expires: object) -> None:
    ran: list[str] = []
    queue.task(name="brief", expires=expires)(ran.append)("a")
    task = queue.dequeue()

    queue.execute(task, now() + timedelta(seconds=61))

    assert ran == []


def test_a_task_that_has_not_expired_is_run(queue: EngramQueue) -> None:
    ran: list[str] = []
    queue.task(name="brief", expires=60)(ran.append)("a")

    queue.execute(queue.dequeue())

    assert ran == ["a"]


def test_a_revoked_task_is_not_run(queue: EngramQueue) -> None:
    ran: list[str] = []
    task = queue.task(name="stopped")(ran.append)
    task.revoke()
    task("a")

    queue.execute(queue.dequeue())

    assert ran == []


def test_a_body_cannot_be_queued(queue: EngramQueue) -> None:
    task = queue.task(name="ids_only")(lambda one: None)

    with pytest.raises(BadRequest, match="ids"):
        task(b"a whole transcript")


@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
@given_settings(max_examples=60, deadline=None)
def test_any_bytes_are_a_value_or_a_clear_error(data: bytes) -> None:
    try:
        JsonSerializer().deserialize(data)
    except BadRequest:
        pass


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.text(max_size=30)
        | st.datetimes()
        | st.timedeltas(timedelta(0), timedelta(days=999)).map(lambda d: timedelta(seconds=d.seconds)),
        lambda some: st.lists(some, max_size=3).map(tuple) | st.dictionaries(st.text(max_size=8), some, max_size=3),
        max_leaves=8,
    )
)
@given_settings(max_examples=60, deadline=None)
def test_values_come_back_as_they_were(value: object) -> None:
    serializer = JsonSerializer()

    assert serializer.deserialize(serializer.serialize(value)) == value
