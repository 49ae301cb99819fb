"""A session file that grows line by line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from engram.ingest.write_portion import IngestResult
from engram.models.sessions.stored_turns import StoredTurn


@dataclass
class Transcript:
    """A session file that is written line by line."""

    path: Path
    cwd: str = "/gone/engine"
    number: int = 0
    #: Wall time of the next line in milliseconds since 1970.
    at_ms: int = 1_767_225_600_000

    def add(self, data: dict[str, Any], *, end: str = "\n") -> str:
        self.number += 1
        self.at_ms += 1000
        seconds = self.at_ms // 1000 - 1_767_225_600
        uuid = str(data.get("uuid", f"{self.path.stem}-{self.number}"))
        time = f"2026-01-{seconds // 86400 + 1:02}T{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"
        whole = {"uuid": uuid, "timestamp": time, "cwd": self.cwd, "gitBranch": "main"} | data
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(whole) + end)
        return uuid

    def user(self, text: Any, **fields: Any) -> str:
        return self.add({"type": "user", "message": {"role": "user", "content": text}} | fields)

    def says(self, text: str, **fields: Any) -> str:
        message = {"id": self._message_id(), "content": [{"type": "text", "text": text}]}
        return self.add({"type": "assistant", "message": message} | fields)

    def calls(self, tool: str, result: str, *, is_error: bool = False, **given: Any) -> None:
        block = {"type": "tool_use", "id": f"t{self.number}", "name": tool, "input": given}
        self.add({"type": "assistant", "message": {"id": self._message_id(), "content": [block]}})
        done = {"type": "tool_result", "tool_use_id": block["id"], "content": result, "is_error": is_error}
        self.user([done])

    def _message_id(self) -> str:
        """No two sessions share one: a turn with the same messages in another session is a copy."""
        return f"{self.path.stem}-m{self.number}"

    def queue(self, operation: str, content: str | None = None) -> None:
        self.add({"type": "queue-operation", "operation": operation, "content": content, "uuid": None})

    def text(self, raw: str) -> None:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(raw)


class MakeTranscript(Protocol):
    """Makes an empty session file; ``fields`` are those of ``Transcript``."""

    def __call__(self, name: str, *, cwd: str = ..., at_ms: int = ...) -> Transcript: ...


class Ingest(Protocol):
    """Reads one transcript to its end; ``options`` are those of ``ingest_path``."""

    def __call__(self, transcript: Transcript | Path, **options: Any) -> IngestResult: ...


#: Every stored turn, in order.
Turns = Callable[[], list[StoredTurn]]
#: Everything that reading stores, for comparison.
Content = Callable[[], object]
