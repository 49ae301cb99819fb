"""How long reading transcripts takes in two or more checkouts, on the same machine at the same time.

    python benchmarks/paired.py --corpus DIR [--times 6] [--rounds 1] CHECKOUT CHECKOUT ...

Each CHECKOUT needs the embedding model in ``engram/embedding/bundled``. The checkouts' own ``benchmarks/ingest.py`` run
in turn, each in a new process, and the least processor time of each step counts. With one round in a process, its
first reading is measured, with everything that it has to compile; with three, a worker's later ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of transcripts")
    parser.add_argument("--times", type=int, default=6, help="processes for each checkout (default 6)")
    parser.add_argument("--rounds", type=int, default=1, help="rounds in each process; the median counts (default 1)")
    parser.add_argument("checkouts", nargs="+", type=Path, help="folders; the others are compared with the first")
    given = parser.parse_args()
    least: dict[Path, dict[str, float]] = {checkout: {} for checkout in given.checkouts}
    for number in range(given.times):
        for checkout in given.checkouts if number % 2 else reversed(given.checkouts):
            for step, seconds in measure(checkout, given.corpus, given.rounds).items():
                least[checkout][step] = min(seconds, least[checkout].get(step, seconds))
    first = least[given.checkouts[0]]
    print(f"least of {given.times}, {given.rounds} round(s) each; load {os.getloadavg()[0]:.1f}")
    for checkout, steps in least.items():
        shown = (f"{step} {seconds:.3f} s ({seconds / first[step]:.2f} x)" for step, seconds in steps.items())
        print(f"{checkout.name:20}", ", ".join(shown))


def measure(checkout: Path, corpus: Path, rounds: int) -> dict[str, float]:
    """Return the processor seconds of each step in a new process of a checkout."""
    path = os.pathsep.join(str(checkout.absolute() / part) for part in ("", "hooks", "mcp_server"))
    command = [sys.executable, str(checkout / "benchmarks" / "ingest.py"), "--corpus", str(corpus)]
    run = subprocess.run(
        [*command, "--rounds", str(rounds), "--json"],
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.PIPE,
        check=True,
    )
    seconds: dict[str, float] = json.loads(run.stdout)["seconds"]
    return seconds


if __name__ == "__main__":
    main()
