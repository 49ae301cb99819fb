"""Kills watchers and workers by the dozen while transcripts grow; run by test_kills.py in a separate interpreter.

Usage: python chaos.py FOLDER SEED KILLS DRIVER INSTANCES [rewritten]. KILLS are those at random instants; two INSTANCES
run two watchers and two workers on one memory folder, as if their locks did not hold. With "rewritten" the transcripts
do not only grow: lines come before those that were read and go again, in place or as a new file. Prints one JSON
object: what was killed where, how often inside a transaction that writes, and what memory.db holds then. Processes are
forked from this one, which has everything imported and no thread: a start costs milliseconds.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import json
import mmap
import os
import random
import signal
import sys
import time
import traceback
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.consolidation.consolidation_run import consolidate as run_consolidation
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Kind, Status
from engram.extraction.candidate import Candidate
from engram.ingest.read_sources import ingest_all
from engram.models.engine.statement import unpack_entries
from engram.models.engine.transaction import Store, Tx
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.system import failpoint
from engram.system.process_lock import ProcessLock
from engram.tasks.drain import drain
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime, recover_from_crash
from engram.watcher import watch as watch_module
from engram.watcher.watch import Watcher, run_watcher
from engram.worker import lifecycle as worker_module
from engram.worker.lifecycle import run_worker
from tests import failpoints

#: Kills within a transaction after which a round that aims at them ends.
AIMED_KILLS = 6
#: Longest life of a process that is to reach a point, in seconds.
LIFE_SECONDS = 20.0
#: Exit code of the reader that has nothing left to read.
READER_IS_DONE = 42
DELETED, OVERWRITTEN = "queue deleted", "queue overwritten"
RANDOM, INSIDE = "random", "random, inside a transaction"
THINGS = ("harbor", "lantern", "walnut", "copper", "meadow", "granite", "juniper", "falcon")
#: Beginnings of the points that other programs kill at: consolidation below, test_upkeep.py, test_forget_project.py,
#: tests/extraction/test_second_chance.py, tests/install/test_transaction.py, tests/cli/test_vaults.py and
#: tests/ingest/test_sorting.py and tests/recollection/test_killed_bites.py.
KILLED_ELSEWHERE = (
    "recollect.",
    "migrate.",
    "consolidate.",
    "restore.",
    "forget_project.",
    "second_chance.",
    "install.",
    "uninstall.",
    "vault.",
    "sort.",
)


class TurnExtractor:
    """One memory a turn: prompt and last words. What it says changes as the turn grows."""

    name = "turn-1"
    is_repeatable = True

    def propose(self, turns: Any, context: Any) -> list[Candidate]:
        return [
            Candidate(
                kind=Kind.TURN,
                summary=summary_of(turn.prompt, turn.reply.count("Step")),
                content=turn.reply or "-",
                evidence=tuple(s.uuid for s in turn.said if s.uuid),
                turn_keys=(turn.key,),
                status=Status.ACTIVE,
                confidence=0.9,
                quality=0.9,
            )
            for turn in turns
            if turn.prompt
        ]


def summary_of(prompt: str, steps: int) -> str:
    return f"{prompt} It took {steps} steps."


class Script:
    """Transcripts that grow, and what must be found in memory.db at the end."""

    def __init__(self, folder: Path, chance: random.Random, *, is_rewritten: bool = False) -> None:
        self.is_rewritten = is_rewritten
        self.rewrites = 0
        self.files = [folder / "projects" / f"-work-p{n % 2}" / f"{uuid.UUID(int=n + 1)}.jsonl" for n in range(3)]
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
        self.chance = chance
        self.number = 0
        #: Prompt uuid → (prompt, steps of its reply).
        self.turns: dict[str, tuple[str, int]] = {}
        self.entries: list[str] = []
        self.open: dict[Path, str] = {}

    def grow(self, lines: int) -> None:
        """Append some lines to some transcripts, sometimes in two halves."""
        for _ in range(lines):
            file = self.chance.choice(self.files)
            if self.is_rewritten and file.exists() and self.chance.random() < 0.3:
                self._rewrite(file)
            data = (json.dumps(self._line(file)) + "\n").encode()
            cut = self.chance.randrange(len(data))
            with file.open("ab", buffering=0) as out:
                out.write(data[:cut])
                out.write(data[cut:])

    def _rewrite(self, file: Path) -> None:
        """Put a line that holds no words before others, or take one out; sometimes the file is cut for a moment."""
        title = json.dumps({"type": "summary", "summary": "x" * self.chance.randrange(400)}).encode() + b"\n"
        lines = file.read_bytes().splitlines(keepends=True)
        titles = [number for number, line in enumerate(lines) if line.startswith(b'{"type": "summary"')]
        if titles and self.chance.random() < 0.5:
            del lines[self.chance.choice(titles)]
        else:
            lines.insert(self.chance.randrange(len(lines) + 1), title)
        if self.chance.random() < 0.5:
            half = file.with_suffix(".half")
            half.write_bytes(b"".join(lines))
            half.replace(file)
        else:
            cut = self.chance.randrange(len(lines) + 1)
            with file.open("wb", buffering=0) as out:
                out.write(b"".join(lines[:cut]))
                time.sleep(self.chance.choice((0, 0.005)))
                out.write(b"".join(lines[cut:]))
        self.rewrites += 1

    def _line(self, file: Path) -> dict[str, Any]:
        entry = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        self.entries.append(entry)
        base = {
            "uuid": entry,
            "sessionId": file.stem,
            "cwd": f"/work/{file.parent.name[6:]}",
            "isSidechain": False,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()),
            "version": "2.1.0",
            "gitBranch": "main",
        }
        if file not in self.open or self.chance.random() < 0.4:
            self.number += 1
            thing = THINGS[self.number % len(THINGS)]
            prompt = f"Please explain the {thing} importer and its retry budget, question {self.number}."
            self.turns[entry], self.open[file] = (prompt, 0), entry
            return base | {"type": "user", "message": {"role": "user", "content": prompt}}
        prompt, steps = self.turns[self.open[file]]
        self.turns[self.open[file]] = (prompt, steps + 1)
        text = f"Step {steps + 1} of this turn {entry}"
        message = {"id": f"msg_{entry}", "role": "assistant", "content": [{"type": "text", "text": text}]}
        return base | {"type": "assistant", "message": message}


class Windows:
    """A byte a process in shared memory: 1 while it is between BEGIN IMMEDIATE and COMMIT of memory.db."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, 64)

    def watch(self, slot: int) -> None:
        """Tell this process's transactions; call it in a child."""
        begin = Store.transaction

        @contextlib.contextmanager
        def transaction(store: Store) -> Iterator[Tx]:
            with begin(store) as tx:
                before, self._shared[slot] = self._shared[slot], 1
                try:
                    yield tx
                finally:
                    self._shared[slot] = before

        Store.transaction = transaction  # type: ignore[method-assign]

    def is_inside(self, slot: int) -> bool:
        """True while, or if it is dead when, the process of a slot was inside one."""
        return self._shared[slot] == 1

    def clear(self, slot: int | None = None) -> None:
        """Forget one, or all."""
        for one in range(64) if slot is None else (slot,):
            self._shared[one] = 0


class SecondLock(ProcessLock):
    """The lock of a second instance, which the first one's does not keep away."""

    def __init__(self, path: Path, note: str = "") -> None:
        super().__init__(path.with_name(f"second.{path.name}"), note)


class Chaos:
    """The rounds: grow, start watchers and workers, kill, now and then delete the queue."""

    def __init__(self, folder: Path, seed: int, driver: str, instances: int, *, is_rewritten: bool = False) -> None:
        self.chance = random.Random(seed)
        self.windows = Windows()
        self.instances = instances
        self.settings = Settings(
            home=folder / "home",
            claude_folder=folder / "claude",
            embedding_model="hashed",
            extract_first_messages=1,
            extract_every_messages=1,
            sweep_seconds=1,
            session_memories=100_000,
            hourly_memories=100_000,
            consolidate_seconds=10**9,
            consolidate_budget_seconds=30,
            drain_seconds=1,
            sqlite_driver=driver,
        )
        self.script = Script(folder / "claude", self.chance, is_rewritten=is_rewritten)
        self.kills: Counter[str] = Counter()
        self.failed: list[str] = []

    def round(self, point: str, count: int = 1, **changes: Any) -> None:
        """Run watcher and worker until one reaches ``point``, then kill what is left."""
        until = time.monotonic() + LIFE_SECONDS
        self.windows.clear()
        children = [self._fork(run, n, point, count, changes) for n, run in enumerate((run_watcher, self._work))]
        has_hit = False
        while children and time.monotonic() < until and not has_hit:
            time.sleep(0.005)
            for child in list(children):
                has_hit |= self._reap(child, children, point)
        for child in list(children):
            self._kill(child)
            self.kills[f"beside {point}"] += 1

    def random_round(self) -> None:
        """Run everything for a moment and kill it at a random instant."""
        children = self._start_all()
        until = time.monotonic() + self.chance.uniform(0.02, 0.3)
        while time.monotonic() < until:
            time.sleep(0.003)
            self._look(children)
        self._kill_all(children)

    def aimed_round(self) -> None:
        """Transcripts grow; whoever begins a transaction is killed at a random instant in it and started again.

        However slow the machine is, the round goes on until some were killed so.
        """
        children = self._start_all()
        wanted, until = self.kills[INSIDE] + AIMED_KILLS, time.monotonic() + LIFE_SECONDS
        next_line = 0.0
        while self.kills[INSIDE] < wanted and time.monotonic() < until:
            if time.monotonic() > next_line:
                self.script.grow(1)
                next_line = time.monotonic() + 0.02
            self._look(children)
            for child, (slot, run) in list(children.items()):
                if self.windows.is_inside(slot):
                    self._spin(self.chance.uniform(0, 0.0005))
                    self._kill_at_random(child, slot)
                    del children[child]
                    self.windows.clear(slot)
                    children[self._fork(run, slot, "", 1, {})] = (slot, run)
        self._kill_all(children)

    def _start_all(self) -> dict[int, tuple[int, Any]]:
        """Process id → (slot, what it runs)."""
        self.windows.clear()
        runs = [run_watcher, self._work, self._read]
        if self.instances == 2:
            runs += [self._second(run_watcher), self._second(self._work)]
        return {self._fork(run, slot, "", 1, {}): (slot, run) for slot, run in enumerate(runs)}

    def _look(self, children: dict[int, tuple[int, Any]]) -> None:
        for child in list(children):
            left = [child]
            self._reap(child, left, "")
            if not left:
                del children[child]

    def _kill_all(self, children: dict[int, tuple[int, Any]]) -> None:
        for child, (slot, _) in children.items():
            self._kill_at_random(child, slot)

    def _spin(self, seconds: float) -> None:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            pass

    def _kill(self, child: int) -> None:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)

    def _kill_at_random(self, child: int, slot: int) -> None:
        self._kill(child)
        self.kills[RANDOM] += 1
        self.kills[INSIDE] += self.windows.is_inside(slot)

    def _reap(self, child: int, children: list[int], point: str) -> bool:
        done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            return False
        children.remove(child)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == READER_IS_DONE:
            return False
        if point and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.kills[point] += 1
            return True
        self.failed.append(f"a process ended by itself: {status} at {point or 'random'}")
        return False

    def _fork(self, run: Any, slot: int, point: str, count: int, changes: dict[str, Any]) -> int:
        child = os.fork()
        if child:
            return child
        try:
            failpoint._wanted, failpoint._left = point, count
            self.windows.watch(slot)
            os._exit(run(dataclasses.replace(self.settings, **changes)))
        except BaseException as error:  # noqa: BLE001 - the edge of a child
            if self.instances == 2 and isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
                os._exit(READER_IS_DONE)  # both bound one socket at once, which the lock does not let happen
            traceback.print_exc()
        os._exit(99)

    def _second(self, run: Any) -> Any:
        """The same as a second instance."""

        def run_second(settings: Settings) -> int:
            watch_module.ProcessLock = worker_module.ProcessLock = SecondLock  # type: ignore[misc]
            return int(run(settings))

        return run_second

    def _work(self, settings: Settings) -> int:
        return run_worker(settings, make=make_runtime)

    def _read(self, settings: Settings) -> int:
        """A third reader, as ``engram up --once --no-memories`` in a terminal: it holds no lock."""
        store = Store(settings.places.memory_db, driver=settings.sqlite_driver).open()
        for _ in range(3):
            ingest_all(store, settings=settings, redact=redact)
        return READER_IS_DONE

    def maybe_lose_queue(self) -> None:
        """Sometimes the queue is deleted, or overwritten."""
        what = self.chance.random()
        path = self.settings.places.queue_db
        if what < 0.25:
            path.unlink(missing_ok=True)
            self.kills[DELETED] += 1
        elif what < 0.3 and path.exists():
            path.write_bytes(b"garbage" * 300)
            self.kills[OVERWRITTEN] += 1

    def run(self, kills: int) -> None:
        """At first every named point, then random instants, until there were enough kills, and inside transactions.

        How many fall inside by chance depends on the machine: where they are few, the next round aims at them.
        """
        self.script.grow(5)
        self.round("migrate.begin")
        self.round("migrate.step", self.chance.randrange(1, 30))
        for point in failpoints.NAMES:
            if not point.startswith(KILLED_ELSEWHERE):
                self._reach(point)
                self.maybe_lose_queue()
        while self.kills[RANDOM] < kills or self.kills[INSIDE] < 0.3 * self.kills[RANDOM]:
            self.script.grow(self.chance.randrange(1, 8))
            is_short = self.kills[INSIDE] < 0.4 * self.kills[RANDOM]
            if is_short or self.chance.random() < 0.5:
                self.aimed_round()
            else:
                self.random_round()
            self.maybe_lose_queue()

    def _reach(self, point: str) -> None:
        """Run rounds until one is killed at ``point``; on a busy machine one may be too short."""
        for _ in range(4):
            self.script.grow(12)
            self.round(point)
            if self.kills[point]:
                return

    def consolidate(self, store: Store) -> dict[str, Any]:
        """Kill at every point of a consolidation that has duplicates to archive; none may vanish."""
        before = store.value("SELECT count(*) FROM episode")
        for number in range(6):
            with store.transaction() as tx:
                for _ in range(2):
                    text = f"Saved rule {number}: the {THINGS[number]} has {number + 2} doors."
                    add_memory(
                        tx,
                        Memory(new_memory_id(), "fact", text, text, scope="global", source="manual"),
                        [],
                        actor=Actor.MODEL,
                    )
        store.close()
        for point in failpoints.NAMES:
            if point.startswith("consolidate."):
                self.round(point, consolidate_seconds=0)
        store = open_store(self.settings.places.memory_db, driver=self.settings.sqlite_driver)
        recover_from_crash(store)
        run_consolidation(store, self.settings, is_forced=True)
        live = store.rows(
            "SELECT summary, sum(status <> 'archived'), count(*) FROM episode WHERE source = 'manual' GROUP BY 1"
        )
        found = {
            "vanished": before + 12 - store.value("SELECT count(*) FROM episode"),
            "pairs_wrong": [(summary, *counted) for summary, *counted in live if counted != [1, 2]],
            "damage": store.find_damage(),
        }
        store.close()
        return found

    def settle(self) -> Store:
        """No more kills: read the rest and do what is due."""
        store = open_store(self.settings.places.memory_db, driver=self.settings.sqlite_driver)
        huey.bind(self.settings.places, self.settings.sqlite_driver)
        watcher = Watcher(self.settings, store)
        watcher.sweep()
        watcher.step()
        watcher.close()
        drain(make_runtime(self.settings, store), with_waiting=True)
        huey.storage.close()
        return store


def compare_memories(settings: Settings, store: Store) -> dict[str, list[str]]:
    """The automatic memories of a store, against a run over the same transcripts that nobody disturbs."""
    from memories_fingerprint import memories_fingerprint

    settings = dataclasses.replace(settings, home=settings.home.with_name("clean"))
    settings.places.prepare()
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as clean:
        ingest_all(clean, settings=settings, redact=redact)
        huey.bind(settings.places, settings.sqlite_driver)
        drain(make_runtime(settings, clean), with_waiting=True)
        huey.storage.close()
        wanted = memories_fingerprint(clean)
    found = memories_fingerprint(store)
    return {
        "missing": [memory.summary for memory in wanted.kept if memory not in set(found.kept)],
        "different": [memory.summary for memory in found.kept if memory not in set(wanted.kept)],
        "joined_otherwise": [memory.summary for memory in found.joined if memory not in set(wanted.joined)],
    }


def make_runtime(settings: Settings, store: Store) -> Runtime:
    embedder = HashedEmbedder()
    searcher = Searcher(store, settings, embedder=embedder)
    recollection = RecollectionService(store, searcher, settings, embedder=embedder)
    return Runtime(settings, store, searcher, recollection, embedder, TurnExtractor())


def verdict(chaos: Chaos, store: Store) -> dict[str, Any]:
    """What is lost or doubled."""
    script = chaos.script
    prompts = Counter(value for (value,) in store.rows("SELECT key FROM turn"))
    packed = store.rows("SELECT entries FROM turn")
    entries = Counter(entry.uuid for (value,) in packed for entry in unpack_entries(bytes(value)))
    said = Counter(str(uuid.UUID(bytes=bytes(value))) for (value,) in store.rows("SELECT uuid FROM said"))
    in_force = store.rows("SELECT summary FROM episode WHERE status <> 'archived' AND superseded_by = ''")
    live = Counter(value for (value,) in in_force)
    wanted = Counter(summary_of(prompt, steps) for prompt, steps in script.turns.values())
    every = Counter(value for (value,) in store.rows("SELECT slot FROM episode"))
    return {
        "turns": len(script.turns),
        "rewrites": script.rewrites,
        "turns_lost": len(set(script.turns) - set(prompts)),
        "turns_doubled": sum(n - 1 for n in prompts.values()) + len(set(prompts) - set(script.turns)),
        "entries_lost": len(set(script.entries) - set(entries)),
        "said_lost": len(set(script.entries) - set(said)),
        "said_doubled": sum(n - 1 for n in said.values()),
        "episodes_lost": sorted((wanted - live).elements()),
        "episodes_doubled": sorted((live - wanted).elements()) + [slot for slot, n in every.items() if n > 1],
        "messages": [
            sum(value for (value,) in store.rows("SELECT message_count FROM session")),
            len(script.entries),
        ],
        "without_vector": store.value(
            "SELECT count(*) FROM episode e WHERE NOT EXISTS (SELECT 1 FROM vector v WHERE v.owner = 'e' AND "
            "v.owner_id = e.id)"
        ),
        "damage": store.find_damage(),
        "due": store.value("SELECT count(*) FROM turn WHERE extracted_revision < revision"),
    }


def main(folder: str, seed: str, kills: str, driver: str = "auto", instances: str = "1", how: str = "") -> None:
    chaos = Chaos(Path(folder), int(seed), driver, int(instances), is_rewritten=how == "rewritten")
    chaos.run(int(kills))
    started = time.monotonic()
    store = chaos.settle()
    found = {"driver": store.driver, "settled_seconds": round(time.monotonic() - started, 1)} | verdict(chaos, store)
    found["memories"] = compare_memories(chaos.settings, store)
    found["consolidation"] = chaos.consolidate(store)
    print(json.dumps(found | {"kills": dict(chaos.kills), "failed": chaos.failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
