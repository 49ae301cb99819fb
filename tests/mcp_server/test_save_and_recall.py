"""A saved memory is found by the next recall by its own words, and by a paraphrase once the model has embedded it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from processes import wait_for
from workers import RUN, status

from engram.enums import Actor, Scope
from engram.memories.save import save_memory
from engram.models.open_memory import open_store
from engram.redaction import redact
from engram.settings import Settings
from tests.fork_server import ForkedProcess

#: Other memories about the same surroundings, which text alone would rank as high.
OTHERS = (
    "The staging server is rebooted every Sunday night.",
    "Backups of the staging server are kept for two weeks.",
    "The production server runs on port 8443 behind nginx.",
    "Deploys go through the release branch and never straight to production.",
    "The nightly job writes its log to stdout.",
)
SAVED = "Use a connection pool of twelve for Postgres, because more exhausts the replica."
OWN_WORDS = "connection pool of twelve for Postgres"
PARAPHRASE = "how many database clients may be open at once?"
#: What begins a line with a memory.
FOUND = "\n[ep_"
#: Longest wait for the worker, in seconds.
PATIENCE_SECONDS = 120


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude")
    made.places.prepare()
    (tmp_path / "harbor").mkdir()
    with open_store(made.places.memory_db) as store:
        for text in OTHERS:
            save_memory(store, text, redact, scope=Scope.GLOBAL, actor=Actor.USER)
    return made


@pytest.fixture
def worker(settings: Settings, bundled_folder: Path) -> Iterator[None]:
    environment = os.environ | {"ENGRAM_HOME": str(settings.home), "ENGRAM_CLAUDE_FOLDER": str(settings.claude_folder)}
    process = ForkedProcess(RUN, environment)
    wait_for(lambda: (status(settings.places) or {}).get("model"))
    yield
    process.terminate()
    process.wait(PATIENCE_SECONDS)


def ask(settings: Settings, folder: Path, *questions: str, patience: float = 0.0, **more: str) -> list[str]:
    """Save a memory through the MCP server and ask it questions at once, each again for so long while nothing fits."""

    async def run() -> list[str]:
        environment = os.environ | {"ENGRAM_HOME": str(settings.home)}
        parameters = StdioServerParameters(
            command=sys.executable, args=["-m", "engram_mcp.server"], env=environment, cwd=str(folder)
        )
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            saved: dict[str, Any] = {"content": SAVED, "scope": "global", "importance": "normal", **more}
            await client.call_tool("memory_save", saved)
            answers = []
            for question in questions:
                until = time.monotonic() + patience
                answer = await recall(client, question)
                while FOUND not in answer and time.monotonic() < until:
                    answer = await recall(client, question)
                answers.append(answer)
            return answers

    return asyncio.run(run())


async def recall(client: ClientSession, question: str) -> str:
    return getattr((await client.call_tool("memory_recall", {"query": question})).content[0], "text", "")


def first_hit(answer: str) -> str:
    return next(line for line in answer.splitlines() if line.startswith(FOUND.strip()))


@pytest.mark.usefixtures("worker")
def test_the_next_recall_finds_it_first_by_its_words(settings: Settings, tmp_path: Path) -> None:
    (by_words,) = ask(settings, tmp_path / "harbor", OWN_WORDS)

    assert SAVED in first_hit(by_words)


@pytest.mark.usefixtures("worker")
def test_a_paraphrase_finds_it_first_once_it_is_embedded(settings: Settings, tmp_path: Path) -> None:
    (by_meaning,) = ask(settings, tmp_path / "harbor", PARAPHRASE, patience=PATIENCE_SECONDS)

    assert SAVED in first_hit(by_meaning)


def test_it_is_found_by_the_question_that_it_answers(settings: Settings, tmp_path: Path) -> None:
    answered = "Where do captains complain?"

    (without,) = ask(settings, tmp_path / "harbor", answered)
    (found,) = ask(settings, tmp_path / "harbor", answered, content="The desk is on pier 9.", question=answered)

    assert "pier 9" not in without
    assert "The desk is on pier 9." in first_hit(found)


def test_without_a_worker_it_is_found_by_its_words(settings: Settings, tmp_path: Path) -> None:
    (by_words,) = ask(settings, tmp_path / "harbor", OWN_WORDS)

    assert SAVED in first_hit(by_words)
