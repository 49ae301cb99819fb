"""engram.sock: hooks get their bytes or nothing, everybody else JSON; strangers, floods and silence are borne."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Memory, new_memory_id
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.models.shown.usage import late_since
from engram.paths import Home
from engram.search.searcher import Hit, Query, Searcher
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime
from engram.worker import request_reader
from engram.worker import socket_server as recall_server
from engram.worker.hook_answers import parse_request
from engram.worker.request_reader import MAX_REQUEST_BYTES
from engram.worker.socket_server import Patience, RecallServer
from engram.worker.worker_client import SILENT_SECONDS, TAKES_SIGNS, announce_worker, ask_worker
from engram_hooks import prompt

HOOK_BEGIN = b'{"hook_event_name": "Us'
HOOK = HOOK_BEGIN + b'erPromptSubmit"}'
ANSWER = b'{"hookSpecificOutput":{}}'


class SlowSearcher:
    """Waits before it catches up with what is new."""

    def __init__(self, searcher: Searcher) -> None:
        self._searcher = searcher
        self.go_on = threading.Event()

    def catch_up(self) -> int:
        self.go_on.wait(60)
        return self._searcher.catch_up()

    def recall(self, query: Query) -> list[Hit]:
        return self._searcher.recall(query)


class Recollection:
    """Answers hooks with what it was given."""

    def __init__(self) -> None:
        self.answer = b'{"hookSpecificOutput":{}}'
        self.late: list[Mapping[str, Any]] = []

        self.missed: list[Mapping[str, Any]] = []
        #: Set once a hook is being answered; the answer waits for ``go_on``.
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.noted = threading.Event()

    def write_down(self) -> None:
        pass

    def answer_hook(self, payload: Mapping[str, Any]) -> bytes:
        self.entered.set()
        self.go_on.wait(60)
        if payload.get("prompt") == "break":
            raise RuntimeError("out of order")
        return self.answer

    def came_too_late(self, payload: Mapping[str, Any]) -> None:
        self.late.append(payload)
        self.noted.set()

    def never_asked(self, payload: Mapping[str, Any]) -> None:
        self.missed.append(payload)
        self.noted.set()


@pytest.fixture
def runtime(tmp_path: Path) -> Iterator[Runtime]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    settings.places.prepare()
    huey.bind(settings.places, settings.sqlite_driver)
    with open_store(settings.places.memory_db) as store:
        text = "The parser keeps its cursor in the database."
        with store.transaction() as tx:
            add_memory(
                tx,
                Memory(new_memory_id(), "fact", text, text, scope="global", source="manual"),
                [],
                actor=Actor.MODEL,
            )
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


def test_a_worker_that_answers_is_no_longer_announced(runtime: Runtime) -> None:
    announce_worker(runtime.settings.places)
    assert runtime.settings.places.worker_coming.stat().st_mode & 0o777 == 0o600

    server = RecallServer(runtime).start()

    assert not runtime.settings.places.worker_coming.exists()
    server.close()


def test_a_hook_gets_its_bytes_as_they_are(home: Home, runtime: Runtime) -> None:
    assert exchange(home, b'{"hook_event_name": "UserPromptSubmit"}') == b'{"hookSpecificOutput":{}}'


def test_a_hook_gets_silence_when_something_breaks(home: Home) -> None:
    assert exchange(home, b'{"hook_event_name": "UserPromptSubmit", "prompt": "break"}') == b""


@pytest.mark.parametrize(
    "given",
    [
        rb'{"session_id": "\ud800", "prompt": "x"}',
        rb'{"session_id": "s", "prompt": "half \udc00 of a pair and \u0000"}',
        rb'{"session_id": "s", "cwd": "/work/\udcff"}',
        rb'{"session_id": "s", "tool_input": {"command": ["ls \ud83d"], "\udfff": 1}}',
        b'{"session_id": "s", "prompt": "a surrogate in bytes \xed\xa0\x80 and \xff"}',
    ],
)
def test_a_request_has_only_texts_that_a_database_accepts(given: bytes) -> None:
    parsed = parse_request(given)

    shown = json.dumps(parsed, ensure_ascii=False)
    assert "\\u0000" not in shown
    assert shown.encode().count(b"\xef\xbf\xbd") >= 1


def test_a_pair_of_surrogates_stays_one_character() -> None:
    assert parse_request(rb'{"prompt": "\ud83d\ude00"}') == {"prompt": "\U0001f600"}


def test_a_recall_has_hits_with_parts(home: Home) -> None:
    answer = ask_worker(home, {"op": "recall", "query": "where is the cursor of the parser?"})

    assert answer is not None
    assert answer["hits"][0]["text"] == "The parser keeps its cursor in the database."
    assert answer["hits"][0]["parts"]


def test_who_names_no_project_gets_what_belongs_to_none(home: Home, runtime: Runtime) -> None:
    store = runtime.store
    with store.transaction() as tx:
        project = ensure_project(tx, "/x", "x")
        text = "The parser of project x has a cursor of its own."
        add_memory(tx, Memory(new_memory_id(), "fact", text, text, project_id=project.id), [], actor=Actor.MODEL)

    def found(**more: object) -> list[str]:
        answer = ask_worker(home, {"op": "recall", "query": "the cursor of the parser", **more})
        assert answer is not None
        return [hit["project"] for hit in answer["hits"]]

    assert found() == found(project_id=None) == found(all_projects="yes") == [""]
    assert sorted(found(project_id=project.id)) == sorted(found(all_projects=True)) == ["", "x"]
    assert "error" in (ask_worker(home, {"op": "recall", "query": "x", "project_id": True}) or {})


def test_a_rank_gives_ids_alone_in_the_order_of_a_recall(home: Home, runtime: Runtime) -> None:
    store = runtime.store
    with store.transaction() as tx:
        text = "The lexer has no cursor in the database."
        add_memory(
            tx, Memory(new_memory_id(), "fact", text, text, scope="global", source="manual"), [], actor=Actor.MODEL
        )
    question = {"query": "where is the cursor of the parser?"}
    recalled, ranked = ask_worker(home, {"op": "recall", **question}), ask_worker(home, {"op": "rank", **question})

    assert recalled is not None
    assert ranked is not None
    assert [hit["id"] for hit in ranked["hits"]] == [hit["id"] for hit in recalled["hits"]]
    assert len(ranked["hits"]) == 2
    assert all(set(hit) == {"id", "score", "doubtful"} for hit in ranked["hits"])
    assert ranked["hits"][0]["score"] >= ranked["hits"][1]["score"]
    assert "error" in (ask_worker(home, {"op": "rank", "query": 1}) or {})


def test_a_briefing_is_previewed_and_nothing_is_stored(home: Home, runtime: Runtime) -> None:
    store = runtime.store
    with store.transaction() as tx:
        project = ensure_project(tx, "/x", "x")
        text = "From now on every route of project x has a test."
        add_memory(tx, Memory(new_memory_id(), "preference", text, text, project_id=project.id), [], actor=Actor.MODEL)
    before = store.data_version(), store.value("SELECT count(*) FROM injection")

    answer = ask_worker(home, {"op": "briefing", "project_id": project.id})

    assert answer is not None
    assert text in answer["text"]
    assert (store.data_version(), store.value("SELECT count(*) FROM injection")) == before
    for wrong in (None, "1", 999):
        assert "there is no project" in (ask_worker(home, {"op": "briefing", "project_id": wrong}) or {})["error"]


def test_a_search_answers(home: Home) -> None:
    answer = ask_worker(home, {"op": "search", "query": "cursor"})
    assert answer is not None
    assert answer["hits"] == []


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
        {"op": "nosuch"},
        {},
        {"op": "recall"},
        {"op": "recall", "query": 5},
        {"op": "recall", "query": "x", "limit": 0},
        {"op": "recall", "query": "x", "limit": True},
        {"op": "search", "query": "x", "project_id": "p"},
    ],
)
def test_a_request_that_cannot_be_used_gets_a_clear_error(home: Home, request_: dict[str, Any]) -> None:
    answer = ask_worker(home, request_)

    assert answer is not None
    assert list(answer) == ["error"]


@pytest.mark.parametrize("data", [b"", b"[]", b"nonsense", b"\xff\xfe", b"[" * 100_000, b'"text"'])
def test_what_is_not_an_object_gets_an_error(home: Home, data: bytes) -> None:
    assert "error" in json.loads(exchange(home, data))


def test_a_message_beyond_a_megabyte_is_refused(server: RecallServer) -> None:
    assert "1 MB" in json.loads(server.answer(None))["error"]
    near = json.dumps({"op": "recall", "query": "x" * (MAX_REQUEST_BYTES - 100)}).encode()
    assert "hits" in json.loads(server.answer(near))


def test_a_prompt_of_eighty_seven_thousand_characters_is_answered(home: Home) -> None:
    payload = json.dumps({"hook_event_name": "UserPromptSubmit", "prompt": "word " * 17_400}).encode()

    assert exchange(home, payload) == b'{"hookSpecificOutput":{}}'


def connect(home: Home, sent: bytes = b"") -> socket.socket:
    """A client that has sent something and keeps its connection open."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(20)
    connection.connect(str(home.recall_socket))
    if sent:
        connection.sendall(sent)
    return connection


@pytest.mark.parametrize("sent", [b"", b'{"hook_event_name": "Us', b"x" * 100_000], ids=["silent", "slow", "large"])
def test_five_hundred_clients_that_do_not_finish_keep_no_hook_waiting(home: Home, sent: bytes) -> None:
    held = [connect(home, sent) for _ in range(500 if len(sent) < 1000 else 200)]

    assert exchange(home, HOOK) == ANSWER

    for connection in held:
        connection.close()


def test_of_too_many_clients_the_oldest_goes(home: Home) -> None:
    first = connect(home)
    speaking = connect(home, HOOK[:10])

    others = [connect(home) for _ in range(request_reader.MAX_READING - 1)]
    speaking.sendall(HOOK[10:])
    speaking.shutdown(socket.SHUT_WR)

    assert first.recv(10) == b""
    assert speaking.recv(100) == ANSWER
    for connection in (first, speaking, *others):
        connection.close()


@pytest.mark.parametrize(("sent", "limit"), [(b"", "IDLE_SECONDS"), (HOOK_BEGIN, "REQUEST_SECONDS")])
def test_a_client_whose_time_is_up_is_let_go(
    home: Home, sent: bytes, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_reader, limit, 0.0)

    with connect(home, sent) as connection:
        assert connection.recv(10) == b""


def test_a_long_answer_that_nobody_reads_holds_no_thread(home: Home, runtime: Runtime) -> None:
    embedder = HashedEmbedder()
    embedder.model_id = "hashed" * 300_000
    runtime.embedder = embedder
    deaf = [connect(home, b'{"op": "status"}') for _ in range(2 * recall_server.OTHER_THREADS)]
    for connection in deaf:
        connection.shutdown(socket.SHUT_WR)

    assert ask_worker(home, {"op": "status"}, timeout_seconds=60) is not None

    with deaf[0]:
        answer = b""
        while chunk := deaf[0].recv(65_536):
            answer += chunk
    assert json.loads(answer)["model"] == embedder.model_id
    for connection in deaf[1:]:
        connection.close()


def test_other_requests_that_take_long_keep_no_hook_waiting(home: Home, runtime: Runtime) -> None:
    search = SlowSearcher(runtime.searcher)
    runtime.searcher = search  # type: ignore[assignment]
    held = [connect(home, b'{"op": "recall", "query": "cursor"}') for _ in range(2 * recall_server.OTHER_THREADS)]
    for connection in held:
        connection.shutdown(socket.SHUT_WR)

    assert exchange(home, HOOK) == ANSWER

    search.go_on.set()
    for connection in held:
        connection.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells that the other end is closed")
def test_what_a_client_asked_that_has_left_is_not_looked_at(home: Home, runtime: Runtime) -> None:
    recollection: Any = runtime.recollection
    recollection.go_on.clear()
    busy = [connect(home, HOOK) for _ in range(recall_server.HOOK_THREADS)]
    for connection in busy:
        connection.shutdown(socket.SHUT_WR)
    left = connect(home, b'{"hook_event_name": "SessionStart", "prompt": "break", "session_id": "left"}')
    left.shutdown(socket.SHUT_WR)
    left.close()

    recollection.go_on.set()

    assert recollection.noted.wait(60)
    assert [payload["session_id"] for payload in recollection.missed] == ["left"]
    assert [connection.recv(100) for connection in busy] == [ANSWER] * len(busy)
    for connection in busy:
        connection.close()


def test_the_end_waits_for_an_answer_that_is_being_made(runtime: Runtime) -> None:
    server = RecallServer(runtime).start()
    recollection: Any = runtime.recollection
    recollection.go_on.clear()
    client = connect(runtime.settings.places, HOOK)
    client.shutdown(socket.SHUT_WR)
    assert recollection.entered.wait(60)

    assert server.close(0.01) is False
    recollection.go_on.set()
    assert server.close(60) is True
    client.close()


PATIENT = b'\n{"session_id":"s1","hook_event_name":"UserPromptSubmit","prompt":"how"}'


def received_until(connection: socket.socket, wanted: bytes) -> bytes:
    """What a client reads up to and including some bytes; all of it if they never come."""
    read = b""
    while not read.endswith(wanted) and (chunk := connection.recv(1)):
        read += chunk
    return read


def test_a_hook_that_takes_signs_of_life_gets_them_until_its_answer(home: Home, runtime: Runtime) -> None:
    recollection: Any = runtime.recollection
    recollection.go_on.clear()
    client = connect(home, PATIENT)
    client.shutdown(socket.SHUT_WR)

    assert received_until(client, b"   ") == b"   "
    recollection.go_on.set()

    assert received_until(client, ANSWER).lstrip() == ANSWER
    assert client.recv(100) == b""
    client.close()


@pytest.mark.parametrize(
    "request_",
    [
        pytest.param(PATIENT[1:], id="a hook of an earlier version"),
        pytest.param(PATIENT.replace(b"UserPromptSubmit", b"SessionStart"), id="the start of a session"),
        pytest.param(b'\n{"hook_event_name":"UserPromptSubmit","prompt":"how"}', id="no session"),
    ],
)
def test_no_other_request_gets_signs_of_life(home: Home, runtime: Runtime, request_: bytes) -> None:
    recollection: Any = runtime.recollection
    recollection.go_on.clear()
    patient, other = connect(home, PATIENT), connect(home, request_)
    for connection in (patient, other):
        connection.shutdown(socket.SHUT_WR)
    assert received_until(patient, b"   ") == b"   "
    recollection.go_on.set()

    assert received_until(other, ANSWER) == ANSWER
    for connection in (patient, other):
        connection.close()


def test_any_other_client_that_takes_signs_of_life_gets_them_before_its_answer(home: Home, runtime: Runtime) -> None:
    client = connect(home, TAKES_SIGNS + b'{"op": "status"}')
    client.shutdown(socket.SHUT_WR)

    answer = received_until(client, b"never")

    assert answer.startswith(b" ")
    assert json.loads(answer)["pid"] == os.getpid()
    client.close()


def test_a_prompt_that_has_waited_long_enough_is_hung_up_on_and_its_bites_wait(runtime: Runtime) -> None:
    runtime.settings = dataclasses.replace(runtime.settings, prompt_wait_seconds=0.3)
    recollection: Any = runtime.recollection
    recollection.go_on.clear()
    server = RecallServer(runtime).start()
    client = connect(runtime.settings.places, PATIENT)
    client.shutdown(socket.SHUT_WR)

    assert received_until(client, ANSWER).strip() == b""
    recollection.go_on.set()

    assert recollection.noted.wait(60)
    assert [payload["prompt"] for payload in recollection.late] == ["how"]
    client.close()
    server.close()


@pytest.mark.parametrize("number", range(4))
def test_a_session_that_waited_in_vain_twice_is_not_kept_waiting(number: int) -> None:
    patience, other = Patience(1.5), PATIENT.replace(b"s1", b"s2")
    for _ in range(number):
        patience.note(PATIENT, 0.9, was_shown=False)

    assert patience.of(PATIENT) == (1.5 if number < recall_server.MAX_VAIN_WAITS else 0.0)
    assert patience.of(other) == 1.5

    patience.note(PATIENT, 0.1, was_shown=True)
    assert patience.of(PATIENT) == 1.5


def test_a_quick_silence_is_not_a_wait_in_vain() -> None:
    patience = Patience(1.5)
    for _ in range(5):
        patience.note(PATIENT, 0.1, was_shown=False)

    assert patience.of(PATIENT) == 1.5


def test_no_prompt_is_kept_waiting_where_the_setting_says_so() -> None:
    assert Patience(0.0).of(PATIENT) == 0.0


def test_worker_and_hook_agree_on_what_a_prompt_waits() -> None:
    assert TAKES_SIGNS == prompt.TAKES_SIGNS
    assert recall_server.UNSIGNED_WAIT_SECONDS == prompt.SECONDS
    assert recall_server.MAX_HOOK_WAIT_SECONDS == Settings().prompt_wait_seconds == prompt.MAX_SECONDS
    assert request_reader.SIGN_SECONDS < prompt.LIFE_SECONDS < SILENT_SECONDS


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


@pytest.mark.parametrize(
    ("load", "cause"),
    [(0.1, "the search took long"), (1000.0, "the machine was busy"), (0.1, "texts were being embedded")],
)
def test_an_answer_that_nobody_took_was_too_late(
    home: Home, runtime: Runtime, monkeypatch: pytest.MonkeyPatch, load: float, cause: str
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, load, load))
    missing = int(cause == "texts were being embedded")
    monkeypatch.setattr(recall_server, "count_without_vector", lambda store: missing)
    recollection: Any = runtime.recollection
    recollection.go_on.clear()
    client = connect(home, b'{"hook_event_name": "UserPromptSubmit", "prompt": "slow"}')
    client.shutdown(socket.SHUT_WR)
    assert recollection.entered.wait(60)

    client.close()
    recollection.go_on.set()

    assert recollection.noted.wait(60)
    assert [payload["prompt"] for payload in recollection.late] == ["slow"]
    assert late_since(runtime.store, 0) == {cause: 1}


def test_somebody_else_gets_no_answer(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reader, "is_same_user", lambda connection: False)

    try:
        assert exchange(home, b'{"op": "status"}') == b""
    except ConnectionError:
        pass


def test_the_peer_is_this_user() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    with ours, theirs:
        assert request_reader.is_same_user(ours)
