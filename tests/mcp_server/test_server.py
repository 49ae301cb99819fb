"""A real MCP client over stdio lists and calls all eleven tools, with no worker running."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from engram.clock import FixedClock
from engram.models import episode_changes, sessions
from engram.models.episodes import Episode
from engram.models.store import open_store
from engram.settings import Settings

GOLDEN = Path(__file__).parent / "golden"
#: Name → arguments with their defaults, as users' prompts and other tools rely on them.
CONTRACT = {
    "memory_recall": {"query": None, "limit": 5, "project": None},
    "memory_expand": {"id": None},
    "memory_search": {"query": None, "limit": 5, "project": None},
    "memory_get": {"source": None, "start": None, "lines": None},
    "memory_save": {
        "content": None, "scope": None, "importance": None, "kind": None, "supersedes": None, "pin": False, "cwd": None,
    },
    "memory_correct": {"id": None, "text": None, "why": None, "project": None},
    "memory_pin": {"id": None, "on": True},
    "memory_forget": {"id": None, "also_source": False, "project": None},
    "memory_status": {},
    "memory_timeline": {"around": None, "project": None, "limit": 10},
    "memory_context": {"project": None},
}  # fmt: skip

Work = Callable[[ClientSession], Coroutine[Any, Any, Any]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home")
    made.places.prepare()
    (tmp_path / "alpha").mkdir()
    (tmp_path / "beta").mkdir()
    clock = FixedClock(at_ms=1_771_545_600_000)
    with open_store(made.places.memory_db, clock=clock) as store, store.writing():
        project = sessions.ensure_project(store, str(tmp_path / "alpha"), "alpha", str(tmp_path / "alpha"))
        for number, summary in enumerate(
            ["The cache lives in SQLite", "Deploys run on Fridays never", "Port 8080 is taken"]
        ):
            made_episode = Episode(
                f"ep_00000000000{number}", "decision", summary, f"We talked about it: {summary}.", project_id=project.id,
                importance="high" if number == 0 else "normal", entities=("cache.py",), voice="user",
            )  # fmt: skip
            episode_changes.add_episode(store, made_episode, [])
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

    tools = serve(settings, tmp_path / "alpha", work)

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
    from engram_mcp.server import INSTRUCTIONS

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
        answers["status"] = re.sub(r"episodes: .*", "episodes: …", await call(client, "memory_status"))
        return answers

    answers = serve(settings, tmp_path / "alpha", work)

    for name, answer in answers.items():
        file = GOLDEN / f"{name}.txt"
        text = plain(answer, tmp_path) + "\n"
        if os.environ.get("WRITE_GOLDEN"):
            file.write_text(text)
        assert text == file.read_text(), name


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

    serve(settings, tmp_path / "alpha", saving)

    own, other = serve(settings, tmp_path / "alpha", asking), serve(settings, tmp_path / "beta", asking)
    assert "ticket" in own
    assert "operators" in own
    assert "operators" in other


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
            client, "memory_save", content="The cache lives in Redis now", scope="project", importance="normal",
            supersedes="ep_000000000000",
        )  # fmt: skip
        return await call(client, "memory_expand", id="ep_000000000000")

    assert "Superseded by ep_" in serve(settings, tmp_path / "alpha", work)


def test_without_a_memory_every_tool_says_what_to_do(tmp_path: Path) -> None:
    async def work(client: ClientSession) -> list[str]:
        return [
            await call(client, "memory_recall", query="x"),
            await call(client, "memory_status"),
            await call(client, "memory_save", content="x", scope="global", importance="normal"),
        ]

    for answer in serve(Settings(home=tmp_path / "nowhere"), tmp_path, work):
        assert "engram up" in answer


def test_the_server_loads_neither_a_model_nor_the_queue(settings: Settings) -> None:
    import subprocess

    code = (
        "import sys, engram_mcp.server; "
        "print([m for m in ('torch', 'sentence_transformers', 'onnxruntime', 'openai', 'huey', 'watchdog') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
