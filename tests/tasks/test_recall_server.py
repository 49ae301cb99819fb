"""engram.sock: hooks get their bytes or nothing, everybody else JSON; strangers, floods and silence are borne."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.models.episode_changes import add_episode
from engram.models.episodes import Episode, new_episode_id
from engram.models.sessions import ensure_project
from engram.models.store import open_store
from engram.paths import Home
from engram.recollection.client import ask_worker
from engram.search.service import Searcher
from engram.settings import Settings
from engram.tasks import recall_server
from engram.tasks.queue import huey
from engram.tasks.recall_server import REQUEST_BYTES, RecallServer
from engram.tasks.runtime import Runtime
from engram.tasks.worker import bind_queue


class Recollection:
    """Answers hooks with what it was given."""

    def __init__(self) -> None:
        self.answer = b'{"hookSpecificOutput":{}}'
        self.late: list[Mapping[str, Any]] = []

    def answer_hook(self, payload: Mapping[str, Any]) -> bytes:
        if payload.get("prompt") == "break":
            raise RuntimeError("out of order")
        return self.answer

    def came_too_late(self, payload: Mapping[str, Any]) -> None:
        self.late.append(payload)


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    settings.places.prepare()
    bind_queue(settings)
    with open_store(settings.places.memory_db) as store:
        text = "The parser keeps its cursor in the database."
        with store.writing():
            add_episode(store, Episode(new_episode_id(), "fact", text, text, scope="global", source="manual"), [])
        embedder = HashedEmbedder()
        searcher = Searcher(store, settings, embedder=embedder)
        yield Runtime(settings, store, searcher, Recollection(), embedder)  # type: ignore[arg-type]
    huey.storage.close()


@pytest.fixture
def server(runtime: Runtime) -> Iterator[RecallServer]:
    server = RecallServer(runtime).start()
    yield server
    server.close()


@pytest.fixture
def home(runtime: Runtime, server: RecallServer) -> Home:
    return runtime.settings.places


def exchange(home: Home, data: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(20)
        connection.connect(str(home.recall_socket))
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65_536):
            answer += chunk
        return answer


def test_a_hook_gets_its_bytes_as_they_are(home: Home, runtime: Runtime) -> None:
    assert exchange(home, b'{"hook_event_name": "UserPromptSubmit"}') == b'{"hookSpecificOutput":{}}'


def test_a_hook_gets_silence_when_something_breaks(home: Home) -> None:
    assert exchange(home, b'{"hook_event_name": "UserPromptSubmit", "prompt": "break"}') == b""


def test_a_recall_has_hits_with_parts(home: Home) -> None:
    answer = ask_worker(home, {"op": "recall", "query": "where is the cursor of the parser?"})

    assert answer is not None
    assert answer["hits"][0]["summary"] == "The parser keeps its cursor in the database."
    assert answer["hits"][0]["parts"]


def test_who_names_no_project_gets_what_belongs_to_none(home: Home, runtime: Runtime) -> None:
    store = runtime.store
    with store.writing():
        project = ensure_project(store, "/x", "x")
        text = "The parser of project x has a cursor of its own."
        add_episode(store, Episode(new_episode_id(), "fact", text, text, project_id=project.id), [])

    def found(**more: object) -> list[str]:
        answer = ask_worker(home, {"op": "recall", "query": "the cursor of the parser", **more})
        assert answer is not None
        return [hit["project"] for hit in answer["hits"]]

    assert found() == found(project_id=None) == found(all_projects="yes") == [""]
    assert sorted(found(project_id=project.id)) == sorted(found(all_projects=True)) == ["", "x"]
    assert "error" in (ask_worker(home, {"op": "recall", "query": "x", "project_id": True}) or {})


def test_a_search_answers(home: Home) -> None:
    assert ask_worker(home, {"op": "search", "query": "cursor"}) == {"hits": []}


def test_vectors_are_given_out(home: Home) -> None:
    answer = ask_worker(home, {"op": "embed", "texts": ["one", "two"], "kind": "document"})

    assert answer is not None
    assert answer["model"] == HashedEmbedder().model_id
    assert [len(row) for row in answer["vectors"]] == [384, 384]


def test_the_status_names_the_process(home: Home) -> None:
    answer = ask_worker(home, {"op": "status"})

    assert answer is not None
    assert {"pid", "rss_mb", "uptime_seconds", "model", "index_mb"} <= set(answer)


def test_a_wake_makes_missing_vectors_due(home: Home) -> None:
    assert ask_worker(home, {"op": "wake"}) == {"ok": True}
    assert [task.name for task in huey.pending()] == ["embed"]


@pytest.mark.parametrize(
    "request_",
    [
        {"op": "nosuch"}, {}, {"op": "recall"}, {"op": "recall", "query": 5}, {"op": "recall", "query": "x", "limit": 0},
        {"op": "recall", "query": "x", "limit": True}, {"op": "search", "query": "x", "project_id": "p"},
        {"op": "embed", "texts": "x"}, {"op": "embed", "texts": [1]}, {"op": "embed", "texts": ["x"] * 1000},
    ],
)  # fmt: skip
def test_a_request_that_cannot_be_used_gets_a_clear_error(home: Home, request_: dict[str, Any]) -> None:
    answer = ask_worker(home, request_)

    assert answer is not None
    assert list(answer) == ["error"]


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'"text"'])
def test_what_is_no_object_gets_an_error(home: Home, data: bytes) -> None:
    assert "error" in json.loads(exchange(home, data))


def test_a_message_beyond_a_megabyte_is_refused(server: RecallServer) -> None:
    assert "1 MB" in json.loads(server.answer(None))["error"]
    near = json.dumps({"op": "recall", "query": "x" * (REQUEST_BYTES - 100)}).encode()
    assert "hits" in json.loads(server.answer(near))


def test_a_prompt_of_eighty_seven_thousand_characters_is_answered(home: Home) -> None:
    payload = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": "word " * 17_400}).encode()

    assert exchange(home, payload) == b'{"hookSpecificOutput":{}}'


def test_clients_that_say_nothing_do_not_keep_others_waiting(home: Home) -> None:
    silent = []
    for _ in range(recall_server.THREADS - 1):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(home.recall_socket))
        silent.append(connection)

    assert exchange(home, b'{"hook_event_name": "UserPromptSubmit"}') == b'{"hookSpecificOutput":{}}'

    for connection in silent:
        connection.close()


def test_many_clients_at_once_are_all_answered(home: Home) -> None:
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ask_worker(home, {"op": "recall", "query": "cursor"})))
        for _ in range(24)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(answers) == 24
    assert all(answer and answer["hits"] for answer in answers)


def test_an_answer_that_nobody_took_was_too_late(runtime: Runtime, server: RecallServer) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    theirs.sendall(b'{"hook_event_name": "UserPromptSubmit", "prompt": "slow"}')
    theirs.shutdown(socket.SHUT_WR)
    theirs.close()

    with ours:
        server._converse(ours)

    assert [payload["prompt"] for payload in runtime.recollection.late] == ["slow"]  # type: ignore[attr-defined]


def test_somebody_else_gets_no_answer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_server, "_is_same_user", lambda connection: False)

    try:
        assert exchange(home, b'{"op": "status"}') == b""
    except ConnectionError:
        pass


def test_the_peer_is_this_user() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        assert recall_server._is_same_user(ours)
