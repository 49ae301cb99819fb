"""What leaves the machine, word for word, as the ``claude`` command gets it: no secret, and nothing that was
forgotten.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from planting import plant
from transcript_lines import say

from engram.consolidation.consolidation_run import consolidate
from engram.enums import Actor
from engram.extraction.candidate import Extractor
from engram.extraction.extracting import extract_session
from engram.extraction.local.local_extractor import LocalExtractor
from engram.extraction.model.claude_provider import ClaudeProvider
from engram.extraction.model.model_extractor import ModelExtractor
from engram.extraction.model.provider import Budget
from engram.forgetting.forget import forget_memory
from engram.ingest.read_sources import ingest_path
from engram.models.engine.transaction import Store
from engram.models.memories.memory_records import all_memories
from engram.redaction import redact
from engram.settings import Settings
from engram.system.clock import FixedClock
from engram.tasks.runtime import make_model_steps
from tests.empty_memory import open_empty

CANARIES = ("ghp_x7Kq2mZr9TbV4nWc8YhJ3sLd6PfGa1Qe5Uo0", "hunter2-swordfish-Zq9!", "AKIAQ3EGRX7LMZ2VJT5W")
SECRETS = f"GITHUB_TOKEN={CANARIES[0]} DB_PASSWORD={CANARIES[1]} aws_access_key_id = {CANARIES[2]}"
AT = "2026-05-01T10:{:02d}:00.000Z"

#: Answers as it is told by a file, and writes down what it got.
PROGRAM = """#!{python}
import json, sys
text = sys.stdin.read()
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], text]) + "\\n")
with open({answers!r}) as file:
    answer = json.load(file)
print(json.dumps({{"is_error": False, "result": "", "structured_output": answer, "total_cost_usd": 0.0001}}))
"""


class Machine:
    """A memory whose language model is a ``claude`` that writes down all it gets."""

    def __init__(self, folder: Path, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings
        self._log, self._answers = folder / "sent.jsonl", folder / "answers.json"
        command = folder / "claude"
        command.write_text(PROGRAM.format(python=sys.executable, log=str(self._log), answers=str(self._answers)))
        command.chmod(0o755)
        provider = ClaudeProvider(settings, environ={"PATH": f"{folder}:{os.environ['PATH']}"})
        self.model = ModelExtractor("claude-1", provider, Budget(store, settings), LocalExtractor())
        self.answer()

    def answer(self, *memories: dict[str, Any], summary: str = "") -> None:
        self._answers.write_text(json.dumps({"memories": memories, "rolling_summary": summary}))

    def sent(self) -> list[str]:
        """Arguments and standard input of each call."""
        lines = self._log.read_text().splitlines() if self._log.exists() else []
        return ["\n".join([*arguments, text]) for arguments, text in map(json.loads, lines)]

    def path(self, number: int, folder: str = "demo") -> Path:
        session = f"{number:08d}-2222-3333-4444-555555555555"
        return self.settings.projects_folder / f"-work-{folder}" / f"{session}.jsonl"

    def read(self, path: Path, redact: Callable[..., str] = redact) -> str:
        ingest_path(self.store, path, settings=self.settings, redact=redact)
        return path.stem

    def extract(self, session: str, by: Extractor | None = None) -> None:
        extract_session(self.store, session, extractor=by or self.model, embedder=None, settings=self.settings)

    def consolidate(self) -> None:
        distilling, reconciling = make_model_steps(self.settings, self.store, self.model)
        consolidate(self.store, self.settings, is_forced=True, distilling=distilling, reconciling=reconciling)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    settings = Settings(home=tmp_path / "home", claude_folder=tmp_path / "claude", extract_first_messages=1)
    settings.places.prepare()
    folder = tmp_path / "bin"
    folder.mkdir()
    with open_empty(settings.places.memory_db, clock=FixedClock(1_790_000_000_000, 1e6)) as store:
        yield Machine(folder, store, settings)


def unchanged(text: str, *_: object) -> str:
    """Hides nothing, as a version did that did not know these secrets yet."""
    return text


def run_command(path: Path, command: str, output: str, at: str) -> None:
    """A command of the assistant that failed."""
    say(path, "assistant", [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": command}}], at=at)
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output, "is_error": True}
    say(path, "user", [result], at=at)


@pytest.mark.parametrize("before", [*range(100, 200, 7)])
def test_no_secret_is_sent_of_what_an_earlier_version_stored(machine: Machine, before: int) -> None:
    path = machine.path(1)
    filling = "x " * (before // 2)
    say(path, "user", f"Deploy the harbor with {SECRETS}", at=AT.format(1))
    run_command(path, f"deploy {filling}{CANARIES[0]}", f"Error: {CANARIES[0]}", AT.format(2))
    say(path, "assistant", f"The harbor was deployed with {SECRETS}", at=AT.format(3))
    session = machine.read(path, unchanged)
    quote = "The harbor was deployed with"
    machine.answer(
        {
            "kind": "fact",
            "summary": f"{quote} {SECRETS}",
            "passages": [quote],
            "evidence": ["e1"],
            "entities": [SECRETS],
            "questions": [f"What is {SECRETS}?"],
        },
        summary=f"The harbor has {SECRETS}",
    )

    machine.extract(session)
    say(path, "user", "And which port does the harbor have?", at=AT.format(4))
    machine.extract(machine.read(path, unchanged))
    other = machine.path(2)
    say(other, "user", "How was the harbor deployed, with which token and password?", at=AT.format(5))
    machine.extract(machine.read(other, unchanged))
    machine.consolidate()

    sent = machine.sent()
    assert len(sent) >= 3
    assert "GITHUB_TOKEN" in sent[0]
    assert "harbor" in sent[1]
    pieces = [canary[start : start + 8] for canary in CANARIES for start in (0, 6)]
    assert [piece for piece in pieces for text in sent if piece in text] == []
    assert all("Bertha" not in memory.summary for memory in all_memories(machine.store))
    rows = machine.store.rows("SELECT summary, content, entities, questions FROM episode") + machine.store.rows(
        "SELECT rolling_summary, '', '', '' FROM session"
    )
    assert [canary for canary in CANARIES for row in rows if canary in str(row)] == []


def test_what_was_forgotten_is_in_no_later_request(machine: Machine) -> None:
    path = machine.path(1)
    rule = "Always call the crane of the harbor Bertha in this project, never by a number."
    other_rule = "We always paint the gates of the harbor green because the client likes it"
    say(path, "user", rule, at=AT.format(1))
    say(path, "assistant", f"Understood. {rule}", at=AT.format(2))
    say(path, "user", other_rule, at=AT.format(3))
    say(path, "assistant", "The gates of the harbor are green.", at=AT.format(4))
    session = machine.read(path)
    machine.answer(
        {"kind": "preference", "summary": rule, "passages": [rule], "evidence": ["e1", "e2"]},
        {"kind": "preference", "summary": other_rule, "passages": [other_rule], "evidence": ["e3"]},
        summary="The crane is called Bertha.",
    )
    machine.extract(session)
    assert "Bertha" in machine.sent()[-1]
    first = len(machine.sent())
    (forgotten,) = (one for one in all_memories(machine.store) if one.summary == rule)

    forget_memory(machine.store, machine.settings.places, forgotten.episode_id, actor=Actor.USER)
    machine.answer()
    say(path, "user", "Which rules of the harbor do we have?", at=AT.format(5))
    machine.extract(machine.read(path))
    plant(machine.store, "UPDATE turn SET extracted_revision = 0")
    machine.extract(session)
    other = machine.path(2)
    say(other, "user", "What about the harbor, its gates and its crane?", at=AT.format(6))
    machine.extract(machine.read(other))
    machine.consolidate()

    later = machine.sent()[first:]
    assert len(later) >= 3
    assert "gates of the harbor" in later[1]
    assert [text for text in later if "Bertha" in text] == []


def test_better_words_are_asked_without_what_was_forgotten_and_without_secrets(machine: Machine) -> None:
    path = machine.path(1)
    say(path, "user", f"Always deploy the harbor with {SECRETS} in this project, never by hand.", at=AT.format(1))
    say(path, "user", "Always call the crane of the harbor Bertha in this project, never by a number.", at=AT.format(2))
    session = machine.read(path, unchanged)
    machine.extract(session, LocalExtractor())
    for memory in all_memories(machine.store):
        if "Bertha" in f"{memory.summary} {memory.content}":
            forget_memory(machine.store, machine.settings.places, memory.episode_id, actor=Actor.USER)
    assert all("Bertha" not in memory.summary for memory in all_memories(machine.store))

    machine.consolidate()

    sent = "\n".join(machine.sent())
    assert "deploy the harbor" in sent
    assert "Bertha" not in sent
    assert not [canary for canary in CANARIES if canary in sent]
