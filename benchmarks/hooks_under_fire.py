"""Measure the worst case of the hooks that Claude waits for: everything around them is broken, all processors are busy.

    python benchmarks/hooks_under_fire.py [--rounds N]

A busy process runs on each processor. Times are those of the whole command as Claude Code runs it, including the shell;
a bare ``python -I -S -c pass`` run alongside shows the machine's share. Goal: 300 ms at worst, exit code 0.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from engram_hooks.block import settings_block

SESSION = "aaaaaaaa-0000-4000-8000-000000000001"
WAITED_FOR = ("UserPromptSubmit", "SessionStart", "PreToolUse")
Fault = Callable[[Path], contextlib.AbstractContextManager[None]]


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def nothing(home: Path) -> Iterator[None]:
    """Run no worker."""
    yield


@contextlib.contextmanager
def hung_worker(home: Path) -> Iterator[None]:
    """Run a worker that accepts the connection and never answers."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home / "engram.sock"))
        server.listen(64)
        yield
    (home / "engram.sock").unlink()


@contextlib.contextmanager
def dripping_worker(home: Path) -> Iterator[None]:
    """Run a worker that answers one byte at a time and never ends."""
    with hung_worker_server(home) as server:
        stop = threading.Event()

        def drip() -> None:
            while not stop.is_set():
                with contextlib.suppress(OSError):
                    connection, _ = server.accept()
                    with connection:
                        while not stop.wait(0.02):
                            connection.sendall(b"{")

        threading.Thread(target=drip, daemon=True).start()
        yield
        stop.set()


@contextlib.contextmanager
def hung_worker_server(home: Path) -> Iterator[socket.socket]:
    """Yield a listening engram.sock."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(home / "engram.sock"))
        server.listen(64)
        server.settimeout(0.5)
        yield server
    (home / "engram.sock").unlink()


@contextlib.contextmanager
def fifos(home: Path) -> Iterator[None]:
    """Put pipes that nobody writes to in place of the socket and of pending files."""
    names = [home / "engram.sock", home / "recollections" / f"{SESSION}.pending"]
    for name in names:
        os.mkfifo(name)
    yield
    for name in names:
        name.unlink(missing_ok=True)


@contextlib.contextmanager
def folders(home: Path) -> Iterator[None]:
    """Put folders in place of files."""
    names = [home / "engram.sock", home / "recollections" / f"{SESSION}.pending"]
    for name in names:
        name.mkdir()
    yield
    for name in names:
        if name.exists():
            name.rmdir()


FAULTS: dict[str, Fault] = {
    "no worker": nothing,
    "hung worker": hung_worker,
    "dripping worker": dripping_worker,
    "pipes": fifos,
    "folders": folders,
}


def run(command: str, environment: dict[str, str], payload: bytes, *, is_open: bool) -> tuple[float, int]:
    """Run a hook; return its duration in milliseconds and its exit code. ``is_open`` leaves stdin open."""
    started = time.perf_counter()
    process = subprocess.Popen(
        ["/bin/sh", "-c", command],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    with contextlib.suppress(OSError):
        process.stdin.write(payload)
        process.stdin.flush()
        if not is_open:
            process.stdin.close()
    code = process.wait(timeout=30)
    took = (time.perf_counter() - started) * 1000
    with contextlib.suppress(OSError):
        process.stdin.close()
    return took, code


def main() -> None:
    """Print a row for each fault and hook."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    busy = [multiprocessing.Process(target=_spin, daemon=True) for _ in range(os.cpu_count() or 2)]
    for one in busy:
        one.start()
    worst, codes = 0.0, set()
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        (home / "recollections").mkdir()
        (home / "python").symlink_to(os.path.realpath(sys.executable))
        environment = {**os.environ, "ENGRAM_HOME": name, "CLAUDE_CODE_SESSION_ID": SESSION}
        block = settings_block()["hooks"]
        commands = {event: block[event][0]["hooks"][0]["command"] for event in WAITED_FOR}
        bare = sorted(
            run(f"exec {home}/python -I -S -c pass", environment, b"", is_open=False)[0] for _ in range(rounds)
        )
        print(f"{'bare python':<34} p50 {bare[rounds // 2]:6.1f}  worst {bare[-1]:6.1f} ms")
        for fault, broken in FAULTS.items():
            with broken(home):
                for event, command in commands.items():
                    for is_open in (False, True):
                        payload = json.dumps({"session_id": SESSION, "hook_event_name": event, "prompt": "x"}).encode()
                        done = [run(command, environment, payload, is_open=is_open) for _ in range(rounds)]
                        times = sorted(took for took, _ in done)
                        codes |= {code for _, code in done}
                        worst = max(worst, times[-1])
                        label = f"{fault}, {event}{', stdin open' if is_open else ''}"
                        print(f"{label:<50} p50 {times[rounds // 2]:6.1f}  worst {times[-1]:6.1f} ms")
    for one in busy:
        one.terminate()
    print(f"worst of all {worst:.1f} ms (goal 300), exit codes {sorted(codes)}")


if __name__ == "__main__":
    main()
