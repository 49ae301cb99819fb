"""Measure how long UserPromptSubmit takes, from start to end of its process, while transcripts are being imported.

    python benchmarks/hooks_under_import.py --corpus DIR [--prompts 200] [--busy 4] [--json]

The worker and the watcher run with the real model on a home with 10,000 memories. The watcher reads DIR (100 MB or
more), and the worker extracts and embeds it, while the hook runs with one prompt after the other. Goal: p99 at most 250
ms. A bare Python takes turns with the hook, and the same prompts are repeated after the import: on a shared machine,
this shows how much is due to others. ``--busy`` starts this many additional processes that only count. Every second
prompt has nothing to do with any memory: a hook with nothing to show must be cheap, too.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from memory import PROJECT, fill, is_imported, running
from whole import join

from engram.models.open_memory import open_store
from engram.paths import Home
from engram_hooks.block import link_interpreter, settings_block

#: The goal, in milliseconds.
MAX_MS = 250
#: Pause between two prompts, in seconds.
PAUSE_SECONDS = 0.2
#: A prompt that has an answer, and one that has none.
ANSWERED = "Where does part {} keep its budget of retries, and since which outage?"
SILENT = "Please paint garden fence number {} in a friendly green before the summer party."


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def busy(number: int) -> Iterator[None]:
    """Keep processors busy with this many processes."""
    hogs = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(number)]
    for hog in hogs:
        hog.start()
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()


def ask(command: list[str], environment: dict[str, str], number: int, text: str = ANSWERED) -> tuple[float, bool]:
    """Run the hook; return its duration in milliseconds, and whether it printed anything."""
    payload = {
        "session_id": f"00000000-0000-4000-8000-{number:012d}",
        "cwd": PROJECT,
        "hook_event_name": "UserPromptSubmit",
        "transcript_path": "/nowhere.jsonl",
        "prompt": text.format(number),
    }
    start = time.perf_counter()
    done = subprocess.run(command, input=json.dumps(payload).encode(), capture_output=True, env=environment, check=True)
    return (time.perf_counter() - start) * 1000, bool(done.stdout)


def start_bare(home: Home) -> tuple[float, bool]:
    """Return the milliseconds of an interpreter that starts and does nothing."""
    start = time.perf_counter()
    subprocess.run([str(home.python_link), "-I", "-S", "-c", "pass"], check=True)
    return (time.perf_counter() - start) * 1000, False


def summary(found: list[tuple[float, bool]]) -> dict[str, float]:
    """Return the median, p99 and the share that was answered."""
    times = sorted(one for one, _ in found)
    return {
        "prompts": len(times),
        "p50_ms": round(statistics.median(times), 1),
        "p95_ms": round(times[min(len(times) - 1, int(len(times) * 0.95))], 1),
        "p99_ms": round(times[min(len(times) - 1, int(len(times) * 0.99))], 1),
        "most_ms": round(times[-1], 1),
        "answered_percent": round(100 * sum(said for _, said in found) / len(found), 1),
    }


def measure(corpus: Path, prompts: int, busy_processes: int) -> dict[str, Any]:
    """Return all figures, from one run."""
    with tempfile.TemporaryDirectory() as name:
        home = Home(Path(name) / "home").prepare()
        link_interpreter(home)
        claude = join(corpus, Path(name) / "claude")
        hook = settings_block(interpreter=sys.executable)["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
        environment = os.environ | {"ENGRAM_HOME": str(home.root), "CLAUDE_CONFIG_DIR": str(claude)}
        command = ["/bin/sh", "-c", hook]
        with open_store(home.memory_db) as store:
            fill(store, 10_000)
            with running("worker", home, claude):
                ask(command, environment, 0)
                with busy(busy_processes):
                    load, during, silent, bare, number = os.getloadavg()[0], [], [], [], 0
                    with running("watcher", home, claude):
                        while number < prompts and not is_imported(store, claude):
                            number += 1
                            during.append(ask(command, environment, number))
                            silent.append(ask(command, environment, 100_000 + number, SILENT))
                            bare.append(start_bare(home))
                            time.sleep(PAUSE_SECONDS)
                        is_over = is_imported(store, claude)
                    rest = [ask(command, environment, 5000 + one) for one in range(30)]
    return {
        "during": summary(during),
        "silent": summary(silent),
        "bare": summary(bare),
        "after": summary(rest),
        "was_import_over": is_over,
        "load_before": round(load, 1),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of transcripts")
    parser.add_argument("--prompts", type=int, default=200, help="maximum number of prompts during the import (200)")
    parser.add_argument("--busy", type=int, default=0, help="additional processes that only count (0)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    found = measure(given.corpus, given.prompts, given.busy)
    if given.json:
        print(json.dumps(found))
        return
    for when in ("during", "silent", "bare", "after"):
        print(f"{when:8} " + "   ".join(f"{key} {value}" for key, value in found[when].items()))
    print(f"load before {found['load_before']}; goal: p99 at most {MAX_MS} ms during the import")


if __name__ == "__main__":
    main()
