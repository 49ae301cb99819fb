"""``python -m bench``, with the folder ``benchmarks`` on Python's path: ``make bench ARGS=…`` from a checkout."""

from __future__ import annotations

from bench.commands.searches import bench
from engram.cli.workspace import Workspace

if __name__ == "__main__":
    bench(obj=Workspace({}), prog_name="bench")
