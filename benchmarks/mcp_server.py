"""Measure the MCP server on 10,000 memories: start, memory use and a warm call, with and without a worker.

    python benchmarks/mcp_server.py [--memories N] [--calls N] [--pairs N] [--other PYTHON]

Without a worker, the time from start to first answer is measured in pairs: an empty server built on the library, then
Engram's. Target: 1.3 times the empty server. With a worker, the benchmark measures the time from start to the list of
tools, the memory of a session's process (14 MB), a warm recall (25 ms), and what sessions add to the worker (60 MB,
below 300 in all). ``--other`` specifies the interpreter of another installation, which takes turns with this one; each
has its own worker.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from engram.enums import Actor, Kind
from engram.models.memories import memory_changes, memory_records
from engram.models.memories.memory_records import Memory
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.settings import Settings
from engram.worker.worker_client import ask_worker

WORDS = (
    "cache queue worker parser index token lock retry socket schema branch commit review deploy timeout release flag "
    "session memory vector passage turn evidence hook prompt migration backup cursor transcript project scope"
).split()


def fill(settings: Settings, count: int, folder: Path) -> None:
    """Store ``count`` memories of about 30 words."""
    draw = random.Random(1)
    with open_store(settings.places.memory_db) as store, store.transaction() as tx:
        project = projects.ensure_project(tx, str(folder), folder.name, str(folder))
        for number in range(count):
            words = [draw.choice(WORDS) + str(draw.randrange(40)) for _ in range(30)]
            made = Memory(
                memory_records.new_memory_id(),
                Kind.DECISION,
                " ".join(words[:12]),
                " ".join(words),
                project_id=project.id,
                entities=(f"file{number % 200}.py",),
            )
            memory_changes.add_memory(tx, made, [], actor=Actor.MODEL)


def rss_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    return (
        int(subprocess.run(["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=True).stdout)
        / 1024
    )


def child_of(pid: int, name: str) -> int:
    """Return the only child of a process with the given word in its command."""
    found = subprocess.run(["pgrep", "-P", str(pid), "-f", name], capture_output=True, text=True, check=True)
    return int(found.stdout)


#: A server built on the same library, with one tool that does nothing.
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
    """One start of a server, up to its first answer."""

    seconds: float
    #: Processor time of the server up to its first answer.
    cpu_seconds: float
    rss_mb: float
    #: Milliseconds of each further call.
    calls_ms: list[float]


async def measure(arguments: list[str], name: str, tool: str, settings: Settings, folder: Path, calls: int) -> Start:
    """Start a server, and call a tool repeatedly."""
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
    """Return the processor time of a process so far; 0 if the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def worker(settings: Settings, python: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker with the embedder that needs no model; yield it once it answers and has loaded its vectors."""
    environment = {**os.environ, "ENGRAM_HOME": str(settings.home), "ENGRAM_EMBEDDING_MODEL": "hashed"}
    process = subprocess.Popen([python, "-P", "-m", "engram.cli.main", "service", "run", "worker"], env=environment)
    try:
        while ask_worker(settings.places, {"op": "status"}) is None:
            time.sleep(0.2)
        while (status := ask_worker(settings.places, {"op": "status"})) is None or not is_settled(status):
            time.sleep(0.2)
        yield process
    finally:
        process.terminate()
        process.wait(60)


def is_settled(status: dict[str, Any]) -> bool:
    """Return True once the worker has nothing more to do."""
    return bool(status["index_mb"]) and not status["is_busy"] and not status["waiting"]


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "benchmark", "version": "0"}}


class Session:
    """An agent's session that sends the protocol line by line; ``listed_ms`` is its time until the list of tools."""

    def __init__(self, settings: Settings, folder: Path, python: str) -> None:
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [python, "-m", "engram_mcp.server"],
            cwd=folder,
            env={**os.environ, "ENGRAM_HOME": str(settings.home), "ENGRAM_EMBEDDING_MODEL": "hashed"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.ask("initialize", **HELLO)
        self.ask("tools/list")
        self.listed_ms = (time.perf_counter() - started) * 1000

    def ask(self, method: str, **params: Any) -> float:
        """Send a request and read its answer; return the duration in milliseconds."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        begin = time.perf_counter()
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        assert b'"result"' in self.process.stdout.readline()
        return (time.perf_counter() - begin) * 1000

    def recall(self, query: str) -> float:
        """Recall memories; return the duration in milliseconds."""
        return self.ask("tools/call", name="memory_recall", arguments={"query": query})

    def close(self) -> None:
        """End the session."""
        self.process.communicate()


def report_sessions(side: str, settings: Settings, folder: Path, python: str, pid: int) -> None:
    """Print how much memory sessions take in the worker of one installation."""
    before = rss_mb(pid)
    first = Session(settings, folder, python)
    first.recall("cache3 queue7 worker1")
    others = [Session(settings, folder, python) for _ in range(4)]
    for session in others:
        session.recall("cache3 queue7 worker1")
    five = rss_mb(pid)
    for session in (first, *others):
        session.close()
    for _ in range(10):
        Session(settings, folder, python).close()
    ten = rss_mb(pid)
    for _ in range(50):
        Session(settings, folder, python).close()
    print(f"{side}: the first session of a worker is listed after {first.listed_ms:.0f} ms")
    print(f"  worker before / with 5 sessions   {before:6.1f} / {five:.1f} MB")
    print(f"  after 10 / 60 more sessions       {ten:6.1f} / {rss_mb(pid):.1f} MB")


def report_pairs(places: dict[str, Settings], folder: Path, pythons: dict[str, str], pairs: int, calls: int) -> None:
    """Start sessions and call tools in turn; print a row for each figure."""
    draw = random.Random(2)
    listed: dict[str, list[float]] = {side: [] for side in pythons}
    called: dict[str, list[float]] = {side: [] for side in pythons}
    memory: dict[str, list[float]] = {side: [] for side in pythons}
    for _ in range(pairs):
        sessions = {side: Session(places[side], folder, python) for side, python in pythons.items()}
        for side, session in sessions.items():
            listed[side].append(session.listed_ms)
        for number in range(calls):
            query = " ".join(draw.choice(WORDS) + str(draw.randrange(40)) for _ in range(4))
            for side, session in sessions.items():
                milliseconds = session.recall(query)
                called[side] += [milliseconds] if number > 1 else []
        for side, session in sessions.items():
            memory[side].append(rss_mb(session.process.pid))
            session.close()
    for side in pythons:
        print(f"{side}: with a worker, {pairs} sessions in turn")
        print(f"  start to the list of tools        {statistics.median(listed[side]):6.0f} ms")
        print(f"  memory of a session's process     {max(memory[side]):6.1f} MB (target 14)")
        print(f"  warm recall p50 / p95             {statistics.median(called[side]):6.1f} / ", end="")
        print(f"{sorted(called[side])[int(len(called[side]) * 0.95)]:.1f} ms (target 25)")


def report(title: str, settings: Settings, folder: Path, pairs: int, calls: int) -> None:
    """Measure pairs of starts, and print a row for each figure."""
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
    print(f"  of the empty server's   {ratio:6.2f}    (target 1.3; processor time {cpu:.2f})")
    print(f"  warm call p50           {statistics.median(times):6.1f} ms")
    print(f"  warm call p95           {times[int(len(times) * 0.95)]:6.1f} ms")
    print(f"  memory                  {max(one.rss_mb for one in own):6.1f} MB")


def main() -> None:
    """Fill a home in a temporary folder and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--calls", type=int, default=60)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--other", metavar="PYTHON")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "project"
        folder.mkdir()
        settings = Settings(home=Path(name) / "home")
        settings.places.prepare()
        fill(settings, chosen.memories, folder)
        report("without a worker", settings, folder, chosen.pairs, chosen.calls)
        pythons = {"this": sys.executable} | ({"other": chosen.other} if chosen.other else {})
        with contextlib.ExitStack() as workers:
            places = {}
            for side, python in pythons.items():
                places[side] = Settings(home=Path(name) / side)
                shutil.copytree(settings.home, places[side].home)
                pid = workers.enter_context(worker(places[side], python)).pid
                report_sessions(side, places[side], folder, python, pid)
            report_pairs(places, folder, pythons, chosen.pairs, chosen.calls)


if __name__ == "__main__":
    main()
