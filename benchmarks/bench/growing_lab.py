"""A memory folder with N of something, for measuring how work grows with N."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from engram.cli.main import engram
from engram.enums import Actor, Kind, Scope, Source, Voice
from engram.ingest.read_sources import ingest_all
from engram.models.engine.database import using_database
from engram.models.memories.memory_changes import add_memories
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.redaction import redact
from engram.settings import Settings
from engram.tasks.drain import drain
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime, make_runtime
from tests.growing_transcript import Transcript

#: Words of the made texts.
WORDS = sorted({word for word in Path(__file__).read_text(encoding="utf-8").split() if word.isalpha()})
_START_MS = 1_767_225_600_000


def words(number: int, count: int = 12) -> str:
    """Return the same words for the same number, other words for another."""
    chance = random.Random(number)
    return " ".join([*chance.choices(WORDS, k=count), f"n{number}"])


class Lab:
    """A memory folder of its own, with Claude's folder beside it and no model."""

    def __init__(self, folder: Path) -> None:
        """Make the folders, and let commands of this process use them."""
        self.folder = folder
        self.settings = Settings(
            home=folder / "home", claude_folder=folder / "claude", embedding_model="hashed", consolidate_seconds=0
        )
        self.settings.places.prepare()
        self.closing = contextlib.ExitStack()
        self.closing.callback(huey.storage.close)
        os.environ |= {
            "HOME": str(folder),
            "ENGRAM_HOME": str(folder / "home"),
            "CLAUDE_CONFIG_DIR": str(folder / "claude"),
            "ENGRAM_EMBEDDING_MODEL": "hashed",
        }
        self.project = folder / "work" / "boats"
        (self.project / ".git").mkdir(parents=True)
        huey.bind(self.settings.places, self.settings.sqlite_driver)

    @functools.cached_property
    def store(self) -> Any:
        # So that no command of this process takes the file for one that nobody has open.
        self.closing.enter_context(using_database(self.settings.places.memory_db))
        return self.closing.enter_context(open_store(self.settings.places.memory_db))

    @functools.cached_property
    def runtime(self) -> Runtime:
        made = make_runtime(self.settings, self.store)
        made.refresh_index()
        return made

    def run(self, *arguments: object) -> str:
        """Run ``engram …`` in this process; fail if it reports a bug."""
        result = CliRunner().invoke(engram, [str(argument) for argument in arguments])
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code != 2, result.output
        return result.output

    def hook(self, event: str, prompt: str) -> bytes:
        """Answer a hook, as the worker does."""
        payload = {"hook_event_name": event, "session_id": "s1", "cwd": str(self.project), "prompt": prompt}
        more: dict[str, Any] = {"error": prompt, "tool_name": "Bash", "tool_input": {"command": prompt}}
        return self.runtime.recollection.answer_hook({**payload, **more})

    def session(self, name: str = "s1", cwd: Path | str = "") -> Transcript:
        """Return a transcript without lines."""
        path = self.settings.claude_folder / "projects" / "-work-boats" / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return Transcript(path, cwd=str(cwd or self.project))

    def sessions(self, count: int, lines: Callable[[Transcript, int], object], *, projects: int = 1) -> Lab:
        """Write sessions in some projects."""
        for number in range(count):
            folder = self.folder / "work" / f"p{number % projects}" if number % projects else self.project
            (folder / ".git").mkdir(parents=True, exist_ok=True)
            transcript = self.session(f"{number:08x}-0000-4000-8000-000000000000", folder)
            transcript.at_ms += 60_000 * number
            lines(transcript, number)
        return self

    def read(self) -> Lab:
        """Read all transcripts."""
        ingest_all(self.store, settings=self.settings, redact=redact)
        return self

    def drain(self) -> Lab:
        """Make memories and vectors of everything that was read."""
        drain(self.runtime, with_waiting=True)
        return self

    def memories(
        self, count: int, text: Callable[[int], str] = words, *, projects: int = 1, **fields: Any
    ) -> list[str]:
        """Store memories; return their ids."""
        given = {"kind": Kind.DECISION, "voice": Voice.USER, "source": Source.AUTO, "scope": Scope.PROJECT} | fields
        made = []
        with self.store.transaction() as tx:
            roots = [str(self.project if projects == 1 else f"/p/{n}") for n in range(projects)]
            rows = [ensure_project(tx, root, Path(root).name, root) for root in roots]
            for number in range(count):
                said = text(number)
                memory = Memory(
                    episode_id=new_memory_id(),
                    summary=said[:300],
                    content=said,
                    project_id=rows[number % projects].id,
                    session_id=f"{number % 20:08x}-0000-4000-8000-000000000000",
                    created_at_ms=_START_MS + number * 60_000,
                    **given,
                )
                made.append((memory, [Evidence(f"{number:08x}-0000-4000-9000-000000000000", memory.session_id)]))
            add_memories(tx, made, actor=Actor.MODEL, action="extract", reasons=[""] * count)
        drain(self.runtime)
        self.runtime.refresh_index()
        return [memory.episode_id for memory, _ in made]

    def close(self) -> None:
        """End what is open."""
        self.closing.close()


def rewrite(path: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Write a transcript's changed lines in place, at a later time."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(change(lines)), encoding="utf-8")
    later = path.stat().st_mtime_ns + 10**9
    os.utime(path, ns=(later, later))


def nested(depth: int) -> Any:
    """Return JSON of this depth."""
    value: Any = "end"
    for _ in range(depth):
        value = {"a": [value]}
    return json.loads(json.dumps(value)) if depth < 400 else value
