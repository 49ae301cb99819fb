"""Measure how the cost of the vector index grows, and how much its estimates lose.

    python benchmarks/vectors.py [--largest N]

The rows are clusters of clusters with a spectrum like that of a text model; half of the queries are close to a row, and
half are further away. Times are CPU milliseconds of one thread, as p50 and maximum; ``best_50`` is the share of the
true best 50 among the 100 that are found, and ``error`` is the mean error of a cosine. Set OPENBLAS_NUM_THREADS=1 for
single-threaded figures.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.search.vectors.vector_index import VectorIndex

DIMENSION = 384
SLICE = 20_000
QUERIES = 60
#: Number of rows that a search requests.
BEST = 100
#: Form → the settings with which an index stores its rows in this form, however many there are.
FORMS: dict[str | None, dict[str, int]] = {"bytes": {"max_byte_rows": 2**60}, "narrow": {"max_byte_rows": 0}}
_random = np.random.default_rng(0)
#: Variance falls along the axes about as it does for MiniLM.
_SPECTRUM = (1 / np.sqrt(np.arange(1, DIMENSION + 1) + 6)).astype(np.float32)
_AXES = np.linalg.qr(_random.standard_normal((DIMENSION, DIMENSION)))[0].astype(np.float32)
_MEAN = 0.2 * _AXES[0]
_TOPICS = _random.standard_normal((300, DIMENSION), dtype=np.float32) * _SPECTRUM


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return ``rows`` scaled to length 1."""
    lengths: NDArray[np.float32] = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / lengths


def some_rows(count: int) -> NDArray[np.float32]:
    """Return rows around topics, and topics around other topics."""
    noise = _random.standard_normal((count, DIMENSION), dtype=np.float32) * _SPECTRUM
    first, second = _TOPICS[_random.integers(0, 300, (2, count))]
    share = _random.uniform(0.3, 1, (count, 1)).astype(np.float32)
    return unit(unit(share * first + (1 - share) * second + 0.8 * noise) @ _AXES.T + _MEAN)


def rss_mb() -> float:
    """Return the resident memory, in megabytes; 0 if the system does not report it."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 / 1e6 if statm.exists() else 0.0


def timed(call: Any, times: int) -> tuple[float, float]:
    """Return the CPU milliseconds of ``call``: the median and the maximum of ``times`` calls."""
    taken = []
    for number in range(times):
        start = time.thread_time()
        call(number)
        taken.append((time.thread_time() - start) * 1000)
    return sorted(taken)[times // 2], max(taken)


@dataclass(frozen=True, slots=True)
class Truth:
    """The true best rows for each query, best first."""

    cosines: NDArray[np.float32]
    ids: NDArray[np.int64]

    def with_rows(self, queries: NDArray[np.float32], rows: NDArray[np.float32], start: int) -> Truth:
        """Return the true best rows after adding ``rows``, whose ids begin with ``start``."""
        cosines = np.concatenate([self.cosines, queries @ rows.T], axis=1)
        ids = np.concatenate([self.ids, np.tile(np.arange(start, start + len(rows)), (len(queries), 1))], axis=1)
        best = np.argsort(-cosines, axis=1)[:, :BEST]
        return Truth(np.take_along_axis(cosines, best, axis=1), np.take_along_axis(ids, best, axis=1))


def missed(
    index: VectorIndex, queries: NDArray[np.float32], truth: Truth, first: NDArray[np.float32]
) -> dict[str, float]:
    """Return how much the index misses, and the error of its cosines, for the ``first`` rows, with ids from 0."""
    found = [index.top(query, BEST)[0] for query in queries]
    figures = {
        f"best_{most}": float(
            np.mean([np.isin(ids[:most], got).mean() for ids, got in zip(truth.ids, found, strict=True)])
        )
        for most in (10, 50, BEST)
    }
    errors = [np.abs(index.scores_of(query, np.arange(len(first))) - first @ query).mean() for query in queries]
    return figures | {"error": float(np.mean(errors))}


def measure(count: int, form: str | None = None) -> dict[str, float]:
    """Return all figures for ``count`` rows, in the given form or as the index chooses."""
    queries = np.concatenate([some_rows(QUERIES // 2), unit(some_rows(QUERIES // 2) + some_rows(QUERIES // 2))])
    truth = Truth(np.zeros((QUERIES, 0), dtype=np.float32), np.zeros((QUERIES, 0), dtype=np.int64))
    before, building = rss_mb(), 0.0
    index = VectorIndex(DIMENSION, **FORMS.get(form, {}))
    first = np.zeros((0, DIMENSION), dtype=np.float32)
    for start in range(0, count, SLICE):
        rows = some_rows(min(SLICE, count - start))
        began = time.thread_time()
        index.add(np.arange(start, start + len(rows)), rows.astype(np.float16), np.arange(len(rows)) % 5)
        building += time.thread_time() - began
        truth = truth.with_rows(queries, rows, start)
        first = first if len(first) else rows
    grown = rss_mb() - before
    figures = missed(index, queries, truth, first)
    top, worst = timed(lambda number: index.top(queries[number], BEST), QUERIES)
    return {
        "rows": count,
        "row_bytes": index.bytes_used / count,
        "build_s": building,
        "mb": index.bytes_used / 1e6,
        "rss_mb": grown,
        "top_ms": top,
        "top_max_ms": worst,
        "one_group_ms": timed(lambda number: index.top(queries[number], BEST, groups=[2]), 20)[0],
        "add_one_ms": timed(lambda number: index.add([count + number], queries[:1]), 100)[0],
    } | figures


def main() -> None:
    """Print the table, one line per size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000, help="maximum number of rows (default 1000000)")
    parser.add_argument("--smallest", type=int, default=0, help="fewest rows")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--form", choices=FORMS, help="how large indexes store their rows (default: automatic)")
    options = parser.parse_args()
    table = [
        measure(count, options.form)
        for count in (1_000, 10_000, 50_000, 100_000, 500_000, 1_000_000)
        if options.smallest <= count <= options.largest
    ]
    if options.json:
        print(json.dumps(table))
        return
    print(" ".join(f"{name:>13}" for name in table[0]))
    for line in table:
        print(" ".join(f"{value:13,.4g}" if value < 1 else f"{value:13,.1f}" for value in line.values()))


if __name__ == "__main__":
    main()
