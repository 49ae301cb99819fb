"""The real Claude Code with the hooks and a worker's server: what reaches the model after an error, and a subagent."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from claude_binary import StandInServer, find_real_claude
from hook_runs import Hooks
from tool_lines import Conversation, new_session_id

from engram.enums import Actor, Channel, Kind
from engram.ingest.folder import scope_of_folder
from engram.ingest.service import ingest_path
from engram.models import injections
from engram.models.episode_changes import add_episode
from engram.models.episodes import Episode, Evidence, new_episode_id
from engram.models.store import Store, open_store
from engram.recollection.service import RecollectionService
from engram.redaction import redact
from engram.search.service import Searcher
from engram.settings import Settings
from engram.tasks.runtime import Runtime
from engram.worker.server import RecallServer
from engram_hooks.block import settings_block

pytestmark = pytest.mark.timeout(300)

FACT = "The watcher holds watcher.lock by flock, never by a PID file"
TASK = "SUBTASK: find out why the watcher holds a flock and no PID file, and report the reason."
#: A command that fails with an error of one line, and the form of it that passed.
FAILING = "python3 -c 'import sys; sys.exit(\"unrecognized subcommand: frobnicate\")'"
PASSED = "python3 -c 'print(1)'"


@dataclass
class Lab:
    """A project with history, the worker's server, and Claude Code."""

    folder: Path
    project: Path
    store: Store
    environment: dict[str, str]

    def run(self, server: StandInServer) -> None:
        """One print-mode run in the project."""
        subprocess.run(
            [find_real_claude(), "-p", "do it", "--settings", str(self.folder / "settings.json")],
            cwd=self.project,
            env=self.environment | {"ANTHROPIC_BASE_URL": server.url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=200,
        )


@pytest.fixture
def lab(hooks: Hooks, tmp_path: Path) -> Iterator[Lab]:
    project = tmp_path / "project"
    project.mkdir()
    configuration = tmp_path / "configuration"
    settings = Settings(home=hooks.home.root, claude_folder=configuration, embedding_model="hashed")
    store = open_store(hooks.home.memory_db)
    old = Conversation(configuration / "projects" / "-project" / f"{new_session_id()}.jsonl", cwd=str(project))
    error = "Exit code 1\nunrecognized subcommand: frobnicate"
    old.prompt("what version is it?").run(FAILING, error).run(PASSED)
    ingest_path(store, old.path, settings=settings, redact=redact)
    keep_fact(store, settings, project)
    (tmp_path / "settings.json").write_text(
        json.dumps({"hooks": settings_block(hooks.home)["hooks"], "permissions": {"allow": ["Bash", "Agent", "Task"]}})
    )
    search = Searcher(store, settings)
    server = RecallServer(Runtime(settings, store, search, RecollectionService(store, search, settings))).start()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ENGRAM", "ANTHROPIC"))}
    yield Lab(
        folder=tmp_path,
        project=project,
        store=store,
        environment=kept
        | {
            "HOME": str(tmp_path),
            "CLAUDE_CONFIG_DIR": str(configuration),
            "ANTHROPIC_API_KEY": "sk-ant-for-the-stand-in",
            "ENGRAM_HOME": str(hooks.home.root),
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
    )
    server.close()
    store.close()


def keep_fact(store: Store, settings: Settings, project: Path) -> None:
    scope = scope_of_folder(store, settings, str(project)).project
    assert scope is not None
    episode = Episode(new_episode_id(), Kind.FACT, FACT, FACT, project_id=scope.id, quality=0.75)
    with store.transaction() as tx:
        add_episode(tx, episode, [Evidence("11111111-1111-1111-1111-111111111111")], actor=Actor.MODEL)


def tool_results(request: dict[str, Any]) -> int:
    contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
    return sum(block.get("type") == "tool_result" for blocks in contents for block in blocks)


def is_of_subagent(request: dict[str, Any]) -> bool:
    """A request in the subagent's own conversation, which begins with its task."""
    return TASK in json.dumps(request["messages"][0])


@pytest.fixture
def model() -> Iterator[Callable[..., StandInServer]]:
    """Starts a model that makes the given calls in the main conversation and in that of a subagent."""
    servers: list[StandInServer] = []

    def start(calls: list[tuple[str, dict[str, Any]]], of_subagent: list[tuple[str, dict[str, Any]]]) -> StandInServer:
        def script(request: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
            names = {tool.get("name") for tool in request.get("tools", [])}
            steps = of_subagent if is_of_subagent(request) else calls
            done = tool_results(request)
            if not names or done >= len(steps):
                return "", "done"
            name, given = steps[done]
            return ("Task" if name == "Agent" and "Agent" not in names else name), given

        servers.append(StandInServer({}, script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def test_after_a_failing_command_the_next_request_has_the_line(lab: Lab, model: Callable[..., StandInServer]) -> None:
    server = model([("Bash", {"command": FAILING, "description": "x"})], [])

    lab.run(server)

    (after,) = [request for request in server.requests if tool_results(request) == 1]
    text = json.dumps(after["messages"])
    assert "PostToolUseFailure:Bash hook additional context" in text
    assert "failed like this and passed as" in text
    (told,) = [row for row in every_injection(lab.store) if row.channel == Channel.ERROR]
    assert told.state == "shown"


def test_a_subagent_has_its_bites_in_its_first_request_and_its_parent_has_none(
    lab: Lab, model: Callable[..., StandInServer]
) -> None:
    given = {"description": "look", "prompt": TASK, "subagent_type": "general-purpose"}
    server = model([("Agent", given)], [])

    lab.run(server)

    first = next(request for request in server.requests if is_of_subagent(request))
    assert FACT in json.dumps(first["messages"])
    assert "SubagentStart hook additional context" in json.dumps(first["messages"])
    parents = [request["messages"] for request in server.requests if not is_of_subagent(request)]
    assert "SubagentStart hook" not in json.dumps(parents)
    (told,) = [row for row in every_injection(lab.store) if row.channel == Channel.AGENT]
    assert told.prompt_key.startswith("agent:")


def test_a_subagents_failing_command_gets_the_line_in_its_own_context(
    lab: Lab, model: Callable[..., StandInServer]
) -> None:
    given = {"description": "look", "prompt": TASK, "subagent_type": "general-purpose"}
    server = model([("Agent", given)], [("Bash", {"command": FAILING, "description": "x"})])

    lab.run(server)

    told = [request for request in server.requests if "failed like this and passed as" in json.dumps(request)]
    assert told
    assert all(is_of_subagent(request) for request in told)


def every_injection(store: Store) -> list[injections.Injection]:
    sessions = {row[0] for row in store.rows("SELECT session_id FROM injection")}
    return [row for session in sorted(sessions) for row in injections.injections_of_session(store, session)]
