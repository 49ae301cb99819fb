"""Measure the time of a hook's answer while 500 silent and hostile clients are connected to engram.sock.

    python benchmarks/hostile_clients.py [--clients N] [--rounds N] [--json]

A fifth of the clients each send nothing, send one byte at a time, send more than a request may contain, have closed
their half without sending anything, or disconnect and reconnect all the time. The server runs in a separate process, as
the worker does. Each round is one real UserPromptSubmit hook, including the shell and the interpreter. Goal: 250 ms at
the 99th percentile.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from multiprocessing.synchronize import Event
from pathlib import Path

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Kind, Scope
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.paths import Home
from engram.recollection.recollection_service import RecollectionService
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.tasks.runtime import Runtime
from engram.worker.socket_server import RecallServer
from engram_hooks.block import link_interpreter, settings_block

FACT = "The watcher holds watcher.lock by flock, never by a PID file"
PROMPT = "Why does the watcher hold a flock and no PID file?"


def serve(root: str, ready: Event, stop: Event) -> None:
    """Answer on engram.sock until ``stop`` is set."""
    settings = Settings(home=Path(root), embedding_model="hashed")
    with open_store(settings.places.memory_db) as store:
        with store.transaction() as tx:
            add_memory(
                tx,
                Memory(new_memory_id(), Kind.FACT, FACT, FACT, scope=Scope.GLOBAL, quality=0.75),
                [],
                actor=Actor.MODEL,
            )
        embedder = HashedEmbedder()
        searcher = Searcher(store, settings, embedder=embedder)
        recollection = RecollectionService(store, searcher, settings, embedder=embedder)
        server = RecallServer(Runtime(settings, store, searcher, recollection, embedder)).start()
        ready.set()
        stop.wait()
        server.close()


def attack(root: str, clients: int, stop: Event) -> None:
    """Act as all hostile clients at once."""
    os.chdir(root)
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    held = [connect() for _ in range(clients // 5)]
    half = [connect() for _ in range(clients // 5)]
    for connection in half:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_WR)
    for action in (drip, send_too_much, come_again):
        threading.Thread(target=action, args=(clients // 5, stop), daemon=True).start()
    stop.wait()
    del held


def connect() -> socket.socket:
    """Open another connection, and keep it open."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(5)
    with suppress(OSError):
        connection.connect("engram.sock")
    return connection


def drip(number: int, stop: Event) -> None:
    """Send one byte on every connection, repeatedly."""
    connections = [connect() for _ in range(number)]
    while not stop.wait(0.1):
        for place, connection in enumerate(connections):
            try:
                connection.send(b"{")
            except OSError:
                connection.close()
                connections[place] = connect()


def send_too_much(number: int, stop: Event) -> None:
    """Send endless requests."""
    connections = [connect() for _ in range(number)]
    for connection in connections:
        connection.setblocking(False)
    while not stop.wait(0.05):
        for place, connection in enumerate(connections):
            try:
                connection.send(b"x" * 65_536)
            except BlockingIOError:
                continue
            except OSError:
                connection.close()
                connections[place] = connect()
                connections[place].setblocking(False)


def come_again(number: int, stop: Event) -> None:
    """Connect and leave all the time."""
    while not stop.wait(0.02):
        connections = [connect() for _ in range(number // 5)]
        for connection in connections:
            connection.close()


def measure(root: str, name: str, rounds: int) -> tuple[list[float], int]:
    """Return the milliseconds of each hook, and how many got an answer."""
    command = settings_block(interpreter=sys.executable)["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
    times, answered = [], 0
    for number in range(rounds):
        payload = {
            "session_id": f"{name}-{number}",
            "cwd": "/nowhere",
            "hook_event_name": "UserPromptSubmit",
            "prompt": PROMPT,
        }
        started = time.perf_counter()
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps(payload).encode(),
            capture_output=True,
            check=True,
            env=os.environ | {"ENGRAM_HOME": root},
        )
        times.append((time.perf_counter() - started) * 1000)
        answered += b"watcher.lock" in done.stdout
    return times, answered


def main() -> None:
    """Print the times without and with hostile clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ready, stop, stop_attack = (multiprocessing.Event() for _ in range(3))
    with tempfile.TemporaryDirectory() as root:
        link_interpreter(Home(Path(root)).prepare())
        server = multiprocessing.Process(target=serve, args=(root, ready, stop))
        server.start()
        ready.wait(60)
        figures = {}
        for clients in (0, options.clients):
            if clients:
                attacker = multiprocessing.Process(target=attack, args=(root, clients, stop_attack))
                attacker.start()
                time.sleep(2)
            times, answered = measure(root, f"with-{clients}", options.rounds)
            figures[clients] = {
                "p50_ms": round(statistics.median(times), 1),
                "p99_ms": round(sorted(times)[int(len(times) * 0.99) - 1], 1),
                "worst_ms": round(max(times), 1),
                "answered": answered,
                "of": options.rounds,
            }
        stop_attack.set()
        attacker.join()
        stop.set()
        server.join()
    if options.json:
        print(json.dumps(figures))
        return
    for clients, found in figures.items():
        print(
            f"{clients:>4} hostile clients: p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms (goal 250), worst "
            f"{found['worst_ms']} ms, {found['answered']} of {found['of']} answered"
        )


if __name__ == "__main__":
    main()
