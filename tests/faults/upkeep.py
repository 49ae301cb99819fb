"""Kills everything that writes besides reading and extracting: run by test_upkeep.py in a separate interpreter.

Usage: python upkeep.py FOLDER SEED KILLS DRIVER. Saving, notes, forgetting, purging, importing, restoring (a backup,
and an older file from outside), migrating, consolidating, setting a damaged memory aside, and reading with extraction
run in processes that are killed at a random instant, or at a named point of a restore or migration. What was killed is
looked at by the next start, and asked for again until it is done, as a person would. Prints one JSON object.

Another module may append to ``FINAL_CHECKS``: each is given the settings when nothing is killed any more, and returns
what it finds wrong.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sqlite3
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos import Script, compare_memories, make_runtime
from models.version_4 import put_version_4

from engram.cli.main import main as run_engram
from engram.consolidation.consolidation_run import consolidate as run_consolidation
from engram.ingest.read_sources import ingest_all
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.memories.memory_records import new_memory_id
from engram.models.open_memory import open_store
from engram.models.rescue.backup import list_backups, make_backup
from engram.redaction import redact
from engram.settings import Settings
from engram.system import failpoint
from engram.tasks.drain import drain
from engram.tasks.queue import huey
from engram.tasks.runtime import recover_from_crash
from engram.worker.memory_file import open_or_set_aside
from engram_mcp import tools
from engram_mcp.access import Access
from tests import failpoints

FINAL_CHECKS: list[Callable[[Settings], list[str]]] = []
POINTS = {
    "restore": [name for name in failpoints.NAMES if name.startswith("restore.")],
    "rebuild": [name for name in failpoints.NAMES if name.startswith("restore.") and name != "restore.copied"],
    "migrate": ["migrate.begin", "migrate.step"],
}
WORDS = (
    "harbor lantern walnut copper meadow granite juniper falcon orchid ledger tundra velvet anchor beacon cobalt "
    "dynamo ember fjord glacier hazel indigo jasper kettle lagoon marble nectar onyx pepper quartz raven saddle "
    "timber umber violet willow xylem yonder zephyr"
).split()
#: A process that was not killed by then hangs, in seconds.
HANG_SECONDS = 60.0


class Upkeep:
    """The rounds, and what must be in the memory after each."""

    def __init__(self, folder: Path, seed: int, driver: str) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.settings = Settings(
            home=folder / "home",
            claude_folder=folder / "claude",
            embedding_model="hashed",
            extract_first_messages=1,
            extract_every_messages=1,
            session_memories=100_000,
            hourly_memories=100_000,
            consolidate_seconds=10**9,
            consolidate_budget_seconds=30,
            sqlite_driver=driver,
        )
        self.home = self.settings.places.prepare()
        self.number = 0
        self.script = Script(folder / "claude", self.chance)
        self.outside = folder / "outside.db"
        self.exported = folder / "export.jsonl"
        self.exported.write_text("")
        #: Text → id of what must be there once.
        self.saved: dict[str, str] = {}
        self.notes: set[str] = set()
        self.notes_lost: set[str] = set()
        #: What must not come back: texts and ids.
        self.gone: dict[str, str] = {}
        self.forgotten: list[str] = []
        self.kills: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.problems: list[str] = []

    # -- processes

    def in_child(self, action: Callable[[], Any], *, point: str = "", kill_after: float | None = None) -> Any:
        """What ``action`` returns in a separate process; None if that was killed."""
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        child = os.fork()
        if not child:
            self._be_child(action, answer, point)
        until = time.monotonic() + (HANG_SECONDS if kill_after is None else kill_after)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > until:
                os.kill(child, signal.SIGKILL)
                _, status = os.waitpid(child, 0)
                if kill_after is None:
                    self.problems.append("a process hung")
                break
            time.sleep(0.0005)
        if os.WIFSIGNALED(status):
            return None
        return json.loads(answer.read_text())

    def _be_child(self, action: Callable[[], Any], answer: Path, point: str) -> None:
        try:
            failpoint._wanted, failpoint._left = point, self.chance.randrange(1, 200) if point == "migrate.step" else 1
            with open(os.devnull, "w") as null:
                os.dup2(null.fileno(), 1)
            found = action()
        except BaseException:  # noqa: BLE001 - the edge of a child
            found = {"fault": traceback.format_exc()[-3000:]}
        answer.write_text(json.dumps(found))
        os._exit(0)

    def attempt(self, name: str, action: Callable[[], Any], *, tries: int = 3, again: bool = True) -> Any:
        """Kill the action some times at random, then (where it may be done ``again``) let it be; what it returned."""
        found = None
        for _ in range(tries):
            points = POINTS.get(name, [])
            point = self.chance.choice(points) if points and self.chance.random() < 0.4 else ""
            kill_after = HANG_SECONDS if point else self.chance.uniform(0, self.seconds.get(name, 0.2) * 1.1)
            found = self.in_child(action, point=point, kill_after=kill_after)
            if found is not None:
                break
            self.kills[point or name] += 1
            self.look(f"{name} killed {f'at {point}' if point else 'at random'}")
        if found is None and again:
            started = time.monotonic()
            found = self.in_child(action)
            self.seconds[name] = 0.7 * self.seconds.get(name, 0.2) + 0.3 * (time.monotonic() - started)
        if isinstance(found, dict) and "fault" in found:
            self.problems.append(f"{name}: {found['fault']}")
        self.done[name] += 1
        return found

    def engram(self, *arguments: str) -> Callable[[], int]:
        """A command; its exit code."""
        everything = ["--home", str(self.settings.home), "--claude-folder", str(self.settings.claude_folder)]
        everything += ["--set", "embedding_model=hashed", "--set", f"sqlite_driver={self.settings.sqlite_driver}"]

        def run() -> int:
            try:
                run_engram([*everything, *arguments])
            except SystemExit as end:
                return end.code if isinstance(end.code, int) else 1
            return 0

        return run

    def store(self) -> Store:
        return open_store(self.home.memory_db, driver=self.settings.sqlite_driver)

    # -- what is looked at after each kill

    def look(self, when: str) -> None:
        """The next start after a kill: what was kept is there once, what was forgotten or purged is not."""
        found = self.in_child(self.read)
        if "fault" in found:
            self.problems.append(f"{when}: {found['fault']}")
            return
        texts, ids = Counter(found["texts"]), set(found["ids"])
        lost = [text for text in self.saved if texts[text] == 0]
        doubled = [text for text, count in texts.items() if count > 1 and text.startswith("Keep ")]
        back = [text for text, episode_id in self.gone.items() if texts[text] or episode_id in ids]
        self.notes_lost |= {note for note in self.notes if note not in found["notes"]}
        doubled += [note for note in self.notes if found["notes"].count(note) > 1]
        if lost or doubled or back or found["damage"]:
            self.problems.append(f"{when}: {lost=} {doubled=} {back=} {found['damage']}")

    def read(self) -> dict[str, Any]:
        with self.store() as store:
            memories = memory_records.all_memories(store)
            return {
                "texts": [memory.content for memory in memories],
                "ids": [memory.episode_id for memory in memories],
                "notes": "\n".join(path.read_text() for path in sorted(self.home.notes.rglob("*.md"))),
                "damage": store.find_damage(),
            }

    # -- what is done

    def text(self, what: str) -> str:
        """A text with a word that stands nowhere else, and that no rule of redaction minds."""
        self.number += 1
        word = "".join(WORDS[self.number // len(WORDS) ** power % len(WORDS)] for power in range(3))
        return f"Keep {what} {self.number}: {' '.join(self.chance.sample(WORDS, 7))} {word}."

    def save(self) -> None:
        """A killed save may have kept its text: then it is known from now on."""
        text = self.text("saved")
        self.attempt("save", self.engram("save", "--global", text), tries=1, again=False)
        self.adopt([text])

    def adopt(self, texts: list[str]) -> None:
        """Take what is there now of some texts as kept."""
        found = self.in_child(self.read)
        for text in texts:
            for kept, episode_id in zip(found["texts"], found["ids"], strict=True):
                if kept == text:
                    self.saved[text] = episode_id

    def note(self) -> None:
        text = self.text("note")
        access = Access(self.settings, str(self.folder))
        self.attempt("note", lambda: tools.save(access, text, "note", "normal"), tries=1, again=False)
        count = self.in_child(self.read)["notes"].count(text)
        if count > 1:
            self.problems.append(f"a note is there {count} times")
        if count:
            self.notes.add(text)

    def choose(self) -> tuple[str, str] | None:
        """A kept memory that goes; it is no longer waited for while that is done."""
        if len(self.saved) < 5:
            return None
        text = self.chance.choice(list(self.saved))
        return text, self.saved.pop(text)

    def forget(self) -> None:
        if (chosen := self.choose()) is None:
            return
        text, episode_id = chosen
        self.attempt("forget", self.engram("forget", "--yes", "--also-source", episode_id))
        self.gone[text] = episode_id
        self.forgotten.append(text)
        self.look("forget")

    def purge(self) -> None:
        if (chosen := self.choose()) is None:
            return
        text, episode_id = chosen
        replacing = self.text("replacing")
        self.in_child(self.engram("save", "--global", "--supersedes", episode_id, replacing))
        self.adopt([replacing])
        self.attempt("purge", self.engram("purge", "--yes", episode_id))
        self.gone[text] = episode_id
        self.look("purge")
        del self.gone[text]  # a backup from before may bring it back

    def import_lines(self) -> None:
        """New memories, and everything that was ever exported, also what was forgotten since."""
        texts = [self.text("imported") for _ in range(4)]
        with self.exported.open("a") as file:
            for text in texts:
                line = {
                    "id": new_memory_id(),
                    "kind": "fact",
                    "summary": text,
                    "content": text,
                    "scope": "global",
                    "source": "manual",
                }
                file.write(json.dumps(line) + "\n")
        self.attempt("import", self.engram("import", str(self.exported)))
        self.adopt(texts)
        missing = [text for text in texts if text not in self.saved]
        if missing:
            self.problems.append(f"import: {missing} are missing")

    def restore(self) -> None:
        """The newest backup, or a file from outside that knows of nothing since."""
        if not self.outside.exists() or self.chance.random() < 0.2:
            self.in_child(self.back_up)
        backups = list_backups(self.home.backups)
        file = self.outside if self.chance.random() < 0.5 or not backups else backups[0].path
        self.attempt("restore", self.engram("restore", "--yes", str(file)))
        self.look("restore")

    def back_up(self) -> None:
        with self.store() as store:
            shutil.copyfile(make_backup(store, self.home.backups).path, self.outside)

    def rebuild(self) -> None:
        """Damage that lets every row be read, then the worker's start."""

        def damage() -> None:
            with self.store() as store:
                store.checkpoint("TRUNCATE")
            with self.home.memory_db.open("r+b") as file:
                file.seek(68)
                file.write(b"\x12\x34\x56\x78")

        def mend() -> None:
            open_or_set_aside(self.home, self.settings).close()

        self.in_child(damage)
        for _ in range(3):
            point = self.chance.choice(["", *POINTS["rebuild"]])
            kill_after = HANG_SECONDS if point else self.chance.uniform(0, 0.3)
            if self.in_child(mend, point=point, kill_after=kill_after) is not None:
                break
            self.kills[point or "rebuild"] += 1
        self.in_child(mend)
        self.done["rebuild"] += 1
        self.look("rebuild")
        for path in self.home.root.glob("memory.broken*"):
            path.unlink()

    def consolidate(self) -> None:
        def run() -> None:
            with self.store() as store:
                recover_from_crash(store)
                run_consolidation(store, self.settings, is_forced=True)

        self.attempt("consolidate", run, tries=1)
        self.look("consolidate")

    def read_transcripts(self) -> None:
        """New lines are read, and memories are made of them."""
        self.script.grow(6)

        def run() -> None:
            with self.store() as store:
                huey.bind(self.settings.places, self.settings.sqlite_driver)
                recover_from_crash(store)
                ingest_all(store, settings=self.settings, redact=redact)
                drain(make_runtime(self.settings, store), with_waiting=True)
                huey.storage.close()

        self.attempt("read", run)

    def migrate(self) -> None:
        """A memory of the version before: killed while it is opened, the old one or the new one with all its rows."""
        path = self.folder / "older" / "memory.db"
        shutil.rmtree(path.parent, ignore_errors=True)
        driver = self.settings.sqlite_driver

        def make() -> list[str]:
            with contextlib.closing(sqlite3.connect(put_version_4(path))) as old:
                for number in range(20):
                    old.execute(
                        "INSERT INTO episode (episode_id, kind, scope, summary, content, importance, source, status, "
                        "confidence, extractor, created_at_ms, kept_at_ms, stable_id, updated_at_ms) "
                        "VALUES (?, 'fact', 'global', ?, 'x', 'normal', 'manual', 'active', 1, 'local', 1, 1, ?, 1)",
                        (f"ep_{number:012x}", f"old {number}", str(number)),
                    )
                old.execute("INSERT INTO tombstone VALUES ('episode', ?, 1)", (b"ep_000000000003",))
                old.commit()
                rows = old.execute("SELECT summary FROM episode WHERE summary <> 'old 3' ORDER BY id").fetchall()
                return [str(summary) for (summary,) in rows]

        def open_it() -> list[str]:
            with open_store(path, driver=driver) as store:
                damage = store.find_damage()
                return [damage] if damage else [memory.summary for memory in memory_records.all_memories(store)]

        wanted = self.in_child(make)
        found = self.attempt("migrate", open_it)
        if len(wanted) < 30 or found != wanted:
            self.problems.append(f"migrate: {found}")

    # -- all of it

    def run(self, kills: int) -> None:
        operations = (
            self.save,
            self.save,
            self.note,
            self.forget,
            self.purge,
            self.import_lines,
            self.restore,
            self.rebuild,
            self.consolidate,
            self.read_transcripts,
            self.migrate,
        )
        for _ in range(8):
            text = self.text("saved")
            self.in_child(self.engram("save", "--global", text))
            self.adopt([text])
        self.in_child(self.back_up)
        while sum(self.kills.values()) < kills and len(self.problems) < 10:
            for operation in self.chance.sample(operations, len(operations)):
                operation()

    def settle(self) -> dict[str, Any]:
        """No more kills: read the rest; then the files are searched for what was forgotten."""
        self.in_child(lambda: open_or_set_aside(self.home, self.settings).close())
        self.script.grow(3)
        self.kills, kills = Counter(), self.kills
        for _ in range(2):
            self.attempt("last read", self.last_read, tries=0)
        self.look("the end")
        found: dict[str, Any] = self.in_child(self.compare)
        self.kills = kills
        left = [
            f"{path.name}: {text}"
            for path in self.home.root.rglob("*")
            if path.is_file()
            for data in [path.read_bytes()]
            for text in self.forgotten
            if text.split()[-1][:-1].encode() in data or text.encode() in data
        ]
        for check in FINAL_CHECKS:
            self.problems += check(self.settings)
        return found | {"forgotten_left": left, "notes_lost": sorted(self.notes_lost)}

    def last_read(self) -> None:
        with self.store() as store:
            huey.bind(self.settings.places, self.settings.sqlite_driver)
            recover_from_crash(store)
            ingest_all(store, settings=self.settings, redact=redact)
            drain(make_runtime(self.settings, store), with_waiting=True)
            huey.storage.close()

    def compare(self) -> dict[str, Any]:
        """The turns and the automatic memories, against the transcripts and a run that nobody killed."""
        with self.store() as store:
            prompts = Counter(value for (value,) in store.rows("SELECT key FROM turn"))
            memories = compare_memories(self.settings, store)
        return {
            "turns": len(self.script.turns),
            "turns_lost": len(set(self.script.turns) - set(prompts)),
            "turns_doubled": sum(prompts.values()) - len(prompts),
            "memories_missing": memories["missing"],
            "memories_different": memories["different"],
        }


def main(folder: str, seed: str, kills: str, driver: str) -> None:
    upkeep = Upkeep(Path(folder), int(seed), driver)
    upkeep.run(int(kills))
    found = upkeep.settle()
    with contextlib.suppress(OSError):
        shutil.rmtree(upkeep.folder / "older")
    print(json.dumps(found | {"kills": dict(upkeep.kills), "done": dict(upkeep.done), "problems": upkeep.problems}))


if __name__ == "__main__":
    main(*sys.argv[1:])
