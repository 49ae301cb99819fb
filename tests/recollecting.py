"""A memory that answers hooks: what is kept, asked and handed over."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bench.storing import write_turn
from engram.enums import Actor, Kind, Scope
from engram.models.engine.transaction import Store
from engram.models.memories.memory_changes import add_memory
from engram.models.memories.memory_records import Evidence, Memory, new_memory_id
from engram.models.projects.projects import ProjectRow
from engram.models.sessions.reading_progress import ensure_transcript
from engram.models.sessions.sessions import ensure_session
from engram.recollection.recollection_service import RecollectionService
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.transcripts.turns import Action, Opening, Role, TextBlock, Turn

#: What the memory of most tests holds, and a prompt about it.
FACT = "The watcher holds watcher.lock by flock, never by a PID file"


PROMPT = "Why does the watcher hold a flock and no PID file?"


@dataclass
class Scene:
    """An open memory with a project, and what works on it."""

    store: Store
    settings: Settings
    service: RecollectionService
    clock: FixedClock
    project: ProjectRow

    def keep(self, summary: str = FACT, **fields: Any) -> Memory:
        """Keep a memory, of the project and a decision, which every channel tells, unless said otherwise."""
        fields = {"quality": 0.75, "extractor": "openai-m"} | fields
        made = Memory(
            new_memory_id(), fields.pop("kind", Kind.DECISION), summary, fields.pop("content", summary), **fields
        )
        if made.project_id is None and made.scope == Scope.PROJECT:
            made = replace(made, project_id=self.project.id)
        with self.store.transaction() as tx:
            return add_memory(tx, made, [Evidence("11111111-1111-1111-1111-111111111111")], actor=Actor.MODEL)

    def ask(self, prompt: str = PROMPT, *, session: str = "s1", **fields: Any) -> str:
        """What UserPromptSubmit would show for a prompt; "" for silence."""
        return self.answer(
            {"hook_event_name": "UserPromptSubmit", "session_id": session, "cwd": "/dev/lab/proj", "prompt": prompt}
            | fields
        )

    def start(self, source: str = "startup", *, session: str = "s1", **fields: Any) -> str:
        """What SessionStart would show; "" for silence."""
        return self.answer(
            {"hook_event_name": "SessionStart", "session_id": session, "cwd": "/dev/lab/proj", "source": source}
            | fields
        )

    def answer(self, payload: dict[str, Any]) -> str:
        """The text in what a hook would print."""
        output = self.service.answer_hook(payload)
        self.service.write_down()
        return str(json.loads(output)["hookSpecificOutput"]["additionalContext"]) if output else ""

    def type_prompt(
        self,
        text: str = PROMPT,
        *,
        session: str = "s1",
        at_ms: int | None = None,
        opening: Opening = Opening.PROMPT,
        actions: tuple[Action, ...] = (),
    ) -> None:
        """Write a prompt into the transcript of a session, by default now."""
        at_ms = self.clock.now_ms() if at_ms is None else at_ms
        said = (TextBlock("", Role.USER, text),)
        with self.store.transaction() as tx:
            row = ensure_session(
                tx,
                session,
                agent="claude-code",
                project_id=self.project.id,
                is_global=False,
                cwd="/dev/lab/proj",
                at_ms=at_ms,
            )
            transcript = ensure_transcript(tx, Path(f"/x/{session}.jsonl"), row.id)
            turn = Turn(f"k{text}{at_ms}", session, opening, said, actions, started_at_ms=at_ms)
            write_turn(tx, turn, row, transcript)

    def waiting(self, session: str = "s1") -> str:
        """What the next tool call would be given; "" for nothing."""
        path = self.settings.places.recollections / f"{session}.pending"
        return str(json.loads(path.read_bytes())["hookSpecificOutput"]["additionalContext"]) if path.exists() else ""

    def hand_over(self, session: str = "s1") -> str:
        """Do what PreToolUse does."""
        text = self.waiting(session)
        folder = self.settings.places.recollections
        if text:
            (folder / f"{session}.pending").replace(folder / f"{session}.injected")
        return text
