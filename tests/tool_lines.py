"""Transcripts with tool calls, written as Claude Code writes them."""

from __future__ import annotations

import itertools
import json
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from transcript_lines import say

_NUMBERS = itertools.count()


@dataclass
class Conversation:
    """One session's transcript that grows."""

    path: Path
    cwd: str = "/dev/lab/proj"
    branch: str = "main"
    #: When its next entry is written.
    at: datetime = field(default_factory=lambda: datetime(2026, 5, 1, 10, tzinfo=UTC))

    def prompt(self, text: str) -> Conversation:
        """The user types."""
        return self._add("user", text)

    def reply(self, text: str) -> Conversation:
        """The assistant says something."""
        return self._add("assistant", text)

    def run(self, command: str, error: str = "") -> Conversation:
        """A shell command passes, or fails with an error."""
        return self._call("Bash", {"command": command}, error or "ok", is_error=bool(error))

    def edit(self, file: str) -> Conversation:
        """A file is edited."""
        return self._call("Edit", {"file_path": file, "old_string": "a", "new_string": "b"}, "done", is_error=False)

    def _call(self, tool: str, given: dict[str, str], result: str, *, is_error: bool) -> Conversation:
        name = f"toolu_{next(_NUMBERS)}"
        self._add("assistant", [{"type": "tool_use", "id": name, "name": tool, "input": given}])
        answer = {"type": "tool_result", "tool_use_id": name, "content": result, "is_error": is_error}
        return self._add("user", [answer])

    def _add(self, role: str, content: object) -> Conversation:
        self.at += timedelta(seconds=1)
        entry = say(self.path, role, content, cwd=self.cwd, at=self.at.isoformat().replace("+00:00", "Z"))
        lines = self.path.read_text(encoding="utf-8").splitlines()
        last = json.loads(lines[-1]) | {"gitBranch": self.branch, "uuid": entry}
        self.path.write_text("\n".join([*lines[:-1], json.dumps(last)]) + "\n", encoding="utf-8")
        return self


def new_session_id() -> str:
    """A session id of its own."""
    return str(uuid.uuid4())
