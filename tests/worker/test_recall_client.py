"""Questions to the worker and to this process: the same hits, dated, through the real socket."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from transcript_lines import say

from engram.cli.main import engram
from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.ingest.read_sources import ingest_path
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.search.vector_rows import vector_owner_ids
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.hits import MAX_HITS, PublicHit
from engram.search.searcher import NOBODY_SAID_PHRASE, Searcher
from engram.search.vectors.loaded_vectors import embed_missing
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime
from engram.worker import recall_client
from engram.worker.recall_client import AnsweredBy, Operation, RecallRequest, ask_memory
from engram.worker.socket_server import RecallServer
from engram.worker.worker_client import wake_worker
from tests.workers import stand_in

SESSION = "22582f02-0391-4a88-b729-f218fbfb8d9e"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    return made


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    """A memory with one saved memory and one turn, both about a cursor."""
    path = settings.projects_folder / "-work-demo" / f"{SESSION}.jsonl"
    say(path, "user", "Where does the parser keep its cursor?", at="2026-05-01T10:00:00.000Z")
    say(path, "assistant", "The parser keeps its cursor in the database.", at="2026-05-01T10:00:05.000Z")
    with open_store(settings.places.memory_db) as opened:
        ingest_path(opened, path, settings=settings, redact=redact, close=True)
        save_memory(opened, "The cursor of the parser is a byte offset.", redact, scope="global", actor=Actor.AGENT)
        embed_missing(opened, HashedEmbedder())
        yield opened


@pytest.fixture
def server(settings: Settings, store: Store) -> Iterator[RecallServer]:
    """engram.sock, answered by the worker's own server."""
    huey.bind(settings.places, settings.sqlite_driver)
    searcher = Searcher(store, settings, embedder=HashedEmbedder())
    runtime = Runtime(settings, store, searcher, RecollectionService(store, searcher, settings), HashedEmbedder())
    started = RecallServer(runtime).start()
    yield started
    started.close()
    huey.storage.close()


def request(operation: Operation, limit: int = 5) -> RecallRequest:
    return RecallRequest(operation=operation, text="the cursor of the parser", limit=limit, project_id=None)


@pytest.mark.parametrize("operation", list(Operation))
def test_a_hit_crosses_the_socket_whole(
    settings: Settings, store: Store, server: RecallServer, operation: Operation
) -> None:
    asked = ask_memory(store, settings, request(operation))
    here = ask_memory(store, settings, request(operation), with_worker=False)

    assert (asked.answered_by, here.answered_by) == (AnsweredBy.WORKER, AnsweredBy.MODEL)
    assert asked.hits == here.hits
    assert asked.hits
    for hit in asked.hits:
        assert hit.created_at_ms
        assert hit.evidence or hit.kind != "turn"
        assert hit == PublicHit.from_json(json.loads(json.dumps(hit.to_json())))


def test_a_limit_of_everything_crosses_the_socket(settings: Settings, store: Store, server: RecallServer) -> None:
    limited = replace(request(Operation.RECALL, limit=1), max_hits=1)

    everything = ask_memory(store, settings, request(Operation.RECALL))
    asked = ask_memory(store, settings, limited)
    here = ask_memory(store, settings, limited, with_worker=False)

    assert len(everything.hits) == 2
    assert asked.answered_by is AnsweredBy.WORKER
    assert asked.hits == here.hits == everything.hits[:1]


def test_what_nobody_said_crosses_the_socket(settings: Settings, store: Store, server: RecallServer) -> None:
    phrase = replace(request(Operation.SEARCH), text='"the parser of the cursor"')

    asked = ask_memory(store, settings, phrase)

    assert asked.answered_by is AnsweredBy.WORKER
    assert asked.hits
    assert asked.not_found == ask_memory(store, settings, phrase, with_worker=False).not_found == NOBODY_SAID_PHRASE


def test_the_highest_limit_of_the_command_line_is_one_that_the_worker_takes(
    settings: Settings, server: RecallServer
) -> None:
    flags = ["--home", str(settings.home), "--claude-folder", str(settings.claude_folder)]

    printed = CliRunner().invoke(engram, [*flags, "recall", "cursor", "--limit", str(MAX_HITS), "--json"]).stdout

    assert json.loads(printed)["by"] == "worker"


@pytest.mark.parametrize("answer", [b'{"error": "x"}', b'{"hits": [{"id": "ep_0"}]}', b'{"hits": 7}', b"{}", b""])
def test_an_answer_that_cannot_be_understood_is_no_answer(settings: Settings, store: Store, answer: bytes) -> None:
    with stand_in(settings, answer):
        response = ask_memory(store, settings, request(Operation.RECALL), with_model=False)

    assert response.answered_by is AnsweredBy.TEXT
    assert response.hits[0].text == "The cursor of the parser is a byte offset."


def test_a_wake_up_call_embeds_what_was_just_saved_before_it_is_answered(
    settings: Settings, store: Store, server: RecallServer
) -> None:
    """No consumer runs here, so that no task does it."""
    saved = save_memory(store, "The walrus proxy drops long headers.", redact, scope="global", actor=Actor.USER)

    wake_worker(settings.places)

    assert saved.id in vector_owner_ids(store, "e")


@pytest.mark.parametrize(("age_seconds", "patience"), [(None, 10.0), (2, 10.0), (-3_600, 10.0), (60, 1.0)])
def test_a_worker_without_a_sign_of_life_is_not_waited_for(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch, age_seconds: int | None, patience: float
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(recall_client, "ask_worker", lambda *_, timeout_seconds: waited.append(timeout_seconds))
    lock = settings.places.worker_lock
    if age_seconds is not None:
        lock.touch()
        os.utime(lock, (time.time() - age_seconds,) * 2)

    found = ask_memory(store, settings, RecallRequest(Operation.RECALL, "cursor of the parser", 5, None))

    assert waited == [patience]
    assert found.hits
