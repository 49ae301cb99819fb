"""A real session, live: both processes run, lines are appended, hooks are called as Claude Code calls them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from processes import WAIT_SECONDS, wait_for

from engram.models.memories.memory_records import all_memories
from engram.models.open_memory import open_store
from engram.models.shown.usage import count_without_vector
from engram.models.work.task_runs import RunState, list_task_runs
from engram.paths import Home
from engram.reports.processes import process_state

#: A real session that was given to the project, with one thing that is sure: why a push failed, and what mended it.
SESSION = "f6b7329a-914c-4f62-8090-4e29b032b173"
PROMPT = "Why does git push fail with biome errors about the .claude and .opencode directories?"


@dataclass
class Live:
    """Engram running on a home and a Claude configuration folder of its own."""

    root: Path
    environment: dict[str, str]
    hooks: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def engram(self, *arguments: str) -> Any:
        text = self.run(*arguments)
        return json.loads(text) if text.startswith(("{", "[")) else text

    def run(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "engram.cli.main", *arguments],
            env=self.environment,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return done.stdout

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "engram.cli.main", "up"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        locks = (self.home.worker_lock, self.home.watcher_lock)
        wait_for(lambda: all(process_state(lock).is_alive for lock in locks))
        status = self.engram("status", "--json")
        assert status["worker"]["alive"]
        assert status["watcher"]["alive"]

    @property
    def home(self) -> Home:
        return Home(self.root / "home")

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(timeout=WAIT_SECONDS)
            self.process = None

    def transcript(self, session_id: str, folder: str = "-repo") -> Path:
        path = self.root / "claude" / "projects" / folder / f"{session_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def hook(self, event: str, session_id: str, cwd: str, **more: object) -> str:
        payload = {"session_id": session_id, "cwd": cwd, "hook_event_name": event, "transcript_path": "", **more}
        done = subprocess.run(
            ["/bin/sh", "-c", self.hooks[event]],
            env=self.environment | {"CLAUDE_CODE_SESSION_ID": session_id},
            input=json.dumps(payload),
            capture_output=True,
            text=True,
            timeout=WAIT_SECONDS,
        )
        assert done.returncode == 0
        assert not done.stderr
        return done.stdout

    def ask(self, cwd: str, prompt: str) -> tuple[str, str] | None:
        """Send the first prompt of a new session; return the session and what was shown.

        None where the hook said nothing, as on a busy machine, where its time ends before the worker answers.
        """
        session = str(uuid.uuid4())
        shown = self.hook("UserPromptSubmit", session, cwd, prompt=prompt, prompt_id="p1")
        return (session, shown) if shown else None

    def exported(self, session_id: str) -> list[dict[str, Any]]:
        """The memories of a session as ``engram export`` prints them."""
        lines = [json.loads(line) for line in self.run("export").splitlines()]
        return [line for line in lines if line["session"] == session_id]

    # What somebody waits for is looked up here: a program would take a second of the processor for each look.

    def has_memories(self, session_id: str) -> bool:
        with open_store(self.home.memory_db) as store:
            return any(memory.session_id == session_id for memory in all_memories(store))

    def has_turns(self, session_id: str) -> bool:
        with open_store(self.home.memory_db) as store:
            return session_id in {
                read for (read,) in store.rows("SELECT s.session_id FROM turn t JOIN session s ON s.id = t.session_ref")
            }

    def has_every_vector(self) -> bool:
        with open_store(self.home.memory_db) as store:
            return not count_without_vector(store)

    def extractions_of(self, session_id: str) -> int:
        with open_store(self.home.memory_db) as store:
            runs = list_task_runs(store, name="extract", states=[RunState.DONE])
        return sum(run.key == session_id for run in runs)


@pytest.fixture
def live(tmp_path: Path, bundled_folder: Path) -> Iterator[Live]:
    home = tmp_path / "home"
    home.mkdir(parents=True, mode=0o700)
    os.chmod(home, 0o700)
    environment = {
        **os.environ,
        "ENGRAM_HOME": str(home),
        "CLAUDE_CONFIG_DIR": str(tmp_path / "claude"),
    }
    made = Live(tmp_path, environment)
    made.transcript("x").parent.mkdir(parents=True, exist_ok=True)
    block = made.engram("setup", "hooks", "--json")
    made.hooks = {event: entries[0]["hooks"][0]["command"] for event, entries in block["hooks"].items()}
    yield made
    made.stop()
    # Printed only if the test fails.
    for log in sorted(made.home.logs.glob("*.log")):
        print(log.name, log.read_text(encoding="utf-8"), sep="\n")


def line(kind: str, text: str, session_id: str, cwd: str, number: int) -> str:
    content: Any = text if kind == "user" else [{"type": "text", "text": text}]
    message = {"role": kind, "content": content} | ({"id": f"msg_{number}"} if kind == "assistant" else {})
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    return (
        json.dumps(
            {
                "type": kind,
                "uuid": f"00000000-0000-4000-8000-{abs(hash((session_id, number))) % 10**12:012d}",
                "sessionId": session_id,
                "cwd": cwd,
                "timestamp": at,
                "version": "2.1.219",
                "message": message,
            }
        )
        + "\n"
    )


def bites_of(output: str) -> list[str]:
    if not output:
        return []
    shown = json.loads(output)["hookSpecificOutput"]["additionalContext"]
    return [one for one in shown.splitlines() if "ep_" in one and not one.startswith("<")]


@pytest.mark.model
@pytest.mark.corpus
def test_a_real_session_comes_back_in_the_same_turn_in_its_project_only(live: Live, corpus: Path) -> None:
    (source,) = corpus.rglob(f"{SESSION}.jsonl")
    cwd = next(c for c in (json.loads(one).get("cwd") for one in source.read_text().splitlines()) if c)
    live.start()
    with live.transcript(SESSION).open("a", encoding="utf-8") as file:
        for one in source.read_text(encoding="utf-8").splitlines(keepends=True):
            file.write(one)
            file.flush()
    live.hook("SessionEnd", SESSION, cwd, reason="other")
    wait_for(lambda: live.has_memories(SESSION))

    # the right memory in the same turn, with evidence from that session
    wait_for(live.has_every_vector)
    asking, output = wait_for(lambda: live.ask(cwd, PROMPT))
    bites = bites_of(output)
    kept = {one["id"]: one for one in live.exported(SESSION)}
    assert 1 <= len(bites) <= 3
    shown = [next(i for i in kept if i in bite) for bite in bites]
    assert kept[shown[0]]["evidence"]

    # nothing is left for the second channel, and no memory comes twice
    assert live.hook("PreToolUse", asking, cwd, tool_name="Bash", tool_input={}) == ""
    again = bites_of(live.hook("UserPromptSubmit", asking, cwd, prompt=PROMPT + " And why?", prompt_id="p2"))
    assert not {i for bite in again for i in shown if i in bite}

    # a prompt that no hook asked about waits for the next tool call: once, and never for a subagent
    silent = "aaaaaaaa-0000-4000-8000-000000000002"
    with live.transcript(silent).open("a", encoding="utf-8") as file:
        file.write(line("user", PROMPT, silent, cwd, 1))
    pending = Path(live.environment["ENGRAM_HOME"]) / "recollections" / f"{silent}.pending"
    wait_for(pending.exists)
    assert live.hook("PreToolUse", silent, cwd, agent_id="sub", tool_name="Bash", tool_input={}) == ""
    handed = wait_for(lambda: bites_of(live.hook("PreToolUse", silent, cwd, tool_name="Bash", tool_input={})))
    assert 1 <= len(handed) <= 3
    assert live.hook("PreToolUse", silent, cwd, tool_name="Bash", tool_input={}) == ""

    # another project sees none of it, but a global memory does appear
    elsewhere = str(live.root / "elsewhere")
    other = "aaaaaaaa-0000-4000-8000-000000000003"
    assert live.hook("UserPromptSubmit", other, elsewhere, prompt=PROMPT, prompt_id="p3") == ""
    live.engram("save", "When biome fails a git push, the .claude directory is excluded in biome.json.", "--global")
    wait_for(live.has_every_vector)
    _, found = wait_for(lambda: live.ask(elsewhere, PROMPT + " (release)"))
    assert "is excluded in biome.json" in found
    assert not any(i in found for i in kept)


@pytest.mark.model
def test_a_short_session_is_extracted_at_its_end_and_not_by_stop_alone(live: Live) -> None:
    cwd, session = str(live.root / "repo"), "bbbbbbbb-0000-4000-8000-000000000001"
    live.start()
    said = [
        ("user", "From now on always write CSV files with a final newline in this project."),
        (
            "assistant",
            "The importer dropped the last row because read_rows stops at the final newline; files without one lost "
            "it.",
        ),
        (
            "assistant",
            "Fixed: read_rows in importer.py now yields the rest of the buffer after the loop, so files without a "
            "final newline keep their last row.",
        ),
    ]
    with live.transcript(session).open("a", encoding="utf-8") as file:
        file.writelines(line(kind, text, session, cwd, n) for n, (kind, text) in enumerate(said))

    live.hook("Stop", session, cwd, stop_hook_active=False)
    wait_for(lambda: live.has_turns(session))
    assert session in json.dumps(live.engram("sessions", "--json"))
    assert live.engram("sessions", session, "--json")["turns"] != []
    assert live.extractions_of(session) == 0

    # the session ends while nothing runs: the worker does it when it comes back
    live.stop()
    live.hook("SessionEnd", session, cwd, reason="other")
    live.start()
    wait_for(lambda: live.extractions_of(session) >= 1)
    assert live.exported(session)
