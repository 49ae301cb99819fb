"""The real Claude Code with the mod: what it shows and answers, and what it leaves as it was."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from claude_binary import StandInServer, find_claude_with_mods, find_real_claude
from claude_lab import BITE, FACT, FAILING, RUN_SECONDS, TASK, Lab

from engram.enums import Actor
from engram.models.memories.memory_history import history_of
from engram.models.memories.memory_records import find_memory
from engram.setup.agents.registered import MOD, skills_folder
from engram.system.socketpath import socket_address

pytestmark = pytest.mark.timeout(400)

PROMPT = "Why does the watcher wake every 40 s although inotify tells it of file events?"
#: Sessions that are tried until each line came: a hook on a busy machine is silent in time.
MAX_SESSIONS = 4
#: A prompt that no memory helps with.
OTHER = "Good morning"
Model = Callable[..., StandInServer]


@pytest.fixture
def lab(lab: Lab) -> Lab:
    lab.find_claude = find_claude_with_mods
    return lab


def talk(lab: Lab, server: StandInServer, *prompts: str) -> list[list[dict[str, Any]]]:
    """Give a session prompts one after the other; returns the lines of stream-json up to the end of each."""
    process = subprocess.Popen(
        [lab.find_claude(), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose"],
        cwd=lab.project,
        env=lab.environment | {"ANTHROPIC_BASE_URL": server.url},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    turns: list[list[dict[str, Any]]] = []
    for prompt in prompts:
        process.stdin.write(json.dumps({"type": "user", "message": {"role": "user", "content": prompt}}) + "\n")
        process.stdin.flush()
        lines: list[dict[str, Any]] = []
        for line in process.stdout:
            lines.append(json.loads(line))
            if lines[-1].get("type") == "result":
                break
        turns.append(lines)
    process.stdin.close()
    # What a subagent in the background brings comes after the end of the turn that started it.
    turns[-1] += map(json.loads, process.stdout)
    process.wait(RUN_SECONDS)
    return turns


def said(lines: list[dict[str, Any]]) -> list[str]:
    """The lines that the mod wrote."""
    return [line["text"] for line in lines if line.get("subtype") == "ui_log" and line.get("plugin") == "engram"]


def answer(lines: list[dict[str, Any]]) -> str:
    """What a command printed."""
    return json.dumps(
        [line for line in lines if line.get("type") in ("assistant", "user", "result")], ensure_ascii=False
    )


def test_a_line_for_what_was_handed_over_and_the_command_in_one_session(lab: Lab, model: Model) -> None:
    lab.connect(by_plugin=True, mod=True)
    server = model([], [])

    turns = talk(
        lab, server, OTHER, "/engram  help", PROMPT, "/engram", "/engram how is watcher.lock held", "/engram pin 1",
        "/engram wrong 1", "/engram wrong 1 off", "/engram wrong 8", "/engram wrong 1",
    )  # fmt: skip

    none, started, handed, shown, found, pinned, wrong, taken_back, missing, again = turns
    assert said(none) == []
    assert FACT in answer(started)
    assert "handed over at the start of the session" in answer(started)
    assert "/engram QUERY searches" in answer(started)
    assert said(handed) == ["1 memory handed over with your prompt · /engram shows it"]
    assert BITE in answer(shown)
    assert FACT in answer(found)
    assert "is pinned" in answer(pinned)
    assert "is judged wrong" in answer(wrong)
    assert "Took back" in answer(taken_back)
    assert "There is no number 8" in answer(missing)
    assert "is judged wrong" in answer(again)
    assert not any(said(lines) for lines in turns[3:])
    with_turn = [request for request in server.requests if request.get("tools")]
    assert len(with_turn) == 2, "a command asks no model"
    (memory_id,) = set(re.findall(r"ep_[0-9a-f]{12}", answer(wrong)))
    steps = [(step.action, step.actor) for step in history_of(lab.store, memory_id)]
    assert steps[1:] == [("pin", Actor.USER), ("bad", Actor.USER), ("take back", Actor.USER), ("bad", Actor.USER)]
    judged = find_memory(lab.store, memory_id)
    assert judged is not None
    assert judged.is_pinned
    assert judged.is_lowered


def test_a_line_for_a_known_failure_and_for_a_subagent_and_none_for_its_notification(lab: Lab, model: Model) -> None:
    lab.connect(by_plugin=True, mod=True)
    agent = {"description": "look", "prompt": TASK, "subagent_type": "general-purpose"}
    lines: set[str] = set()

    for _ in range(MAX_SESSIONS):
        (turn,) = talk(lab, model([("Bash", {"command": FAILING, "description": "x"}), ("Agent", agent)], []), OTHER)
        assert len(said(turn)) == len(set(said(turn)))
        lines |= set(said(turn))
        if len(lines) > 1:
            break

    assert lines == {
        "1 memory handed over after the error · /engram shows it",
        "1 memory handed to the subagent general-purpose · /engram shows it",
    }


def normalised(request: dict[str, Any]) -> str:
    """A request without what differs between two runs: ids, times, and the names of folders that hold ids."""
    text = json.dumps({key: value for key, value in request.items() if key != "metadata"}, sort_keys=True)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID", text)
    text = re.sub(r"\b(?:toolu|msg|agent|a)_?[0-9a-f]{6,}\w*|(?:toolu|msg)_\d+", "ID", text)
    return re.sub(r"\d{4}-\d\d-\d\d[T ][\d:.]+Z?|duration_ms: \d+|cch=[0-9a-f]+|cc_version=[\w.]+", "WHEN", text)


def test_the_requests_hold_what_they_hold_without_the_mod(lab: Lab, model: Model) -> None:
    # Each is shown a memory once, so each runs in a session of its own.
    asked: list[list[str]] = []
    for mod in (False, True):
        lab.connect(by_plugin=True, mod=mod)
        for _ in range(MAX_SESSIONS):
            server = model([("Bash", {"command": FAILING, "description": "x"})], [])
            lab.run(server, PROMPT)
            if "PostToolUseFailure:Bash hook additional context" in json.dumps(server.requests):
                break
        asked.append([normalised(request) for request in server.requests])
        shutil.rmtree(skills_folder(lab.configuration))

    assert "UserPromptSubmit hook additional context" in asked[0][0]
    assert "PostToolUseFailure:Bash hook additional context" in asked[0][1]
    assert asked[0] == asked[1]


@pytest.mark.parametrize("fault", ["throws", "no worker", "worker hangs"])
def test_a_fault_costs_no_prompt(lab: Lab, model: Model, fault: str) -> None:
    lab.connect(by_plugin=True, mod=True, gives_up=fault == "worker hangs")
    listener = socket.socket(socket.AF_UNIX)
    if fault == "throws":
        path = skills_folder(lab.configuration) / MOD
        path.write_text(path.read_text().replace("  $.ui.log(", "  throw new Error('no line')\n  $.ui.log("))
    else:
        lab.home.recall_socket.unlink()
    if fault == "worker hangs":
        # It takes connections and never answers.
        with socket_address(lab.home.recall_socket) as address:
            listener.bind(address)
        listener.listen(16)
    server = model([], [])

    done = subprocess.run(
        [lab.find_claude(), "-p", PROMPT],
        cwd=lab.project,
        env=lab.environment | {"ANTHROPIC_BASE_URL": server.url},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
        timeout=RUN_SECONDS,
        text=True,
    )

    assert done.stdout.strip() == "done"
    assert done.stderr.strip() == ""
    assert json.dumps(server.requests[0]["messages"]).count(BITE) == (fault == "throws")
    listener.close()


def test_a_command_of_the_users_of_that_name_stays_theirs(lab: Lab, model: Model) -> None:
    lab.connect(by_plugin=True, mod=True)
    (lab.configuration / "commands").mkdir()
    (lab.configuration / "commands" / "engram.md").write_text("My own command: $ARGUMENTS")
    server = model([], [])

    used, handed = talk(lab, server, "/engram now", PROMPT)

    assert "My own command: now" in json.dumps(server.requests[0]["messages"])
    assert "result" in {line["type"] for line in used}
    assert said(handed) == ["1 memory handed over with your prompt"]


def test_an_earlier_version_leaves_the_mod_out_and_runs_the_hooks(lab: Lab, model: Model) -> None:
    lab.find_claude = find_real_claude
    lab.connect(by_plugin=True, mod=True)
    server = model([], [])

    lab.run(server, PROMPT)

    assert json.dumps(server.requests[0]["messages"]).count(BITE) == 1


class Screen:
    """Claude Code on a screen of tmux."""

    def __init__(self, lab: Lab, server: StandInServer) -> None:
        """Start it; needs tmux."""
        self._socket = lab.folder / "tmux"
        trusted = {"hasTrustDialogAccepted": True, "hasCompletedProjectOnboarding": True}
        known = {
            "hasCompletedOnboarding": True,
            "theme": "dark",
            "customApiKeyResponses": {"approved": [lab.environment["ANTHROPIC_API_KEY"][-20:]], "rejected": []},
            "projects": {str(lab.project): trusted},
        }
        (lab.configuration / ".claude.json").write_text(json.dumps(known))
        environment = lab.environment | {"ANTHROPIC_BASE_URL": server.url, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
        command = [lab.find_claude(), "--permission-mode", "default"]
        started = shlex.join(["env", "-i", *[f"{key}={value}" for key, value in environment.items()], *command])
        size = ["-x", "160", "-y", "60"]
        self._tmux("-f", os.devnull, "new-session", "-d", *size, "-c", str(lab.project), started)

    def _tmux(self, *arguments: str) -> str:
        command = ["tmux", "-S", str(self._socket), *arguments]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout

    def wait_for(self, text: str) -> str:
        """Return what is shown once it holds a text; lines that were broken are joined."""
        until = time.monotonic() + RUN_SECONDS
        while True:
            shown = re.sub(r"\s+", " ", self._tmux("capture-pane", "-p", "-S", "-300"))
            if text in shown or time.monotonic() > until:
                assert text in shown
                return shown
            time.sleep(0.2)

    def type(self, text: str) -> None:
        """Type a line and send it."""
        self._tmux("send-keys", "-l", text)
        self.wait_for(f"❯ {text}"[:60].rstrip())
        self._tmux("send-keys", "Enter")

    def close(self) -> None:
        """End it."""
        self._tmux("kill-server")


@pytest.fixture
def screen(lab: Lab, model: Model) -> Iterator[Callable[[], Screen]]:
    if shutil.which("tmux") is None:
        pytest.skip("there is no tmux")
    opened: list[Screen] = []

    def open_screen() -> Screen:
        opened.append(Screen(lab, model([], [])))
        return opened[-1]

    yield open_screen
    for each in opened:
        each.close()


def test_on_the_screen_the_line_and_the_command(lab: Lab, screen: Callable[[], Screen]) -> None:
    lab.connect(by_plugin=True, mod=True)
    shown = screen()
    shown.wait_for("? for shortcuts")

    shown.type(PROMPT)
    shown.wait_for("engram: 1 memory handed over with your prompt · /engram shows it")
    shown.type("/engram")
    shown.wait_for(f"the assistant: {BITE} (handed over with your prompt)")
    shown.type("/engram how is watcher.lock held")
    shown.wait_for(FACT)
    shown.type("/engram pin 1")
    shown.wait_for("is pinned")
    shown.type("/engram wrong 1")
    shown.wait_for("is judged wrong")
    shown.type("/engram wrong 1 off")
    shown.wait_for("the judgement as wrong")


def test_the_folder_holds_nothing_but_the_plugin_after_a_session(lab: Lab, model: Model) -> None:
    lab.connect(by_plugin=True, mod=True)
    folder = skills_folder(lab.configuration)

    def files() -> set[Path]:
        return {path.relative_to(folder) for path in folder.rglob("*")}

    before = files()
    lab.run(model([], []), PROMPT)

    assert files() == before
