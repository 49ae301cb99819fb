"""The MCP server on 10,000 episodes: start to first answer, memory, and a warm call, by a real client over stdio.

    python benchmarks/mcp_server.py [--episodes N] [--calls N] [--pairs N]

The start is measured in pairs: an empty server of the same library, then Engram's, once with a worker that answers
and once without (text search inside the server). Targets: 1.25 of the empty server, 80 MB while a worker runs, 10
ms a call.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from engram.enums import Actor, Kind
from engram.models import episode_changes, episodes, projects
from engram.models.episodes import Episode
from engram.models.store import open_store
from engram.settings import Settings
from engram.worker.client import ask_worker

WORDS = (
    "cache queue worker parser index token lock retry socket schema branch commit review deploy timeout release flag "
    "session memory vector passage turn evidence hook prompt migration backup cursor transcript project scope"
).split()


def fill(settings: Settings, count: int, folder: Path) -> None:
    """Store ``count`` episodes of about 30 words."""
    draw = random.Random(1)
    with open_store(settings.places.memory_db) as store, store.transaction() as tx:
        project = projects.ensure_project(tx, str(folder), folder.name, str(folder))
        for number in range(count):
            words = [draw.choice(WORDS) + str(draw.randrange(40)) for _ in range(30)]
            made = Episode(
                episodes.new_episode_id(),
                Kind.DECISION,
                " ".join(words[:12]),
                " ".join(words),
                project_id=project.id,
                entities=(f"file{number % 200}.py",),
            )
            episode_changes.add_episode(tx, made, [], actor=Actor.MODEL)


def rss_mb(pid: int) -> float:
    """Resident memory of a process, in MB."""
    return (
        int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)
        / 1024
    )


def child_of(pid: int, name: str) -> int:
    """The one child of a process whose command has a word."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", name], capture_output=True, text=True, check=True)
    return int(found.stdout)


#: A server of the same library with one tool that does nothing.
EMPTY = """
from mcp.server import MCPServer
server = MCPServer("empty_server")
@server.tool(structured_output=False)
def nothing() -> str:
    return "ok"
server.run("stdio")
"""


@dataclass(frozen=True)
class Start:
    """One start of a server up to its first answer."""

    seconds: float
    #: Of the server's processor, up to its first answer.
    cpu_seconds: float
    rss_mb: float
    #: Milliseconds of each further call.
    calls_ms: list[float]


async def measure(arguments: list[str], name: str, tool: str, settings: Settings, folder: Path, calls: int) -> Start:
    """Start a server, ask it, and ask it again."""
    parameters = StdioServerParameters(
        command=sys.executable,
        args=arguments,
        cwd=str(folder),
        env={**os.environ, "ENGRAM_HOME": str(settings.home), "ENGRAM_EMBEDDING_MODEL": "hashed"},
    )
    started = time.perf_counter()
    async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
        await client.initialize()
        await client.call_tool(tool, {"query": "cache3 queue7 worker1"} if calls else {})
        first = time.perf_counter() - started
        pid = child_of(os.getpid(), name)
        cpu = cpu_seconds(pid)
        draw, times = random.Random(2), []
        for _ in range(calls):
            query = " ".join(draw.choice(WORDS) + str(draw.randrange(40)) for _ in range(4))
            begin = time.perf_counter()
            await client.call_tool(tool, {"query": query})
            times.append((time.perf_counter() - begin) * 1000)
        return Start(first, cpu, rss_mb(pid), times)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process so far; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def worker(settings: Settings) -> Iterator[None]:
    """A worker that answers, with the embedder that needs no model."""
    environment = {**os.environ, "ENGRAM_HOME": str(settings.home), "ENGRAM_EMBEDDING_MODEL": "hashed"}
    process = subprocess.Popen([sys.executable, "-P", "-m", "engram.cli.main", "work"], env=environment)
    try:
        while ask_worker(settings.places, {"op": "status"}) is None:
            time.sleep(0.2)
        yield
    finally:
        process.terminate()
        process.wait(60)


def report(title: str, settings: Settings, folder: Path, pairs: int, calls: int) -> None:
    """Measure pairs of starts and print a row a figure."""
    own, empty = [], []
    for _ in range(pairs):
        empty.append(asyncio.run(measure(["-c", EMPTY], "empty_server", "nothing", settings, folder, 0)))
        own.append(
            asyncio.run(measure(["-m", "engram_mcp.server"], "engram_mcp", "memory_recall", settings, folder, calls))
        )
    ratio = statistics.median(mine.seconds / other.seconds for mine, other in zip(own, empty, strict=True))
    cpu = statistics.median(mine.cpu_seconds / (other.cpu_seconds or 1) for mine, other in zip(own, empty, strict=True))
    times = sorted(ms for one in own for ms in one.calls_ms)
    print(f"{title}, {pairs} pairs")
    print(f"  start to first answer   {statistics.median(one.seconds for one in own):6.2f} s")
    print(f"  of the empty server's   {ratio:6.2f}    (target 1.25; processor time {cpu:.2f})")
    print(f"  warm call p50           {statistics.median(times):6.1f} ms (target 10)")
    print(f"  warm call p95           {times[int(len(times) * 0.95)]:6.1f} ms")
    print(f"  memory                  {max(one.rss_mb for one in own):6.1f} MB (target 80 with a worker)")


def main() -> None:
    """Fill a home in a temporary folder and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=7)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        folder.mkdir()
        settings = Settings(home=Path(name) / "home")
        settings.places.prepare()
        fill(settings, chosen.episodes, folder)
        report("without a worker", settings, folder, chosen.pairs, chosen.calls)
        with worker(settings):
            report("with a worker", settings, folder, chosen.pairs, chosen.calls)


if __name__ == "__main__":
    main()
