"""Measure the resident memory of worker and watcher with 10,000 memories, before, during and after an import.

    python benchmarks/memory.py --corpus DIR [--memories 10000] [--json]

This runs real processes with the real model on a temporary home. The memories get made-up vectors, which take as much
space as real ones. DIR is a folder of Claude configuration folders, or one such folder. Goals: at most 300 MB for the
worker and 50 MB for the watcher.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from whole import join

from engram.embedding.load_model import load_embedder
from engram.enums import Actor, Importance, Kind, Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.models.search.vector_rows import missing_vectors, put_vectors
from engram.models.shown import usage
from engram.models.work.work import due_work
from engram.paths import Home
from engram.transcripts.project import identify_project
from engram.worker.worker_client import ask_worker

REPO = Path(__file__).resolve().parent.parent
#: The goals, in MB (10^6 bytes).
WORKER_MB, WATCHER_MB = 300, 50
#: Maximum wait for a process to start, and for an import, in seconds.
START_SECONDS, IMPORT_SECONDS = 120.0, 3600.0
PROJECT = "/projects/made-up"


def fill(store: Store, count: int) -> None:
    """Store ``count`` memories of one project, with random vectors."""
    model = load_embedder("bundled")
    found = identify_project(PROJECT, known_roots=[], root_folders=())
    with store.transaction() as tx:
        project = ensure_project(tx, found.identity, found.name, found.root)
        for number in range(count):
            text = f"Part {number} keeps its budget of retries in store {number % 97}, decided after outage {number}."
            memory = Memory(
                new_memory_id(),
                Kind.DECISION,
                text,
                text,
                project_id=project.id,
                project=project.name,
                status=Status.ACTIVE,
                confidence=0.9,
                quality=0.9,
                importance=Importance.HIGH,
            )
            add_memory(tx, memory, [], actor=Actor.MODEL)
    chance = np.random.default_rng(1)
    while waiting := missing_vectors(store, model.model_id, 1000):
        rows = chance.standard_normal((len(waiting), model.dimension)).astype(np.float32)
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        with store.transaction() as tx:
            put_vectors(
                tx,
                model.model_id,
                [
                    (one.owner, one.owner_id, 0, row.astype(np.float16).tobytes())
                    for one, row in zip(waiting, rows, strict=True)
                ],
            )
    store.checkpoint("TRUNCATE")


@contextlib.contextmanager
def running(process_name: str, home: Home, claude: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the worker or the watcher (``engram service run``) as a separate process, which is ended afterwards."""
    environment = os.environ | {"ENGRAM_HOME": str(home.root), "CLAUDE_CONFIG_DIR": str(claude)}
    process = subprocess.Popen(
        [sys.executable, "-m", "engram.cli.main", "service", "run", process_name], env=environment
    )
    try:
        until = time.monotonic() + START_SECONDS
        while process_name == "worker" and ask_worker(home, {"op": "status"}) is None:
            if process.poll() is not None or time.monotonic() > until:
                raise SystemExit(f"the {process_name} did not start")
            time.sleep(0.1)
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB; 0 if it no longer exists."""
    found = subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return int(found or 0) * 1024 / 1e6


def is_imported(store: Store, claude: Path) -> bool:
    """Return True once every transcript has been read to its end, and everything that was due is done."""
    size = sum(path.stat().st_size for path in claude.glob("projects/*/*.jsonl"))
    read = int(store.value("SELECT sum(bytes_read) FROM transcript") or 0)
    is_due = any(work.kind in ("extract", "embed") for work in due_work(store, 1000))
    return read >= 0.99 * size and not is_due and not usage.count_without_vector(store)


def measure(corpus: Path, memories: int) -> dict[str, Any]:
    """Return all figures, from one run."""
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name) / "home").prepare()
        claude = join(corpus, Path(name) / "claude")
        with open_store(home.memory_db) as store:
            fill(store, memories)
            with running("worker", home, claude) as worker:
                for number in range(20):
                    ask_worker(home, {"op": "recall", "query": f"where does part {number} keep its budget"})
                time.sleep(5)
                seen = {"worker_at_rest_mb": rss_mb(worker.pid)}
                with running("watcher", home, claude) as watcher:
                    seen |= follow(store, claude, worker.pid, watcher.pid)
    return {key: round(value, 1) for key, value in seen.items()} | {"episodes_before": memories}


def follow(store: Store, claude: Path, worker: int, watcher: int) -> dict[str, float]:
    """Return the peaks during the import, and the memory used some seconds after it."""
    started, peak, peak_watcher = time.monotonic(), 0.0, 0.0
    while not is_imported(store, claude):
        if time.monotonic() - started > IMPORT_SECONDS:
            raise SystemExit("the import did not end")
        peak, peak_watcher = max(peak, rss_mb(worker)), max(peak_watcher, rss_mb(watcher))
        time.sleep(1)
    taken = time.monotonic() - started
    time.sleep(15)
    return {
        "import_seconds": taken,
        "worker_peak_mb": peak,
        "worker_after_mb": rss_mb(worker),
        "watcher_peak_mb": peak_watcher,
        "watcher_after_mb": rss_mb(watcher),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of transcripts")
    parser.add_argument("--memories", type=int, default=10_000, help="memories before the import (10000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    found = measure(given.corpus, given.memories)
    if given.json:
        print(json.dumps(found))
        return
    for key, value in found.items():
        goal = WORKER_MB if key.startswith("worker") else WATCHER_MB if key.startswith("watcher") else ""
        print(f"{key:20} {value:>9}   {f'goal: at most {goal}' if goal else ''}")


if __name__ == "__main__":
    main()
