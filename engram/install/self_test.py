"""Makes up a session, makes a memory of it, recalls it and forgets it, in a folder of its own that is deleted then."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from engram.atomic import make_private_folder
from engram.enums import Actor
from engram.errors import EngramError
from engram.ingest.service import ingest_all
from engram.memories.forget import forget_episode
from engram.models.copies import open_memory
from engram.models.episode_lists import latest_episodes
from engram.models.store import Store
from engram.redaction import redact
from engram.search.question.query import Query
from engram.settings import Settings
from engram.tasks.runtime import Runtime, make_runtime
from engram.transcripts import registry

#: A word that no other text contains.
CANARY = "Quagmarine"
_SESSION = "5e1f7e57-0000-4000-8000-000000000001"
_PROMPT = (
    f"We decided to keep the {CANARY} queue in SQLite instead of Redis, because a second service must not be needed. "
    "Never change that without asking me."
)
_ANSWER = f"Understood: the {CANARY} queue stays in SQLite, so that no second service is needed."
_QUESTION = f"Why is the {CANARY} queue in SQLite?"


@dataclass(frozen=True, slots=True)
class SelfTest:
    """How the test went."""

    #: What did not work; "" if everything did.
    problem: str
    seconds: float
    #: The model took part; False if recall used text alone.
    has_vectors: bool = False


def run_self_test(settings: Settings) -> SelfTest:
    """Test reading, making a memory, recall and forgetting with this installation's model and disk.

    It works in a folder inside the memory folder, and leaves nothing.
    """
    started = time.monotonic()
    has_vectors = False
    try:
        with _folder(settings) as folder:
            has_vectors = _test(settings, folder)
            problem = ""
    except EngramError as error:
        problem = str(error)
    return SelfTest(problem, time.monotonic() - started, has_vectors)


@contextmanager
def _folder(settings: Settings) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix=".self-test-", dir=make_private_folder(settings.home, with_parents=True)))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _test(settings: Settings, folder: Path) -> bool:
    """Run all steps; returns whether the model took part. Raises EngramError for one that fails."""
    own = Settings(
        home=folder,
        claude_folder=folder / "claude",
        embedding_model=settings.embedding_model,
        sqlite_driver=settings.sqlite_driver,
    )
    models = settings.places.models
    if models.is_dir():
        own.places.models.symlink_to(models)
    path = _write_session(own.projects_folder / "-self-test")
    own.places.prepare()
    with open_memory(own.places.memory_db, driver=own.sqlite_driver, is_made=True) as store:
        ingest_all(store, settings=own, redact=redact, sources=registry.sources_at(path, own))
        runtime = make_runtime(replace(own, exclude=()), store, compile_if_missing=False)
        # The queue is loaded only where it is used: every command imports this module.
        from engram.tasks.drain import drain

        drain(runtime, with_waiting=True)
        episode_id = _recall(store, runtime)
        forget_episode(store, own.places, episode_id, actor=Actor.USER, also_source=True)
        runtime.refresh_index()
        if _hits(runtime):
            raise EngramError("a forgotten memory was found again")
    left = [file.name for file in folder.glob("memory.db*") if CANARY.encode() in file.read_bytes()]
    if left:
        raise EngramError(f"words of a forgotten memory are still in {', '.join(left)}")
    return runtime.embedder is not None


def _recall(store: Store, runtime: Runtime) -> str:
    memories = latest_episodes(store)
    if not any(CANARY in memory.summary for memory in memories):
        raise EngramError("no memory was made of a session")
    runtime.refresh_index()
    hits = _hits(runtime)
    if not hits:
        raise EngramError("a memory that was just made was not found")
    return hits[0]


def _hits(runtime: Runtime) -> list[str]:
    return [hit.id for hit in runtime.searcher.recall(Query(text=_QUESTION, limit=3))]


def _write_session(folder: Path) -> Path:
    """A session as Claude Code writes it: a prompt and an answer."""
    folder.mkdir(parents=True)
    common = {"sessionId": _SESSION, "cwd": str(folder), "isSidechain": False, "version": "2.1.330"}
    lines = [
        {
            **common,
            "type": "user",
            "uuid": "5e1f7e57-0000-4000-8000-000000000002",
            "parentUuid": None,
            "timestamp": "2026-01-05T10:00:00.000Z",
            "message": {"role": "user", "content": _PROMPT},
        },
        {
            **common,
            "type": "assistant",
            "uuid": "5e1f7e57-0000-4000-8000-000000000003",
            "parentUuid": "5e1f7e57-0000-4000-8000-000000000002",
            "timestamp": "2026-01-05T10:00:09.000Z",
            "message": {"id": "msg_1", "role": "assistant", "content": [{"type": "text", "text": _ANSWER}]},
        },
    ]
    path = folder / f"{_SESSION}.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path
