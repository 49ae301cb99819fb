"""The flush hooks: a session's id into the queue, with or without a worker, and never in anybody's way."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engram.tasks.message import JsonSerializer
from engram.tasks.queue import EngramQueue

SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"


@pytest.fixture
def waiting(hooks: Any) -> Iterator[Any]:
    """Lists (task, arguments) of what waits in the home's queue."""
    queue = EngramQueue().bind(hooks.home)

    def look() -> list[tuple[str, tuple[Any, ...]]]:
        messages = [JsonSerializer().deserialize(data) for data in queue.storage.waiting()]
        return [(one.name, tuple(one.args)) for one in messages]

    yield look
    queue.storage.close()


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("SessionEnd-other-0", "flush"),
        ("SessionEnd-clear-0", "flush"),
        ("PreCompact-manual-0", "flush"),
        ("Stop-0", "ingest"),
    ],
)
def test_a_real_payload_enqueues_its_session_while_no_worker_runs(
    hooks: Any, payload: Any, waiting: Any, name: str, task: str
) -> None:
    sent = payload(name)

    assert hooks.run(name.partition("-")[0], sent).is_silent
    assert waiting() == [(task, (sent["session_id"],))]


def test_asking_twice_while_it_waits_is_one_task(hooks: Any, waiting: Any) -> None:
    for _ in range(2):
        hooks.run("SessionEnd", {"session_id": SESSION})

    assert waiting() == [("flush", (SESSION,))]


@pytest.mark.parametrize("session", ["../../etc", "", "a b", "x" * 200, "a\n", 7, None])
def test_a_session_id_that_is_none_is_not_enqueued(hooks: Any, waiting: Any, session: object) -> None:
    assert hooks.run("SessionEnd", {"session_id": session}).is_silent
    assert waiting() == []


@pytest.mark.parametrize("sent", [b"", b"[1]", b"\xff\0", b'{"session_id":"s', b'{"a":' * 2000])
def test_where_the_payload_says_nothing_the_environment_names_the_session(
    hooks: Any, waiting: Any, sent: bytes
) -> None:
    assert hooks.run("SessionEnd", sent, session=SESSION).is_silent
    assert waiting() == [("flush", (SESSION,))]


def test_a_queue_that_another_process_holds_is_left_alone_and_noted(hooks: Any) -> None:
    hooks.run("SessionEnd", {"session_id": SESSION})
    holder = sqlite3.connect(hooks.home.queue_db, isolation_level=None)
    holder.execute("begin exclusive")

    run = hooks.run("SessionEnd", {"session_id": "another"})
    holder.execute("rollback")
    holder.close()

    assert run.is_silent
    assert (hooks.home.logs / "hook.log").read_text().count("hook=flush session=another error=") == 1


@pytest.mark.parametrize("broken", ["a folder", "garbage", "log is a folder"])
def test_a_broken_queue_is_silence(hooks: Any, broken: str) -> None:
    if broken == "garbage":
        hooks.home.queue_db.write_bytes(b"no database at all" * 1000)
    else:
        hooks.home.queue_db.mkdir()
    if broken == "log is a folder":
        (hooks.home.logs / "hook.log").mkdir()

    assert hooks.run("SessionEnd", {"session_id": SESSION}).is_silent


def test_a_package_that_cannot_be_imported_is_silence(hooks: Any, tmp_path: Path) -> None:
    copy = tmp_path / "flush.py"
    source = Path(hooks.commands["SessionEnd"].split(" -I ")[1].split(" 2>")[0])
    copy.write_text(source.read_text().replace("from engram_hooks.doorbell", "from engram_hooks.nowhere"))
    hooks.commands["SessionEnd"] = hooks.commands["SessionEnd"].replace(str(source), str(copy))

    assert hooks.run("SessionEnd", {"session_id": SESSION}).is_silent
