"""Simulate a year of consolidations over real sessions: ``python benchmarks/consolidation.py CORPUS``.

CORPUS contains folders that each serve as a Claude configuration folder. Everything is read, extracted and embedded.
Then the clock advances by ``--hours`` (24; in the worker, 4) for ``--days`` (365), with a periodic consolidation each
time and a few memories used every day. After every run, MEMORY.md must be within its limits. Every ``--check`` runs,
everything that was recoverable before must still be recoverable, and a second run over all memories must change
nothing. At the end, all runs are undone, and the content hash must be what it was at the beginning. The exit code is 1
if a check fails.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from bench.storing import content_digest
from engram.consolidation.consolidation_run import Report, consolidate
from engram.consolidation.graduation import MAX_BYTES, MAX_LINES
from engram.consolidation.undo import undo_run
from engram.enums import Actor
from engram.ingest.read_sources import ingest_all
from engram.models.engine.transaction import Store
from engram.models.memories import memory_changes, memory_history, memory_records
from engram.models.open_memory import open_store
from engram.models.shown.injections import Injection, add_injections
from engram.redaction import redact
from engram.search.vectors.loaded_vectors import similar_pairs
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.tasks.drain import drain
from engram.tasks.runtime import Runtime, make_runtime

#: Number of memories that are expanded on a simulated day.
USED_A_DAY = 6


class Broken(Exception):
    """A check failed."""


@dataclasses.dataclass
class Year:
    """The simulated memory."""

    runtime: Runtime
    clock: FixedClock
    chance: random.Random = dataclasses.field(default_factory=lambda: random.Random(7))
    seconds: list[float] = dataclasses.field(default_factory=list)
    #: Processor time of the periodic and full runs that had nothing to do, in seconds.
    idle_cpu: list[float] = dataclasses.field(default_factory=list)
    did: Counter[str] = dataclasses.field(default_factory=Counter)
    run_ids: list[int] = dataclasses.field(default_factory=list)
    note_lines: int = 0
    note_bytes: int = 0

    @property
    def store(self) -> Store:
        return self.runtime.store

    def consolidate(self, *, is_full: bool = False) -> Report:
        """Consolidate as the worker does when it is due or, with ``is_full``, as a person may request at any time."""
        embedder = self.runtime.embedder
        assert embedder is not None
        started, cpu = time.perf_counter(), time.process_time()
        report = consolidate(
            self.store,
            self.runtime.settings,
            similar=partial(similar_pairs, self.store, embedder.model_id),
            duplicate_cosine=embedder.thresholds.duplicate,
            is_forced=is_full,
        )
        if not report.has_run:
            raise Broken("a consolidation did not run although it was due")
        self.seconds.append(time.perf_counter() - started)
        self.idle_cpu += [] if report.lines else [time.process_time() - cpu]
        self.did.update(line.split()[0] for line in report.lines)
        self.run_ids.append(report.run_id)
        self._look_at_note()
        return report

    def use_some(self) -> None:
        """Let sessions expand memories that they were shown, some rarely and some repeatedly."""
        there = [e.episode_id for e in memory_records.all_memories(self.store) if e.status in ("active", "provisional")]
        for _ in range(USED_A_DAY):
            if there:
                place = min(int(self.chance.expovariate(12 / len(there))), len(there) - 1)
                self._show_and_expand(there[place])

    def _show_and_expand(self, episode_id: str) -> None:
        """Show a memory in a new session, and let the session expand it."""
        session_id = f"use-{self.store.now_ms()}"
        bite = Injection(session_id, "prompt", "prompt", episode_id, 0.5, 20, "shown")
        with self.store.transaction() as tx:
            add_injections(tx, [bite])
        memory_changes.note_access(self.store, episode_id, session_id=session_id)

    def embed(self) -> None:
        drain(self.runtime)

    def _look_at_note(self) -> None:
        note = self.runtime.settings.places.memory_note
        data = note.read_bytes() if note.exists() else b""
        self.note_lines = max(self.note_lines, len(data.splitlines()))
        self.note_bytes = max(self.note_bytes, len(data))
        if len(data.splitlines()) > MAX_LINES or len(data) > MAX_BYTES:
            raise Broken(f"MEMORY.md has {len(data.splitlines())} lines and {len(data)} bytes")


def recoverable(store: Store) -> dict[str, set[tuple[str, str]]]:
    """Return memory → every (summary, content) that it has or had according to its history, and its evidence."""
    found: dict[str, set[tuple[str, str]]] = {}
    for memory in memory_records.all_memories(store):
        texts = {("summary", memory.summary), ("content", memory.content)}
        for change in memory_history.history_of(store, memory.episode_id):
            texts |= {(name, str(change.before[name])) for name in ("summary", "content") if name in change.before}
        texts |= {("evidence", one.uuid) for one in memory_records.evidence_of(store, memory.id)}
        found[memory.episode_id] = texts
    return found


def turns_digest(store: Store) -> str:
    """Return a SHA-256 digest of all words in all turns."""
    digest = hashlib.sha256()
    for row in store.rows("SELECT turn_id, seq, role, text FROM said ORDER BY turn_id, seq"):
        digest.update(repr(row).encode())
    return digest.hexdigest()


def check_nothing_lost(year: Year, texts: dict[str, set[tuple[str, str]]], turns: str) -> None:
    now = recoverable(year.store)
    lost = [one for one, known in texts.items() if not known <= now.get(one, set())]
    if lost:
        raise Broken(f"{len(lost)} memories lost text or evidence, such as {lost[0]}")
    if turns_digest(year.store) != turns:
        raise Broken("turns changed")


def check_second_run(year: Year) -> None:
    before = content_digest(year.store)
    report = year.consolidate(is_full=True)
    if report.lines or content_digest(year.store) != before:
        raise Broken(f"a second run changed something: {report.lines[:3]}")


def live(year: Year, days: int, hours: int, every: int) -> None:
    """Advance the clock step by step, with a consolidation and some use of memories each time."""
    texts, turns = recoverable(year.store), turns_digest(year.store)
    for number in range(1, days * 24 // hours + 1):
        year.clock.advance(hours * 3600)
        if number * hours % 24 == 0:
            year.use_some()
        year.consolidate()
        year.embed()
        if number % every == 0:
            check_nothing_lost(year, texts, turns)
            check_second_run(year)
    check_nothing_lost(year, texts, turns)


def undo_everything(year: Year) -> None:
    for run_id in reversed(year.run_ids):
        undo_run(year.store, year.runtime.settings, run_id, actor=Actor.USER)


def fill(corpus: Path, home: Path, model: str, hours: int) -> Year:
    """Read, extract and embed everything, with the clock set to a day after the last entry."""
    settings = Settings(home=home, embedding_model=model, consolidate_seconds=hours * 3600)
    settings.places.prepare()
    clock = FixedClock(at_ms=int(time.time() * 1000))
    store = open_store(settings.places.memory_db, clock=clock)
    for folder in sorted(one for one in corpus.iterdir() if (one / "projects").is_dir()):
        ingest_all(store, settings=dataclasses.replace(settings, claude_folder=folder), redact=redact)
    runtime = make_runtime(settings, store)
    drain(runtime, with_waiting=True)
    return Year(runtime, clock)


def measure(corpus: Path, home: Path, arguments: argparse.Namespace) -> dict[str, Any]:
    started = time.perf_counter()
    year = fill(corpus, home, arguments.model, arguments.hours)
    filled = time.perf_counter()
    before, counted = (
        content_digest(year.store),
        Counter(e.status for e in memory_records.all_memories(year.store)),
    )
    live(year, arguments.days, arguments.hours, arguments.check)
    after = Counter(e.status for e in memory_records.all_memories(year.store))
    lived, database = time.perf_counter(), year.store.path.stat().st_size
    undo_everything(year)
    if content_digest(year.store) != before:
        raise Broken("undoing every run did not restore the content hash")
    ordered, idle = sorted(year.seconds), sorted(year.idle_cpu)
    return {
        "memories": sum(counted.values()),
        "before": dict(counted),
        "after": dict(after),
        "runs": len(year.run_ids),
        "changes": dict(year.did),
        "most_lines": year.note_lines,
        "most_bytes": year.note_bytes,
        "run_ms_median": round(1000 * ordered[len(ordered) // 2]),
        "run_ms_worst": round(1000 * ordered[-1]),
        "idle_runs": len(idle),
        "idle_cpu_ms_median": round(1000 * idle[len(idle) // 2]) if idle else None,
        "fill_seconds": round(filled - started),
        "year_seconds": round(lived - filled),
        "undo_seconds": round(time.perf_counter() - lived),
        "database_mb": round(database / 1e6, 1),
        "damage": year.store.find_damage(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--hours", type=int, default=24, help="hours between two runs (default: 24)")
    parser.add_argument("--check", type=int, default=30, help="runs between two full checks (default: 30)")
    parser.add_argument("--model", default="hashed", help="hashed (default) or bundled")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        try:
            print(json.dumps(measure(arguments.corpus, Path(folder) / "home", arguments), indent=1))
        except Broken as broken:
            print(f"broken: {broken}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
