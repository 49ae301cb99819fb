"""``python -m bench code --answers``: unanswered requests are written, in rounds; answers go the whole path."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from transcript_lines import say

from bench.answers import AnsweredMemories
from bench.commands.searches import bench
from bench.homes import BenchHomes
from bench.recorded_provider import RecordedProvider
from engram.cli.workspace import Workspace
from engram.errors import BadRequest
from engram.settings import Settings

REPO = Path(__file__).parents[2]
FIRST, SECOND = (
    "The save button is green because red looked like a warning",
    "The save button is blue now instead of green",
)


def transcripts(corpus: Path) -> None:
    for number, (prompt, reply) in enumerate(
        (("Which colour has the save button?", FIRST), ("Make the button blue", SECOND))
    ):
        path = corpus / "app" / "projects" / "-work-app" / f"{number:08d}-2222-3333-4444-555555555555.jsonl"
        for minute, (role, text) in enumerate((("user", prompt), ("assistant", reply))):
            say(path, role, text, cwd="/work/app", at=f"2026-01-0{number + 1}T10:0{minute}:00Z")


class Set:
    """A corpus of two sessions, a question, and a folder for answers."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.answers, self.kept = folder, folder / "answers", folder / "kept.jsonl"
        transcripts(folder / "corpus")
        self.questions = folder / "questions.jsonl"
        row = {"id": "q1", "project": "app", "question": "Which colour?", "category": "fix", "evidence": []}
        self.questions.write_text(json.dumps(row) + "\n")

    def run(self, *arguments: str) -> dict[str, object]:
        result: Result = CliRunner().invoke(
            bench,
            [
                "code",
                "--corpus",
                str(self.folder / "corpus"),
                "--questions",
                str(self.questions),
                "--no-model",
                "--answers",
                str(self.answers),
                "--kept",
                str(self.kept),
                "--json",
                *arguments,
            ],
            obj=Workspace({}),
        )
        assert result.exit_code == 0, result.output
        return dict(json.loads(result.stdout))

    def open_requests(self) -> dict[str, str]:
        """Key → text of the requests without an answer."""
        found = {path.name.partition(".")[0]: path.read_text() for path in self.answers.glob("*.request.txt")}
        return {key: text for key, text in found.items() if not (self.answers / f"{key}.answer.json").exists()}

    def answer(self, text: object) -> None:
        for key in self.open_requests():
            (self.answers / f"{key}.answer.json").write_text(json.dumps(text))

    def memories(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.kept.read_text().splitlines()]


def memory(summary: str, **fields: object) -> dict[str, object]:
    made: dict[str, object] = {"kind": "decision", "summary": summary, "passages": [summary], "evidence": ["e2"]}
    return {"memories": [made | fields], "rolling_summary": ""}


@pytest.fixture
def code_set(tmp_path: Path) -> Set:
    return Set(tmp_path)


def test_each_run_goes_as_deep_as_there_are_answers_and_writes_the_next_requests(code_set: Set) -> None:
    first = code_set.run()
    ((_, request),) = code_set.open_requests().items()
    assert FIRST in request
    assert SECOND not in request
    assert (first["requests"], first["answered"], first["counts"]) == (1, 0, False)
    assert "engram-extraction-request" in (code_set.answers / "system.extract.txt").read_text()

    code_set.answer(memory(FIRST))
    second = code_set.run()
    ((_, request),) = code_set.open_requests().items()
    assert SECOND in request
    assert f"[m1] 2026-01-01 decision, in force: {FIRST}" in request
    assert (second["requests"], second["answered"]) == (2, 1)

    code_set.answer(memory(SECOND, action="supersedes", target="m1"))
    code_set.run()
    assert [(memory["summary"], memory["status"]) for memory in code_set.memories()] == [
        (FIRST, "superseded"),
        (SECOND, "provisional"),
    ]


def test_an_answer_changes_no_request_of_another_session_of_its_wave(code_set: Set) -> None:
    corpus = code_set.folder / "corpus" / "app" / "projects" / "-work-app"
    for number, (prompt, reply) in enumerate(
        (("Make the save button blue now", "The save button is blue."), ("And the save button?", "Still green.")), 5
    ):
        path = corpus / f"{number:08d}-2222-3333-4444-555555555555.jsonl"
        for minute, (role, text) in enumerate((("user", prompt), ("assistant", reply))):
            say(path, role, text, cwd="/work/app", at=f"2026-01-0{number}T10:0{minute}:00Z")
    requests = ("--requests", str(code_set.answers))
    code_set.run(*requests)
    code_set.answer(memory(FIRST))
    code_set.run(*requests)
    second_wave = code_set.open_requests()
    assert len(second_wave) == 2
    assert all(f"[m1] 2026-01-01 decision, in force: {FIRST}" in text for text in second_wave.values())

    first = min(second_wave, key=lambda key: "Make the save button blue" not in second_wave[key])
    supersedes = memory("The save button is blue now", action="supersedes", target="m1")
    (code_set.answers / f"{first}.answer.json").write_text(json.dumps(supersedes))
    code_set.run(*requests)

    assert code_set.open_requests().keys() == second_wave.keys() - {first}


def test_all_requests_answered_makes_the_figures_count(code_set: Set) -> None:
    for _ in range(4):
        figures = code_set.run()
        code_set.answer({"memories": [], "rolling_summary": ""})

    assert figures["answered share"] == 100.0
    assert figures["counts"] is True


def test_requests_do_not_depend_on_the_place_or_age_of_the_corpus(code_set: Set, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "deep"
    other.mkdir(parents=True)
    moved = Set(other)
    for path in (other / "corpus").rglob("*.jsonl"):
        original = tmp_path / path.relative_to(other)
        path.write_bytes(original.read_bytes())
        os.utime(path, (1, 1))

    code_set.run()
    moved.run()

    assert code_set.open_requests() == moved.open_requests()


def test_answers_are_also_read_from_one_file_a_project(code_set: Set) -> None:
    code_set.run()
    (key,) = code_set.open_requests()
    record = {"key": key, "answer": memory(FIRST), "model": "a model", "date": "2026-01-03"}
    (code_set.answers / "app.jsonl").write_text(json.dumps(record) + "\n")

    code_set.run()

    assert [memory["summary"] for memory in code_set.memories()] == [FIRST]


def test_a_memory_has_the_title_of_the_answer_or_its_first_clause(code_set: Set) -> None:
    code_set.run()
    code_set.answer(memory(FIRST, title="The save button is green"))
    code_set.run()
    code_set.answer(memory(SECOND))
    code_set.run()

    assert [memory["title"] for memory in code_set.memories()] == [
        "The save button is green",
        "The save button is blue now",
    ]


def test_a_file_of_answers_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "app.jsonl").write_text("{\n")

    with pytest.raises(BadRequest, match="cannot be read"):
        RecordedProvider(tmp_path)


def test_the_recorded_answers_fit_the_requests(corpus: Path, tmp_path: Path) -> None:
    """A change of the requests, or of the memories listed in them, takes the answers away without a word."""
    answers = tmp_path / "answers"
    shutil.copytree(REPO / "benchmarks" / "answers", answers)  # open requests are written beside the answers
    made = AnsweredMemories(BenchHomes(tmp_path, Settings(home=tmp_path), None), corpus, RecordedProvider(answers))

    for recorded in sorted(answers.glob("*.jsonl")):
        with made.memory(recorded.stem):
            pass

    assert made.figures()["counts"], sorted(key for key, is_answered in made.provider.asked.items() if not is_answered)
