"""Measure what an unresponsive hub costs the hooks and recall, compared in one run with a machine without a hub.

    PYTHONPATH=. python benchmarks/hub_down.py [--rounds N] [--memories N] [--json]

Three homes have the same memories and a worker each: one has joined no hub; one has joined a hub that has ended, so
that connections are refused; and one has joined a hub that accepts connections and never answers. In each round, every
home saves a memory, which waits to be sent, and answers the hook of a prompt and a recall; the homes take turns. The
goal is that there is no difference.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import socket
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hooks_under_import import ask
from memory import fill, running

from engram.models.hub.spaces import list_servers
from engram.worker.worker_client import ask_worker
from engram_hooks.block import link_interpreter, settings_block
from tests.hub.machines import Hub, Machine
from tests.hub.postgres import running_postgres, system_folder, wheel_folder

NO_HUB, REFUSES, SILENT = "no-hub", "refuses", "silent"

#: A worker that has not noticed its hub's failure after this many seconds is measured anyway.
NOTICED_SECONDS = 120.0


def has_noticed(machine: Machine) -> bool:
    """Return True if a machine's worker has noticed that its hub does not answer."""
    return all(server.last_error for server in list_servers(machine.store))


def join_hub_that_ends(machine: Machine) -> int:
    """Let a machine join a hub, which has ended when this returns; return the hub's port."""
    programs = wheel_folder() or system_folder()
    assert programs is not None, "no PostgreSQL is installed"
    with running_postgres(programs) as server, Hub.running(server.make_database()) as hub:
        machine.join(hub, hub.invite("Ada"))
        machine.sync()
        return int(hub.url.rpartition(":")[2])


def ask_all(machines: dict[str, Machine], commands: dict[str, list[str]], rounds: int) -> dict[str, dict[str, Any]]:
    """Query each home in turn; return how long each took, in milliseconds."""
    hooks: dict[str, list[float]] = {name: [] for name in machines}
    recalls: dict[str, list[float]] = {name: [] for name in machines}
    answered = dict.fromkeys(machines, 0)
    for number in range(rounds):
        for name, machine in machines.items():
            machine.save(f"Round {number}: part {number} keeps its budget of retries in file {number}.py.")
            environment = os.environ | {"ENGRAM_HOME": str(machine.places.root)}
            took, is_said = ask(commands[name], environment, number)
            hooks[name].append(took)
            answered[name] += is_said
            start = time.perf_counter()
            ask_worker(machine.places, {"op": "recall", "query": f"where does part {number} keep its budget"})
            recalls[name].append((time.perf_counter() - start) * 1000)
    return {
        name: {
            "hook_p50_ms": round(statistics.median(hooks[name]), 1),
            "hook_p95_ms": round(statistics.quantiles(hooks[name], n=20)[-1], 1),
            "recall_p50_ms": round(statistics.median(recalls[name]), 1),
            "recall_p95_ms": round(statistics.quantiles(recalls[name], n=20)[-1], 1),
            "answered": answered[name],
            "hub": [server.last_error for server in list_servers(machines[name].store)],
        }
        for name in machines
    }


def measure(rounds: int, memories: int) -> dict[str, dict[str, Any]]:
    """Return all figures, from one run."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        machines = {
            name: stack.enter_context(Machine.open(folder / name.replace(" ", "-")))
            for name in (NO_HUB, REFUSES, SILENT)
        }
        commands = {}
        for name, machine in machines.items():
            link_interpreter(machine.places)
            hook = settings_block(interpreter=sys.executable)["hooks"]["UserPromptSubmit"][0]["hooks"][0]["command"]
            commands[name] = ["/bin/sh", "-c", hook]
            if name != NO_HUB:
                port = join_hub_that_ends(machine)
                if name == SILENT:
                    stack.enter_context(socket.create_server(("127.0.0.1", port), backlog=128))
            fill(machine.store, memories)
        for machine in machines.values():
            stack.enter_context(running("worker", machine.places, folder / "claude"))
        until = time.monotonic() + NOTICED_SECONDS
        while not all(has_noticed(machine) for machine in machines.values()) and time.monotonic() < until:
            time.sleep(0.5)
        return ask_all(machines, commands, rounds)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="prompts and recalls of each home (60)")
    parser.add_argument("--memories", type=int, default=10_000, help="memories in each home (10,000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    found = measure(given.rounds, given.memories)
    if given.json:
        print(json.dumps(found))
        return
    for name, figures in found.items():
        print(f"{name:8} " + "   ".join(f"{key} {value}" for key, value in figures.items()))


if __name__ == "__main__":
    main()
