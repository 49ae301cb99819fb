"""The log of memory.db is deleted while processes have it open: whatever was saved is there afterwards."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engram.enums import Actor
from engram.errors import StoreError
from engram.memories.save import save_memory
from engram.models.engine import open_log
from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.redaction import redact

#: A process with an open memory: each line of its input says what it does, and each line of its output what came of it.
HOLDER = """
import os, sys
from pathlib import Path
from engram.enums import Actor
from engram.errors import StoreError
from engram.memories.save import save_memory
from engram.models.engine import open_log
from engram.models.open_memory import open_store
from engram.redaction import redact

open_log.WAIT_SECONDS = float(sys.argv[2])
try:
    store = open_store(Path(sys.argv[1]))
except StoreError as error:
    print("refused", flush=True)
    os._exit(0)
print("open", flush=True)
for line in sys.stdin:
    what, _, text = line.strip().partition(" ")
    try:
        if what == "save":
            save_memory(store, text, redact, scope="global", actor=Actor.USER)
        elif what == "notice":
            assert store.log.is_displaced()
            store.keep_displaced_writes()
        elif what == "end":
            os._exit(0)
        elif what == "close":
            store.close()
        print("done", flush=True)
    except StoreError:
        print("refused", flush=True)
"""


class Holder:
    def __init__(self, path: Path, wait_seconds: float) -> None:
        command = [sys.executable, "-c", HOLDER, str(path), str(wait_seconds)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def tell(self, line: str) -> str:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.read()

    def end(self) -> None:
        self.tell("end")
        self.process.wait()


Begin = Callable[..., Holder]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts processes over one memory; all are ended."""
    started: list[Holder] = []

    def start(wait_seconds: float = 60.0) -> Holder:
        started.append(Holder(tmp_path / "memory.db", wait_seconds))
        return started[-1]

    yield start
    for holder in started:
        holder.process.kill()
        holder.process.communicate()


def summaries(path: Path) -> list[str]:
    with open_store(path) as store:
        assert store.find_damage() == ""
        return sorted(memory.summary for memory in all_memories(store))


def delete(path: Path, suffixes: tuple[str, ...]) -> None:
    for suffix in suffixes:
        path.with_name(f"memory.db{suffix}").unlink()


@pytest.mark.parametrize("suffixes", [("-wal",), ("-shm",), ("-wal", "-shm")])
@pytest.mark.parametrize("is_writer_first", [True, False])
def test_nothing_saved_is_lost_whoever_notices_first(
    begin: Begin, tmp_path: Path, suffixes: tuple[str, ...], is_writer_first: bool
) -> None:
    path = tmp_path / "memory.db"
    writer = begin()
    assert writer.read() == "open"
    other = begin()
    assert other.read() == "open"
    assert writer.tell("save The keel is oak.") == "done"
    assert other.tell("save The rudder is ash.") == "done"
    delete(path, suffixes)

    assert begin(0.0).read() == "refused"
    assert writer.tell("save The mast is pine.") == "refused"
    late = begin()
    for holder in (writer, other) if is_writer_first else (other, writer):
        assert holder.tell("notice") == "done"
        holder.end()
    assert late.read() == "open"
    assert late.tell("save The sail is red.") == "done"
    assert late.tell("close") == "done"

    assert summaries(path) == ["The keel is oak.", "The rudder is ash.", "The sail is red."]


def test_a_command_that_closes_loses_nothing_either(begin: Begin, tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    holder = begin()
    assert holder.read() == "open"
    assert holder.tell("save The keel is oak.") == "done"
    delete(path, ("-wal", "-shm"))
    late = begin()

    assert holder.tell("close") == "done"

    assert late.read() == "open"
    assert late.tell("save The mast is pine.") == "done"
    late.end()
    assert summaries(path) == ["The keel is oak.", "The mast is pine."]


@pytest.mark.parametrize("suffixes", [("-wal",), ("-wal", "-shm")])
def test_a_new_thread_begins_no_second_log(tmp_path: Path, suffixes: tuple[str, ...]) -> None:
    path = tmp_path / "memory.db"
    refused = []
    with open_store(path) as store:
        save_memory(store, "The keel is oak.", redact, scope="global", actor=Actor.USER)
        delete(path, suffixes)

        def read() -> None:
            with pytest.raises(StoreError, match="was deleted") as raised:
                all_memories(store)
            refused.append(raised)

        thread = threading.Thread(target=read)
        thread.start()
        thread.join()

        assert refused
        assert not path.with_name("memory.db-wal").exists()
        store.keep_displaced_writes()
    assert summaries(path) == ["The keel is oak."]


def test_a_memory_that_was_closed_can_be_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_log, "WAIT_SECONDS", 0.0)
    path = tmp_path / "memory.db"
    store = open_store(path)
    save_memory(store, "The keel is oak.", redact, scope="global", actor=Actor.USER)
    store.close()  # deletes the log

    with store.open():
        save_memory(store, "The mast is pine.", redact, scope="global", actor=Actor.USER)

    assert summaries(path) == ["The keel is oak.", "The mast is pine."]
