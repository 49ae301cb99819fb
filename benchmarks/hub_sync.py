"""How long a hub takes: push and pull of many memories, an idle round, and from saved here to found there.

    PYTHONPATH=. python benchmarks/hub_sync.py [MEMORIES]      needs the extra hub and a PostgreSQL

The service runs in a process of its own, over HTTP on this machine, with a sealed space.
"""

from __future__ import annotations

import logging
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from engram.enums import Actor, Kind, Scope, Source
from engram.hub.client.joining import join_hub
from engram.hub.client.keys import Keyring
from engram.hub.client.rounds import Round, sync_server
from engram.hub.protocol.phrase import code_text, new_code
from engram.hub.server.accounts import add_member
from engram.hub.server.database import Database
from engram.models.episode_changes import add_episode
from engram.models.episodes import Episode, Evidence, new_episode_id
from engram.models.hub_spaces import list_servers
from engram.redaction import redact
from tests.hub.killed import _wait_for, start
from tests.hub.machines import Machine
from tests.hub.postgres import free_port, running_postgres, system_folder, wheel_folder

WORDS = Path(__file__).read_text().split() + Path(random.__file__).read_text().split()


def fill(machine: Machine, count: int) -> None:
    """Make memories of about 600 characters each."""
    chance = random.Random(1)
    for start_at in range(0, count, 1_000):
        with machine.store.transaction() as tx:
            for number in range(start_at, min(count, start_at + 1_000)):
                text = " ".join(chance.choices(WORDS, k=75))
                episode = Episode(
                    episode_id=new_episode_id(),
                    kind=Kind.DECISION,
                    summary=text[:150],
                    content=text,
                    entities=tuple(chance.choices(WORDS, k=3)),
                    scope=Scope.GLOBAL,
                    source=Source.AUTO,
                    created_at_ms=1_700_000_000_000 + number,
                )
                evidence = [Evidence(f"{chance.getrandbits(128):032x}", "s1")]
                add_episode(tx, episode, evidence, actor=Actor.MODEL, action="extract")


def sync(machine: Machine) -> tuple[float, Round]:
    """Make a round; returns its seconds."""
    server = list_servers(machine.store)[0]
    started = time.perf_counter()
    done = sync_server(machine.store, machine.places, server, redact)
    return time.perf_counter() - started, done


def main(count: int) -> None:
    """Measure everything and print a line each."""
    logging.disable(logging.CRITICAL)
    programs = wheel_folder() or system_folder()
    assert programs is not None, "no PostgreSQL is installed"
    with running_postgres(programs) as server, tempfile.TemporaryDirectory() as folder:
        dsn, port = server.make_database(), free_port()
        url = f"http://127.0.0.1:{port}"
        service = start("service", str(port), ENGRAM_HUB_DATABASE=dsn)
        database = Database(dsn).open()
        try:
            _wait_for(url)
            with Machine.open(Path(folder) / "a") as first, Machine.open(Path(folder) / "b") as second:
                started = time.perf_counter()
                fill(first, count)
                print(f"made {count} memories in {time.perf_counter() - started:.1f} s (not measured)", flush=True)
                phrase = ""
                for machine in (first, second):
                    hub_half, _ = new_code()
                    add_member(database, "Ada", hub_half)
                    joined = join_hub(machine.store, machine.places, url, code_text(hub_half), phrase=phrase)
                    phrase = phrase or joined.phrase
                seconds, done = sync(first)
                print(f"push: {seconds:.1f} s, {done.pushed} rows, {done.sent_bytes / 1e6:.1f} MB", flush=True)
                seconds, done = sync(second)
                print(
                    f"pull, found by text: {seconds:.1f} s, {done.pulled} rows, {done.received_bytes / 1e6:.1f} MB",
                    flush=True,
                )
                idle = [sync(second) for _ in range(60)][10:]
                times = sorted(seconds * 1000 for seconds, _ in idle)
                size = idle[-1][1].sent_bytes + idle[-1][1].received_bytes
                print(
                    f"idle round: p50 {statistics.median(times):.1f} ms, p90 {times[45]:.1f} ms, {size} bytes of bodies"
                )
                trips = []
                for number in range(30):
                    started = time.perf_counter()
                    first.save(f"trip {number}")
                    sync(first)
                    sync(second)
                    trips.append((time.perf_counter() - started) * 1000)
                trips.sort()
                print(
                    f"saved, pushed, pulled: p50 {statistics.median(trips):.0f} ms, p90 {trips[27]:.0f} ms (two rounds)"
                )
                _, done = sync(second)
                print(f"after that: {done.pulled} pulled again")
                size = database_bytes(database)
                print(f"hub: {size / 1e6:.0f} MB for {count} memories")
                Keyring(first.places.hub_keys)
        finally:
            database.close()
            service.kill()
            service.wait()


def database_bytes(database: Database) -> int:
    """Return how large the statements are, with their indexes."""
    with database.service() as connection:
        row = connection.execute("SELECT pg_total_relation_size('hub.statement') AS bytes").fetchone()
    assert row is not None
    return int(row.bytes)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
