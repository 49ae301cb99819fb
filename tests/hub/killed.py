"""Machines, service and PostgreSQL are killed at random instants; nothing that was kept is lost or comes back.

python -m tests.hub.killed KILLS SEED [proxy]   kills that many processes, then lets everybody sync and compares; with
                                               proxy, the line delays, drips, cuts and lies meanwhile
python -m tests.hub.killed machine HOME    one machine that saves, edits, forgets and syncs until it is killed
python -m tests.hub.killed service PORT    the service (ENGRAM_HUB_DATABASE)
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import psycopg

from engram.hub.client.membership import join_hub
from engram.hub.client.rounds import sync_all
from engram.hub.protocol.requests import code_text, new_code
from engram.hub.server.accounts import add_member
from engram.hub.server.hub_database import Database
from engram.redaction import redact
from tests.hub.machines import Machine
from tests.hub.postgres import Postgres, free_port, running_postgres, wheel_folder
from tests.hub.proxy import FAULTS, IMPATIENT, Proxy
from tests.hub.steps import compare_journals, work_until_killed

MACHINES = 3


def start(*arguments: str, **environment: str) -> subprocess.Popen[bytes]:
    """Start one of the processes of this program."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.hub.killed", *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def run_kills(kills: int, seed: int, *, with_proxy: bool = False) -> str:
    """Kill processes, then compare; returns what was found, and raises AssertionError where something is wrong.

    With a proxy between machines and service that does something to a quarter of the requests, each machine must also
    be one device in the end.
    """
    chance = random.Random(seed)
    programs = wheel_folder()
    assert programs is not None
    folder = Path(tempfile.mkdtemp(prefix="engram-killed-"))
    counts = {"machine": 0, "service": 0, "postgres": 0}
    with contextlib.ExitStack() as line, running_postgres(programs) as server:
        dsn, port = server.make_database(), free_port()
        url = f"http://127.0.0.1:{port}"
        proxy = line.enter_context(Proxy.before(url)) if with_proxy else None
        homes = _join(dsn, url, port, folder, proxy)
        if proxy is not None:
            proxy.chance = faults = random.Random(seed)
            proxy.fault = lambda what: faults.choice(FAULTS) if faults.random() < 0.25 else ""
            os.environ["ENGRAM_TEST_IMPATIENT"] = "1"
        service = start("service", str(port), ENGRAM_HUB_DATABASE=dsn)
        machines = [start("machine", str(home)) for home in homes]
        try:
            for _ in range(kills):
                time.sleep(chance.uniform(0.0, 0.2))
                what = chance.choices(list(counts), (20, 5, 1))[0]
                counts[what] += 1
                if what == "machine":
                    number = chance.randrange(MACHINES)
                    _wait_until_started(homes[number], machines[number])
                    time.sleep(chance.uniform(0.0, 0.4))
                    machines[number].send_signal(signal.SIGKILL)
                    machines[number].wait()
                    machines[number] = start("machine", str(homes[number]))
                elif what == "service":
                    service.send_signal(signal.SIGKILL)
                    service.wait()
                    service = start("service", str(port), ENGRAM_HUB_DATABASE=dsn)
                else:
                    server.stop("immediate")
                    server.start()
        finally:
            for process in machines:
                process.kill()
                process.wait()
        os.environ.pop("ENGRAM_TEST_IMPATIENT", None)
        told = ""
        if proxy is not None:
            told = f"{sum(count for fault, count in proxy.counts.items() if fault)} faults; "
            proxy.fault = lambda what: ""
        try:
            compared = _compare(homes, url)
            if proxy is not None:
                with psycopg.connect(dsn) as connection:
                    (devices,) = connection.execute("SELECT count(*) FROM hub.device").fetchone() or (0,)
                assert devices == MACHINES, f"{MACHINES} machines became {devices} devices"
            return f"{counts}; {told}{compared}"
        finally:
            service.kill()
            service.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _wait_until_started(home: Path, process: subprocess.Popen[bytes]) -> None:
    for _ in range(1_200):
        if (home / f"started-{process.pid}").exists():
            return
        time.sleep(0.05)
    raise AssertionError("a machine did not start")


def _join(dsn: str, url: str, port: int, folder: Path, proxy: Proxy | None) -> list[Path]:
    """Make machines that joined the hub."""
    service = start("service", str(port), ENGRAM_HUB_DATABASE=dsn)
    homes = [folder / f"m{number}" for number in range(MACHINES)]
    database = Database(dsn).open()
    try:
        _wait_for(url)
        phrase = ""
        for home in homes:
            hub_half, _ = new_code()
            add_member(database, "Ada", hub_half)
            with Machine.open(home) as machine:
                place = url if proxy is None else proxy.url
                joined = join_hub(machine.store, machine.places, place, code_text(hub_half), phrase=phrase)
                phrase = phrase or joined.phrase
    finally:
        database.close()
        service.kill()
        service.wait()
    return homes


def _wait_for(url: str) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            if answer.status == 200:
                return
        time.sleep(0.05)
    raise AssertionError("the service does not answer")


def _compare(homes: list[Path], url: str) -> str:
    _wait_for(url)
    with contextlib.ExitStack() as stack:
        machines = [stack.enter_context(Machine.open(home)) for home in homes]
        for _ in range(3):
            for machine in machines:
                done = sync_all(machine.store, machine.places, redact, is_forced=True)[0]
                assert not done.error, done.error
        told = compare_journals(homes, machines)
        devices = machines[0].store.value("SELECT device_id FROM hub_server")
        return f"{told}; device {devices}"


def main(arguments: list[str]) -> None:
    """Run what the arguments say."""
    if arguments[0] == "machine":
        limits = IMPATIENT if os.environ.get("ENGRAM_TEST_IMPATIENT") else None
        work_until_killed(Path(arguments[1]), limits)
    elif arguments[0] == "service":
        from engram.hub.server.serve import serve

        serve(os.environ["ENGRAM_HUB_DATABASE"], "127.0.0.1", int(arguments[1]))
    else:
        print(run_kills(int(arguments[0]), int(arguments[1]), with_proxy="proxy" in arguments[2:]))


__all__ = ["Postgres"]

if __name__ == "__main__":
    main(sys.argv[1:])
