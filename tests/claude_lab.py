"""A project with history, the worker's server, and the real Claude Code that is connected to them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from claude_binary import StandInServer, find_real_claude
from tool_lines import Conversation, new_session_id

from engram.enums import Actor, Kind, Status
from engram.ingest.read_sources import ingest_path
from engram.ingest.session_project import scope_of_folder
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.shown import injections
from engram.paths import Home
from engram.recollection.recollection_service import RecollectionService
from engram.redaction import redact
from engram.search.searcher import Searcher
from engram.settings import Settings
from engram.setup.agents.plugin import permission_rule
from engram.setup.agents.registered import plugin_files, skills_folder
from engram.tasks.runtime import Runtime
from engram.worker.socket_server import RecallServer
from engram_hooks import prompt
from engram_hooks.block import FOLDER, TIMEOUT_SECONDS, settings_block
from engram_mcp import session
from tests.empty_memory import open_empty

FACT = "The watcher holds watcher.lock by flock, never by a PID file"
#: A fact, which a briefing leaves out: a prompt about it brings it.
BITE = "The watcher wakes every 40 s since a laptop's inotify loses file events in sleep"
TASK = "SUBTASK: find out why the watcher holds a flock and no PID file, and report the reason."
#: A command that fails with an error of one line, and the form of it that passed.
FAILING = "python3 -c 'import sys; sys.exit(\"unrecognized subcommand: frobnicate\")'"
PASSED = "python3 -c 'print(1)'"
#: Time limit of the hooks, in seconds: what they do is tested, not how fast a busy machine is.
HOOK_SECONDS = 60
#: Longest that one run of Claude Code may take, in seconds.
RUN_SECONDS = 200


@dataclass
class Lab:
    """Claude Code in a project of its own."""

    folder: Path
    home: Home
    store: Store
    environment: dict[str, str]
    #: What Claude may do without asking.
    allowed: list[str] = field(default_factory=lambda: ["Bash", "Agent", "Task"])
    #: Finds the Claude Code that runs.
    find_claude: Callable[[], str] = find_real_claude

    @property
    def project(self) -> Path:
        """The folder that Claude Code runs in."""
        return self.folder / "project"

    @property
    def configuration(self) -> Path:
        """Claude Code's configuration folder."""
        return self.folder / "configuration"

    def connect(
        self, *, by_settings: bool = False, by_plugin: bool = False, mod: bool = False, gives_up: bool = False
    ) -> None:
        """Register the hooks by the settings, by the plugin, or by both; the plugin brings the MCP server too.

        With ``gives_up`` the hooks keep their own time limit, and leave a worker that hangs.
        """
        patient = self._make_patient_hooks(prompt.SECONDS if gives_up else HOOK_SECONDS)
        settings: dict[str, Any] = {"permissions": {"allow": self.allowed}}
        if by_settings:
            settings["hooks"] = json.loads(patient(json.dumps(settings_block(self.home)["hooks"])))
        if by_plugin:
            settings["permissions"]["allow"] = [*self.allowed, permission_rule(is_plugin=True)]
            for path, content in plugin_files(self.home, mod=mod).items():
                target = skills_folder(self.configuration) / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(patient(content.decode()).encode() if path.endswith(".json") else content)
        self.configuration.mkdir(exist_ok=True)
        (self.configuration / "settings.json").write_text(json.dumps(settings))

    def _make_patient_hooks(self, own_seconds: float) -> Callable[[str], str]:
        """Copy the hooks with time limits that no busy machine reaches; returns what lets a text name the copy."""
        copy = self.folder / "patient" / FOLDER.name
        shutil.copytree(FOLDER, copy, dirs_exist_ok=True)
        relay = copy / "prompt.py"
        text = relay.read_text(encoding="utf-8")
        relay.write_text(text.replace(f"SECONDS = {prompt.SECONDS}", f"SECONDS = {own_seconds}"), encoding="utf-8")

        def patient(document: str) -> str:
            limit = f'"timeout": {TIMEOUT_SECONDS}'
            return document.replace(str(FOLDER), str(copy)).replace(limit, f'"timeout": {HOOK_SECONDS}')

        return patient

    def run(self, server: StandInServer, question: str = "do it", *options: str) -> dict[str, Any]:
        """Run Claude Code once in print mode; returns the JSON that it prints."""
        return json.loads(self.claude("-p", question, "--output-format", "json", *options, url=server.url))

    def claude(self, *arguments: str, url: str = "http://127.0.0.1:9") -> str:
        """Run a command of Claude Code and return what it prints."""
        done = subprocess.run(
            [self.find_claude(), *arguments],
            cwd=self.project,
            env=self.environment | {"ANTHROPIC_BASE_URL": url},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=True,
            timeout=RUN_SECONDS,
            text=True,
        )
        return done.stdout

    def injected(self) -> list[injections.Injection]:
        """Return everything that any session was shown."""
        sessions = {value for (value,) in self.store.rows("SELECT session_id FROM injection")}
        return [row for each in sorted(sessions) for row in injections.injections_of_session(self.store, each)]


#: The library of the protocol is loaded, as in a worker that has served a session before.
assert session


@contextlib.contextmanager
def open_lab(folder: Path, home: Home) -> Iterator[Lab]:
    """A lab whose project has a failure that was put right, and two facts. ``connect`` it before it runs."""
    (folder / "project").mkdir()
    configuration = folder / "configuration"
    settings = Settings(home=home.root, claude_folder=configuration, embedding_model="hashed")
    store = open_empty(home.memory_db)
    path = configuration / "projects" / "-project" / f"{new_session_id()}.jsonl"
    old = Conversation(path, cwd=str(folder / "project"))
    error = "Exit code 1\nunrecognized subcommand: frobnicate"
    old.prompt("what version is it?").run(FAILING, error).run(PASSED)
    ingest_path(store, old.path, settings=settings, redact=redact)
    _keep(store, settings, folder / "project")
    search = Searcher(store, settings)
    server = RecallServer(Runtime(settings, store, search, RecollectionService(store, search, settings))).start()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("CLAUDE", "ENGRAM", "ANTHROPIC"))}
    environment = kept | {
        "HOME": str(folder),
        "CLAUDE_CONFIG_DIR": str(configuration),
        "ANTHROPIC_API_KEY": "sk-ant-for-the-stand-in",
        "ENGRAM_HOME": str(home.root),
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    try:
        yield Lab(folder=folder, home=home, store=store, environment=environment)
    finally:
        server.close()
        store.close()


def _keep(store: Store, settings: Settings, project: Path) -> None:
    scope = scope_of_folder(store, settings, str(project)).project
    assert scope is not None
    with store.transaction() as tx:
        for text, kind, status in ((FACT, Kind.DECISION, Status.ACTIVE), (BITE, Kind.FACT, Status.PROVISIONAL)):
            made = Memory(new_memory_id(), kind, text, text, project_id=scope.id, quality=0.75, status=status)
            add_memory(tx, made, [Evidence("11111111-1111-1111-1111-111111111111")], actor=Actor.MODEL)


def tool_results(request: dict[str, Any]) -> int:
    """Return how many tool results a request holds."""
    contents = [message["content"] for message in request["messages"] if isinstance(message["content"], list)]
    return sum(block.get("type") == "tool_result" for blocks in contents for block in blocks)


def is_of_subagent(request: dict[str, Any]) -> bool:
    """Return True for a request in the subagent's own conversation, which begins with its task."""
    return TASK in json.dumps(request["messages"][0])


Call = tuple[str, dict[str, Any]]


def calling(calls: list[Call], of_subagent: list[Call] | None = None) -> StandInServer:
    """Start a model that makes the given calls in the main conversation and in that of a subagent, then says done."""

    def script(request: dict[str, Any]) -> tuple[str, dict[str, Any] | str]:
        names = {tool.get("name") for tool in request.get("tools", [])}
        steps = (of_subagent or []) if is_of_subagent(request) else calls
        done = tool_results(request)
        if not names or done >= len(steps):
            return "", "done"
        name, given = steps[done]
        return ("Task" if name == "Agent" and "Agent" not in names else name), given

    return StandInServer({}, script)
