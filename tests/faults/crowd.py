"""Many processes at once on one memory folder; run by test_crowd.py.

Usage: python crowd.py FOLDER WHAT PROCESSES ROUNDS DRIVER. WHAT is migrate (all make or open memory.db at the same
instant), kill-migrate (as migrate, and most of them are killed at a random step), foreign (all find a database of
another program) or start (all start a watcher or a worker). Prints one JSON object. Processes are forked from this one,
which has everything imported and no thread.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from planting import plant

from engram.embedding.hashed import HashedEmbedder
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system import failpoint
from engram.tasks.runtime import Runtime
from engram.watcher.watch import run_watcher
from engram.worker.lifecycle import run_worker

PATIENCE_SECONDS = 30


def fork(action: Callable[[], int], start_seconds: float) -> int:
    """A child that does ``action`` at a steady time; its exit code is what that returns, 99 where it raises."""
    child = os.fork()
    if child:
        return child
    try:
        while time.monotonic() < start_seconds:
            pass
        os._exit(action())
    except BaseException:  # noqa: BLE001 - the edge of a child
        traceback.print_exc()
    os._exit(99)


def migrate(path: Path, driver: str, kill_at: int) -> int:
    """Open memory.db and use it; with ``kill_at`` die at that step of the migration."""
    if kill_at:
        failpoint._wanted, failpoint._left = "migrate.step", kill_at
    store = Store(path, driver=driver).open()
    plant(store, "INSERT OR REPLACE INTO meta VALUES (?, 'x')", (f"process {os.getpid()}",))
    store.close()
    return 0


def migrate_rounds(folder: Path, processes: int, rounds: int, driver: str, *, with_kills: bool) -> dict[str, Any]:
    """Exit codes of all processes of all rounds, and what was wrong afterwards."""
    chance = random.Random(5)
    codes: Counter[int] = Counter()
    problems = []
    for number in range(rounds):
        path = folder / f"round{number}" / "memory.db"
        path.parent.mkdir()
        start = time.monotonic() + 0.03
        kills = [chance.randrange(1, 50) if with_kills and n else 0 for n in range(processes)]
        children = [fork(lambda kill=kill, path=path: migrate(path, driver, kill), start) for kill in kills]
        for child in children:
            codes[os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])] += 1
        with open_store(path, driver=driver) as store:
            version = store.value("PRAGMA user_version")
            wrote = store.value("SELECT count(*) FROM meta WHERE key LIKE 'process %'")
            if (damage := store.find_damage()) or not version or wrote < (1 if with_kills else processes):
                problems.append([number, damage, version, wrote])
        shutil.rmtree(path.parent)
    return {"codes": {str(code): n for code, n in codes.items()}, "problems": problems}


def foreign_rounds(folder: Path, processes: int, rounds: int, driver: str) -> dict[str, Any]:
    """One of all sets another program's database aside, and all use the same new one."""
    codes: Counter[str] = Counter()
    problems = []
    for number in range(rounds):
        path = folder / f"round{number}" / "memory.db"
        path.parent.mkdir()
        with contextlib.closing(sqlite3.connect(path)) as foreign:
            foreign.executescript("CREATE TABLE memories (text); CREATE TABLE other (text)")
        before = path.read_bytes()

        def use(path: Path = path) -> int:
            with open_store(path, driver=driver) as store:
                plant(store, "INSERT OR REPLACE INTO meta VALUES (?, 'x')", (f"process {os.getpid()}",))
            return 0

        start = time.monotonic() + 0.03
        children = [fork(use, start) for _ in range(processes)]
        for child in children:
            codes[str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))] += 1
        aside = sorted(path.parent.glob("memory.v2*.db"))
        with open_store(path, driver=driver) as store:
            wrote = store.value("SELECT count(*) FROM meta WHERE key LIKE 'process %'")
        if len(aside) != 1 or aside[0].read_bytes() != before or wrote != processes:
            problems.append([number, [one.name for one in aside], wrote])
    return {"codes": codes, "problems": problems}


def make_runtime(settings: Settings, store: Store) -> Runtime:
    embedder = HashedEmbedder()
    searcher = Searcher(store, settings, embedder=embedder)
    return Runtime(settings, store, searcher, RecollectionService(store, searcher, settings), embedder)


def start_rounds(folder: Path, processes: int, rounds: int, driver: str) -> dict[str, Any]:
    """Of each kind one stays, the others end at once with 0; the one ends cleanly."""
    found: dict[str, Any] = {"stayed": [], "ended": Counter(), "last": Counter()}
    for number in range(rounds):
        settings = Settings(
            home=folder / f"round{number}",
            claude_folder=folder / "claude",
            embedding_model="hashed",
            sqlite_driver=driver,
            drain_seconds=60,
        )
        start = time.monotonic() + 0.05
        watchers = [fork(lambda s=settings: run_watcher(s), start) for _ in range(processes)]
        workers = [fork(lambda s=settings: run_worker(s, make=make_runtime), start) for _ in range(processes)]
        for children in (watchers, workers):
            _wait_until_one_is_left(children, found["ended"])
            found["stayed"].append(len(children))
        _wait_until_started(settings)
        time.sleep(0.3)
        for child in [*watchers, *workers]:
            os.kill(child, signal.SIGTERM)
            found["last"][str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))] += 1
    return found


def _wait_until_one_is_left(children: list[int], ended: Counter[str]) -> None:
    until = time.monotonic() + PATIENCE_SECONDS
    while len(children) > 1 and time.monotonic() < until:
        for child in list(children):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                children.remove(child)
                ended[str(os.waitstatus_to_exitcode(status))] += 1
        time.sleep(0.005)


def _wait_until_started(settings: Settings) -> None:
    """Wait until the watcher and the worker that stayed have written that they run: from then on they end cleanly."""
    until = time.monotonic() + PATIENCE_SECONDS
    logs = [settings.places.logs / f"{kind}.log" for kind in ("watcher", "worker")]
    while time.monotonic() < until:
        if all(log.exists() and "action=start" in log.read_text(encoding="utf-8") for log in logs):
            return
        time.sleep(0.01)


if __name__ == "__main__":
    folder, what, processes, rounds, driver = (
        Path(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        sys.argv[5],
    )
    if what == "start":
        print(json.dumps(start_rounds(folder, processes, rounds, driver)))
    elif what == "foreign":
        print(json.dumps(foreign_rounds(folder, processes, rounds, driver)))
    else:
        print(json.dumps(migrate_rounds(folder, processes, rounds, driver, with_kills=what == "kill-migrate")))
