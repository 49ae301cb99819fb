"""What is another project's stays there: every tool and every hook, by real processes, asked for the other's canary."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from transcript_lines import say

from engram.enums import Actor
from engram.ingest.read_sources import ingest_path
from engram.models.memories import memory_changes
from engram.models.memories.memory_records import Evidence, Memory
from engram.models.open_memory import open_store
from engram.models.projects import projects
from engram.models.sessions import sessions
from engram.notes.daily_log import log_session, save_note
from engram.notes.note_index import index_notes
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import day_of
from engram_hooks.block import link_interpreter, settings_block
from engram_mcp.access import Access
from engram_mcp.catalog import answer
from tests.fork_server import ForkedProcess
from tests.forked import run_command
from tests.workers import RUN

#: Word that stands in everything of the one project, and the name of that project.
CANARY, NAME = "copperlantern", "harborworks"
QUESTION = f"How is the {CANARY} script of the deploy started?"
OWN, SHARED = "ep_0000000000a1", "ep_0000000000a2"
#: Longest wait for the worker, in seconds.
PATIENCE_SECONDS = 60

Work = Callable[[ClientSession], Coroutine[Any, Any, Any]]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A memory with everything that a project may leave there, and five folders of which one is that project."""
    made = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", embedding_model="hashed")
    made.places.prepare()
    for folder in (NAME, "beta", f"{NAME}/vendored"):
        (tmp_path / folder / ".git").mkdir(parents=True)
        (tmp_path / folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "loose").mkdir()
    with open_store(made.places.memory_db) as store:
        session, root = str(uuid.uuid4()), str(tmp_path / NAME)
        path = made.projects_folder / "slug" / f"{session}.jsonl"
        say(path, "user", f"Start the {CANARY} script of the deploy with make.", cwd=root)
        say(path, "assistant", f"The {CANARY} script of the deploy is started with make.", cwd=root)
        ingest_path(store, path, settings=made, redact=redact, close=True)
        stored = sessions.find_session(store, session)
        assert stored is not None
        with store.transaction() as tx:
            projects.ensure_project(tx, str(tmp_path / "beta"), "beta", str(tmp_path / "beta"))
            for episode_id, scope in ((OWN, "project"), (SHARED, "global")):
                told = f"The {CANARY} script of the deploy is started with make."
                summary = told if scope == "project" else "I prefer scripts that are started with make."
                memory = Memory(
                    episode_id=episode_id,
                    kind="preference",
                    summary=summary,
                    content=told,
                    project_id=stored.project_id,
                    session_id=session,
                    scope=scope,
                    facts=(f"changed: {CANARY}.sh",),
                    entities=("deploy", "make"),
                    importance="high",
                    # What an extractor made global is judged again by a worker; what was pinned stays.
                    is_pinned=scope == "global",
                    voice="user",
                    confidence=0.9,
                    quality=0.9,
                    stale_reason=f"{CANARY}.sh was changed",
                    access_count=5,
                )
                memory_changes.add_memory(tx, memory, [Evidence(str(uuid.uuid4()), session)], actor=Actor.MODEL)
        log_session(store, made.places, session)
        save_note(made.places, f"the {CANARY} note\n# and its {CANARY} part", redact, store.now_ms(), NAME)
        made.places.memory_note.write_text(
            f"# Memory\n\n## 2026-02\n- {CANARY} is started with make <!-- {OWN} -->\n- zebra words of my own\n"
        )
        index_notes(store, made, redact)
    return made


@pytest.fixture(params=["no worker", "worker"])
def running(request: pytest.FixtureRequest, settings: Settings) -> Iterator[Settings]:
    """The memory without and with a worker that answers at engram.sock."""
    if request.param == "no worker":
        yield settings
        return
    environment = os.environ | {"ENGRAM_EMBEDDING_MODEL": "hashed", "ENGRAM_HOME": str(settings.home)}
    process = ForkedProcess(RUN, environment)
    try:
        until = time.monotonic() + PATIENCE_SECONDS
        while not settings.places.recall_socket.exists():
            assert time.monotonic() < until, "the worker did not start"
            time.sleep(0.05)
        yield settings
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_SECONDS)


def ask(settings: Settings, folder: Path, work: Work) -> Any:
    """Run the MCP server in a folder and talk to it."""

    async def run() -> Any:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "engram_mcp.server"],
            cwd=str(folder),
            env=os.environ | {"ENGRAM_HOME": str(settings.home), "ENGRAM_EMBEDDING_MODEL": "hashed"},
        )
        async with stdio_client(parameters) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            return await work(client)

    return asyncio.run(run())


async def call(client: ClientSession, tool: str, **arguments: object) -> str:
    result = await client.call_tool(tool, arguments)
    return "".join(getattr(part, "text", "") for part in result.content)


def note_names(settings: Settings) -> list[str]:
    """Every note that Engram keeps, by the name that the tools take."""
    folder = settings.places.notes
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))


def hook(settings: Settings, folder: Path, event: str, session: str) -> str:
    """What a hook prints when Claude Code runs it in a folder."""
    link_interpreter(settings.places)
    command = settings_block(interpreter=sys.executable)["hooks"][event][0]["hooks"][0]["command"]
    payload = {
        "hook_event_name": event,
        "session_id": session,
        "cwd": str(folder),
        "source": "startup",
        "prompt": QUESTION,
        "tool_name": "Bash",
        "tool_input": {"command": f"sh {CANARY}.sh"},
    }
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        input=json.dumps(payload).encode(),
        capture_output=True,
        cwd=folder,
        check=True,
        env={"PATH": os.environ["PATH"], "ENGRAM_HOME": str(settings.home), "CLAUDE_CODE_SESSION_ID": session},
    )
    return done.stdout.decode()


def leaks(text: str) -> bool:
    """True where a text tells anything of the one project; what the caller asked with is no answer."""
    return CANARY in text or NAME in text


def test_no_tool_and_no_hook_tells_of_another_project(running: Settings, tmp_path: Path) -> None:
    for where in ("beta", "loose", f"{NAME}/vendored", "."):
        _ask_everything(running, tmp_path / where, is_project=where == "beta")


def _ask_everything(running: Settings, folder: Path, *, is_project: bool) -> None:
    """Ask every tool and every hook in a folder that is not the project's; none tells of it."""

    async def work(client: ClientSession) -> dict[str, str]:
        answers = {
            "recall": await call(client, "memory_recall", query="how are scripts of the deploy started", limit=25),
            "recall the canary": await call(client, "memory_recall", query=CANARY, limit=25),
            "search": await call(client, "memory_search", query=QUESTION, limit=25),
            "expand": await call(client, "memory_expand", id=OWN),
            "expand global": await call(client, "memory_expand", id=SHARED),
            "timeline": await call(client, "memory_timeline", limit=50),
            "timeline around": await call(client, "memory_timeline", around=OWN),
            "timeline around a date": await call(client, "memory_timeline", around=day_of(int(time.time() * 1000))),
            "context": await call(client, "memory_context"),
            "forget": await call(client, "memory_forget", id=OWN),
            "forget the source": await call(client, "memory_forget", id=OWN, also_source=True),
            "correct": await call(client, "memory_correct", id=OWN, text="replaced", why="a guess"),
            "pin": await call(client, "memory_pin", id=OWN),
            "status": await call(client, "memory_status"),
            "unknown project": await call(client, "memory_recall", query="x", project="nope"),
            "unknown note": await call(client, "memory_get", source="nope.md"),
            "replace": await call(
                client, "memory_save", content="replaced", scope="global", importance="normal", supersedes=OWN
            ),
        }
        for name in note_names(running):
            answers[f"get {name}"] = await call(client, "memory_get", source=name)
        return answers

    answers = ask(running, folder, work)
    session = str(uuid.uuid4())
    answers |= {event: hook(running, folder, event, session) for event in ("SessionStart", "UserPromptSubmit")}
    answers["PreToolUse"] = hook(running, folder, "PreToolUse", session)

    assert {name: text for name, text in answers.items() if leaks(text)} == {}, folder
    # The tools did look: what every project may see is there, and what was asked for by its id is still kept.
    assert SHARED in answers["recall"]
    assert SHARED in answers["timeline"]
    assert "started with make" in answers["expand global"]
    assert "zebra words" in answers["get MEMORY.md"]
    with open_store(running.places.memory_db) as store:
        assert store.value("SELECT status FROM episode WHERE episode_id = ?", (OWN,)) == "active"
    if not is_project:
        hit = [answers[name] for name in ("recall", "search", "timeline", "expand global", "context", "get MEMORY.md")]
        assert all("no project is known for this folder: global memories only" in text for text in hit)


def test_the_project_itself_sees_all_of_it_and_another_by_the_one_argument(running: Settings, tmp_path: Path) -> None:
    asking: dict[str, dict[str, object]] = {
        "memory_recall": {"query": QUESTION},
        "memory_search": {"query": QUESTION, "limit": 25},
        "memory_expand": {"id": OWN},
        "memory_timeline": {"around": OWN},
        "memory_context": {},
    }

    async def at_home(client: ClientSession) -> dict[str, str]:
        answer = {tool: await call(client, tool, **arguments) for tool, arguments in asking.items()}
        return answer | {name: await call(client, "memory_get", source=name) for name in note_names(running)}

    async def elsewhere(client: ClientSession) -> dict[str, str]:
        answer = {tool: await call(client, tool, project=NAME, **arguments) for tool, arguments in asking.items()}
        for name in note_names(running):
            answer[name] = await call(client, "memory_get", source=name, project=NAME)
        return answer | {"memory_forget": await call(client, "memory_forget", id=OWN, project=NAME)}

    home, beta = ask(running, tmp_path / NAME, at_home), ask(running, tmp_path / "beta", elsewhere)

    assert [name for name, text in home.items() if CANARY not in text or "not of this folder" in text] == []
    assert [name for name, text in beta.items() if f"of project {NAME}, not of this folder" not in text] == []
    assert [name for name, text in beta.items() if CANARY not in text and name != "memory_forget"] == []
    with open_store(running.places.memory_db) as store:
        assert store.value("SELECT count(*) FROM episode WHERE episode_id = ?", (OWN,)) == 0


def test_a_note_saved_in_one_project_is_found_there_alone(settings: Settings, tmp_path: Path) -> None:
    fence = "```\n## beta\n<!-- saved 10:00 -->\nwalrus in a fence\n```\n## beta\nwalrus under a heading"

    def call_here(where: str, tool: str, **arguments: object) -> str:
        return answer(lambda: Access(settings, str(tmp_path / where)), tool, arguments)[0]

    def look(where: str) -> str:
        found = call_here(where, "memory_search", query="walrus words heading fence", limit=25)
        return found + "".join([call_here(where, "memory_get", source=name) for name in note_names(settings)])

    saved = call_here("loose", "memory_save", content=f"walrus words\n{fence}", scope="note", importance="normal")

    assert "for project loose" in saved
    assert "walrus" not in look("beta")
    assert len(re.findall("walrus under a heading", look("loose"))) == 2


def test_a_person_searches_everything_and_each_hit_names_its_project(
    running: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGRAM_EMBEDDING_MODEL", "hashed")

    def engram(*words: str) -> str:
        done = run_command("--home", str(running.home), *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    recalled = re.split(r"\n(?=\d+\. )", engram("recall", QUESTION, "-n", "20"))
    searched = re.split(r"\n(?=\d+\. )", engram("search", QUESTION, "-n", "20"))

    assert any(OWN in result and NAME in result for result in recalled)
    (shared,) = [result for result in recalled if SHARED in result]
    assert NAME in shared
    assert re.search(r"^ +! .*\bglobal\b", shared, re.MULTILINE)
    assert any("q_" in result and NAME in result.splitlines()[0] for result in searched)
    assert any(result.splitlines()[0].endswith(" · note") for result in searched)
    assert all(NAME in line or "no project" in line for line in searched)
