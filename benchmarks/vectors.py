"""How the cost of the vector index grows, and what its guesses lose: ``python benchmarks/vectors.py [--largest N]``.

The rows are clusters of clusters with a spectrum like that of a text model; half of the queries lie near a row,
half lie further away. Times are CPU milliseconds of one thread, p50 and the largest; recall is the share of the true
best 100 and 10 that is found, and ``lost`` the mean cosine by which the found ones fall short of the true ones.
Set OPENBLAS_NUM_THREADS=1 for figures of a single thread.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engram.search.vectors import VectorIndex, rows_from_blobs

DIMENSION = 384
SLICE = 20_000
QUERIES = 60
#: As many as a search asks for.
BEST = 100
_random = np.random.default_rng(0)
#: Variance falls along the axes about as it does for MiniLM.
_SPECTRUM = (1 / np.sqrt(np.arange(1, DIMENSION + 1) + 6)).astype(np.float32)
_AXES = np.linalg.qr(_random.standard_normal((DIMENSION, DIMENSION)))[0].astype(np.float32)
_MEAN = 0.2 * _AXES[0]
_TOPICS = _random.standard_normal((300, DIMENSION), dtype=np.float32) * _SPECTRUM


def unit(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """``rows`` at length 1."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def some_rows(count: int) -> NDArray[np.float32]:
    """Rows around topics, and topics between topics."""
    noise = _random.standard_normal((count, DIMENSION), dtype=np.float32) * _SPECTRUM
    first, second = _TOPICS[_random.integers(0, 300, (2, count))]
    share = _random.uniform(0.3, 1, (count, 1)).astype(np.float32)
    return unit(unit(share * first + (1 - share) * second + 0.8 * noise) @ _AXES.T + _MEAN)


def rss_mb() -> float:
    """Resident memory now, in megabytes; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    return int(statm.read_text().split()[1]) * 4096 / 1e6 if statm.exists() else 0.0


def timed(call: Any, times: int) -> tuple[float, float]:
    """CPU milliseconds of ``call``: the median and the largest of ``times``."""
    taken = []
    for number in range(times):
        start = time.thread_time()
        call(number)
        taken.append((time.thread_time() - start) * 1000)
    return sorted(taken)[times // 2], max(taken)


def measure(count: int, bits: int = 0) -> dict[str, float]:
    """All figures for ``count`` rows; in so many bits a number, or as the index chooses."""
    queries = np.concatenate([some_rows(QUERIES // 2), unit(some_rows(QUERIES // 2) + some_rows(QUERIES // 2))])
    best: NDArray[np.float32] = np.full((QUERIES, BEST), -2, dtype=np.float32)
    before, building = rss_mb(), 0.0
    index = VectorIndex(DIMENSION, byte_limit=0 if bits == 4 else 2**60) if bits else VectorIndex(DIMENSION)
    for start in range(0, count, SLICE):
        rows = some_rows(min(SLICE, count - start))
        blobs = [row.tobytes() for row in rows.astype(np.float16)]
        began = time.thread_time()
        index.add(np.arange(start, start + len(rows)), rows_from_blobs(blobs, DIMENSION), np.arange(len(rows)) % 5)
        building += time.thread_time() - began
        best = np.sort(np.concatenate([best, queries @ rows.T], axis=1), axis=1)[:, -BEST:]
    grown = rss_mb() - before
    found = [index.top(query, BEST)[1] for query in queries]
    recall = {
        most: float(
            np.mean([(cosines[:most] >= true[-most] - 1e-3).mean() for cosines, true in zip(found, best, strict=True)])
        )
        for most in (10, BEST)
    }
    lost = [float(true.mean() - cosines.mean()) for cosines, true in zip(found, best, strict=True)]
    top, worst = timed(lambda number: index.top(queries[number], BEST), QUERIES)
    return {
        "rows": count,
        "bits": bits or (32 if index.is_exact else round(8 * index.bytes_used / count / DIMENSION)),
        "build_s": building,
        "mb": index.bytes_used / 1e6,
        "rss_mb": grown,
        "top_ms": top,
        "top_max_ms": worst,
        "one_group_ms": timed(lambda number: index.top(queries[number], BEST, groups=[2]), 20)[0],
        "all_scores_ms": timed(lambda number: index.scores(queries[number]), 3)[0],
        "add_one_ms": timed(lambda number: index.add([count + number], queries[:1]), 100)[0],
        "recall_10": recall[10],
        "recall_100": recall[BEST],
        "lost": float(np.mean(lost)),
    }


def main() -> None:
    """Print the table, a line a size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=1_000_000, help="most rows (default 1000000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--bits", type=int, choices=(4, 8), help="bits a number of large ones (as the index chooses)")
    options = parser.parse_args()
    table = [
        measure(count, options.bits)
        for count in (1_000, 10_000, 50_000, 100_000, 1_000_000)
        if count <= options.largest
    ]
    if options.json:
        print(json.dumps(table))
        return
    print(" ".join(f"{name:>13}" for name in table[0]))
    for line in table:
        print(" ".join(f"{value:13,.3f}" for value in line.values()))


if __name__ == "__main__":
    main()
