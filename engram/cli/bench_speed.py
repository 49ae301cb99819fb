"""``engram bench speed``: times a memory of synthetic turns and episodes."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import click

from engram.bench.measure import latency
from engram.bench.synthetic import MadeUp
from engram.cli.bench_homes import Homes, open_homes
from engram.cli.workspace import Workspace
from engram.models.store import Store
from engram.search.question.query import Query
from engram.search.service import Searcher


def run_speed(workspace: Workspace, turns: int, queries: int) -> dict[str, Any]:
    """Fill a memory with ``turns`` turns and as many episodes, then time it. Figures are in milliseconds, but memory."""
    with open_homes(workspace, no_model=False, keep=None) as homes:
        writer = MadeUp()
        with homes.memory("speed", lambda store, _: None) as (store, _):
            start = time.perf_counter()
            writer.fill(store, turns, homes.embedder)
            filled = time.perf_counter() - start
            click.echo(f"{turns} turns and episodes written in {filled:.0f} s", err=True)
            return {"turns": turns, "disk_mb": round(store.path.stat().st_size / 1e6)} | _time_all(
                store, homes, writer, queries
            )


def _time_all(store: Store, homes: Homes, writer: MadeUp, queries: int) -> dict[str, Any]:
    start = time.perf_counter()
    searcher = Searcher(store, homes.settings, embedder=homes.embedder)
    searcher.refresh()
    cold = (time.perf_counter() - start) * 1000
    asked = [writer.question() for _ in range(queries)]
    figures: dict[str, Any] = {"cold_start_ms": round(cold)}
    figures["embed_ms"] = _timed(lambda text: homes.embedder.embed_query(text) if homes.embedder else None, asked)
    figures["recall_ms"] = _timed(lambda text: searcher.recall(Query(text)), asked)
    figures["search_ms"] = _timed(lambda text: searcher.search(Query(text)), asked)
    figures["add_turn_ms"] = _timed(lambda text: writer.add(store, 1), asked[:50])
    writer.fill_vectors(store, homes.embedder)
    start = time.perf_counter()
    searcher.refresh()
    figures["refresh_ms"] = round((time.perf_counter() - start) * 1000, 1)
    figures["memory_mb"] = round(_peak_mb())
    return figures


def _timed(work: Callable[[str], object], texts: list[str]) -> dict[str, float]:
    took = []
    for text in texts:
        start = time.perf_counter()
        work(text)
        took.append((time.perf_counter() - start) * 1000)
    return latency(took)


def _peak_mb() -> float:
    """The peak memory of this process in MB; macOS counts bytes, other systems kilobytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3
