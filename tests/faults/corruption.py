"""Damages memory.db at random and looks at it through the real entry points; run by test_corruption.py.

Usage: python corruption.py FOLDER SEED COUNT DRIVER. A memory with turns, memories, notes, a backup and things done by
hand is made once. Each trial copies it, damages the copy, runs ``engram status``, ``recall``, ``doctor`` and ``export``
in processes of their own, then starts the worker's side and reads the transcripts again, and runs the commands once
more. Prints one JSON object: how many of each kind were recovered, and every problem.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import json
import os
import random
import re
import shutil
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from chaos import TurnExtractor
from transcript_lines import say

from engram.cli.main import main as run_engram
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.errors import EngramError
from engram.extraction.extracting import extract_session
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_all
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.memories import memory_records
from engram.models.open_memory import open_store
from engram.models.rescue.backup import make_backup
from engram.models.rescue.restore import list_rescues
from engram.models.work.task_runs import list_stages
from engram.redaction import redact
from engram.settings import Settings
from engram.worker.memory_file import open_or_set_aside

SESSION = "11111111-2222-3333-4444-555555555555"
TURNS = 40
SAVED = 30
PAGE = 4096
COMMANDS = (
    ("status",),
    ("recall", "the retry budget of the importer"),
    ("doctor",),
    ("export",),
    ("timeline",),
    ("sessions",),
    ("tasks",),
)
Damage = Callable[[Path, random.Random], None]


def saved_text(number: int) -> str:
    return f"Saved rule {number}: the lantern of pier {number * 7919} has {number + 2} doors."


def flip_bits(path: Path, chance: random.Random) -> None:
    """Flip 1 to 64 single bits anywhere."""
    _overwrite(path, [(chance.randrange(path.stat().st_size), None) for _ in range(chance.randint(1, 64))], chance)


def _overwrite(path: Path, places: list[tuple[int, int | None]], chance: random.Random) -> None:
    with path.open("r+b") as file:
        for offset, value in places:
            file.seek(offset)
            old = file.read(1)[0]
            file.seek(offset)
            file.write(bytes([old ^ (1 << chance.randrange(8)) if value is None else value]))


def overwrite_pages(path: Path, chance: random.Random) -> None:
    """Overwrite 1 to 8 pages with noise or zeros."""
    with path.open("r+b") as file:
        for _ in range(chance.randint(1, 8)):
            file.seek(chance.randrange(path.stat().st_size // PAGE) * PAGE)
            file.write(chance.randbytes(PAGE) if chance.random() < 0.7 else bytes(PAGE))


def change_header(path: Path, chance: random.Random) -> None:
    """Change 1 to 3 bytes of the header."""
    _overwrite(path, [(chance.randrange(100), chance.randrange(256)) for _ in range(chance.randint(1, 3))], chance)


def change_schema(path: Path, chance: random.Random) -> None:
    """Change bytes of the first page, where the tables are described."""
    _overwrite(
        path, [(chance.randrange(100, PAGE), chance.randrange(256)) for _ in range(chance.randint(1, 9))], chance
    )


def cut(path: Path, chance: random.Random) -> None:
    """Cut the file anywhere, or at a page."""
    size = chance.randrange(path.stat().st_size)
    os.truncate(path, size if chance.random() < 0.5 else size // PAGE * PAGE)


def swap_pages(path: Path, chance: random.Random) -> None:
    """Exchange two pages, 1 to 4 times."""
    for _ in range(chance.randint(1, 4)):
        first, second = (chance.randrange(path.stat().st_size // PAGE) * PAGE for _ in range(2))
        with path.open("r+b") as file:
            file.seek(first)
            one = file.read(PAGE)
            file.seek(second)
            other = file.read(PAGE)
            file.seek(first)
            file.write(other)
            file.seek(second)
            file.write(one)


def damage_log(path: Path, chance: random.Random) -> None:
    """Damage the write-ahead log, which holds what was saved last."""
    chance.choice((flip_bits, overwrite_pages, insert_bytes))(path.with_name(f"{path.name}-wal"), chance)


def cut_log(path: Path, chance: random.Random) -> None:
    """Cut the write-ahead log: what a power cut does, and no reader can tell; the beginning must be there."""
    cut(path.with_name(f"{path.name}-wal"), chance)


def insert_bytes(path: Path, chance: random.Random) -> None:
    """Insert some bytes, so that everything behind them is shifted."""
    data = path.read_bytes()
    place = chance.randrange(len(data))
    path.write_bytes(data[:place] + chance.randbytes(chance.randint(1, 300)) + data[place:])


#: The first five are the most different; the fast tier ends with them.
KINDS: dict[str, Damage] = {
    "bits": flip_bits,
    "pages": overwrite_pages,
    "schema": change_schema,
    "cut": cut,
    "log": damage_log,
    "header": change_header,
    "swapped": swap_pages,
    "shifted": insert_bytes,
    "cut log": cut_log,
}


class Trials:
    """One damage after another, each in a copy of the same memory."""

    def __init__(self, folder: Path, seed: int, driver: str) -> None:
        self.folder = folder
        self.chance = random.Random(seed)
        self.driver = driver
        self.counts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.template = folder / "template"
        self.in_child(lambda: self.fill(self.settings(self.template)))
        shutil.copytree(self.template, folder / "trial")
        self.import_once(self.settings(folder / "trial"))

    def settings(self, folder: Path) -> Settings:
        return Settings(
            home=folder / "home",
            claude_folder=folder / "claude",
            embedding_model="hashed",
            sqlite_driver=self.driver,
            extract_first_messages=1,
            extract_every_messages=1,
            hourly_memories=10_000,
            session_memories=10_000,
        )

    def fill(self, settings: Settings) -> None:
        """A memory of some size; its log is kept as it was, so that it can be damaged too."""
        path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
        for number in range(TURNS):
            say(path, "user", f"Please explain importer {number} and its retry budget. " * 20)
        places = settings.places.prepare()
        store = open_store(places.memory_db, driver=settings.sqlite_driver)
        read_again(store, settings)
        forgotten = save_memory(store, "The forgotten walnut harbour", redact, scope="global", actor=Actor.AGENT)
        for number in range(SAVED // 2):
            save_memory(store, saved_text(number), redact, scope="global", actor=Actor.AGENT)
        make_backup(store, places.backups)
        forget_memory(store, places, forgotten.episode_id, also_source=True, actor=Actor.USER)
        store.checkpoint("TRUNCATE")
        for number in range(SAVED // 2, SAVED):
            save_memory(store, saved_text(number), redact, scope="global", actor=Actor.AGENT)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{places.memory_db}{suffix}", f"{places.memory_db}{suffix}.kept")
        store.close()
        for suffix in ("", "-wal"):
            os.replace(f"{places.memory_db}{suffix}.kept", f"{places.memory_db}{suffix}")

    def trial(self, number: int) -> None:
        """Damage a copy, look at it, repair it, look again."""
        kind = list(KINDS)[number % len(KINDS)]
        folder = self.folder / "trial"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.template, folder)
        settings = self.settings(folder)
        if "log" not in kind and self.chance.random() < 0.7:
            self.in_child(lambda: empty_log(settings))
        KINDS[kind](settings.places.memory_db, self.chance)
        name = f"{number} {kind}"
        for command in COMMANDS:
            self.look(name, settings, command, "before")
        report = self.in_child(lambda: repair(settings))
        if "fault" in report:
            self.problems.append(f"{name}: the worker: {report['fault']}")
            return
        for command in COMMANDS:
            self.look(name, settings, command, "after")
        self.judge(name, kind, report)

    def judge(self, name: str, kind: str, report: dict[str, Any]) -> None:
        missing = len(report["missing"])
        said = report["said"]
        if report["damage"] or report["turns"] != TURNS or report["forgotten"]:
            self.problems.append(f"{name}: {report}")
        elif not missing:
            self.counts[f"{kind}: all there"] += 1
        elif report["missing"] == list(range(SAVED - missing, SAVED)) and (
            kind == "cut log" or (kind == "log" and missing == 1)
        ):
            self.counts[f"{kind}: as far as it went"] += 1
        elif kind == "bits" and set(report["missing"]) <= set(report["changed"]):
            self.counts[f"{kind}: a letter changed in what no backup has"] += 1
        elif report["lost"] >= missing or "could not be read to its end" in said or "write-ahead log" in said:
            self.counts[f"{kind}: reported"] += 1
        else:
            self.problems.append(f"{name}: {missing} missing and not reported: {report}")

    def look(self, name: str, settings: Settings, command: tuple[str, ...], when: str) -> None:
        """One command, which may fail, but in one line."""
        code, output = self.run_command(settings, command)
        if code not in (0, 1) or "a bug in Engram" in output or "Traceback" in output:
            log = settings.places.logs / "cli.log"
            tail = log.read_text(errors="replace")[-1500:] if log.exists() else ""
            self.problems.append(f"{name}: engram {command[0]} {when}: exit {code}: {output[-300:]} {tail}")

    def import_once(self, settings: Settings) -> None:
        """Import here what the commands import, so that not every child does it again."""

        def names_of(command: tuple[str, ...]) -> list[str]:
            with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
                run_engram(self.arguments(settings, command))
            return sorted(sys.modules)

        for command in COMMANDS:
            for name in self.in_child(functools.partial(names_of, command)):
                with contextlib.suppress(ImportError):
                    importlib.import_module(name)

    def arguments(self, settings: Settings, command: tuple[str, ...]) -> list[str]:
        return [
            "--home",
            str(settings.home),
            "--claude-folder",
            str(settings.claude_folder),
            "--set",
            "embedding_model=hashed",
            "--set",
            f"sqlite_driver={self.driver}",
            *command,
        ]

    def run_command(self, settings: Settings, command: tuple[str, ...]) -> tuple[int, str]:
        output = self.folder / "output"
        child = os.fork()
        if not child:
            try:
                target = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(target, 1)
                os.dup2(target, 2)
                run_engram(self.arguments(settings, command))
            except SystemExit as end:
                with contextlib.suppress(Exception):
                    sys.stdout.flush()
                    sys.stderr.flush()
                os._exit(end.code if isinstance(end.code, int) else 1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        return os.waitstatus_to_exitcode(status), output.read_text(errors="replace")

    def in_child(self, action: Callable[[], Any]) -> Any:
        """What ``action`` returns in a separate process; ``{"fault": …}`` if it raises."""
        answer = self.folder / "answer"
        answer.unlink(missing_ok=True)
        child = os.fork()
        if not child:
            try:
                answer.write_text(json.dumps(action()))
            except BaseException:  # noqa: BLE001 - the edge of a child
                answer.write_text(json.dumps({"fault": traceback.format_exc()[-2500:]}))
            os._exit(0)
        os.waitpid(child, 0)
        return json.loads(answer.read_text())


def empty_log(settings: Settings) -> None:
    with open_store(settings.places.memory_db, driver=settings.sqlite_driver) as store:
        store.checkpoint("TRUNCATE")


def read_again(store: Store, settings: Settings) -> None:
    """Read the transcripts and make memories."""
    ingest_all(store, settings=settings, redact=redact)
    extract_session(store, SESSION, extractor=TurnExtractor(), embedder=HashedEmbedder(), settings=settings)


def opened(settings: Settings) -> Iterator[Store]:
    """The memory as the worker opens it, again after each damage that is met in use."""
    for _ in range(3):
        yield open_or_set_aside(settings.places, settings)


def repair(settings: Settings) -> dict[str, Any]:
    """What the worker does: open, read again, and start again where damage is met; then what is there."""
    from engram.errors import BrokenDatabase
    from engram.models.work.task_runs import note_damage

    error: EngramError | None = None
    for store in opened(settings):
        try:
            read_again(store, settings)
            found = look_inside(store, settings)
            store.close()
            return found
        except BrokenDatabase as damage:
            error = damage
            note_damage(store)
            store.close()
    raise error or EngramError("it could not be opened")


def look_inside(store: Store, settings: Settings) -> dict[str, Any]:
    contents = [memory.content for memory in memory_records.all_memories(store)]
    stages = (stage.last_error for stage in list_stages(store) if stage.name in ("memory", "lost writes"))
    said = "; ".join([*list_rescues(store).values(), *stages])
    lost = re.search(r"(\d+) memor(?:y|ies) could not be read", said)
    missing = [number for number in range(SAVED) if saved_text(number) not in contents]
    return {
        "missing": missing,
        # Saved since the backup: SQLite and Engram cannot tell a letter that became another one.
        "changed": [
            number
            for number in missing
            if number >= SAVED // 2 and any(_is_nearly(text, saved_text(number)) for text in contents)
        ],
        "turns": store.value("SELECT count(*) FROM turn"),
        "forgotten": any("forgotten walnut" in text for text in contents),
        "said": said,
        "lost": int(lost[1]) if lost else 0,
        "damage": store.find_damage(),
    }


def _is_nearly(text: str, wanted: str) -> bool:
    return len(text) == len(wanted) and sum(a != b for a, b in zip(text, wanted, strict=True)) <= 2


def main(folder: str, seed: str, count: str, driver: str) -> None:
    trials = Trials(Path(folder), int(seed), driver)
    for number in range(int(count)):
        trials.trial(number)
    print(json.dumps({"counts": dict(trials.counts), "problems": trials.problems}))


if __name__ == "__main__":
    main(*sys.argv[1:])
