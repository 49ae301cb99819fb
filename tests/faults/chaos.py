"""Kills watchers and workers by the dozen while transcripts grow; run by test_kills.py in an interpreter of its own.

Usage: python chaos.py FOLDER SEED KILLS. Prints one JSON object: what was killed where, and what memory.db holds then.
Processes are forked from this one, which has everything imported and no thread: a start costs milliseconds.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import sys
import time
import traceback
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

from engram import failpoint
from engram.consolidation.service import consolidate as run_consolidation
from engram.embedding.hashed import HashedEmbedder
from engram.extraction.candidate import Candidate, Kind, Status
from engram.ingest.service import ingest_all
from engram.models.episodes import Episode, add_episode, new_episode_id
from engram.models.store import Store, open_store
from engram.recollection.service import RecollectionService
from engram.redaction import redact
from engram.search.service import Searcher
from engram.settings import Settings
from engram.tasks.drain import drain
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime
from engram.tasks.worker import bind_queue, drop_dead_leases, run_worker
from engram.watcher.watch import Watcher, run_watcher

#: Longest life of a process that is to reach a point, in seconds.
LIFE_SECONDS = 2.5
#: Exit code of the reader that has nothing left to read.
READER_IS_DONE = 42
DELETED, OVERWRITTEN = "queue deleted", "queue overwritten"
THINGS = ("harbor", "lantern", "walnut", "copper", "meadow", "granite", "juniper", "falcon")


class TurnExtractor:
    """One memory a turn: prompt and last words. What it says changes as the turn goes on."""

    name = "turn-1"

    def propose(self, turns: Any, context: Any) -> list[Candidate]:
        return [
            Candidate(
                kind=Kind.TURN, summary=summary_of(turn.prompt, turn.reply.count("Step")), content=turn.reply or "-",
                evidence=tuple(s.uuid for s in turn.said if s.uuid), turn_keys=(turn.key,), status=Status.ACTIVE,
                confidence=0.9, quality=0.9,
            )
            for turn in turns
            if turn.prompt
        ]  # fmt: skip


def summary_of(prompt: str, steps: int) -> str:
    return f"{prompt} It took {steps} steps."


class Script:
    """Transcripts that grow, and what must be found in memory.db at the end."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
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
            data = (json.dumps(self._line(file)) + "\n").encode()
            cut = self.chance.randrange(len(data))
            with file.open("ab", buffering=0) as out:
                out.write(data[:cut])
                out.write(data[cut:])

    def _line(self, file: Path) -> dict[str, Any]:
        entry = str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
        self.entries.append(entry)
        base = {
            "uuid": entry, "sessionId": file.stem, "cwd": f"/work/{file.parent.name[6:]}", "isSidechain": False,
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime()), "version": "2.1.0", "gitBranch": "main",
        }  # fmt: skip
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


class Chaos:
    """The rounds: grow, start a watcher and a worker, kill, now and then delete the queue."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.chance = random.Random(seed)
        self.settings = Settings(
            home=folder / "home", claude_folder=folder / "claude", embedding_model="hashed", extract_first_messages=1,
            extract_every_messages=1, sweep_seconds=1, session_memories=100_000, hourly_memories=100_000,
            consolidate_seconds=10**10, consolidate_budget_seconds=30, drain_seconds=1,
        )  # fmt: skip
        self.script = Script(folder / "claude", self.chance)
        self.kills: Counter[str] = Counter()
        self.failed: list[str] = []

    def round(self, point: str = "", count: int = 1, seconds: float | None = None, **changes: Any) -> None:
        """Run both processes until one reaches ``point`` (or for ``seconds``), then kill what is left."""
        life = seconds if seconds is not None else LIFE_SECONDS
        until = time.monotonic() + life
        children = [self._fork(run, point, count, changes) for run in (run_watcher, self._work, self._read)]
        has_hit = False
        while children and time.monotonic() < until and not has_hit:
            time.sleep(0.005)
            for child in list(children):
                has_hit |= self._reap(child, children, point)
        for child in list(children):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            self.kills["random" if not point else f"beside {point}"] += 1

    def _reap(self, child: int, children: list[int], point: str) -> bool:
        done, status = os.waitpid(child, os.WNOHANG)
        if not done:
            return False
        children.remove(child)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == READER_IS_DONE:
            return False
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.kills[point] += 1
            return True
        self.failed.append(f"a process ended by itself: {status} at {point}")
        return False

    def _fork(self, run: Any, point: str, count: int, changes: dict[str, Any]) -> int:
        child = os.fork()
        if child:
            return child
        try:
            failpoint._wanted, failpoint._left = point, count
            os._exit(run(dataclasses.replace(self.settings, **changes)))
        except BaseException:  # noqa: BLE001 - the edge of a child
            traceback.print_exc()
        os._exit(99)

    def _work(self, settings: Settings) -> int:
        return run_worker(settings, make=make_runtime)

    def _read(self, settings: Settings) -> int:
        """A third reader, as ``engram ingest`` in a terminal: it holds no lock."""
        store = Store(settings.places.memory_db).open()
        for _ in range(3):
            ingest_all(store, settings.claude_folder, settings=settings, redact=redact)
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
        """At first every named point, then random instants, until there were enough kills."""
        self.script.grow(5)
        self.round("migrate.begin")
        self.round("migrate.step", self.chance.randrange(1, 30))
        for point in failpoint.NAMES:
            if not point.startswith(("migrate.", "consolidate.")):
                self.script.grow(12)
                self.round(point)
                self.maybe_lose_queue()
        while self.killed < kills - 6:
            self.script.grow(self.chance.randrange(1, 8))
            self.round(seconds=self.chance.uniform(0.02, 0.3))
            self.maybe_lose_queue()

    @property
    def killed(self) -> int:
        """Processes killed so far."""
        return sum(number for what, number in self.kills.items() if what not in (DELETED, OVERWRITTEN))

    def consolidate(self, store: Store) -> dict[str, Any]:
        """Kill at every point of a consolidation that has duplicates to archive; none may vanish."""
        before = store.value("SELECT count(*) FROM episode")
        for number in range(6):
            with store.writing():
                for _ in range(2):
                    text = f"Saved rule {number}: the {THINGS[number]} has {number + 2} doors."
                    add_episode(
                        store, Episode(new_episode_id(), "fact", text, text, scope="global", source="manual"), []
                    )
        store.close()
        for point in failpoint.NAMES:
            if point.startswith("consolidate."):
                self.round(point, consolidate_seconds=0)
        store = open_store(self.settings.places.memory_db)
        drop_dead_leases(store)
        run_consolidation(store, self.settings, is_forced=True)
        live = store.rows(
            "SELECT summary, sum(status <> 'archived'), count(*) FROM episode WHERE source = 'manual' GROUP BY 1"
        )
        found = {
            "vanished": before + 12 - store.value("SELECT count(*) FROM episode"),
            "pairs_wrong": [row for row in live if tuple(row[1:]) != (1, 2)],
            "damage": store.find_damage(),
        }
        store.close()
        return found

    def settle(self) -> Store:
        """No more kills: read the rest and do what is due."""
        store = open_store(self.settings.places.memory_db)
        bind_queue(self.settings)
        watcher = Watcher(self.settings, store)
        watcher.sweep()
        watcher.step()
        watcher.close()
        drain(make_runtime(self.settings, store), with_waiting=True)
        huey.storage.close()
        return store


def make_runtime(settings: Settings, store: Store) -> Runtime:
    embedder = HashedEmbedder()
    searcher = Searcher(store, settings, embedder=embedder)
    recollection = RecollectionService(store, searcher, settings, embedder=embedder)
    return Runtime(settings, store, searcher, recollection, embedder, TurnExtractor())


def verdict(chaos: Chaos, store: Store) -> dict[str, Any]:
    """What is lost or doubled."""
    script = chaos.script
    prompts = Counter(row[0] for row in store.rows("SELECT key FROM turn"))
    entries = Counter(str(uuid.UUID(bytes=bytes(row[0]))) for row in store.rows("SELECT uuid FROM entry"))
    said = Counter(str(uuid.UUID(bytes=bytes(row[0]))) for row in store.rows("SELECT uuid FROM said"))
    live = Counter(
        row[0] for row in store.rows("SELECT summary FROM episode WHERE status <> 'archived' AND superseded_by = ''")
    )
    wanted = Counter(summary_of(prompt, steps) for prompt, steps in script.turns.values())
    every = Counter(row[0] for row in store.rows("SELECT slot FROM episode"))
    return {
        "turns": len(script.turns),
        "turns_lost": len(set(script.turns) - set(prompts)),
        "turns_doubled": sum(n - 1 for n in prompts.values()) + len(set(prompts) - set(script.turns)),
        "entries_lost": len(set(script.entries) - set(entries)),
        "said_lost": len(set(script.entries) - set(said)),
        "said_doubled": sum(n - 1 for n in said.values()),
        "episodes_lost": sorted((wanted - live).elements()),
        "episodes_doubled": sorted((live - wanted).elements()) + [slot for slot, n in every.items() if n > 1],
        "messages": [
            sum(row[0] for row in store.rows("SELECT message_count FROM session")), len(script.entries),
        ],
        "without_vector": store.value(
            "SELECT count(*) FROM episode e WHERE NOT EXISTS (SELECT 1 FROM vector v WHERE v.owner = 'e' AND v.owner_id = e.id)"
        ),
        "damage": store.find_damage(),
        "due": store.value("SELECT count(*) FROM turn WHERE extracted_revision < revision"),
    }  # fmt: skip


def main(folder: str, seed: str, kills: str) -> None:
    chaos = Chaos(Path(folder), int(seed))
    chaos.run(int(kills))
    store = chaos.settle()
    found = verdict(chaos, store)
    found["consolidation"] = chaos.consolidate(store)
    print(json.dumps(found | {"kills": dict(chaos.kills), "killed": chaos.killed, "failed": chaos.failed}))


if __name__ == "__main__":
    main(*sys.argv[1:])
