"""Measure how long a hub takes: to push and pull many memories, for an idle round, and from a save here to a hit there.

    PYTHONPATH=. python benchmarks/hub_sync.py [MEMORIES [open]]      needs the extra hub and a PostgreSQL
    PYTHONPATH=. python benchmarks/hub_sync.py MEMORIES folder        a folder in place of the service

The service runs in a separate process, over HTTP on this machine, with a sealed or an open space. The time from saving
a memory on one machine to finding it on the other is measured with the workers of two machines, with and without a
request that is kept open.
"""

from __future__ import annotations

import logging
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from engram.enums import Actor, Kind, Scope, Source
from engram.hub.client.connection import Limits
from engram.hub.client.membership import join_hub
from engram.hub.client.rounds import Round, sync_all
from engram.hub.protocol.requests import code_text, new_code
from engram.hub.server.accounts import add_member
from engram.hub.server.hub_database import Database
from engram.models.memories.memory_changes import add_memories
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.redaction import redact
from tests.hub.killed import _wait_for, start
from tests.hub.machines import Machine
from tests.hub.postgres import free_port, running_postgres, system_folder, wheel_folder

WORDS = Path(__file__).read_text().split() + Path(random.__file__).read_text().split()


def fill(machine: Machine, count: int) -> None:
    """Make memories of about 600 characters each."""
    chance = random.Random(1)
    for start_at in range(0, count, 1_000):
        made = []
        with machine.store.transaction() as tx:
            for number in range(start_at, min(count, start_at + 1_000)):
                text = " ".join(chance.choices(WORDS, k=75))
                memory = Memory(
                    episode_id=new_memory_id(),
                    kind=Kind.DECISION,
                    summary=text[:150],
                    content=text,
                    entities=tuple(chance.choices(WORDS, k=3)),
                    scope=Scope.GLOBAL,
                    source=Source.AUTO,
                    created_at_ms=1_700_000_000_000 + number,
                )
                made.append((memory, [Evidence(f"{chance.getrandbits(128):032x}", "s1")]))
            add_memories(tx, made, actor=Actor.MODEL, action="extract", reasons=[""] * len(made))


def sync(machine: Machine) -> tuple[float, Round]:
    """Make a round; return its duration in seconds, and its result."""
    started = time.perf_counter()
    # One round, however long it takes: by default one of five minutes leaves the rest to the next.
    limits = Limits(round=3_600)
    (done,) = sync_all(machine.store, machine.places, redact, is_forced=True, limits=limits)
    assert not done.error, done.error
    return time.perf_counter() - started, done


def measure_trips(first: Machine, second: Machine, *, has_wait: bool, trips: int = 12) -> str:
    """Save a memory on one machine and search for it on the other, with their workers; return the measurements."""
    workers = [start_worker(machine, has_wait=has_wait) for machine in (first, second)]
    seconds = []
    try:
        for number in range(trips + 2):
            time.sleep(random.uniform(1.2, 2.5))
            saved = first.save(f"trip {number} {has_wait} {random.random()}")
            started = time.perf_counter()
            while second.store.value("SELECT 1 FROM episode WHERE episode_id = ?", [saved.episode_id]) is None:
                time.sleep(0.005)
                assert time.perf_counter() - started < 120, "it did not arrive"
            seconds.append(time.perf_counter() - started)
    finally:
        for worker in workers:
            worker.terminate()
            worker.wait()
    times = sorted(seconds[2:])
    return f"p50 {statistics.median(times) * 1000:.0f} ms, greatest {times[-1] * 1000:.0f} ms"


def start_worker(machine: Machine, *, has_wait: bool) -> subprocess.Popen[bytes]:
    """Start the worker of a machine."""
    root = machine.places.root
    names = {"HOME": str(root.parent), "ENGRAM_HOME": str(root), "ENGRAM_HUB_WAIT": str(has_wait).lower()}
    command = [sys.executable, "-m", "engram.cli.main", "service", "run", "worker"]
    return subprocess.Popen(command, env={**os.environ, **names}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def join_both(database: Database, url: str, machines: tuple[Machine, Machine], name: str, *, is_open: bool) -> None:
    """Let two machines of one person join."""
    phrase = ""
    for machine in machines:
        hub_half, _ = new_code()
        add_member(database, name, hub_half)
        if is_open:
            with database.service() as connection:
                connection.execute("UPDATE hub.namespace SET is_sealed = false")
        joined = join_hub(machine.store, machine.places, url, code_text(hub_half), phrase=phrase)
        phrase = phrase or joined.phrase


def measure(count: int, database: Database, url: str, folder: Path, *, is_open: bool) -> None:
    """Measure everything, and print a line for each figure."""
    with Machine.open(folder / "a") as first, Machine.open(folder / "b") as second:
        started = time.perf_counter()
        fill(first, count)
        print(f"made {count} memories in {time.perf_counter() - started:.1f} s (not measured)", flush=True)
        join_both(database, url, (first, second), "Ada", is_open=is_open)
        measure_rounds(first, second)
        print(f"hub: {database_bytes(database) / 1e6:.0f} MB for {count} memories", flush=True)
    with Machine.open(folder / "c") as first, Machine.open(folder / "d") as second:
        join_both(database, url, (first, second), "Eve", is_open=is_open)
        for has_wait in (True, False):
            told = measure_trips(first, second, has_wait=has_wait)
            print(f"saved here, found there, {'long poll' if has_wait else 'asking'}: {told}", flush=True)


def measure_rounds(first: Machine, second: Machine) -> None:
    """Measure the first round of each machine, and rounds with nothing to do; print a line for each."""
    cpu = time.process_time()
    seconds, done = sync(first)
    cpu = time.process_time() - cpu
    print(
        f"push: {seconds:.1f} s ({cpu:.1f} s of CPU here), {done.pushed} rows, {done.sent_bytes / 1e6:.1f} MB",
        flush=True,
    )
    cpu = time.process_time()
    seconds, done = sync(second)
    cpu = time.process_time() - cpu
    wire = f"{done.received_bytes / 1e6:.1f} MB"
    found = second.store.value("SELECT count(*) FROM episode_fts")
    print(
        f"pull: {seconds:.1f} s ({cpu:.1f} s of CPU here), {done.pulled} rows, {wire}, {found} in the text index",
        flush=True,
    )
    idle = [sync(second) for _ in range(60)][10:]
    times = sorted(seconds * 1000 for seconds, _ in idle)
    size = idle[-1][1].sent_bytes + idle[-1][1].received_bytes
    print(f"idle round: p50 {statistics.median(times):.1f} ms, p90 {times[45]:.1f} ms, {size} bytes of bodies")


def measure_folder(count: int, folder: Path) -> None:
    """Measure the same through a folder, and what forgetting costs there and what the folder contains."""
    synced = folder / "synced"
    with Machine.open(folder / "a") as first, Machine.open(folder / "b") as second:
        fill(first, count)
        first.use_folder(synced)
        second.use_folder(synced, first.phrase)
        measure_rounds(first, second)
        files = list(synced.rglob("*.seg"))
        print(f"folder: {sum(path.stat().st_size for path in files) / 1e6:.1f} MB in {len(files)} files", flush=True)
        second.forget(str(second.store.value("SELECT episode_id FROM episode ORDER BY id LIMIT 1")))
        there, _ = sync(second)
        here, done = sync(first)
        written = done.sent_bytes / 1e6
        print(
            f"forgotten on the other: {there:.2f} s there, {here:.2f} s here with {written:.2f} MB written anew",
            flush=True,
        )


def main(count: int, *, is_open: bool) -> None:
    """Start PostgreSQL and the service, and measure."""
    logging.disable(logging.CRITICAL)
    programs = wheel_folder() or system_folder()
    assert programs is not None, "no PostgreSQL is installed"
    with running_postgres(programs) as server, tempfile.TemporaryDirectory() as folder:
        dsn, port = server.make_database(), free_port()
        url = f"http://127.0.0.1:{port}"
        service = start("service", str(port), ENGRAM_HUB_DATABASE=dsn)
        try:
            _wait_for(url)
            database = Database(dsn).open()
            try:
                measure(count, database, url, Path(folder), is_open=is_open)
            finally:
                database.close()
        finally:
            service.kill()
            service.wait()


def database_bytes(database: Database) -> int:
    """Return the size of the statements with their indexes, in bytes."""
    with database.service() as connection:
        row = connection.execute("SELECT pg_total_relation_size('hub.statement') AS bytes").fetchone()
    assert row is not None
    return int(row.bytes)


if __name__ == "__main__":
    if sys.argv[2:] == ["folder"]:
        logging.disable(logging.CRITICAL)
        with tempfile.TemporaryDirectory() as place:
            measure_folder(int(sys.argv[1]), Path(place))
        sys.exit()
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, is_open=sys.argv[2:] == ["open"])
