"""The MCP of sessions that the worker serves: both eras, whose session it is, and what the end of either side does."""

from __future__ import annotations

import ast
import asyncio
import io
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import tokenize
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from processes import wait_for

from engram.embedding.hashed import HashedEmbedder
from engram.enums import Actor, Scope
from engram.forgetting.whole_project import move_into_vault
from engram.ingest.session_project import scope_of_folder
from engram.memories.save import save_memory
from engram.models.engine.transaction import Store
from engram.models.open_memory import open_store
from engram.models.projects.projects import ensure_project
from engram.models.shown import injections
from engram.models.shown.injections import Injection
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.tasks.queue import huey
from engram.tasks.runtime import Runtime
from engram.vaults import find_vault
from engram.worker import mcp_sessions
from engram.worker.socket_server import RecallServer
from engram_mcp import server as relay
from engram_mcp import session, tools
from engram_mcp.access import Access
from engram_mcp.catalog import TOOLS
from tests.fork_server import ForkedProcess

PATIENCE_SECONDS = 120
HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}
#: What a client of the modern era sends with each request instead of a handshake.
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    return made


@pytest.fixture
def store(settings: Settings, tmp_path: Path) -> Iterator[Store]:
    """A memory with two projects, each with a memory about a lamp."""
    with open_store(settings.places.memory_db) as store:
        for name, colour in (("alpha", "amber"), ("beta", "teal")):
            (tmp_path / name).mkdir()
            with store.transaction() as tx:
                project = ensure_project(tx, str(tmp_path / name), name, str(tmp_path / name))
            save_memory(store, f"The lamp is {colour}.", redact, actor=Actor.USER, project_id=project.id)
        yield store


@pytest.fixture
def runtime(settings: Settings, store: Store) -> Iterator[Runtime]:
    huey.bind(settings.places, settings.sqlite_driver)
    embedder = HashedEmbedder()
    searcher = Searcher(store, settings, embedder=embedder)
    yield Runtime(settings, store, searcher, RecollectionService(store, searcher, settings), embedder)
    huey.storage.close()


@pytest.fixture
def server(runtime: Runtime) -> Iterator[RecallServer]:
    """What the worker answers with, in this process."""
    server = RecallServer(runtime).start()
    wait_for(lambda: runtime.settings.places.mcp_socket.is_socket() and server._sessions._listener)
    yield server
    server.close()


@pytest.fixture
def agent(settings: Settings) -> Iterator[Callable[..., Agent]]:
    """Starts sessions; no process of theirs is left behind."""
    agents: list[Agent] = []

    def begin(folder: Path, code: str = "", **variables: str) -> Agent:
        agents.append(Agent(settings, folder, variables, code))
        return agents[-1]

    yield begin
    for each in agents:
        each.process.kill()
        each.process.wait(PATIENCE_SECONDS)


def environment(settings: Settings, **more: str) -> dict[str, str]:
    return os.environ | {"ENGRAM_HOME": str(settings.home), "ENGRAM_EMBEDDING_MODEL": "hashed"} | more


class Agent:
    """One session of an agent, which speaks the protocol line by line."""

    def __init__(self, settings: Settings, folder: Path, variables: dict[str, str], code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *(["-c", code] if code else ["-m", "engram_mcp.server"])],
            cwd=folder,
            env=environment(settings, **variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.is_modern = False
        self.number = 1

    def greet(self) -> Agent:
        """Shake hands as clients do that are older than the modern era."""
        self.say(HELLO)
        assert self.hear()["result"]["serverInfo"]["name"] == "engram"
        self.say({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, method: str, **params: Any) -> None:
        """Send a request."""
        self.number += 1
        more = {"_meta": ENVELOPE} if self.is_modern else {}
        self.say({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params | more})

    def call(self, name: str, **arguments: Any) -> str:
        """Call a tool and return the text of its answer."""
        self.ask("tools/call", name=name, arguments=arguments)
        answer = self.hear()
        assert answer["id"] == self.number
        return str(answer["result"]["content"][0]["text"])

    def leave(self) -> int:
        """Close the input; returns the exit status."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(PATIENCE_SECONDS)


# -- both eras, and whose session it is


@pytest.mark.parametrize(
    ("mode", "version", "is_served"),
    [
        ("legacy", "2025-11-25", True),
        ("auto", "2026-07-28", True),
        ("2026-07-28", "2026-07-28", True),
        ("auto", "2026-07-28", False),
        # What a session says that serves itself is made by the same code.
        pytest.param("legacy", "2025-11-25", False, marks=pytest.mark.soak),
        pytest.param("2026-07-28", "2026-07-28", False, marks=pytest.mark.soak),
    ],
)
def test_a_client_of_either_era_sees_the_same_tools(
    mode: str, version: str, is_served: bool, settings: Settings, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("server" if is_served else "store")
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "engram_mcp.server"], cwd=str(tmp_path / "alpha"), env=environment(settings)
    )

    async def talk() -> tuple[Any, ...]:
        async with Client(parameters, mode=mode) as client:
            listed = await client.list_tools()
            answer = await client.call_tool("memory_recall", {"query": "which colour has the lamp"})
            return client.protocol_version, client.instructions, listed.tools, answer

    spoken, instructions, listed, answer = asyncio.run(talk())

    assert spoken == version
    assert mode == "2026-07-28" or instructions.startswith("Engram remembers")
    assert len(listed) == 12
    assert [tool.name for tool in listed if (tool.meta or {}).get("anthropic/alwaysLoad")] == [
        "memory_recall",
        "memory_expand",
        "memory_save",
    ]
    assert "amber" in answer.content[0].text
    assert ("the worker is not running" in answer.content[0].text) == (not is_served)


@pytest.mark.usefixtures("server")
def test_each_session_sees_the_project_of_its_own_folder(agent: Callable[..., Agent], tmp_path: Path) -> None:
    alpha = agent(tmp_path / "alpha").greet()
    beta = agent(tmp_path / "beta").greet()
    named = agent(tmp_path / "beta", CLAUDE_PROJECT_DIR=str(tmp_path / "alpha")).greet()
    outside = agent(tmp_path).greet()
    question = {"query": "which colour has the lamp"}

    said = [each.call("memory_recall", **question) for each in (alpha, beta, named, outside)]

    assert ["amber" in text for text in said] == [True, False, True, False]
    assert ["teal" in text for text in said] == [False, True, False, False]
    assert "Saved for project beta" in beta.call("memory_save", content="x y", scope="project", importance="normal")
    assert "Already known, so nothing new was saved, for project beta" in beta.call(
        "memory_save", content="x y", scope="project", importance="normal"
    )


@pytest.mark.usefixtures("server")
def test_the_session_of_the_agent_is_known(agent: Callable[..., Agent], store: Store, tmp_path: Path) -> None:
    session_id = "s-shown"
    asked = agent(tmp_path / "alpha", CLAUDE_CODE_SESSION_ID=session_id).greet()
    memory = asked.call("memory_timeline").rpartition("ID: ")[2][:15]
    with store.transaction() as tx:
        injections.add_injections(tx, [Injection(session_id, "p", "prompt", memory, 0.5, 9, "shown")])

    asked.call("memory_expand", id=memory)

    assert [row.used_at_ms is not None for row in injections.injections_of_session(store, session_id)] == [True]


@pytest.mark.usefixtures("server")
def test_settings_count_as_they_are_for_the_session(
    agent: Callable[..., Agent], settings: Settings, tmp_path: Path
) -> None:
    root = agent(tmp_path / "alpha", ENGRAM_PROJECT_ROOTS=str(tmp_path / "alpha")).greet()
    assert "no project is known for this folder" in root.call("memory_recall", query="lamp")

    settings.places.config_file.write_text("colour = 7\n")
    assert "unknown setting 'colour'" in agent(tmp_path / "alpha").greet().call("memory_recall", query="lamp")


def test_a_session_in_a_vault_has_the_memory_of_the_vault(
    server: RecallServer, runtime: Runtime, tmp_path: Path
) -> None:
    project = scope_of_folder(runtime.store, runtime.settings, str(tmp_path / "alpha")).project
    assert project is not None
    move_into_vault(runtime.store, runtime.settings, project)
    assert find_vault(runtime.settings.places, "alpha") is not None

    def recall(folder: str) -> str:
        access = server._sessions._open({"CLAUDE_PROJECT_DIR": str(tmp_path / folder)})
        return tools.recall(access, "which colour has the lamp", 5, None)

    assert "amber" in recall("alpha")
    assert "amber" not in recall("beta")
    access = server._sessions._open({"CLAUDE_PROJECT_DIR": str(tmp_path / "alpha")})
    tools.save(access, "The lamp is heavy.", Scope.PROJECT, "normal")
    assert "heavy" in recall("alpha")


# -- who is served


def greeting(number: int = 1, facts: bytes = b"CLAUDE_PROJECT_DIR=/") -> bytes:
    return b"engram-mcp %d %d\n%s" % (number, len(facts), facts)


def connect(settings: Settings, data: bytes) -> tuple[socket.socket, bytes]:
    """Connect to mcp.sock and greet; returns the connection and what it says first."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE_SECONDS)
    connection.connect(str(settings.places.mcp_socket))
    try:
        connection.sendall(data)
        return connection, connection.recv(len(relay.WELCOME))
    except ConnectionError:
        return connection, b""


def test_only_the_owner_is_served(server: RecallServer, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    assert stat.S_IMODE(settings.places.mcp_socket.stat().st_mode) == 0o600
    connection, said = connect(settings, greeting())
    connection.close()
    assert said == relay.WELCOME

    monkeypatch.setattr(mcp_sessions, "is_same_user", lambda _: False)
    connection, said = connect(settings, greeting())
    connection.close()
    assert said == b""


@pytest.mark.parametrize(
    "data",
    [greeting(2), b"hello\n", b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n', b"engram-mcp 1 99999999\n", b"\n"],
)
@pytest.mark.usefixtures("server")
def test_what_is_not_a_relay_of_this_version_is_hung_up_on(settings: Settings, data: bytes) -> None:
    connection, said = connect(settings, data)

    assert said == b""
    connection.close()


def test_a_relay_that_the_worker_does_not_know_serves_itself(
    agent: Callable[..., Agent], server: RecallServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_sessions, "WELCOME", b"engram-mcp 9\n")

    alone = agent(tmp_path / "alpha").greet()

    assert "amber" in alone.call("memory_recall", query="which colour has the lamp")
    assert not server._sessions._sessions


def test_a_session_too_many_serves_itself(
    settings: Settings, server: RecallServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp_sessions, "MAX_SESSIONS", 1)
    first, said = connect(settings, greeting())
    second, unsaid = connect(settings, greeting())

    assert (said, unsaid) == (relay.WELCOME, b"")
    for connection in (first, second):
        connection.close()


def test_a_worker_loads_the_library_before_any_session_asks(
    runtime: Runtime, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[int] = []
    load = mcp_sessions._load_library
    monkeypatch.setattr(mcp_sessions, "LOAD_AFTER_SECONDS", 0)
    monkeypatch.setattr(mcp_sessions, "_load_library", lambda: loaded.append(1) or load())

    server = RecallServer(runtime).start()

    wait_for(lambda: loaded == [1])
    one_session(settings)
    server.close()


# -- the end of either side


def one_session(settings: Settings) -> None:
    """A whole session without a relay: greeting, handshake, list, call, goodbye."""
    connection, _ = connect(settings, greeting())
    with connection, connection.makefile("rwb") as lines:
        for message in (
            HELLO,
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "memory_timeline", "arguments": {}}},
        ):
            lines.write(json.dumps(message).encode() + b"\n")
            lines.flush()
            assert json.loads(lines.readline())["id"] == message["id"]


def test_fifty_sessions_leave_nothing_behind(settings: Settings, server: RecallServer) -> None:
    for _ in range(4):
        one_session(settings)
    wait_for(lambda: not server._sessions._sessions)
    threads, files = threading.active_count(), len(os.listdir("/dev/fd"))

    for _ in range(50):
        one_session(settings)

    wait_for(lambda: not server._sessions._sessions)
    assert threading.active_count() <= max(threads, mcp_sessions.CALL_THREADS + threads - 1)
    wait_for(lambda: len(os.listdir("/dev/fd")) <= files + 2 * mcp_sessions.CALL_THREADS)
    tasks = asyncio.run_coroutine_threadsafe(_tasks(), server._sessions._loop).result(PATIENCE_SECONDS)
    assert tasks <= 3


async def _tasks() -> int:
    return len(asyncio.all_tasks())


@pytest.mark.parametrize("is_served", [True, False])
def test_the_last_call_is_answered_though_the_agent_has_closed_its_side(
    agent: Callable[..., Agent], tmp_path: Path, is_served: bool, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("server" if is_served else "store")
    leaving = agent(tmp_path / "alpha").greet()

    leaving.ask("tools/call", name="memory_recall", arguments={"query": "which colour has the lamp"})
    status = leaving.leave()

    assert "amber" in leaving.hear()["result"]["content"][0]["text"]
    assert status == 0


def test_a_socket_that_was_removed_is_opened_again_and_sessions_go_on(
    agent: Callable[..., Agent], server: RecallServer, settings: Settings, tmp_path: Path
) -> None:
    first = agent(tmp_path / "alpha").greet()
    settings.places.mcp_socket.unlink()

    server.renew()

    wait_for(lambda: settings.places.mcp_socket.is_socket())
    second = agent(tmp_path / "alpha").greet()
    for each in (first, second):
        assert "worker is not running" not in each.call("memory_recall", query="lamp")
    assert len(server._sessions._sessions) == 2


@pytest.mark.parametrize("is_modern", [True, False])
def test_a_worker_that_stops_answers_its_calls_and_the_next_worker_continues(
    agent: Callable[..., Agent],
    runtime: Runtime,
    server: RecallServer,
    tmp_path: Path,
    is_modern: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def status(access: Access) -> str:
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        return "all is well"

    monkeypatch.setitem(TOOLS, "memory_status", replace(TOOLS["memory_status"], work=status))
    asking = agent(tmp_path / "alpha")
    asking.is_modern = is_modern
    if not is_modern:
        asking.greet()
    asking.ask("tools/call", name="memory_status", arguments={})
    entered.wait(PATIENCE_SECONDS)
    closing = threading.Thread(target=server.close)
    closing.start()
    wait_for(server._is_closing.is_set)
    go_on.set()
    assert asking.hear()["result"]["content"][0]["text"] == "all is well"
    closing.join(PATIENCE_SECONDS)

    following = RecallServer(runtime).start()
    try:
        wait_for(lambda: following._sessions._listener)
        answer = asking.call("memory_recall", query="which colour has the lamp")
        assert "amber" in answer
        assert "worker is not running" not in answer
        assert len(following._sessions._sessions) == 1
    finally:
        following.close()


#: Whether the client is of the modern era. What the end of a worker does is the same for both.
ERAS = [True, pytest.param(False, marks=pytest.mark.soak)]
#: A worker in which one tool never ends, and one in which the library is never loaded.
STUCK_CALL, STUCK_CHANGE = (
    "import time\nfrom dataclasses import replace\nfrom engram_mcp.catalog import TOOLS\n"
    f"TOOLS['{name}'] = replace(TOOLS['{name}'], work=lambda *_, **__: print('in', flush=True) or time.sleep(9999))\n"
    for name in ("memory_status", "memory_pin")
)
STUCK_START = (
    "from engram.worker import mcp_sessions\nimport time\n"
    "mcp_sessions._load_library = lambda: print('in', flush=True) or time.sleep(9999)\n"
)
WORKER = "from engram.settings import load\nfrom engram.worker.lifecycle import run_worker\nrun_worker(load().settings)"


@pytest.fixture
def stuck_worker(settings: Settings, store: Store) -> Iterator[Callable[[str], ForkedProcess]]:
    started: list[ForkedProcess] = []

    def begin(code: str) -> ForkedProcess:
        started.append(ForkedProcess(code + WORKER, environment(settings), stdout=subprocess.PIPE))
        wait_for(settings.places.mcp_socket.is_socket)
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.wait(PATIENCE_SECONDS)


@pytest.mark.parametrize("is_modern", ERAS)
def test_a_worker_that_is_killed_costs_one_clear_error_and_the_session_continues(
    agent: Callable[..., Agent], stuck_worker: Callable[[str], Any], tmp_path: Path, is_modern: bool
) -> None:
    worker = stuck_worker(STUCK_CHANGE)
    asking = agent(tmp_path / "alpha")
    asking.is_modern = is_modern
    if not is_modern:
        asking.greet()
    saved = asking.call("memory_save", content="Lamps hang low.", scope="global", importance="normal")
    asking.ask("tools/call", name="memory_pin", arguments={"id": "ep_000000000001"})
    assert worker.stdout.readline() == b"in\n"

    worker.send_signal(signal.SIGKILL)

    assert asking.hear() == {"jsonrpc": "2.0", "id": 3, "error": {"code": -32000, "message": relay.LOST}}
    answer = asking.call("memory_recall", query="which colour has the lamp, how do lamps hang")
    assert "amber" in answer
    assert saved.partition("ID: ")[2][:15] in answer
    assert "the worker is not running" in answer
    assert asking.leave() == 0


@pytest.mark.parametrize("is_modern", ERAS)
def test_a_question_to_a_worker_that_is_killed_is_asked_again(
    agent: Callable[..., Agent], stuck_worker: Callable[[str], Any], tmp_path: Path, is_modern: bool
) -> None:
    worker = stuck_worker(STUCK_CALL)
    asking = agent(tmp_path / "alpha")
    asking.is_modern = is_modern
    if not is_modern:
        asking.greet()
    asking.ask("tools/call", name="memory_status", arguments={})
    assert worker.stdout.readline() == b"in\n"

    worker.send_signal(signal.SIGKILL)

    assert "the worker is not running" in asking.hear()["result"]["content"][0]["text"]
    assert "amber" in asking.call("memory_recall", query="which colour has the lamp")
    assert asking.leave() == 0


@pytest.mark.parametrize(("name", "arguments"), [("memory_status", {}), ("memory_pin", {"id": "ep_000000000001"})])
def test_a_cancelled_call_is_neither_waited_for_nor_answered_nor_asked_again(
    agent: Callable[..., Agent],
    stuck_worker: Callable[[str], Any],
    tmp_path: Path,
    name: str,
    arguments: dict[str, str],
) -> None:
    worker = stuck_worker(STUCK_CALL if name == "memory_status" else STUCK_CHANGE)
    asking = agent(tmp_path / "alpha").greet()
    asking.ask("tools/call", name=name, arguments=arguments)
    assert worker.stdout.readline() == b"in\n"
    asking.say({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": asking.number}})
    asking.ask("ping")
    assert asking.hear() == {"jsonrpc": "2.0", "id": asking.number, "result": {}}

    worker.send_signal(signal.SIGKILL)

    assert "amber" in asking.call("memory_recall", query="which colour has the lamp")
    assert asking.leave() == 0


#: A relay that takes a worker for hung after a second, and whose own server has the tools as they are.
HASTY_RELAY = "from engram_mcp import server\nserver.PARENT_SECONDS, server.SILENT_LOOKS = 0.2, 5\nserver.main()"


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_worker_that_hangs_costs_one_clear_error_and_the_session_continues(
    agent: Callable[..., Agent], stuck_worker: Callable[[str], Any], tmp_path: Path, is_stopped: bool
) -> None:
    worker = stuck_worker(STUCK_CALL)
    asking = agent(tmp_path / "alpha", HASTY_RELAY).greet()
    asking.ask("tools/call", name="memory_status", arguments={})
    assert worker.stdout.readline() == b"in\n"
    if is_stopped:
        worker.send_signal(signal.SIGSTOP)

    assert asking.hear() == {"jsonrpc": "2.0", "id": 2, "error": {"code": -32000, "message": relay.LOST}}
    assert "amber" in asking.call("memory_recall", query="which colour has the lamp")
    assert asking.leave() == 0


def test_a_worker_that_is_killed_while_a_session_begins_costs_nothing(
    agent: Callable[..., Agent], stuck_worker: Callable[[str], Any], tmp_path: Path
) -> None:
    worker = stuck_worker(STUCK_START)
    beginning = agent(tmp_path / "alpha")
    beginning.say(HELLO)
    assert worker.stdout.readline() == b"in\n"

    worker.send_signal(signal.SIGKILL)

    assert beginning.hear()["result"]["serverInfo"]["name"] == "engram"
    assert "amber" in beginning.call("memory_recall", query="which colour has the lamp")


# -- the wire


def exchange(*lines: bytes | dict[str, Any], hello: str = "") -> list[dict[str, Any]]:
    """What a session without a memory writes for lines of input, sorted by id."""
    waiting = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines]
    said: list[dict[str, Any]] = []

    async def read() -> bytes:
        return waiting.pop(0) if waiting else b""

    async def write(line: bytes) -> None:
        said.append(json.loads(line))

    def access() -> Access:
        return Access(Settings(home=Path("/nowhere")), "/")

    with ThreadPoolExecutor(1) as pool:
        asyncio.run(session.serve(access, read, write, pool, hello=hello))
    return sorted(said, key=lambda answer: str(answer.get("id")))


PING = {"jsonrpc": "2.0", "id": 9, "method": "ping"}


@pytest.mark.parametrize(
    "line", [b"{\n", b"\xff\xfe\n", b"[" * 5_000 + b"\n", b"[]\n", b"3\n", b'"x"\n', b'{"id": 1, "method": 7}\n']
)
def test_what_is_not_a_message_gets_an_error_and_the_next_one_its_answer(line: bytes) -> None:
    answers = exchange(line, HELLO, PING)

    assert [answer["error"]["code"] for answer in answers if "error" in answer] == [-32700]
    assert [answer["id"] for answer in answers if "result" in answer] == [1, 9]


@pytest.mark.parametrize(
    "line",
    [
        {"jsonrpc": "2.0", "method": "no/such/notification", "params": {}},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}},
        {"jsonrpc": "2.0", "id": 5, "result": {}},
        {"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "x"}},
        b"\n",
        b"   \r\n",
    ],
)
def test_notifications_answers_and_empty_lines_are_not_answered(line: bytes | dict[str, Any]) -> None:
    assert [answer["id"] for answer in exchange(HELLO, line, PING)] == [1, 9]


@pytest.mark.parametrize("text", ["a \\ud83d", "\\udc00\\udc00", "\\u0000", "\\u2028 \\u0085", "\\ud83d\\ude00"])
def test_a_call_is_answered_whatever_characters_it_holds(text: str) -> None:
    call = '{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"memory_NAME","arguments":{}}}\n'

    answer = exchange(HELLO, call.replace("NAME", text).encode())[1]

    assert answer["result"]["isError"]
    assert answer["result"]["content"][0]["text"].startswith("there is no tool")


def test_a_second_server_is_given_the_handshake_and_does_not_answer_it_again() -> None:
    listing = {"jsonrpc": "2.0", "id": 2, "method": "tools/list"}

    assert [answer["id"] for answer in exchange(listing, hello=json.dumps(HELLO))] == [2]
    assert exchange(listing)[0]["error"]["code"] == -32602


# -- the relay


def test_the_relay_is_small_and_imports_almost_nothing() -> None:
    source = Path(relay.__file__).read_text(encoding="utf-8")
    documented = {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    unwritten = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    written = {token.start[0] for token in tokens if token.type not in unwritten}
    assert len(written - documented) <= 80
    code = "import sys; before = set(sys.modules); import engram_mcp.server; print(*(set(sys.modules) - before))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    heavy = {"asyncio", "socket", "subprocess", "threading", "logging", "typing", "mcp", "engram.settings", "pathlib"}
    assert not heavy & set(loaded)
    assert {name for name in loaded if name.startswith("engram")} == {"engram_mcp", "engram_mcp.server"}
