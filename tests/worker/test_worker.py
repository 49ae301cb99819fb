"""The worker as a process: killed, stopped, started twice; its queue deleted, its database damaged or foreign."""

from __future__ import annotations

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from processes import WAIT_SECONDS, wait_for
from workers import RUN, SESSION, StartWorker, status, write_rule

from engram.enums import Actor
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.rescue.restore import list_rescues
from engram.models.shown.usage import count_without_vector
from engram.models.work.task_runs import running_task_runs
from engram.paths import Home
from engram.settings import Settings
from engram.system.process_lock import EXIT_RESTART, is_process_alive
from engram.tasks.queue import huey
from engram.tasks.session_tasks import flush

#: The same with an extractor that takes its time.
SLOW = f"""
import time
from engram.extraction.local.local_extractor import LocalExtractor
LocalExtractor.propose = lambda self, turns, context: time.sleep(60)
{RUN}
"""
#: The same with a model that takes its time to load.
STARTING = """
import time
from engram.settings import load
from engram.worker.lifecycle import run_worker
def make(settings, store):
    (settings.home / "starting").touch()
    time.sleep(60)
raise SystemExit(run_worker(load().settings, make=make))
"""


def memories(store: Store) -> int:
    return int(store.value("SELECT count(*) FROM episode"))


def test_it_answers_is_alone_and_stops_cleanly(start: StartWorker, settings: Settings) -> None:
    home = settings.places
    worker = start()
    found = wait_for(lambda: status(home))
    second = start()
    _, said = second.communicate(timeout=WAIT_SECONDS)

    assert found["pid"] == worker.pid
    assert (second.returncode, said.count("\n")) == (0, 1)
    assert "already running" in said
    assert stat.S_IMODE(home.recall_socket.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.wake_socket.stat().st_mode) == 0o600
    assert {stat.S_IMODE(p.stat().st_mode) for p in home.root.iterdir() if p.is_file() and not p.is_symlink()} == {
        0o600
    }
    assert os.readlink(home.python_link) == os.path.realpath(sys.executable)

    worker.send_signal(signal.SIGTERM)
    worker.communicate(timeout=WAIT_SECONDS)
    assert worker.returncode == 0
    assert not home.recall_socket.exists()
    assert not home.wake_socket.exists()


def test_a_flush_asked_for_while_it_was_down_is_done_when_it_comes_back(start: StartWorker, settings: Settings) -> None:
    write_rule(settings)
    huey.bind(settings.places)
    flush(SESSION)

    start()

    with open_store(settings.places.memory_db) as store:
        wait_for(lambda: memories(store))
        assert store.value("SELECT is_closed FROM turn") == 1
    (log,) = wait_for(lambda: list(settings.places.daily_notes.glob("*.md")))
    assert "always run make lint" in log.read_text()


def test_a_kill_and_a_deleted_queue_lose_no_work(start: StartWorker, settings: Settings) -> None:
    home = settings.places
    write_rule(settings)
    first = start(ENGRAM_CRASH="extract.embedded:1")
    wait_for(lambda: status(home))
    huey.bind(home)
    flush(SESSION)
    first.communicate(timeout=WAIT_SECONDS)
    assert first.returncode == -signal.SIGKILL
    with open_store(home.memory_db) as store:
        assert memories(store) == 0
        for file in home.root.glob("queue.db*"):
            file.unlink()

        start()

        wait_for(lambda: memories(store))
        count = memories(store)
        wait_for(lambda: store.value("SELECT count(*) FROM work WHERE state = 'due'") == 0)
        assert memories(store) == count


def test_a_queue_deleted_while_it_runs_is_created_again(start: StartWorker, settings: Settings) -> None:
    home = settings.places
    start()
    wait_for(lambda: status(home))
    # It has opened its queue: the flush below is read by nobody else, since no watcher runs here.
    wait_for(lambda: "action=scan" in (home.logs / "worker.log").read_text())
    write_rule(settings)
    for file in home.root.glob("queue.db*"):
        file.unlink()
    huey.bind(home)

    flush(SESSION)

    with open_store(home.memory_db) as store:
        wait_for(lambda: memories(store))


def test_a_foreign_database_is_set_aside_untouched(start: StartWorker, settings: Settings) -> None:
    home = settings.places
    with sqlite3.connect(home.memory_db) as foreign:
        foreign.execute("CREATE TABLE memories (text)")
        foreign.execute("INSERT INTO memories VALUES ('mine')")
    foreign.close()
    before = home.memory_db.read_bytes()

    start()

    wait_for(lambda: status(home))
    assert (home.root / "memory.v2.db").read_bytes() == before


@pytest.mark.parametrize("damage", ["garbage", "torn"])
def test_a_damaged_database_is_set_aside_and_the_transcripts_are_read_again(
    start: StartWorker, settings: Settings, damage: str
) -> None:
    home = settings.places
    with open_store(home.memory_db) as store:
        store.checkpoint("TRUNCATE")
    if damage == "garbage":
        home.memory_db.write_bytes(b"no database at all" * 1000)
    else:
        with home.memory_db.open("r+b") as file:
            file.seek(4096 * 3)
            file.write(os.urandom(4096 * 20))

    start()

    wait_for(lambda: status(home))
    assert (home.root / "memory.broken.db").exists()
    with open_store(home.memory_db) as store:
        assert "is now memory.broken.db" in list_rescues(store)[home.root / "memory.broken.db"]


def test_damage_met_while_it_starts_is_looked_for_by_the_next_start(start: StartWorker, settings: Settings) -> None:
    home = settings.places
    with open_store(home.memory_db) as store, store.transaction() as tx:
        tx.run(
            "INSERT INTO lease (name, owner, until_ms, last_run_ms) VALUES ('extract', CAST(x'61e28261' AS TEXT), 1, 1)"
        )

    worker = start()
    worker.communicate(timeout=WAIT_SECONDS)
    assert worker.returncode == 75
    assert home.worker_coming.exists()
    assert not (home.root / "memory.broken.db").exists()
    start()

    wait_for(lambda: status(home))
    assert (home.root / "memory.broken.db").exists()


def test_a_task_that_does_not_end_in_time_is_left_behind_and_stays_due(start: StartWorker, settings: Settings) -> None:
    home = settings.places
    write_rule(settings)
    worker = start(SLOW, ENGRAM_DRAIN_SECONDS="1")
    wait_for(lambda: status(home))
    huey.bind(home)
    flush(SESSION)
    with open_store(home.memory_db) as store:
        wait_for(
            lambda: (
                [run.key for run in running_task_runs(store, is_process_alive) if run.kind == "extract"] == [SESSION]
            )
        )

        worker.send_signal(signal.SIGTERM)
        worker.communicate(timeout=WAIT_SECONDS)

        assert worker.returncode == 75
        assert store.value("SELECT state FROM work WHERE kind = 'extract'") == "due"


def test_a_home_with_a_very_long_path_works(start: StartWorker, tmp_path: Path) -> None:
    home = Home(tmp_path / ("long" * 20) / ("longer" * 20))
    worker = start(ENGRAM_HOME=str(home.root))

    assert wait_for(lambda: status(home))["pid"] == worker.pid
    assert home.wake_socket.is_socket()


def test_a_signal_while_it_starts_ends_it_quietly(start: StartWorker, settings: Settings) -> None:
    worker = start(STARTING)
    wait_for((settings.home / "starting").exists)

    worker.send_signal(signal.SIGINT)
    _, said = worker.communicate(timeout=WAIT_SECONDS)

    assert (worker.returncode, said) == (0, "")


def test_forged_messages_neither_stop_it_nor_run(start: StartWorker, settings: Settings) -> None:
    home = settings.places
    worker = start()
    wait_for(lambda: status(home))
    huey.bind(home)
    for data in (b"\x80\x05garbage", b"{}", b'{"message":{"name":"os.system"}}'):
        huey.storage.enqueue(data, 100)
    write_rule(settings)

    flush(SESSION)

    with open_store(home.memory_db) as store:
        wait_for(lambda: memories(store))
        assert "can't be run" in store.value("SELECT last_error FROM stage WHERE name = 'queue'")
    assert worker.poll() is None


@pytest.mark.model
def test_a_stop_while_texts_are_embedded_ends_the_process_cleanly(
    start: StartWorker, settings: Settings, bundled_folder: Path
) -> None:
    """An interpreter that ends while a thread is inside the model aborts."""
    text = "word " * 700
    with open_store(settings.places.memory_db) as store, store.transaction() as tx:
        for _ in range(600):
            add_memory(tx, Memory(new_memory_id(), "fact", text, text), [], actor=Actor.MODEL)
    worker = start(ENGRAM_EMBEDDING_MODEL="bundled")
    wait_for(lambda: status(settings.places))
    begun = cpu_seconds(worker.pid)
    wait_for(lambda: cpu_seconds(worker.pid) > begun + 1)

    worker.send_signal(signal.SIGTERM)
    _, said = worker.communicate(timeout=WAIT_SECONDS)

    assert worker.returncode in (0, EXIT_RESTART)
    assert "terminate called" not in said
    with open_store(settings.places.memory_db) as store:
        assert count_without_vector(store)


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = subprocess.run(["ps", "-o", "cputimes=", "-p", str(pid)], capture_output=True, text=True, check=True)
    return float(fields.stdout)
