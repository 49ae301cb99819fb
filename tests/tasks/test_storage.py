"""The queue file: one row a key, woken at once, healed whatever happens to the file."""

from __future__ import annotations

import errno
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engram.errors import HomeError, StoreError
from engram.paths import Home
from engram.tasks.queue import EngramQueue, QueueStorage

MakeQueue = Callable[[], EngramQueue]


@pytest.fixture(params=["cysqlite", "sqlite3"])
def make_queue(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MakeQueue]:
    """Makes queues on the same file, each with a task named ``note`` and one named ``other``."""
    made: list[EngramQueue] = []
    (tmp_path / "home").mkdir()

    def make() -> EngramQueue:
        queue = EngramQueue().bind(Home(tmp_path / "home"), request.param)
        queue.ran = []
        queue.note = queue.task(name="note")(lambda one: queue.ran.append(one))
        queue.other = queue.task(name="other", priority=5)(lambda one: queue.ran.append(one))
        made.append(queue)
        return queue

    yield make
    for queue in made:
        queue.storage.stop_listening()
        queue.storage.close()


def names(queue: EngramQueue) -> list[tuple[str, object]]:
    return [(task.name, task.args[0]) for task in queue.pending()]


def test_a_queue_that_nobody_bound_or_whose_folder_went_away_writes_nothing(
    make_queue: MakeQueue, tmp_path: Path
) -> None:
    queue = make_queue()
    queue.note("a")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(HomeError, match="bind it first"):
        EngramQueue().storage.enqueue(b"{}")
    assert sorted(tmp_path.rglob("*")) == before

    (tmp_path / "home").rename(tmp_path / "moved")

    with pytest.raises(HomeError, match="is gone"):
        queue.note("b")
    assert not (tmp_path / "home").exists()


def test_no_kind_of_task_has_every_thread(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.storage.most_of_a_kind = 2
    for one in ("a", "b", "c"):
        queue.other(one)
    queue.note("d")

    taken = [queue.dequeue() for _ in range(4)]

    assert [(task.name, task.args[0]) for task in taken[:3]] == [("other", "a"), ("other", "b"), ("note", "d")]
    assert taken[3] is None  # the third one waits, although a thread is free
    queue.execute(taken[0])
    assert queue.dequeue().args[0] == "c"
    assert queue.dequeue() is None


def test_a_task_that_fails_or_cannot_be_read_makes_room_for_the_next(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.storage.most_of_a_kind = 1
    queue.fails = queue.task(name="fails")(lambda one: 1 / 0)
    for one in ("a", "b"):
        queue.fails(one)
        queue.storage.enqueue(b'{"message":{"name":"unknown","args":[%d]}}' % len(one))
    queue.storage.enqueue(b"no message")
    for one in ("a", "b"):
        task = queue.dequeue()
        assert task.args[0] == one
        queue.execute(task)
    assert queue.dequeue() is None


def test_asking_twice_while_it_waits_is_one_task(make_queue: MakeQueue) -> None:
    queue = make_queue()

    for one in ("a", "b", "a", "a"):
        queue.note(one)

    assert names(queue) == [("note", "a"), ("note", "b")]


def test_what_was_taken_may_be_asked_for_again(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.note("a")
    assert queue.dequeue().args == ("a",)

    queue.note("a")

    assert names(queue) == [("note", "a")]


def test_the_higher_priority_comes_first(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.note("a")
    queue.other("b")

    assert [queue.dequeue().args[0] for _ in range(2)] == ["b", "a"]


def test_the_file_is_for_the_owner_alone(make_queue: MakeQueue, tmp_path: Path) -> None:
    queue = make_queue()
    queue.note("a")

    files = list((tmp_path / "home").glob("queue.db*"))

    assert files
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


@pytest.mark.parametrize("harm", ["delete", "garbage", "empty", "foreign", "plain_huey"])
def test_a_harmed_file_is_created_again(make_queue: MakeQueue, tmp_path: Path, harm: str) -> None:
    path = tmp_path / "home" / "queue.db"
    queue = make_queue()
    queue.note("lost")
    if harm == "foreign":
        queue.storage.close()
    do_harm(path, harm)

    queue.note("kept")
    queue.note("kept")

    assert names(make_queue()) == [("note", "kept")]


def do_harm(path: Path, harm: str) -> None:
    if harm == "delete":
        path.unlink()
    elif harm == "garbage":
        for side in path.parent.glob("queue.db-*"):
            side.unlink()
        path.unlink()
        path.write_bytes(os.urandom(20_000))
    elif harm == "empty":
        path.unlink()
        path.touch()
    else:
        for side in path.parent.glob("queue.db*"):
            side.unlink()
        import sqlite3

        connection = sqlite3.connect(path)
        if harm == "foreign":
            connection.execute("create table task (other text)")
        else:
            connection.execute("create table task (id integer primary key, queue text, data blob, priority real)")
        connection.commit()
        connection.close()


def test_a_file_overwritten_in_place_is_created_again(make_queue: MakeQueue, tmp_path: Path) -> None:
    path = tmp_path / "home" / "queue.db"
    queue = make_queue()
    queue.note("lost")
    queue.storage.close()
    path.write_bytes(b"no database at all" * 500)

    queue.note("kept")

    assert names(queue) == [("note", "kept")]


def test_a_file_unlinked_while_another_process_has_it_open_is_seen(make_queue: MakeQueue, tmp_path: Path) -> None:
    reader, writer = make_queue(), make_queue()
    writer.note("a")
    assert reader.dequeue() is not None
    (tmp_path / "home" / "queue.db").unlink()

    writer.note("b")

    assert reader.dequeue().args == ("b",)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x04garbage",
        b"[]",
        b"{}",
        b"null",
        b'{"message":{}}',
        b'{"message":{"name":"note"}}',
        b"[" * 5000,
        b'{"message":{"nosuch":1}}',
        b'{"message":{"id":"1","name":"note","args":[["a"]],"priority":0}}',
        b'{"message":{"id":"1","name":"note","args":["%s"],"priority":0}}' % (b"a" * 600),
        b'{"message":{"id":1,"name":"note","args":["b"],"priority":0}}',
        b"x" * 100_000,
    ],
)
def test_a_forged_row_is_reported_and_dropped(make_queue: MakeQueue, data: bytes) -> None:
    queue = make_queue()
    reasons: list[str] = []
    queue.on_reject = reasons.append
    queue.storage.enqueue(data, 100)
    queue.note("a")

    assert queue.dequeue().args == ("a",)
    assert queue.dequeue() is None
    assert len(reasons) == 1


def test_an_unknown_task_is_reported_and_dropped(make_queue: MakeQueue) -> None:
    newer, older = make_queue(), make_queue()
    newer.task(name="invented_later")(lambda: None)()
    newer.note("a")
    reasons: list[str] = []
    older.on_reject = reasons.append

    assert older.dequeue().args == ("a",)
    assert "invented_later" in reasons[0]


def test_a_pickle_is_never_loaded(make_queue: MakeQueue, tmp_path: Path) -> None:
    import pickle

    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (os.mkdir, (str(tmp_path / "sprung"),))

    queue = make_queue()
    queue.storage.enqueue(pickle.dumps(Trap()), 0)

    assert queue.dequeue() is None
    assert not (tmp_path / "sprung").exists()


def test_a_datagram_ends_the_wait(make_queue: MakeQueue) -> None:
    worker, producer = make_queue(), make_queue()
    worker.storage.listen()
    got: list[object] = []
    thread = threading.Thread(target=lambda: got.append(worker.dequeue()))
    thread.start()

    producer.note("a")
    thread.join(30)

    assert got[0].args == ("a",)  # type: ignore[attr-defined]


def test_stop_waiting_frees_every_thread(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.storage.listen()
    threads = [threading.Thread(target=queue.dequeue) for _ in range(3)]
    for thread in threads:
        thread.start()

    queue.storage.stop_waiting()
    for thread in threads:
        thread.join(30)

    assert not any(thread.is_alive() for thread in threads)


def test_a_long_home_can_be_woken(tmp_path: Path) -> None:
    home = Home(tmp_path / ("long" * 20) / ("longer" * 20))
    home.root.mkdir(parents=True)
    worker, producer = QueueStorage(), QueueStorage()
    worker.place(home, "sqlite3", 1.0)
    producer.place(home, "sqlite3", 1.0)
    worker.listen()

    producer.enqueue(b"x")

    assert worker._listener is not None
    assert worker._listener.wait(60)
    worker.stop_listening()
    worker.close()
    producer.close()


def test_many_threads_lose_nothing(make_queue: MakeQueue) -> None:
    queue = make_queue()
    threads = [
        threading.Thread(target=lambda start=start: [queue.note(f"{start}-{n}") for n in range(25)])
        for start in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(queue.pending()) == 100


def test_hueys_own_storage_reads_the_tables(make_queue: MakeQueue, tmp_path: Path) -> None:
    from huey.storage import SqliteStorage

    make_queue().note("a")
    plain = SqliteStorage("engram", filename=str(tmp_path / "home" / "queue.db"))

    assert plain.queue_size() == 1
    assert plain.dequeue() is not None
    plain.close()


class Flooded(socket.socket):
    """A socket that always has one more datagram."""

    def recv(self, *_: object) -> bytes:
        """One more."""
        return b"!"


def test_whoever_floods_the_socket_that_wakes_the_worker_keeps_no_task_waiting(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.storage.listen()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    queue.storage._listener._socket.close()
    queue.storage._listener._socket = Flooded(fileno=ours.detach())
    theirs.send(b"!")
    taken: list[object] = []
    thread = threading.Thread(target=lambda: taken.append(queue.storage.dequeue()), daemon=True)

    thread.start()
    thread.join(60)

    assert taken == [None]
    theirs.close()


def test_a_full_disk_is_named_and_the_queue_continues_when_there_is_room_again(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.note("a")
    pages = queue.storage.conn.execute("pragma page_count").fetchall()[0][0]
    queue.storage.conn.execute(f"pragma max_page_count = {pages}").fetchall()

    def fill() -> None:
        for number in range(2000):
            queue.note(f"a long name of what is to be done, number {number}")

    with pytest.raises(StoreError, match=r"^queue\.db: .*full"):
        fill()

    # The next statement opens the file again, which knows of no limit.
    queue.other("b")
    assert queue.dequeue().args[0] == "b"
    assert queue.dequeue().args[0] == "a"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_queue_that_cannot_be_made_says_why(
    make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    queue = make_queue()

    def refuse(path: str, *_: object) -> int:
        raise OSError(number, os.strerror(number), path)

    monkeypatch.setattr("engram.tasks.queue_file.os.open", refuse)

    with pytest.raises(StoreError, match=rf"^queue\.db: .*{os.strerror(number)}"):
        queue.note("a")
