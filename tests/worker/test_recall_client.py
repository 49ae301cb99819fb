"""Questions to the worker and to this process: the same hits, dated, through the real socket."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
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
from engram.system.process_lock import ProcessLock
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime
from engram.worker import worker_client
from engram.worker.recall_client import AnsweredBy, Operation, RecallRequest, ask_memory
from engram.worker.socket_server import RecallServer
from engram.worker.worker_client import WorkerStatus, ask_status, ask_worker, wake_worker
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


def test_the_status_of_an_earlier_version_is_understood(settings: Settings, server: RecallServer) -> None:
    status = ask_status(settings.places)
    assert status is not None
    assert status.config == ""
    earlier = {name: value for name, value in status.to_json().items() if name != "config"}

    assert WorkerStatus.from_json(earlier) == replace(status, config=None)


@pytest.mark.parametrize("answer", [b'{"error": "x"}', b'{"hits": [{"id": "ep_0"}]}', b'{"hits": 7}', b"{}", b""])
def test_an_answer_that_cannot_be_understood_is_not_an_answer(settings: Settings, store: Store, answer: bytes) -> None:
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


def test_a_worker_without_a_sign_of_life_is_not_waited_for(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it was stopped a moment ago: the system accepts connections for it, and its heartbeat is fresh."""
    monkeypatch.setattr(worker_client, "SILENT_SECONDS", 0.05)
    lock = ProcessLock(settings.places.worker_lock)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(settings.places.recall_socket))
        listener.listen(1)

        found = ask_memory(store, settings, request(Operation.RECALL))

    lock.release()
    assert found.answered_by is AnsweredBy.MODEL
    assert found.hits
    assert found.note == f"the worker (pid {os.getpid()}) does not answer: `engram doctor` says what to do"
    assert ask_memory(store, settings, request(Operation.RECALL)).note == ""


def test_a_worker_that_shows_life_is_waited_for_until_the_time_is_up(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sends a sign whenever the client waits for one, and never an answer."""
    monkeypatch.setattr(worker_client, "SILENT_SECONDS", 60.0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(settings.places.recall_socket))
        listener.listen(1)
        signs: list[int] = []

        def show_life() -> None:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                while True:
                    signs.append(connection.send(b" "))

        thread = threading.Thread(target=show_life)
        thread.start()

        assert ask_worker(settings.places, {"op": "status"}, timeout_seconds=0.2) is None
        thread.join(60)

    assert len(signs) > 1
