"""Time operations on synthetic turns and memories: filling, cold start, search, a new turn."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.homes import BenchHomes
from bench.measure import latency
from bench.synthetic import SyntheticMemory
from engram.models.engine.transaction import Store
from engram.search.question import Query
from engram.search.searcher import Searcher

#: Maximum number of turns that are added one by one.
MAX_ADDED_TURNS = 50


def run_speed(homes: BenchHomes, turns: int, queries: int) -> dict[str, Any]:
    """Fill a memory with ``turns`` turns and as many memories, then time it.

    Figures are in milliseconds, except ``disk_mb`` and ``memory_mb``.
    """
    synthetic = SyntheticMemory()
    with homes.memory("speed", lambda store, _: None) as (store, _):
        start = time.perf_counter()
        synthetic.fill(store, turns, homes.embedder)
        seconds = time.perf_counter() - start
        homes.progress(f"{turns} turns and memories written in {seconds:.0f} s")
        disk_mb = round(store.path.stat().st_size / 1e6)
        return {"turns": turns, "disk_mb": disk_mb} | _time_all(store, homes, synthetic, queries)


def _time_all(store: Store, homes: BenchHomes, synthetic: SyntheticMemory, queries: int) -> dict[str, Any]:
    start = time.perf_counter()
    searcher = Searcher(store, homes.settings, embedder=homes.embedder)
    searcher.refresh()
    cold_start_ms = (time.perf_counter() - start) * 1000
    questions = [synthetic.question() for _ in range(queries)]
    figures: dict[str, Any] = {"cold_start_ms": round(cold_start_ms)}
    embedder = homes.embedder
    figures["embed_ms"] = _timed(lambda text: embedder.embed_query(text) if embedder else None, questions)
    figures["recall_ms"] = _timed(lambda text: searcher.recall(Query(text)), questions)
    figures["search_ms"] = _timed(lambda text: searcher.search(Query(text)), questions)
    figures["add_turn_ms"] = _timed(lambda text: synthetic.add(store, 1), questions[:MAX_ADDED_TURNS])
    synthetic.fill_vectors(store, homes.embedder)
    start = time.perf_counter()
    searcher.refresh()
    figures["refresh_ms"] = round((time.perf_counter() - start) * 1000, 1)
    figures["memory_mb"] = round(_peak_mb())
    return figures


def _timed(work: Callable[[str], object], texts: list[str]) -> dict[str, float]:
    """Return the latency of ``work`` over the texts."""
    took = []
    for text in texts:
        start = time.perf_counter()
        work(text)
        took.append((time.perf_counter() - start) * 1000)
    return latency(took)


def _peak_mb() -> float:
    """Return the peak memory of this process, in MB; macOS reports bytes, other systems kilobytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
