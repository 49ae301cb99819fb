"""The arms of a task: what an agent knows of the earlier sessions, and what it can ask."""

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

#: Characters of a working folder that Claude Code replaces in the names of its own folders.
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]")
#: Number of words of passages that stand before the prompt in the arm of the baseline.
FTS5_WORDS = 400


class Arm(StrEnum):
    """What an agent gets."""

    #: The prompt alone.
    NOTHING = "nothing"
    #: What Claude Code's own memory would hold.
    OWN = "own"
    #: Passages by SQLite's full-text index.
    FTS5 = "fts5"
    #: Engram with memories by the local extractor.
    RULES = "rules"
    #: Engram with memories by a language model.
    SCRIBE = "scribe"
    #: Engram with memories by a person.
    GOLD = "gold"


#: Arms whose agent may ask the memory, with the way it is asked.
WAYS: Mapping[Arm, str] = {Arm.FTS5: "fts5", Arm.RULES: "both", Arm.SCRIBE: "both", Arm.GOLD: "both"}


class ArmMemories:
    """Makes what an arm needs in a folder, once for each task and arm; runs get copies."""

    def __init__(self, folder: Path, settings: Settings, embedder: Embedder | None, answers: Path | None) -> None:
        """Prepare.

        Args:
            folder: for the memories.
            settings: those of the memories; each gets its own home.
            embedder: None for text alone.
            answers: a folder with a folder of recorded answers for each task, where requests without an answer are
                written; None for the answers that belong to the tasks.
        """
        self._folder = folder
        self._settings = settings
        self._embedder = embedder
        self._answers = answers
        self._made: dict[tuple[str, Arm], tuple[Path, str, list[str]]] = {}

    def get(self, task: Task, arm: Arm) -> tuple[Path, str, list[str]]:
        """Return the memory's home, the context for the prompt, and the arguments of the command that asks it.

        An arm without a memory of Engram or the baseline has neither context nor arguments.

        Raises:
            Unanswered: a request has no recorded answer, and was written to be answered.
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
    """Put what Claude Code's own memory would hold into an agent's home, and return it as Claude Code shows it.

    Claude Code shows the index alone; "" if there is none.
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
    """Return what the hooks would put before the prompt: the briefing, and the bites of the prompt."""
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
