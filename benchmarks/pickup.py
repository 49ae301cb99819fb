"""Measure how fast an idle worker picks up a task, and what idling costs.

    python benchmarks/pickup.py [--idle 60] [--json]

The watcher and the worker run as separate processes on an empty home with some transcripts. The pick-up time is
measured from just before the enqueue to the first line of the task, in another process.
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

from engram.paths import Home
from engram.settings import load
from engram.tasks.queue import huey
from engram.worker.worker_client import ask_worker

#: Seconds between two samples after the first one.
GAP_SECONDS = 1.0
#: Maximum wait for the processes to start, in seconds.
START_SECONDS = 60.0
#: The goals: milliseconds, and percent of one processor.
MAX_MS, MAX_PERCENT = 2.0, 0.3


def probe(started_ns: str) -> None:
    """The task that is picked up; it records how long that took."""
    taken = time.monotonic_ns() - int(started_ns)
    with open(os.environ["PICKUP_FILE"], "a", encoding="ascii") as file:
        file.write(f"{taken}\n")


def cpu_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        text = subprocess.run(["ps", "-o", "time=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout
        minutes, _, seconds = text.strip().rpartition(":")
        return int(minutes.split(":")[-1] or 0) * 60 + float(seconds)


def run_part(part: str) -> int:
    """Run as the watcher or the worker."""
    settings = load().settings
    if part == "watcher":
        from engram.watcher.watch import run_watcher

        return run_watcher(settings)
    from engram.worker.lifecycle import run_worker

    huey.task(name="probe", priority=50)(probe)
    return run_worker(settings)


def measure(idle_seconds: float, samples: int) -> dict[str, float]:
    """Return the idle processor share, in percent, and the pick-up times, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "taken"
        file.touch()
        os.environ |= {
            "ENGRAM_HOME": f"{folder}/home",
            "CLAUDE_CONFIG_DIR": f"{folder}/claude",
            "PICKUP_FILE": str(file),
            "ENGRAM_EMBEDDING_MODEL": "hashed",
        }
        make_transcripts(Path(folder) / "claude", 200)
        home = Home(Path(folder) / "home")
        parts = [subprocess.Popen([sys.executable, __file__, "--part", part]) for part in ("watcher", "worker")]
        try:
            wait_until_up(home)
            before = [cpu_seconds(part.pid) for part in parts]
            began = time.monotonic()
            time.sleep(idle_seconds)
            used = sum(cpu_seconds(part.pid) - was for part, was in zip(parts, before, strict=True))
            share = 100 * used / (time.monotonic() - began)
            taken = pick_up(home, file, samples)
        finally:
            for part in parts:
                part.send_signal(signal.SIGTERM)
            for part in parts:
                part.wait(30)
            huey.storage.close()
    return {
        "idle_cpu_percent": round(share, 3),
        "first_after_idle_ms": round(taken[0], 2),
        "p50_ms": round(statistics.median(taken), 2),
        "p95_ms": round(sorted(taken)[int(len(taken) * 0.95) - 1], 2),
        "samples": len(taken),
        "idle_seconds": idle_seconds,
    }


def make_transcripts(folder: Path, number: int) -> None:
    """Create small transcripts that the sweep has to compare."""
    for one in range(number):
        path = folder / "projects" / f"-work-p{one % 10}" / f"s{one}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text('{"type":"summary","summary":"x"}\n', encoding="ascii")


def wait_until_up(home: Home) -> None:
    """Wait until both processes are running and have finished their initial work."""
    until = time.monotonic() + START_SECONDS
    while ask_worker(home, {"op": "status"}) is None or not home.watcher_lock.exists():
        if time.monotonic() > until:
            raise SystemExit("the worker did not start")
        time.sleep(0.1)
    time.sleep(5)


def pick_up(home: Home, file: Path, samples: int) -> list[float]:
    """Return the milliseconds of each pick-up."""
    huey.bind(home)
    task = huey.task(name="probe", priority=50)(probe)
    huey.pending_count()
    for number in range(samples):
        if number:
            time.sleep(GAP_SECONDS)
        task(str(time.monotonic_ns()))
        while len(file.read_text(encoding="ascii").splitlines()) <= number:
            time.sleep(0.01)
    return [int(line) / 1e6 for line in file.read_text(encoding="ascii").split()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--idle", type=float, default=60, help="seconds of idleness before the first pick-up (60)")
    parser.add_argument("--samples", type=int, default=20, help="pick-ups (20)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--part", choices=("watcher", "worker"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        return run_part(asked.part)
    found = measure(asked.idle, asked.samples)
    if asked.json:
        print(json.dumps(found))
    else:
        print(f"idle processor, watcher and worker together: {found['idle_cpu_percent']} % (goal: {MAX_PERCENT} %)")
        print(f"pick-up after {asked.idle:g} s idle: {found['first_after_idle_ms']} ms")
        print(f"pick-up p50 {found['p50_ms']} ms (goal: {MAX_MS} ms), p95 {found['p95_ms']} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
