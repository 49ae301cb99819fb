"""Measure the time from an appended prompt to its recollection file.

    python benchmarks/pipeline.py [--memories 10000] [--json]

The watcher and the worker run as separate processes. The main result is the ratio of the total time to embedding and
search alone, in the same run. ``--bundled`` uses the bundled model instead of the hashed embedder.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from engram.embedding.load_model import load_embedder
from engram.enums import Actor, Importance, Kind, Status
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.paths import Home
from engram.search.question import Query
from engram.search.searcher import Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import load
from engram.system.clock import iso_time
from engram.transcripts.project import identify_project
from engram.worker.worker_client import ask_worker

#: Seconds to wait for one recollection file before the prompt counts as unanswered.
ANSWER_SECONDS = 3.0
CWD = "/work/pipeline"
_PARTS = [
    "importer",
    "scheduler",
    "gateway",
    "renderer",
    "ledger",
    "exporter",
    "mailer",
    "indexer",
    "balancer",
    "planner",
]
_PLACES = ["postgres", "redis", "sqlite", "memory", "kafka", "disk", "vault", "bucket", "etcd", "cache"]


def name_of(number: int) -> str:
    """Return a made-up name that is unique to the number."""
    letters = "bcdfghklmnprstvz"
    return "".join(letters[(number >> shift) % 16] + "aeiou"[(number >> shift) % 5] for shift in (0, 4, 8, 12))


def fill(store: Store, embedder: Any, count: int) -> None:
    """Store ``count`` memories of one project with their vectors, each about a different made-up part."""
    found = identify_project(CWD, known_roots=[], root_folders=())
    with store.transaction() as tx:
        project = ensure_project(tx, found.identity, found.name, found.root)
        for number in range(count):
            part, place = _PARTS[number % 10], _PLACES[number // 10 % 10]
            text = f"The {name_of(number)} {part} keeps its retry budget in {place}, decided after outage {number}."
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
    while embed_missing(store, embedder, 256):
        pass
    store.checkpoint("TRUNCATE")


def ask(number: int) -> str:
    """Return a prompt about one memory."""
    return f"Where does the {name_of(number)} {_PARTS[number % 10]} keep its retry budget, and since which outage?"


def line_of(session: str, text: str) -> bytes:
    """Return a line with a prompt, as Claude Code writes it."""
    entry = {
        "type": "user",
        "uuid": str(uuid.uuid4()),
        "sessionId": session,
        "cwd": CWD,
        "isSidechain": False,
        "timestamp": iso_time(time.time_ns() // 1_000_000),
        "message": {"role": "user", "content": text},
    }
    return json.dumps(entry).encode() + b"\n"


def time_alone(store: Store, embedder: Any, numbers: list[int]) -> list[float]:
    """Return the milliseconds of embedding and search alone for each prompt."""
    settings = load().settings
    searcher = Searcher(store, settings, embedder=embedder)
    searcher.refresh()
    searcher.recall(Query("warm up the search", limit=20))
    taken = []
    for number in numbers:
        start = time.perf_counter()
        searcher.recall(Query(ask(number), 1, limit=20))
        taken.append((time.perf_counter() - start) * 1000)
        time.sleep(0.1)
    return taken


def time_all(home: Home, folder: Path, numbers: list[int]) -> list[float]:
    """Return the milliseconds from the append to the recollection file, for each prompt that got one."""
    taken = []
    for number in numbers:
        session = str(uuid.uuid4())
        transcript = folder / f"{session}.jsonl"
        pending = home.recollections / f"{session}.pending"
        transcript.touch()
        time.sleep(0.15)
        data = line_of(session, ask(number))
        start = time.perf_counter()
        with transcript.open("ab", buffering=0) as file:
            file.write(data)
        while not pending.exists() and time.perf_counter() - start < ANSWER_SECONDS:
            time.sleep(0.0005)
        if pending.exists():
            taken.append((time.perf_counter() - start) * 1000)
    return taken


def measure(memories: int, samples: int, model: str) -> dict[str, Any]:
    """Return all figures, from one run."""
    with tempfile.TemporaryDirectory() as name:
        os.environ |= {
            "ENGRAM_HOME": f"{name}/home",
            "CLAUDE_CONFIG_DIR": f"{name}/claude",
            "ENGRAM_CONSOLIDATE_SECONDS": str(10**9),
            "ENGRAM_EMBEDDING_MODEL": model,
        }
        settings = load().settings
        home = settings.places.prepare()
        folder = settings.projects_folder / "-work-pipeline"
        folder.mkdir(parents=True)
        embedder = load_embedder(model)
        with open_store(home.memory_db) as store:
            fill(store, embedder, memories)
            numbers = random.Random(1).sample(range(memories), samples)
            alone_before = time_alone(store, embedder, numbers)
            parts = [subprocess.Popen([sys.executable, __file__, "--part", part]) for part in ("watcher", "worker")]
            try:
                status = wait_until_up(home)
                everything = time_all(home, folder, numbers)
                status = ask_worker(home, {"op": "status"}) or status
            finally:
                for part in parts:
                    part.send_signal(signal.SIGTERM)
                for part in parts:
                    part.wait(30)
            alone = alone_before + time_alone(store, embedder, numbers)
    return summary(everything, alone, memories, samples, model, status)


def wait_until_up(home: Home) -> dict[str, Any]:
    """Wait until both processes are running; return the worker's status."""
    until = time.monotonic() + 60
    while (status := ask_worker(home, {"op": "status"})) is None or not home.watcher_lock.exists():
        if time.monotonic() > until:
            raise SystemExit("the worker did not start")
        time.sleep(0.1)
    time.sleep(3)
    return status


def summary(
    everything: list[float], alone: list[float], memories: int, samples: int, model: str, status: dict[str, Any]
) -> dict[str, Any]:
    """Return the figures of a run."""
    p50, p50_alone = statistics.median(everything), statistics.median(alone)
    return {
        "model": model,
        "episodes": memories,
        "prompts": samples,
        "answered": len(everything),
        "all_p50_ms": round(p50, 1),
        "all_p95_ms": round(sorted(everything)[int(len(everything) * 0.95) - 1], 1),
        "embedding_and_search_p50_ms": round(p50_alone, 1),
        "rest_p50_ms": round(p50 - p50_alone, 1),
        "ratio": round(p50 / p50_alone, 2),
        "worker_rss_mb": status.get("rss_mb"),
        "index_mb": status.get("index_mb"),
    }


def run_part(part: str) -> int:
    """Run as the watcher or the worker."""
    settings = load().settings
    if part == "watcher":
        from engram.watcher.watch import run_watcher

        return run_watcher(settings)
    from engram.worker.lifecycle import run_worker

    return run_worker(settings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000, help="memories in the database (10000)")
    parser.add_argument("--samples", type=int, default=40, help="prompts (40)")
    parser.add_argument("--bundled", action="store_true", help="the bundled model instead of the hashed embedder")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--part", choices=("watcher", "worker"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        return run_part(asked.part)
    found = measure(asked.memories, asked.samples, "bundled" if asked.bundled else "hashed")
    if asked.json:
        print(json.dumps(found))
    else:
        for key, value in found.items():
            print(f"{key:30} {value}")
        print("goals: rest_p50_ms at most 15, ratio at most 2")
    return 0


if __name__ == "__main__":
    sys.exit(main())
