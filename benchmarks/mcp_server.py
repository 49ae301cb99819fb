"""The MCP server on 10,000 episodes: start to first answer, memory, and a warm call, by a real client over stdio.

    python benchmarks/mcp_server.py [--episodes N] [--calls N]

No worker runs: text search alone, inside the server. Targets: 1.2 s, 80 MB, 10 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from engram.models import episode_changes, episodes, sessions
from engram.models.episodes import Episode
from engram.models.store import open_store
from engram.settings import Settings

WORDS = (
    "cache queue worker parser index token lock retry socket schema branch commit review deploy timeout release flag "
    "session memory vector passage turn evidence hook prompt migration backup cursor transcript project scope"
).split()


def fill(settings: Settings, count: int, folder: Path) -> None:
    """Store ``count`` episodes of about 30 words."""
    draw = random.Random(1)
    with open_store(settings.places.memory_db) as store, store.writing():
        project = sessions.ensure_project(store, str(folder), folder.name, str(folder))
        for number in range(count):
            words = [draw.choice(WORDS) + str(draw.randrange(40)) for _ in range(30)]
            made = Episode(
                episodes.new_episode_id(), "decision", " ".join(words[:12]), " ".join(words), project_id=project.id,
                entities=(f"file{number % 200}.py",),
            )  # fmt: skip
            episode_changes.add_episode(store, made, [])


def rss_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    import subprocess

    return (
        int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)
        / 1024
    )


def child_of(pid: int) -> int:
    """The one child of a process."""
    import subprocess

    return int(
        subprocess.run(["pgrep", "-P", str(pid), "-f", "engram_mcp"], capture_output=True, text=True, check=True).stdout
    )


async def measure(settings: Settings, folder: Path, calls: int) -> None:
    """Start the server, ask, and print a row a figure."""
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "engram_mcp.server"], cwd=str(folder),
        env={**os.environ, "ENGRAM_HOME": str(settings.home)},
    )  # fmt: skip
    started = time.perf_counter()
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        await client.call_tool("memory_recall", {"query": "cache3 queue7 worker1"})
        first = time.perf_counter() - started
        draw, times = random.Random(2), []
        for _ in range(calls):
            query = " ".join(draw.choice(WORDS) + str(draw.randrange(40)) for _ in range(4))
            begin = time.perf_counter()
            await client.call_tool("memory_recall", {"query": query})
            times.append((time.perf_counter() - begin) * 1000)
        times.sort()
        print(f"start to first answer   {first:6.2f} s   (target 1.2)")
        print(f"warm call p50           {statistics.median(times):6.1f} ms  (target 10)")
        print(f"warm call p95           {times[int(len(times) * 0.95)]:6.1f} ms")
        print(f"memory                  {rss_mb(child_of(os.getpid())):6.1f} MB  (target 80)")


def main() -> None:
    """Fill a home in a temporary folder and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=60)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        folder.mkdir()
        settings = Settings(home=Path(name) / "home")
        settings.places.prepare()
        fill(settings, chosen.episodes, folder)
        asyncio.run(measure(settings, folder, chosen.calls))


if __name__ == "__main__":
    main()
