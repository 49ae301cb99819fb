"""The arms of a task: what an agent gets from the earlier sessions, and which memory it can query."""

from __future__ import annotations

import json
import re
import secrets
import shutil
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from bench.given import QuestionedMemory
from bench.tasks.memories import (
    TaskMemory,
    extract_by_answers,
    extract_by_rules,
    make_memory,
    take_gold,
    tidy_up,
)
from bench.tasks.recorded import SessionAnswers
from bench.tasks.task import Task
from engram.embedding.embedder import Embedder
from engram.ingest.session_project import scope_of_folder
from engram.recollection.recollection_service import RecollectionService
from engram.settings import Settings

#: Characters in a working folder's path that Claude Code replaces in the names of its own folders.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]")
#: Number of words of passages that precede the prompt in the baseline arm.
FTS5_WORDS = 400


class Arm(StrEnum):
    """The memory that an agent gets."""

    #: Only the prompt.
    NOTHING = "nothing"
    #: What Claude Code's own memory would contain.
    OWN = "own"
    #: Passages from SQLite's full-text index.
    FTS5 = "fts5"
    #: Engram with memories made by the local extractor.
    RULES = "rules"
    #: Engram with memories made by a language model.
    SCRIBE = "scribe"
    #: Engram with memories written by a person.
    GOLD = "gold"


#: Arms in which the agent can query the memory → how it is queried.
WAYS: Mapping[Arm, str] = {Arm.FTS5: "fts5", Arm.RULES: "both", Arm.SCRIBE: "both", Arm.GOLD: "both"}


class ArmMemories:
    """Makes the memory of each task and arm once, in a folder; runs get copies."""

    def __init__(self, folder: Path, settings: Settings, embedder: Embedder | None, answers: Path | None) -> None:
        """Make no memory yet.

        Args:
            folder: where the memories are made.
            settings: the settings of the memories; each memory gets its own home.
            embedder: None for text search only.
            answers: contains a folder of recorded answers for each task; requests without an answer are written there.
                None for the answers that come with the tasks.
        """
        self._folder = folder
        self._settings = settings
        self._embedder = embedder
        self._answers = answers
        self._made: dict[tuple[str, Arm], tuple[Path, str, list[str]]] = {}

    def get(self, task: Task, arm: Arm) -> tuple[Path, str, list[str]]:
        """Return the memory's home, the context for the prompt, and the arguments of the command that queries it.

        An arm that uses neither Engram nor the baseline has no context and no arguments.

        Raises:
            Unanswered: a request has no recorded answer; it was written to the folder of answers.
            BadRequest: a request has no recorded answer.
        """
        if (task.name, arm) not in self._made:
            self._made[task.name, arm] = self._make(task, arm)
        return self._made[task.name, arm]

    def _make(self, task: Task, arm: Arm) -> tuple[Path, str, list[str]]:
        home = self._folder / f"{task.name}-{arm}"
        if arm not in WAYS:
            return home, "", []
        with make_memory(task, home, self._settings, self._embedder) as memory:
            self._extract(task, arm, memory)
            tidy_up(memory)
            project = scope_of_folder(memory.store, memory.settings, str(memory.place)).project
            project_id = project.id if project else None
            arguments = [WAYS[arm], str(project_id or 0), str(memory.now_ms)]
            if arm is not Arm.FTS5:
                return home, _injected_context(task, memory), arguments
            asked = QuestionedMemory(memory.store, memory.searcher, project_id, memory.now_ms)
            found = asked.fts5(task.prompt, FTS5_WORDS)
            return home, _reminder(f"Passages of earlier sessions that match the prompt:\n{found}"), arguments

    def _extract(self, task: Task, arm: Arm, memory: TaskMemory) -> None:
        if arm is Arm.RULES:
            extract_by_rules(memory)
        elif arm is Arm.SCRIBE:
            folder = task.answers if self._answers is None else self._answers / task.name
            extract_by_answers(memory, task, SessionAnswers(folder, writes_requests=self._answers is not None))
        elif arm is Arm.GOLD:
            take_gold(memory, task)


def give_own_memory(task: Task, home: Path) -> str:
    """Put what Claude Code's own memory would contain into an agent's home, and return it as Claude Code shows it.

    Claude Code shows only the index. Returns "" if there is none.
    """
    index = task.auto_memory / "MEMORY.md"
    if not index.is_file():
        return ""
    folder = home / ".claude" / "projects" / _NOT_IN_NAMES.sub("-", task.cwd) / "memory"
    shutil.copytree(task.auto_memory, folder)
    return _reminder(
        f"Contents of {folder}/MEMORY.md (your memory of earlier sessions; the files that it links are in the same "
        f"folder):\n\n{index.read_text(encoding='utf-8').strip()}"
    )


def _injected_context(task: Task, memory: TaskMemory) -> str:
    """Return what the hooks would inject before the prompt: the briefing, and the bites for the prompt."""
    service = RecollectionService(memory.store, memory.searcher, memory.settings, embedder=memory.embedder)
    session = {"session_id": f"task-{secrets.token_hex(4)}", "cwd": str(memory.place)}
    events: list[dict[str, str]] = [
        {"hook_event_name": "SessionStart", "source": "startup"},
        {"hook_event_name": "UserPromptSubmit", "prompt": task.prompt},
    ]
    reminders = []
    for event in events:
        answer = service.answer_hook({**session, **event})
        service.write_down()
        if answer:
            shown = json.loads(answer)["hookSpecificOutput"]["additionalContext"]
            reminders.append(_reminder(f"{event['hook_event_name']} hook additional context: {shown}"))
    return "\n".join(reminders)


def _reminder(text: str) -> str:
    return f"<system-reminder>\n{text}\n</system-reminder>"
