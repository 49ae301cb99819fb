"""Measure how costs grow with the memory: ``python benchmarks/growth.py --turns 1000 10000 100000 [--plot FILE]``.

One temporary memory grows from size to size. At each size, a real worker is started on it and queried through
engram.sock, as hooks and the MCP server do: the ranking of memories, whole answers and passages, with and without a
project, and whole prompts. Texts consist of words from the model's own vocabulary and of made-up words, as frequent as
in real text (Zipf), a quarter of them about the session's topic; ``--corpus DIR`` uses sentences from real transcripts
instead. Vectors are noise around those of some texts, because a million texts can't be embedded here. The vector of the
question comes from the real model, and its time is counted. A turn has one prompt and one reply, each a passage with a
vector.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from plots import Chart, Line, draw

from bench.measure import latency
from bench.synthetic import PROJECTS, SyntheticMemory
from bench.text_generator import TextGenerator, sentences_of
from engram.embedding.embedder import Embedder
from engram.embedding.load_model import load_embedder
from engram.embedding.model_source import BUNDLED_FOLDER
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.projects.projects import find_project
from engram.models.work.work import release_lease, take_lease
from engram.paths import Home
from engram.system.socketpath import socket_address
from engram.worker.worker_client import ask_worker

REPO = Path(__file__).resolve().parent.parent
#: Maximum wait for a worker to start, in seconds.
START_SECONDS = 300.0
#: Number of turns that are added one by one while the worker runs, each followed by a question.
ADDED = 50
#: Number of questions of each kind that are asked first and not counted.
WARMING = 5
#: The next kind asks the same question this many rounds later, because the worker caches the vectors of a few.
ASKED_APART = 7
#: Maximum number of texts that are read from a corpus.
CORPUS_TEXTS = 20_000
#: The goals: turns → figure → its maximum.
GOALS: dict[int, dict[str, float]] = {
    100_000: {"recall p50": 25, "recall p99": 80, "add a turn p50": 5, "worker MB": 450},
    1_000_000: {"recall p99": 250, "add a turn p50": 5, "worker MB": 900},
}
_WORD = re.compile(r"[a-z]{3,}")
Ask = Callable[[str, int], dict[str, Any]]


def real_sentences(folder: Path) -> list[str]:
    """Return sentences that assistants wrote in the transcripts below a folder."""
    texts: list[str] = []
    for path in sorted(folder.rglob("*.jsonl")):
        for raw in path.read_text(encoding="utf-8", errors="replace").splitlines():
            with contextlib.suppress(ValueError, AttributeError, TypeError, LookupError):
                blocks = json.loads(raw)["message"]["content"] if '"assistant"' in raw else []
                texts += [block["text"] for block in blocks if block.get("type") == "text"]
        if len(texts) > CORPUS_TEXTS:
            break
    return sentences_of(texts)


def words_of_model() -> list[str]:
    """Return the whole words in the bundled model's vocabulary, most common first."""
    file = BUNDLED_FOLDER / "tokenizer.json"
    vocabulary: dict[str, int] = json.loads(file.read_text(encoding="utf-8"))["model"]["vocab"]
    return [word for word in sorted(vocabulary, key=lambda one: vocabulary[one]) if _WORD.fullmatch(word)]


def grow(home: Home, made: SyntheticMemory, turns: int, model: Embedder) -> float:
    """Fill the memory up to this many turns; return the seconds it took. Nothing periodic is due afterwards."""
    start = time.monotonic()
    with open_store(home.memory_db) as store:
        for pragma in ("cache_size = -400000", "synchronous = 0", "wal_autocheckpoint = 20000"):
            store.rows(f"PRAGMA {pragma}")
        made.fill(store, turns, model)
        for name in ("consolidate", "backup"):
            take_lease(store, name, "growth", 60)
            release_lease(store, name, "growth")
        store.checkpoint("TRUNCATE")
    home.backups.mkdir(mode=0o700, exist_ok=True)
    (home.backups / "memory-none.db").touch(mode=0o600)
    return time.monotonic() - start


@contextlib.contextmanager
def working(home: Home) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """Run ``engram service run worker`` as a process; yield it and the seconds from its start to its first answer."""
    environment = os.environ | {"ENGRAM_HOME": str(home.root), "CLAUDE_CONFIG_DIR": str(home.root / "claude")}
    start = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "engram.cli.main", "service", "run", "worker"], env=environment)
    try:
        while ask_worker(home, {"op": "recall", "query": "first"}, timeout_seconds=START_SECONDS) is None:
            if process.poll() is not None or time.monotonic() - start > START_SECONDS:
                raise SystemExit("the worker did not start")
            time.sleep(0.01)
        yield process, time.monotonic() - start
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(120)


def until_idle(home: Home) -> float:
    """Return the seconds until the worker has read all vectors and done everything else that was due."""
    start = time.monotonic()
    while (told := _answered(ask_worker(home, {"op": "status"}, timeout_seconds=60)))["is_busy"] or told["waiting"]:
        if time.monotonic() - start > START_SECONDS:
            raise SystemExit("the worker did not become idle")
        time.sleep(0.01)
    return time.monotonic() - start


def time_of_model(home: Home) -> float:
    """Return the seconds from a worker's start on an empty memory to its first answer: Python, imports and model."""
    empty = Home(home.root.parent / "empty").prepare()
    with working(empty) as (_, seconds):
        return seconds


def kinds_of(home: Home, projects: list[int]) -> dict[str, Ask]:
    """Return the kinds of questions: name → a function that asks the question with a number."""

    def asking(operation: str, with_project: bool) -> Ask:
        def ask(text: str, number: int) -> dict[str, Any]:
            project = {"project_id": projects[number % len(projects)]} if with_project else {"all_projects": True}
            return _answered(ask_worker(home, {"op": operation, "query": text, **project}, timeout_seconds=60))

        return ask

    return {
        "ranking": asking("rank", False),
        "ranking in a project": asking("rank", True),
        "recall": asking("recall", False),
        "recall in a project": asking("recall", True),
        "search": asking("search", False),
        "search in a project": asking("search", True),
        "prompt": lambda text, number: {"bytes": len(_ask_as_hook(home, text, number))},
    }


def _answered(found: dict[str, Any] | None) -> dict[str, Any]:
    if found is None or "error" in found:
        raise SystemExit(f"the worker failed: {found}")
    return found


def _ask_as_hook(home: Home, text: str, number: int) -> bytes:
    """Return the bytes that UserPromptSubmit would print in a session of the number's project."""
    payload = {
        "hook_event_name": "UserPromptSubmit",
        "session_id": f"session-{number % PROJECTS}",
        "cwd": "/",
        "prompt": text,
        "prompt_id": str(uuid.uuid4()),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        with socket_address(home.recall_socket) as address:
            connection.connect(address)
        connection.sendall(json.dumps(payload).encode())
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65_536), b""))


def ask_all(home: Home, made: SyntheticMemory, store: Store, count: int, pid: int) -> dict[str, Any]:
    """Return the milliseconds of every kind of question. The kinds take turns, so that disturbances affect all alike.

    ``cpu`` is the worker's own processor time, which hardly depends on what else is running.
    """
    found = [find_project(store, f"project-{number}") for number in range(PROJECTS)]
    projects = [project.id for project in found if project is not None]
    kinds = kinds_of(home, projects)
    took: dict[str, list[float]] = {name: [] for name in kinds}
    used: dict[str, list[float]] = {name: [] for name in kinds}
    hits = dict.fromkeys(kinds, 0)
    questions = [made.question(number % len(projects)) for number in range(count)]
    for turn in range(-WARMING, count):
        for place, (name, ask) in enumerate(kinds.items()):
            # Every kind gets the same questions, so that one project can be compared with all; but never a question
            # whose vector is still cached from another kind.
            number = (turn + place * ASKED_APART) % count
            before, start = cpu_ms(pid), time.perf_counter()
            answer = ask(questions[number], number)
            if turn >= 0:
                took[name].append((time.perf_counter() - start) * 1000)
                used[name].append(cpu_ms(pid) - before)
                hits[name] += bool(answer.get("hits") or answer.get("bytes"))
    return {
        name: latency(took[name]) | {"cpu": latency(used[name]), "answered": round(hits[name] / count, 2)}
        for name in kinds
    }


def add_some(home: Home, made: SyntheticMemory, store: Store, model: Embedder) -> dict[str, Any]:
    """Return the milliseconds to write a turn and its memory next to a running worker, and to recall them."""
    added, seen = [], []
    for _ in range(ADDED):
        question = made.question()
        start = time.perf_counter()
        made.add(store, 1)
        added.append((time.perf_counter() - start) * 1000)
        made.fill_vectors(store, model)
        start = time.perf_counter()
        _answered(ask_worker(home, {"op": "recall", "query": question}))
        seen.append((time.perf_counter() - start) * 1000)
    return {"add a turn": latency(added), "recall after a change": latency(seen)}


def cpu_ms(pid: int) -> float:
    """Return the processor time of all threads of a process, in milliseconds; 0 if the system does not report it."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(task.read_text().split()[0])
    return total / 1e6


def memory_mb(pid: int, field: str) -> float:
    """Return ``VmRSS`` or ``VmHWM`` of a process, in MB; 0 if the system does not report it."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(one.split()[1]) * 1024 / 1e6 for one in lines if one.startswith(f"{field}:")), 0.0)


def measure(home: Home, made: SyntheticMemory, turns: int, model: Embedder, questions: int) -> dict[str, Any]:
    """Return all figures of one size."""
    filled = grow(home, made, turns, model)
    size = home.memory_db.stat().st_size
    with open_store(home.memory_db) as store, working(home) as (process, seconds):
        found: dict[str, Any] = {
            "turns": turns,
            "episodes": made.memory_count,
            "vectors": made.vector_count,
            "filled_s": round(filled),
            "bytes a turn": size // turns,
            "cold start s": round(seconds, 2),
            "vectors read s": round(seconds + until_idle(home), 2),
            "worker MB at start": round(memory_mb(process.pid, "VmRSS")),
        }
        found |= ask_all(home, made, store, questions, process.pid)
        found |= add_some(home, made, store, model)
        found["worker MB"] = round(memory_mb(process.pid, "VmRSS"))
        found["worker MB at its peak"] = round(memory_mb(process.pid, "VmHWM"))
        return found | {"load": round(os.getloadavg()[0], 1)}


def measure_all(
    folder: Path, made: SyntheticMemory, model: Embedder, given: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return the figures of every size, and write them after each. Sizes that a kept memory exceeds are skipped."""
    table: list[dict[str, Any]] = []
    home = Home(folder / "home").prepare()
    with open_store(home.memory_db) as store:
        made.resume(store)
    alone = time_of_model(home)
    for turns in sorted(given.turns):
        if turns < made.turn_count:
            continue
        table.append(measure(home, made, turns, model, given.questions) | {"of it without a memory s": round(alone, 2)})
        print(f"{turns} turns measured", file=sys.stderr)
        if given.json:
            given.json.write_text(json.dumps(table, indent=1) + "\n")
    return table


def plot(table: list[dict[str, Any]]) -> str:
    """Return an SVG drawing of times, memory and disk by the number of turns."""

    def line(name: str, key: str, share: str = "") -> Line:
        return Line(name, [(one["turns"], max(0.01, one[key][share] if share else one[key])) for one in table])

    def goals(name: str) -> list[tuple[float, float]]:
        return [(turns, wanted[name]) for turns, wanted in GOALS.items() if name in wanted]

    times = [
        line("recall p99", "recall", "p99"),
        line("recall p50", "recall", "p50"),
        line("in a project", "recall in a project", "p50"),
        line("search p50", "search", "p50"),
        line("prompt p50", "prompt", "p50"),
        line("add a turn", "add a turn", "p50"),
    ]
    room = [line("worker", "worker MB"), line("at its peak", "worker MB at its peak")]
    return draw(
        [
            Chart("Milliseconds (goals: bars)", times, goals("recall p99") + goals("recall p50")),
            Chart("Megabytes", room, goals("worker MB")),
            Chart(
                "Seconds from the start", [line("first answer", "cold start s"), line("vectors read", "vectors read s")]
            ),
        ]
    )


def _shares(value: dict[str, Any]) -> str:
    """Return p50/p95/p99, and the median processor time."""
    times = "/".join(f"{value[share]:.0f}" for share in ("p50", "p95", "p99"))
    return f"{times} ({value['cpu']['p50']:.0f})" if "cpu" in value else times


def show(table: list[dict[str, Any]]) -> None:
    """Print a column for each size, and the goals: milliseconds p50/p95/p99, and in brackets the worker's CPU p50."""
    for name in table[0]:
        cells = []
        for one in table:
            value = one[name]
            cells.append(_shares(value) if isinstance(value, dict) else value)
        print(f"{name:24}" + "".join(f"{cell!s:>20}" for cell in cells))
    for turns, goals in GOALS.items():
        print(f"goals at {turns}: " + ", ".join(f"{name} <= {most:g}" for name, most in goals.items()))


def main() -> None:
    """Measure and print; p50/p95/p99 are milliseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--turns", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="sizes (1000 10000 100000)"
    )
    parser.add_argument("--memories", type=int, help="maximum number of memories (one per turn)")
    parser.add_argument("--questions", type=int, default=200, help="questions of each kind (200)")
    parser.add_argument("--corpus", type=Path, help="folder of transcripts from which sentences are taken")
    parser.add_argument(
        "--keep", type=Path, help="keep the memory in this folder, and continue with what is there (temporary)"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument(
        "--beside", type=Path, nargs="*", default=[], help="figures of earlier runs to show and draw as well"
    )
    parser.add_argument("--plot", type=Path, help="write an SVG drawing here")
    given = parser.parse_args()
    model = load_embedder("bundled")
    sentences = real_sentences(given.corpus) if given.corpus else ()
    texts = TextGenerator(known=words_of_model(), sentences=sentences)
    made = SyntheticMemory(texts=texts, max_memories=given.memories)
    folder = given.keep.absolute() if given.keep else Path(tempfile.mkdtemp(prefix="engram-growth-"))
    try:
        table = measure_all(folder, made, model, given)
    finally:
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)
    earlier = [one for file in given.beside for one in json.loads(file.read_text())]
    table = sorted(earlier + table, key=lambda one: int(one["turns"]))
    if not table:
        raise SystemExit("the memory that was kept is larger than every requested size")
    show(table)
    if given.plot:
        given.plot.write_text(plot(table))


if __name__ == "__main__":
    main()
