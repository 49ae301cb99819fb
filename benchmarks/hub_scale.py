"""Measure how a hub scales with its machines: from 1 to 200 at once, each with its own space, and all in one team.

    PYTHONPATH=. python benchmarks/hub_scale.py [MACHINES ...]      needs the extra hub and a PostgreSQL

A simulated machine uses the real protocol over HTTP and has no memory; the service runs in a separate process. The
machines, the service and PostgreSQL share this machine's cores, so the rates are lower bounds.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from engram.hub.client.connection import Connection
from engram.hub.protocol.frames import NO_PUSH, TAKEN, Push, Row
from engram.hub.protocol.requests import HelloRequest, Membership, code_hash, hash_token, new_code
from engram.hub.server.accounts import add_member
from engram.hub.server.hub_database import Database
from tests.hub.killed import _wait_for, start
from tests.hub.postgres import free_port, running_postgres, system_folder, wheel_folder

#: Rows per push, and bytes of a sealed body: a memory of 600 characters, compressed and padded.
ROWS, BODY_BYTES = 20, 677
#: Pushes of a machine in its own space, and in the team.
PUSHES, TEAM_PUSHES = 4, 2
#: Idle rounds of a machine, and how long all of them wait for a change, in seconds.
ROUNDS, WAIT_SECONDS = 10, 10.0


@dataclass
class Simulated:
    """A machine that only sends requests."""

    connection: Connection
    member: Membership
    last: bytes = NO_PUSH
    pushed: int = 0
    cursor: int = 0
    seconds: list[float] = field(default_factory=list)

    @classmethod
    def join(cls, url: str, code: str) -> Simulated:
        connection = Connection(url)
        token = secrets.token_urlsafe(32)
        request = {"code": code, "name": "simulated", "token_hash": hash_token(token).hex()}
        member = connection.membership("join", request)
        connection.token = token
        return cls(connection, member)

    def push(self, ns_id: int) -> None:
        """Push a page and record how long it took."""
        rows = []
        for _ in range(ROWS):
            self.pushed += 1
            rows.append(
                Row(
                    author=self.member.member_id,
                    memory_id=random.randbytes(8),
                    device=self.member.device_id,
                    hlc=self.pushed << 16,
                    version=1,
                    is_forgotten=False,
                    body=random.randbytes(BODY_BYTES),
                )
            )
        push_id = random.randbytes(16)
        started = time.perf_counter()
        answers = self.connection.push(Push(ns_id, push_id, self.last, tuple(rows)))
        self.seconds.append(time.perf_counter() - started)
        self.last = push_id
        assert set(answers.answers) == {TAKEN}

    def pull(self, ns_id: int) -> None:
        """Pull what is new."""
        page = self.connection.pull(ns_id, self.cursor, 1_000)
        self.cursor = max(self.cursor, page.upto)

    def idle(self) -> None:
        """Make a round with nothing to do."""
        started = time.perf_counter()
        self.connection.hello(HelloRequest((self.last,), {}))
        self.seconds.append(time.perf_counter() - started)

    def wait(self) -> None:
        """Wait for a change that does not come."""
        self.connection.wait({self.member.spaces[0].ns_id: 1 << 40}, WAIT_SECONDS)


@dataclass
class Measured:
    """The measurements of some machines that acted at the same time."""

    wall: float
    latencies: Sequence[float]
    service_cpu: float
    peak_mb: float

    def told(self) -> str:
        ordered = sorted(self.latencies) or [0.0]
        p50, p99 = statistics.median(ordered), ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
        return f"p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms, service {self.service_cpu:.2f} s CPU"


def at_once(machines: Sequence[Simulated], act: Callable[[Simulated], None], service: int) -> Measured:
    """Let every machine act in its own thread."""
    for machine in machines:
        machine.seconds.clear()
    with ThreadPoolExecutor(len(machines)) as threads:
        cpu, started = cpu_of(service), time.perf_counter()
        for _ in threads.map(act, machines):
            pass
        wall = time.perf_counter() - started
    peak = rss_of(service)
    latencies = [seconds for machine in machines for seconds in machine.seconds]
    return Measured(wall, latencies, cpu_of(service) - cpu, peak)


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process."""
    parts = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")


def rss_of(process: int) -> float:
    """Return the memory of a process, in MB."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure(count: int, url: str, database: Database, dsn: str, service: int) -> None:
    """Print the costs of ``count`` machines."""
    machines = []
    for number in range(count):
        half, _ = new_code()
        add_member(database, f"machine {count} {number}", half)
        machines.append(Simulated.join(url, half))

    def own_space(machine: Simulated) -> None:
        for _ in range(PUSHES):
            machine.push(machine.member.spaces[0].ns_id)

    own = at_once(machines, own_space, service)
    rows = count * PUSHES * ROWS
    print(f"{count:>4} machines, a space each: {rows / own.wall:,.0f} rows/s; push of {ROWS}: {own.told()}", flush=True)

    keeper = machines[0].connection
    team = int(keeper.ask("team-make", {"name": "all", "sealed": False, "key": ""})["ns"])
    for machine in machines[1:]:
        half, _ = new_code()
        digest = code_hash(half).hex()
        keeper.ask("team-invite", {"ns": team, "role": "writer", "digest": digest, "bundle": ""})
        machine.connection.ask("team-join", {"code": half})

    def in_team(machine: Simulated) -> None:
        for _ in range(TEAM_PUSHES):
            machine.push(team)

    together = at_once(machines, in_team, service)
    rows = count * TEAM_PUSHES * ROWS
    print(f"{count:>4} machines, one team: {rows / together.wall:,.0f} rows/s; {together.told()}", flush=True)
    reading = at_once(machines, lambda machine: machine.pull(team), service)
    pulled = count * max(0, min(1_000, rows - TEAM_PUSHES * ROWS))
    print(f"{count:>4} machines pull the team: {pulled / reading.wall:,.0f} rows/s; {reading.told()}", flush=True)

    sent = [machine.connection.sent_bytes + machine.connection.received_bytes for machine in machines]

    def idle(machine: Simulated) -> None:
        for _ in range(ROUNDS):
            machine.idle()

    quiet = at_once(machines, idle, service)
    after = [machine.connection.sent_bytes + machine.connection.received_bytes for machine in machines]
    per_round = statistics.mean(b - a for a, b in zip(sent, after, strict=True)) / ROUNDS
    cpu_ms = quiet.service_cpu / (count * ROUNDS) * 1000
    print(
        f"{count:>4} machines idle: {per_round:.0f} bytes and {cpu_ms:.2f} ms CPU a round; {quiet.told()}", flush=True
    )

    waiting = at_once(machines, Simulated.wait, service)
    with psycopg.connect(dsn, autocommit=True) as connection:
        (used,) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        ).fetchone() or (0,)
        (size, number) = connection.execute(
            "SELECT pg_total_relation_size('hub.statement'), count(*) FROM hub.statement"
        ).fetchone() or (0, 1)
    print(
        f"{count:>4} machines wait {WAIT_SECONDS:.0f} s: {waiting.service_cpu:.2f} s CPU, {waiting.peak_mb:.0f} MB, "
        f"{used - 1} connections; a row takes {size / max(number, 1):.0f} bytes of disk",
        flush=True,
    )
    for machine in machines:
        machine.connection.close()


def main(counts: Sequence[int]) -> None:
    """Measure every number of machines on one hub."""
    logging.disable(logging.CRITICAL)
    programs = wheel_folder() or system_folder()
    assert programs is not None, "no PostgreSQL is installed"
    with running_postgres(programs) as server:
        dsn, port = server.make_database(), free_port()
        url = f"http://127.0.0.1:{port}"
        service = start("service", str(port), ENGRAM_HUB_DATABASE=dsn)
        database = Database(dsn).open()
        try:
            _wait_for(url)
            for count in counts:
                measure(count, url, database, dsn, service.pid)
        finally:
            database.close()
            service.terminate()
            service.wait(20)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [1, 10, 50, 200])
