"""Sessions on branches of a real repository, read as Claude Code writes them, with memories made of them."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from engram.enums import Actor, Kind
from engram.ingest.read_sources import ingest_path
from engram.ingest.session_project import scope_of_folder
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, find_memory, new_memory_id
from engram.models.projects.projects import ProjectRow
from engram.models.sessions.sessions import find_session
from engram.models.sessions.stored_turns import turns_of_session
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from tests.repositories import Repository

#: A tool call: its tool, its input, its result, and whether it failed.
Call = tuple[str, dict[str, Any], str, bool]


def bash(command: str, result: str = "", *, failed: bool = False) -> Call:
    """Return a call of Bash."""
    return "Bash", {"command": command}, f"Exit code 1\n{result}" if failed else result, failed


def edit(path: object) -> Call:
    """Return a call of Edit."""
    return "Edit", {"file_path": str(path), "old_string": "a", "new_string": "b"}, "done", False


def todo_list(**statuses: str) -> Call:
    """Return a call of TodoWrite."""
    return "TodoWrite", {"todos": [{"content": t, "status": s} for t, s in statuses.items()]}, "done", False


@dataclass
class Workshop:
    """An open memory and a repository in which sessions take place."""

    store: Store
    settings: Settings
    clock: FixedClock
    repository: Repository
    sessions: dict[str, str] = field(default_factory=dict)

    @property
    def project(self) -> ProjectRow:
        """The stored project of the repository."""
        project = scope_of_folder(self.store, self.settings, str(self.repository.root)).project
        assert project is not None
        return project

    def work(
        self,
        branch: str,
        prompt: str = "Repair the cache please",
        *answers: str | Call,
        session: str = "one",
        cwd: str = "",
        behind: str = "",
        pace: float = 0.0,
        close: bool = True,
        is_reply: bool = True,
    ) -> str:
        """Let a turn take place in a session and be read; returns the session's id.

        ``behind`` is the entry that the prompt follows, ``pace`` the seconds between two entries. Unless ``close``,
        the turn goes on. Unless ``is_reply``, nobody answers a prompt without ``answers``.
        """
        session_id = self.sessions.setdefault(session, str(uuid.uuid4()))
        self.clock.advance(60)
        entries: list[tuple[str, object]] = [("user", prompt)]
        for answer in answers or (("Fine.",) if is_reply else ()):
            if isinstance(answer, str):
                entries.append(("assistant", [{"type": "text", "text": answer}]))
            else:
                entries += _entries_of_call(answer)
        path = self.settings.projects_folder / "-repo" / f"{session_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        common = {
            "sessionId": session_id,
            "cwd": cwd or str(self.repository.root),
            "gitBranch": branch,
            "isSidechain": False,
        }
        with path.open("a", encoding="utf-8") as file:
            for role, content in entries:
                entry = str(uuid.uuid4())
                place = {"parentUuid": behind} if behind and role == "user" and content == prompt else {}
                message = {"role": role, "content": content} | ({"id": entry} if role == "assistant" else {})
                at = datetime.fromtimestamp(self.clock.now_ms() / 1000, UTC).isoformat().replace("+00:00", "Z")
                line = {"type": role, "uuid": entry, "message": message, "timestamp": at} | place | common
                file.write(json.dumps(line) + "\n")
                self.clock.advance(pace)
        ingest_path(self.store, path, settings=self.settings, redact=redact, close=close)
        return session_id

    def learn(self, summary: str, sessions: Sequence[str] = ("one",), **fields: Any) -> Memory:
        """Keep a memory that rests on the last turns of sessions."""
        evidence = []
        for session in sessions:
            row = find_session(self.store, self.sessions[session])
            assert row is not None
            turn = turns_of_session(self.store, row.id)[-1]
            evidence.append(Evidence(turn.turn.said[-1].uuid, row.session_id, turn.id))
        memory = Memory(
            episode_id=new_memory_id(),
            **{
                "kind": Kind.DECISION,
                "summary": summary,
                "content": summary,
                "project_id": self.project.id,
                "session_id": evidence[0].session_id,
                "quality": 0.75,
                "created_at_ms": self.clock.now_ms(),
                "kept_at_ms": self.clock.now_ms(),
            }
            | fields,
        )
        with self.store.transaction() as tx:
            return add_memory(tx, memory, evidence, actor=Actor.MODEL)

    def stored(self, memory: Memory) -> Memory:
        """Return a memory as it is stored now."""
        found = find_memory(self.store, memory.episode_id)
        assert found is not None
        return found


def _entries_of_call(call: Call) -> list[tuple[str, object]]:
    tool, given, result, failed = call
    call_id = f"toolu_{uuid.uuid4().hex[:20]}"
    return [
        ("assistant", [{"type": "tool_use", "id": call_id, "name": tool, "input": given}]),
        ("user", [{"type": "tool_result", "tool_use_id": call_id, "content": result, "is_error": failed}]),
    ]
