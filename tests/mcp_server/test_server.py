"""A real MCP client over stdio lists and calls all tools, with no worker running."""

from __future__ import annotations

import asyncio
import json
import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage
from transcript_lines import say

from engram.enums import Actor
from engram.ingest.read_sources import ingest_path
from engram.models.memories import memory_changes
from engram.models.memories.memory_records import Memory
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.shown import injections
from engram.models.shown.injections import Injection
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram_mcp.access import access_for
from engram_mcp.session import AccessOnce
from engram_mcp.session import serve as serve_session

GOLDEN = Path(__file__).parent / "golden"
#: Name → arguments with their defaults, as users' prompts and other tools rely on them.
CONTRACT = {
    "memory_recall": {"query": None, "limit": 5, "project": None},
    "memory_expand": {"id": None, "project": None},
    "memory_search": {"query": None, "limit": 5, "project": None},
    "memory_get": {"source": None, "start": None, "lines": None, "project": None},
    "memory_save": {
        "content": None,
        "scope": None,
        "importance": None,
        "kind": None,
        "supersedes": None,
        "pin": False,
        "cwd": None,
        "question": None,
    },
    "memory_correct": {"id": None, "text": None, "why": None, "project": None},
    "memory_feedback": {"id": None, "verdict": None, "why": None, "project": None},
    "memory_pin": {"id": None, "on": True, "project": None},
    "memory_forget": {"id": None, "also_source": False, "project": None},
    "memory_status": {},
    "memory_timeline": {"around": None, "project": None, "limit": 10},
    "memory_context": {"project": None},
}

#: Longest wait for the end of a server, in seconds.
PATIENCE_SECONDS = 60

Work = Callable[[ClientSession], Coroutine[Any, Any, Any]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    made.places.prepare()
    (tmp_path / "alpha").mkdir()
    (tmp_path / "beta").mkdir()
    clock = FixedClock(at_ms=1_771_545_600_000)
    with open_store(made.places.memory_db, clock=clock) as store, store.transaction() as tx:
        project = projects.ensure_project(tx, str(tmp_path / "alpha"), "alpha", str(tmp_path / "alpha"))
        for number, summary in enumerate(
            ["The cache lives in SQLite", "Deploys run on Fridays never", "Port 8080 is taken"]
        ):
            made_memory = Memory(
                f"ep_00000000000{number}",
                "decision",
                summary,
                f"We talked about it: {summary}.",
                project_id=project.id,
                importance="high" if number == 0 else "normal",
                entities=("cache.py",),
                voice="assistant" if number == 1 else "user",
                extractor="openai-m",
            )
            with store.transaction() as tx:
                memory_changes.add_memory(tx, made_memory, [], actor=Actor.MODEL)
            clock.advance(86_400)
    (made.places.notes / "MEMORY.md").write_text("# Memory\n\n## Hosts\nthe zebra host is staging\n")
    return made


def serve(settings: Settings, folder: Path, work: Work) -> Any:
    async def run() -> Any:
        environment = {**os.environ, "ENGRAM_HOME": str(settings.home)}
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "engram_mcp.server"], env=environment, cwd=str(folder)
        )
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            return await work(client)

    return asyncio.run(run())


def serve_here(settings: Settings, folder: Path, work: Work) -> Any:
    """The same server in this process, for what doesn't need one of its own: a start takes a second or two."""
    environ = os.environ | {"ENGRAM_HOME": str(settings.home), "CLAUDE_PROJECT_DIR": str(folder)}
    said, to_read = anyio.create_memory_object_stream[SessionMessage](16)
    written, heard = anyio.create_memory_object_stream[SessionMessage | Exception](16)

    async def read() -> bytes:
        async for item in to_read:
            return item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"
        return b""

    async def write(line: bytes) -> None:
        await written.send(SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False)))

    async def run() -> Any:
        access = AccessOnce(lambda: access_for(environ))
        with ThreadPoolExecutor(1) as pool:
            async with said, to_read, written, heard, anyio.create_task_group() as group:
                group.start_soon(serve_session, access, read, write, pool)
                async with ClientSession(heard, said) as client:
                    await client.initialize()
                    found = await work(client)
                await said.aclose()
        return found

    return asyncio.run(run())


async def call(client: ClientSession, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    return ("ERROR " if result.is_error else "") + "".join(getattr(part, "text", "") for part in result.content)


def plain(text: str, tmp_path: Path) -> str:
    """An answer without what differs from run to run."""
    text = re.sub(r"ep_(?!0000000)[0-9a-f]{12}", "ep_NEW", text.replace(str(tmp_path), "HOME"))
    text = re.sub(r"schema: \d+", "schema: N", re.sub(r"\d{4}-\d\d-\d\d", "DATE", text))
    return re.sub(r"\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d+(?: \d{4})?", "DAY", text)


def test_names_arguments_and_defaults_of_the_tools_stay_and_their_schemas_are_small(
    settings: Settings, tmp_path: Path
) -> None:
    async def work(client: ClientSession) -> Any:
        return (await client.list_tools()).tools

    tools = serve_here(settings, tmp_path / "alpha", work)

    found = {
        tool.name: {name: facts.get("default") for name, facts in tool.input_schema.get("properties", {}).items()}
        for tool in tools
    }
    assert found == CONTRACT
    size = sum(
        len(json.dumps({"n": t.name, "d": t.description, "s": t.input_schema}, separators=(",", ":"))) for t in tools
    )
    assert size / 4 <= 1500


def test_the_instructions_are_short(settings: Settings) -> None:
    from engram_mcp.catalog import INSTRUCTIONS

    assert len(INSTRUCTIONS) <= 600


def test_every_answer_is_as_it_was_agreed(settings: Settings, tmp_path: Path) -> None:
    async def work(client: ClientSession) -> dict[str, str]:
        answers = {
            "save": await call(
                client, "memory_save", content="Logs go to stdout.", scope="project", importance="normal"
            ),
            "save_note": await call(client, "memory_save", content="zebra note", scope="note", importance="normal"),
            "recall": await call(client, "memory_recall", query="where does the cache live"),
            "recall_nothing": await call(client, "memory_recall", query="quantum giraffe"),
            "search": await call(client, "memory_search", query="zebra host staging"),
            "get": await call(client, "memory_get", source="MEMORY.md", start=3, lines=2),
            "expand": await call(client, "memory_expand", id="ep_000000000000"),
            "timeline": await call(client, "memory_timeline", around="ep_000000000001"),
            "context": await call(client, "memory_context"),
            "correct": await call(
                client, "memory_correct", id="ep_000000000001", text="Deploys run on Tuesdays.", why="the user said so"
            ),
            "correct_again": await call(
                client, "memory_correct", id="ep_000000000001", text="Deploys run on Mondays.", why="a guess"
            ),
            "pin": await call(client, "memory_pin", id="ep_000000000000"),
            "correct_pinned": await call(
                client, "memory_correct", id="ep_000000000000", text="The cache lives in Redis.", why="a guess"
            ),
            "unpin": await call(client, "memory_pin", id="ep_000000000000", on=False),
            "forget": await call(client, "memory_forget", id="ep_000000000002"),
            "forgotten": await call(client, "memory_expand", id="ep_000000000002"),
            "unknown_project": await call(client, "memory_recall", query="x", project="nope"),
            "bad_source": await call(client, "memory_get", source="../memory.db"),
            "bad_date": await call(client, "memory_timeline", around="whenever"),
        }
        answers["status"] = re.sub(r"memories: .*", "memories: …", await call(client, "memory_status"))
        return answers

    answers = serve(settings, tmp_path / "alpha", work)

    for name, answer in answers.items():
        file = GOLDEN / f"{name}.txt"
        text = plain(answer, tmp_path) + "\n"
        if os.environ.get("WRITE_GOLDEN"):
            file.write_text(text)
        assert text == file.read_text(), name


def test_a_search_prints_the_day_on_which_a_turn_was_said(settings: Settings, tmp_path: Path) -> None:
    folder = str(tmp_path / "alpha")
    path = settings.projects_folder / "-alpha" / "22582f02-0391-4a88-b729-f218fbfb8d9e.jsonl"
    say(path, "user", "Which port does the walrus proxy use?", cwd=folder, at="2026-02-03T10:00:00.000Z")
    with open_store(settings.places.memory_db) as store:
        ingest_path(store, path, settings=settings, redact=redact, close=True)

    async def work(client: ClientSession) -> str:
        return await call(client, "memory_search", query="walrus proxy port")

    assert "[2026-02-03 user]" in serve_here(settings, tmp_path / "alpha", work)


def test_a_memory_of_one_project_stays_there_and_a_global_one_is_seen_everywhere(
    settings: Settings, tmp_path: Path
) -> None:
    async def saving(client: ClientSession) -> list[str]:
        return [
            await call(
                client, "memory_save", content="Walrus deploys need a ticket", scope="project", importance="normal"
            ),
            await call(client, "memory_save", content="I prefer walrus operators", scope="global", importance="high"),
        ]

    async def asking(client: ClientSession) -> str:
        return await call(client, "memory_recall", query="walrus")

    serve_here(settings, tmp_path / "alpha", saving)

    own, other = serve_here(settings, tmp_path / "alpha", asking), serve_here(settings, tmp_path / "beta", asking)
    assert "ticket" in own
    assert "operators" in own
    assert "operators" in other


def test_an_agent_judges_a_memory_and_its_expands_count_as_uses_where_it_was_shown(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used, wrong, pinned = "ep_000000000001", "ep_000000000002", "ep_000000000000"
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "s-shown")
    with open_store(settings.places.memory_db) as store, store.transaction() as tx:
        tx.run("UPDATE episode SET voice = 'assistant' WHERE episode_id = ?", (wrong,))
        for number in range(7):
            session_id = "s-shown" if number == 6 else f"s-{number}"
            injections.add_injections(
                tx, [Injection(session_id, "p", "prompt", shown, 0.5, 9, "shown") for shown in (used, wrong)]
            )

    async def work(client: ClientSession) -> list[str]:
        return [
            await call(client, "memory_expand", id=used),
            await call(client, "memory_feedback", id=used, verdict="helpful", why="it saved a search"),
            await call(client, "memory_feedback", id=wrong, verdict="wrong", why="port 8080 is free"),
            await call(client, "memory_expand", id=wrong),
            await call(client, "memory_pin", id=pinned),
            await call(client, "memory_feedback", id=pinned, verdict="outdated", why="a guess"),
            await call(client, "memory_feedback", id=used, verdict="nice", why="x"),
            await call(client, "memory_expand", id=used),
        ]

    expanded, helped, lowered, seen, _, refused, unknown, again = serve_here(settings, tmp_path / "alpha", work)

    assert "Use: shown in 7 sessions, used in 1\n" in expanded
    assert helped == (
        f"{used} is judged helpful: it will be shown a little more readily. "
        f"The user can revert this: `engram --home {settings.home} feedback {used} --off`"
    )
    assert "will not be shown again" in lowered
    assert "Use: shown in 7 sessions, used in 1; judged wrong" in seen
    assert "bad by agent: port 8080 is free" in seen
    assert refused.startswith(f"ERROR {pinned} was pinned, saved or said by the user, and is kept; ask the user")
    assert unknown == "ERROR verdict must be one of helpful, wrong, outdated, take back"
    assert "Use: shown in 7 sessions, used in 1; judged helpful, which makes it 10% more relevant" in again
    with open_store(settings.places.memory_db) as store:
        assert [row.used_at_ms is not None for row in injections.injections_of_session(store, "s-shown")] == [
            True,
            True,
        ]
        assert not any(row.used_at_ms for row in injections.injections_of_session(store, "s-5"))


def test_secrets_in_what_is_saved_never_reach_the_disk(settings: Settings, tmp_path: Path) -> None:
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"[:36]

    async def work(client: ClientSession) -> None:
        await call(client, "memory_save", content=f"the token is {secret}", scope="global", importance="normal")
        await call(client, "memory_save", content=f"the token is {secret}", scope="note", importance="normal")

    serve(settings, tmp_path / "alpha", work)

    for file in settings.home.rglob("*"):
        if file.is_file():
            assert secret.encode() not in file.read_bytes(), file


def test_replacing_a_memory_marks_the_old_one_and_names_the_new(settings: Settings, tmp_path: Path) -> None:
    async def work(client: ClientSession) -> str:
        await call(
            client,
            "memory_save",
            content="The cache lives in Redis now",
            scope="project",
            importance="normal",
            supersedes=replaced,
        )
        return await call(client, "memory_expand", id=replaced)

    replaced = "ep_000000000001"
    assert "Superseded by ep_" in serve_here(settings, tmp_path / "alpha", work)
    replaced = "ep_000000000000"  # the user said it
    assert "status: active" in serve_here(settings, tmp_path / "alpha", work)


def test_tools_alone_are_announced(settings: Settings, tmp_path: Path) -> None:
    async def work(client: ClientSession) -> Any:
        capabilities = client.get_server_capabilities() if hasattr(client, "get_server_capabilities") else None
        return capabilities or client.server_capabilities

    announced = serve_here(settings, tmp_path / "alpha", work).model_dump(exclude_none=True)

    assert list(announced) == ["tools"]


def test_wrong_arguments_are_named_and_null_is_the_default(settings: Settings, tmp_path: Path) -> None:
    async def work(client: ClientSession) -> list[str]:
        return [
            await call(client, "memory_recall", query="the cache", limit=None, project=None),
            await call(client, "memory_recall", query="the cache", limit="3"),
            await call(client, "memory_recall"),
            await call(client, "memory_recall", query=7),
            await call(client, "memory_recall", query="x", limit=26),
            await call(client, "memory_recall", query="x", projekt="beta"),
            await call(client, "memory_save", content="x", scope="planet", importance="normal"),
            await call(client, "memory_nothing"),
        ]

    good, also, *wrong = serve_here(settings, tmp_path / "alpha", work)

    assert "SQLite" in good
    assert "SQLite" in also
    assert wrong == [
        "ERROR the argument 'query' is missing; the arguments are query, limit, project",
        "ERROR query must be of type string",
        "ERROR limit must be a number from 1 to 25",
        "ERROR there is no argument 'projekt'; the arguments are query, limit, project",
        "ERROR scope must be one of project, global, note",
        "ERROR there is no tool 'memory_nothing'",
    ]


def test_an_id_may_be_given_as_it_was_printed(settings: Settings, tmp_path: Path) -> None:
    async def work(client: ClientSession) -> list[str]:
        saved = await call(client, "memory_save", content="The lamp has two wicks.", scope="global")
        made = saved.partition("ID: ")[2][:15]
        return [
            made,
            await call(client, "memory_expand", id=f"[{made}]"),
            await call(client, "memory_timeline", around=f"[{made}]"),
            await call(client, "memory_pin", id=f"`{made.upper()}`"),
        ]

    made, *answers = serve_here(settings, tmp_path / "alpha", work)

    assert [made in answer for answer in answers] == [True] * 3


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}


def start(settings: Settings, **more: Any) -> subprocess.Popen[bytes]:
    """A server that has answered once, so that it is up; its input stays open."""
    process = subprocess.Popen(
        [sys.executable, "-m", "engram_mcp.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **more,
        env=os.environ | {"ENGRAM_HOME": str(settings.home)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(HELLO).encode() + b"\n")
    process.stdin.flush()
    assert b'"result"' in process.stdout.readline()
    return process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_while_its_input_is_open(settings: Settings, number: signal.Signals) -> None:
    # A parent that ignores SIGINT hands that on.
    process = start(settings, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))

    process.send_signal(number)

    assert process.wait(PATIENCE_SECONDS) == -number


def test_the_end_of_its_input_ends_the_server(settings: Settings) -> None:
    process = start(settings)
    assert process.stdin is not None

    process.stdin.close()

    assert process.wait(PATIENCE_SECONDS) == 0


def test_the_server_ends_when_its_parent_is_killed_though_somebody_holds_its_input(settings: Settings) -> None:
    reading, writing = os.pipe()
    alive_reading, alive_writing = os.pipe()
    code = (
        "import subprocess, sys, time\n"
        "p = subprocess.Popen([sys.executable, '-m', 'engram_mcp.server'], stdin=int(sys.argv[1]), "
        "pass_fds=[int(sys.argv[2])])\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(reading), str(alive_writing)],
        pass_fds=[reading, alive_writing],
        stdout=subprocess.PIPE,
        env=os.environ | {"ENGRAM_HOME": str(settings.home)},
    )
    os.close(alive_writing)
    assert parent.stdout is not None
    os.write(writing, json.dumps(HELLO).encode() + b"\n")
    assert b'"result"' in parent.stdout.readline()

    parent.kill()
    parent.wait(PATIENCE_SECONDS)

    # The server holds the other end of this pipe for as long as it lives.
    assert select.select([alive_reading], [], [], PATIENCE_SECONDS)[0]
    assert os.read(alive_reading, 1) == b""
    for descriptor in (reading, writing, alive_reading):
        os.close(descriptor)


def test_without_a_memory_every_tool_says_what_to_do(tmp_path: Path) -> None:
    async def work(client: ClientSession) -> list[str]:
        return [
            await call(client, "memory_recall", query="x"),
            await call(client, "memory_status"),
            await call(client, "memory_save", content="x", scope="global", importance="normal"),
        ]

    for answer in serve_here(Settings(home=tmp_path / "nowhere"), tmp_path, work):
        assert f"`engram --home {tmp_path / 'nowhere'} up`" in answer


def test_the_server_loads_no_model_no_queue_and_nothing_that_makes_memories(settings: Settings) -> None:
    absent = {
        *("torch", "sentence_transformers", "onnxruntime", "openai", "huey", "watchdog"),
        *("engram.extraction", "engram.memories.save", "engram.trust.voice"),
    }
    code = (
        "import sys, engram_mcp.session, engram.search.answer, engram.notes.standing; "
        f"print(sorted({absent!r} & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert finished.stdout.strip() == "[]"


def test_a_first_recall_without_a_worker_loads_nothing_of_other_tools(settings: Settings, tmp_path: Path) -> None:
    absent = {
        *("engram.embedding.load_model", "engram.transcripts.registry", "engram.models.shown.usage"),
        *("engram.reports.health", "engram.reports.memory_report", "engram.notes.user_files"),
    }
    code = (
        "import os, sys\n"
        "from engram_mcp.access import access_for\n"
        "from engram_mcp.catalog import answer\n"
        "text, _ = answer(lambda: access_for(os.environ), 'memory_recall', {'query': 'Where is the cache?'})\n"
        f"print('SQLite' in text, 'worker is not running' in text, sorted({absent!r} & set(sys.modules)))"
    )
    places = {"ENGRAM_HOME": str(settings.home), "CLAUDE_PROJECT_DIR": str(tmp_path / "alpha")}

    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ, **places}
    )

    assert finished.stdout.strip() == "True True []"


def test_the_server_writes_its_own_log(settings: Settings, tmp_path: Path) -> None:
    async def work(client: ClientSession) -> Any:
        return await call(client, "memory_status")

    serve(settings, tmp_path / "alpha", work)

    assert "action=tool name=memory_status" in (settings.places.logs / "mcp.log").read_text()
