"""Rollouts as Codex CLI writes them, line by line."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

SESSION = "019f03e0-321f-7eb2-83cc-b54ecd71be23"
#: Context that Codex puts before the first prompt, as messages of the user.
CONTEXT = (
    "# AGENTS.md instructions for /work/harbour\n\n<INSTRUCTIONS>\nAlways weigh crates twice.\n</INSTRUCTIONS>",
    "<environment_context>\n  <cwd>/work/harbour</cwd>\n  <shell>zsh</shell>\n</environment_context>",
)


@dataclass
class Rollout:
    """Writes one rollout. Each line is a second after the one before."""

    folder: Path
    session: str = SESSION
    cwd: str = "/work/harbour"
    branch: str = "main"
    at: datetime = datetime(2026, 6, 26, 12, tzinfo=UTC)
    turn: int = 0
    calls: int = 0
    lines: list[dict[str, Any]] = field(default_factory=list)
    #: Id of this file, if it continues an earlier one of the session.
    rollout: str = ""

    @property
    def path(self) -> Path:
        """The file, by the date of the session."""
        day = self.folder / "sessions" / "2026" / "06" / "26"
        end = f"_{self.rollout}" if self.rollout else ""
        return day / f"rollout-2026-06-26T12-00-00-{self.session}{end}.jsonl"

    def write(self, type_: str, payload: dict[str, Any]) -> None:
        """Append a line."""
        self.at += timedelta(seconds=1)
        self.add({"timestamp": self.at.strftime("%Y-%m-%dT%H:%M:%S.000Z"), "type": type_, "payload": payload})

    def add(self, line: dict[str, Any]) -> None:
        """Append a line as it is."""
        self.lines.append(line)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, separators=(",", ":")) + "\n")

    def head(self, **fields: Any) -> Rollout:
        """The head, the beginning of Codex's first turn, and its context."""
        git = {"branch": self.branch, "commit_hash": "0" * 40, "repository_url": "https://example.com/harbour.git"}
        self.write(
            "session_meta",
            {"id": self.session, "cwd": self.cwd, "cli_version": "0.142.2", "source": "cli", "git": git} | fields,
        )
        self.begin()
        for text in CONTEXT:
            self.message("user", text)
        return self

    def begin(self, **fields: Any) -> None:
        """Codex begins to work on a prompt."""
        self.turn += 1
        self.event("task_started", turn_id=self.turn_id, **fields)
        self.write("turn_context", {"turn_id": self.turn_id, "cwd": self.cwd})

    @property
    def turn_id(self) -> str:
        """Codex's id of its turn."""
        return f"{self.session[:-4]}{self.turn:04d}"

    def end(self) -> None:
        """Codex is done."""
        self.event("task_complete", turn_id=self.turn_id, last_agent_message="repeated")

    def event(self, type_: str, **fields: Any) -> None:
        """A line of the screen's log."""
        self.write("event_msg", {"type": type_} | fields)

    def item(self, type_: str, **fields: Any) -> None:
        """A line of the screen's log as versions since 0.148 write it."""
        self.event("item_completed", turn_id=self.turn_id, item={"type": type_} | fields)

    def message(self, role: str, text: str) -> None:
        """A message in the model's log."""
        kind = "output_text" if role == "assistant" else "input_text"
        self.write("response_item", {"type": "message", "role": role, "content": [{"type": kind, "text": text}]})

    def user(self, text: str) -> None:
        """A prompt, in both logs."""
        self.message("user", text)
        self.event("user_message", message=text, images=[], local_images=[])

    def says(self, text: str) -> None:
        """A text of Codex, in both logs."""
        self.event("agent_message", message=text)
        self.message("assistant", text)

    def call(self, name: str, **given: Any) -> str:
        """A call of a tool; returns its id."""
        self.calls += 1
        call_id = f"call_{self.calls}"
        payload = {"type": "function_call", "name": name, "arguments": json.dumps(given), "call_id": call_id}
        self.write("response_item", payload)
        return call_id

    def output(self, call_id: str, output: Any) -> None:
        """The result of a call."""
        self.write("response_item", {"type": "function_call_output", "call_id": call_id, "output": output})

    def run(self, command: str, printed: str = "", exit_code: int = 0) -> None:
        """A command with its result."""
        self.output(self.call("exec_command", cmd=command), ended(printed, exit_code))

    def patch(self, patch: str, output: str = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.") -> None:
        """A patch with its result."""
        self.calls += 1
        call_id = f"call_{self.calls}"
        self.write(
            "response_item", {"type": "custom_tool_call", "name": "apply_patch", "call_id": call_id, "input": patch}
        )
        self.write("response_item", {"type": "custom_tool_call_output", "call_id": call_id, "output": output})


def ended(printed: str, exit_code: int = 0) -> str:
    """What Codex writes of a command that ended."""
    return f"Chunk ID: a1\nWall time: 0.1 seconds\nProcess exited with code {exit_code}\nOutput:\n{printed}"
