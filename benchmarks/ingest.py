"""Measure how long reading transcripts takes, compared with ``json.loads`` on the same lines in the same run.

    python benchmarks/ingest.py --corpus DIR [--rounds 3] [--json]

DIR is a folder of Claude configuration folders, or one such folder. Each round parses every line with ``json.loads``
only, then reads everything into a new memory.db (parsing, turns, redaction, text index; no embedding). CPU seconds are
measured, so that other programs on the machine matter little; the result is the ratio of the medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from engram.ingest.read_sources import ingest_all
from engram.models.open_memory import open_store
from engram.redaction import redact
from engram.settings import Settings
from engram.transcripts.claude_code.discover import find_transcripts
from engram.transcripts.claude_code.entry import Entry, parse_line
from engram.transcripts.claude_code.turn_builder import TurnBuilder
from engram.transcripts.growing_file import Position, read_chunk

#: The goals, printed next to the figures.
GOALS = {"ingest": "   (goal: 4)"}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, required=True, help="folder of transcripts")
    parser.add_argument("--rounds", type=int, default=3, help="rounds; the median counts (default 3)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    folders = [given.corpus] if (given.corpus / "projects").is_dir() else sorted(given.corpus.iterdir())
    folders = [folder for folder in folders if (folder / "projects").is_dir()]
    files = {folder: [file.path for file in find_transcripts(folder)] for folder in folders}
    seconds: dict[str, list[float]] = {}
    for _ in range(given.rounds):
        for name, value in measure(files).items():
            seconds.setdefault(name, []).append(value)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    yardstick = seconds["json.loads"]
    ratios = {
        name: statistics.median(value / one for value, one in zip(values, yardstick, strict=True))
        for name, values in seconds.items()
    }
    table = {
        "files": sum(map(len, files.values())),
        "megabytes": round(sum(path.stat().st_size for paths in files.values() for path in paths) / 1e6, 1),
        "seconds": {name: round(value, 3) for name, value in medians.items()},
        "ratio": {name: round(value, 2) for name, value in ratios.items()},
    }
    if given.json:
        print(json.dumps(table))
        return
    print(f"{table['files']} files, {table['megabytes']} MB; load {os.getloadavg()[0]:.1f}")
    for name, value in medians.items():
        print(f"{name:12} {value:7.3f} s CPU   {ratios[name]:5.2f} x{GOALS.get(name, '')}")


def measure(files: dict[Path, list[Path]]) -> dict[str, float]:
    """Return the CPU seconds of each step in one round.

    Because a processor's speed changes from second to second, each folder is measured separately, and ``json.loads``
    reads it before and after the other steps; the mean of both is used.
    """
    seconds: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as home:
        store = open_store(Path(home) / "memory.db")
        for folder, paths in files.items():
            settings = Settings(home=Path(home), claude_folder=folder)
            steps: list[tuple[str, Callable[[], object], float]] = [
                ("json.loads", partial(parse, paths), 0.5),
                ("turns", partial(build, paths), 1.0),
                ("ingest", partial(ingest_all, store, settings=settings, redact=redact), 1.0),
                ("json.loads", partial(parse, paths), 0.5),
            ]
            for name, step, share in steps:
                start = time.process_time()
                step()
                seconds[name] = seconds.get(name, 0.0) + share * (time.process_time() - start)
        store.close()
    return seconds


def parse(files: list[Path]) -> None:
    """Parse every line with ``json.loads``, as the reference."""
    for path in files:
        for line in path.read_bytes().split(b"\n"):
            try:
                json.loads(line)
            except ValueError:
                continue


def build(files: list[Path]) -> None:
    """Parse and build turns, without storing them."""
    for path in files:
        builder = TurnBuilder(path.stem)
        position = Position()
        while True:
            chunk = read_chunk(path, position)
            for line in chunk.lines:
                entry = parse_line(line)
                if isinstance(entry, Entry):
                    builder.add(entry)
            position = chunk.position
            if not chunk.has_more:
                break
        builder.finish()


if __name__ == "__main__":
    main()
