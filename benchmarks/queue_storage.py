"""Compare Huey's own SQLite storages with Engram's: ``python benchmarks/queue_storage.py [--idle 10] [--json]``.

For each storage, a consumer with four threads runs as a separate process, with Huey's default polling. The benchmark
measures the time until an idle consumer begins a task, its idle processor time, the time of an enqueue, how many
messages a hundred enqueues of the same task leave in the queue, and whether a task still runs after the file was
deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from huey import CySqliteHuey, SqliteHuey

from engram.paths import Home
from engram.tasks.consumer import WORKERS
from engram.tasks.queue import EngramQueue

#: Name → function that creates the queue in a folder.
STORAGES: dict[str, Any] = {
    "SqliteHuey": lambda folder: SqliteHuey("engram", filename=f"{folder}/queue.db", results=False),
    "CySqliteHuey, synchronous NORMAL": lambda folder: CySqliteHuey(
        "engram", filename=f"{folder}/queue.db", results=False, pragmas={"synchronous": 1}
    ),
    "Engram": lambda folder: EngramQueue().bind(Home(Path(folder))),
}
#: Maximum wait for a task, in seconds.
MAX_WAIT_SECONDS = 20.0


def make_queue(name: str, folder: str) -> tuple[Any, Any]:
    """Return a queue and its task, which writes how long ago it was enqueued."""
    queue = STORAGES[name](folder)

    def probe(enqueued_ns: str) -> None:
        elapsed = time.monotonic_ns() - int(enqueued_ns)
        with open(f"{folder}/begun", "a", encoding="ascii") as file:
            file.write(f"{elapsed}\n")

    return queue, queue.task(name="probe")(probe)


def consume(name: str, folder: str) -> int:
    """Run as the consumer of a queue."""
    from huey.consumer import Consumer

    queue, _ = make_queue(name, folder)
    if isinstance(queue, EngramQueue):
        queue.storage.listen()
    Consumer(queue, workers=WORKERS, periodic=False).run()
    return 0


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def begun(folder: str) -> list[float]:
    """Return the milliseconds from enqueue to start of each task that ran."""
    path = Path(folder) / "begun"
    return [int(line) / 1e6 for line in path.read_text(encoding="ascii").split()] if path.exists() else []


def run_one(task: Any, folder: str) -> float | None:
    """Enqueue a task; return the milliseconds until it began, or None if it did not run."""
    before = len(begun(folder))
    task(str(time.monotonic_ns()))
    deadline = time.monotonic() + MAX_WAIT_SECONDS
    while len(times := begun(folder)) == before:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.005)
    return times[-1]


def measure(name: str, idle_seconds: float, samples: int) -> dict[str, Any]:
    """Measure one storage."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o700)
        queue, task = make_queue(name, folder)
        enqueue_ms = []
        for number in range(500):
            started = time.perf_counter()
            task(str(number))
            enqueue_ms.append((time.perf_counter() - started) * 1000)
        queue.storage.flush_queue()
        for _ in range(100):
            task("1")
        rows = queue.pending_count()
        queue.storage.flush_queue()
        consumer = subprocess.Popen([sys.executable, __file__, "--consume", name, folder], stderr=subprocess.DEVNULL)
        try:
            first_ms = run_one(task, folder)
            cpu_before, began = cpu_seconds(consumer.pid), time.monotonic()
            pick_up_ms = []
            for _ in range(samples):
                time.sleep(idle_seconds)
                pick_up_ms.append(run_one(task, folder))
            idle_percent = 100 * (cpu_seconds(consumer.pid) - cpu_before) / (time.monotonic() - began)
            for path in Path(folder).glob("queue.db*"):
                path.unlink()
            # Like a hook, this is a new process, which opens the file by its name.
            queue.storage.close()
            try:
                survives = run_one(task, folder) is not None
            except Exception:  # noqa: BLE001 - that is what is asked
                survives = False
        finally:
            consumer.send_signal(signal.SIGKILL)
            consumer.wait()
            queue.storage.close()
    times = [value for value in pick_up_ms if value is not None]
    return {
        "storage": name,
        "ran": first_ms is not None,
        "pick_up_p50_ms": round(statistics.median(times), 1),
        "pick_up_max_ms": round(max(times), 1),
        "idle_cpu_percent": round(idle_percent, 2),
        "enqueue_p50_ms": round(statistics.median(enqueue_ms), 3),
        "enqueue_p99_ms": round(sorted(enqueue_ms)[int(len(enqueue_ms) * 0.99)], 3),
        "rows_of_100_equal_tasks": rows,
        "runs_after_file_was_deleted": survives,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=float, default=10, help="seconds of idleness before each task (10)")
    parser.add_argument("--samples", type=int, default=8, help="tasks (8)")
    parser.add_argument("--json", action="store_true", help="print one JSON object per storage")
    parser.add_argument("--consume", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.consume:
        return consume(*asked.consume)
    for name in STORAGES:
        result = measure(name, asked.idle, asked.samples)
        print(
            json.dumps(result) if asked.json else "\n".join(f"{key}: {value}" for key, value in result.items()) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
