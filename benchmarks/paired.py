"""How long reading transcripts takes in two or more checkouts, on the same machine at the same time.

    python benchmarks/paired.py --corpus DIR [--times 3] [--rounds 3] CHECKOUT CHECKOUT ...

DIR is a folder of Claude configuration folders. One process for each checkout reads them in turn, folder by folder,
into a new memory.db in each round (parse, turns, redaction, text index; no embedding). The least processor time of
each folder counts, and these are summed: of the first rounds, which compile all that they need, and of later ones.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of transcripts")
    parser.add_argument("--times", type=int, default=3, help="processes for each checkout (default 3)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each process (default 3)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("checkouts", nargs="+", type=Path, help="folders; the others are compared with the first")
    given = parser.parse_args()
    if given.serve:
        serve(given.checkouts[0])
        return
    folders = sorted(folder for folder in given.corpus.iterdir() if (folder / "projects").is_dir())
    least: dict[tuple[Path, bool, Path], float] = defaultdict(lambda: float("inf"))
    for _ in range(given.times):
        readers = {checkout: start(checkout, given.corpus) for checkout in given.checkouts}
        for number in range(given.rounds):
            for folder in folders:
                for checkout, reader in readers.items():
                    key = (checkout, number > 0, folder)
                    least[key] = min(least[key], ask(reader, f"{number}\t{folder}\n"))
        for reader in readers.values():
            reader.communicate()
    print(f"{given.times} processes, {given.rounds} rounds each; load {os.getloadavg()[0]:.1f}")
    for is_later in (False, True):
        sums = {name: sum(least[name, is_later, folder] for folder in folders) for name in given.checkouts}
        for name, seconds in sums.items():
            kind = "later readings" if is_later else "first readings"
            print(f"{kind}: {name.name:16} {seconds:.2f} s  {seconds / sums[given.checkouts[0]]:.2f} x")


def start(checkout: Path, corpus: Path) -> subprocess.Popen[str]:
    """Start a process that reads folders with a checkout's code."""
    path = os.pathsep.join(str(checkout.absolute() / part) for part in ("", "hooks", "mcp_server"))
    return subprocess.Popen(
        [sys.executable, __file__, "--serve", "--corpus", str(corpus), str(checkout)],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ask(reader: subprocess.Popen[str], line: str) -> float:
    """Return how long a process took for a folder, in seconds of its processor time."""
    assert reader.stdin
    assert reader.stdout
    reader.stdin.write(line)
    reader.stdin.flush()
    return float(reader.stdout.readline())


def serve(checkout: Path) -> None:
    """Read each folder that is asked for with the functions that a checkout's ``benchmarks/ingest.py`` measures."""
    spec = importlib.util.spec_from_file_location("measured", checkout / "benchmarks" / "ingest.py")
    assert spec
    assert spec.loader
    code = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(code)
    with tempfile.TemporaryDirectory() as home:
        stores = {}
        for line in sys.stdin:
            number, folder = line.rstrip("\n").split("\t")
            if number not in stores:
                stores[number] = code.open_store(Path(home) / number / "memory.db")
            settings = code.Settings(home=Path(home) / number, claude_folder=Path(folder))
            begin = time.process_time()
            code.ingest_all(stores[number], settings=settings, redact=code.redact)
            print(time.process_time() - begin, flush=True)


if __name__ == "__main__":
    main()
