"""``python -m bench qa``: readers get texts without the arm's name, a judge gets mixed answers, figures are paired."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from transcript_lines import say

from bench.commands.searches import bench
from bench.given import NOTHING
from engram.cli.workspace import Workspace

FACTS = {
    "q1": ("Why did the worker hang?", "The queue lock was held while the model was loading, so the worker hung."),
    "q2": ("Why is the button green?", "The save button is green because red looked like a warning."),
    "q3": ("Which driver did we choose?", "We took cysqlite as the driver since the other one corrupted the log file."),
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(bench, ["qa", *arguments], obj=Workspace({}))


class QaRun:
    """A corpus, questions, gold memories, a model's recorded answers, and a run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.run_folder = folder, folder / "run"
        path = folder / "corpus" / "app" / "projects" / "-work-app" / "00000000-2222-3333-4444-555555555555.jsonl"
        rows: list[dict[str, Any]] = []
        gold = []
        for number, (name, (question, fact)) in enumerate(FACTS.items()):
            say(path, "user", f"Tell me: {question}", cwd="/work/app", at=f"2026-01-01T10:0{number}:00Z")
            uuid = say(path, "assistant", fact, cwd="/work/app", at=f"2026-01-01T10:0{number}:30Z")
            evidence = [{"session": path.stem, "uuid": uuid}]
            rows.append({"id": name, "project": "app", "question": question, "answer": fact, "evidence": evidence})
            gold.append({"id": f"m-{name}", "project": "app", "session": path.stem, "summary": f"Gold: {fact}"})
        rows.append({"id": "q4", "project": "app", "question": "Who pays for lunch?", "answer": None, "evidence": []})
        self.questions = self._lines("questions.jsonl", rows)
        self.gold = self._lines("memories.jsonl", [memory | {"evidence": []} for memory in gold])

    def _lines(self, name: str, lines: list[dict[str, Any]]) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def write(self, *arguments: str) -> Result:
        return run(
            "--write",
            str(self.run_folder),
            "--corpus",
            str(self.folder / "corpus"),
            "--questions",
            str(self.questions),
            "--memories",
            str(self.gold),
            "--recorded",
            str(self.folder / "recorded"),
            "--no-model",
            *arguments,
        )

    def write_with_memories(self, *arguments: str) -> None:
        """Write a run whose memories are the model's answers: the first write records the request."""
        assert self.write("--arm", "recall:50").exit_code == 0
        (request,) = (self.folder / "recorded").glob("*.request.txt")
        summary = "Scribe: the worker hung because the queue lock was held while the model was loading."
        memory = {"kind": "fix", "summary": summary, "passages": [FACTS["q1"][1]], "evidence": ["e2"]}
        answer = {"memories": [memory], "rolling_summary": ""}
        request.with_name(request.name.replace(".request.txt", ".answer.json")).write_text(json.dumps(answer))
        (self.run_folder / "key.json").unlink()
        assert self.write(*arguments).exit_code == 0

    @property
    def key(self) -> dict[str, Any]:
        return dict(json.loads((self.run_folder / "key.json").read_text()))

    def given(self, arm: str) -> dict[str, str]:
        (number,) = [number for number, name in self.key["readers"].items() if name == arm]
        lines = (self.run_folder / "readers" / number / "given.jsonl").read_text().splitlines()
        return {line["id"]: line["given"] for line in map(json.loads, lines)}

    def answer(self, answer: Callable[[str, str], str]) -> None:
        """Write every reader's answers; ``answer`` gets the arm and the question's id."""
        for number, arm in self.key["readers"].items():
            lines = [{"id": name, "answer": answer(arm, name)} for name in (*FACTS, "q4")]
            self._lines(f"{self.run_folder.name}/readers/{number}/answers.jsonl", lines)

    def judge(self) -> list[dict[str, str]]:
        """Write a verdict on every answer that the judge gets, and return what the judge saw."""
        seen = [json.loads(line) for line in (self.run_folder / "judge" / "answers.jsonl").read_text().splitlines()]
        verdicts = []
        for line in seen:
            verdict = "unanswered" if line["answer"] == "NOT KNOWN" else "wrong"
            if line["reference"] and line["answer"] == line["reference"]:
                verdict = "right"
            verdicts.append({"id": line["id"], "verdict": verdict})
        self._lines(f"{self.run_folder.name}/judge/scores.jsonl", verdicts)
        return seen

    def score(self, *arguments: str, folder: Path | None = None) -> dict[str, Any]:
        result = run("--answers", str(folder or self.run_folder), "--json", *arguments)
        assert result.exit_code == 0, result.output
        return dict(json.loads(result.stdout))


@pytest.fixture
def qa(tmp_path: Path) -> QaRun:
    return QaRun(tmp_path)


def test_each_arm_gives_its_own_texts_within_its_words(qa: QaRun) -> None:
    qa.write_with_memories(
        "--arm", "recall:60", "--arm", "gold:60", "--arm", "both:90", "--arm", "fts5:20", "--arm", "rules:90"
    )

    assert "Scribe: the worker hung" in qa.given("recall:60")["q1"]
    assert "Gold:" not in qa.given("recall:60")["q1"]
    assert FACTS["q3"][1] not in qa.given("recall:60")["q3"]
    assert "Gold: The save button is green" in qa.given("gold:60")["q2"]
    assert "Scribe:" in qa.given("both:90")["q1"]
    assert "We took cysqlite" in qa.given("both:90")["q3"]
    assert "The save button is green" in qa.given("fts5:20")["q2"]
    assert "The save button is green" in qa.given("rules:90")["q2"]
    assert "Scribe:" not in qa.given("rules:90")["q1"]
    for arm, words in (("recall:60", 60), ("gold:60", 60), ("both:90", 90)):
        assert max(len(text.split()) for text in qa.given(arm).values()) <= words
    for text in qa.given("fts5:20").values():
        assert len(text.replace(" […]", "").split()) - len(text.splitlines()) <= 20


def test_nothing_that_a_reader_or_the_judge_gets_names_an_arm(qa: QaRun) -> None:
    qa.write("--arm", "gold:40", "--arm", "fts5:40")
    qa.answer(lambda arm, name: f"{name} by arm number {len(arm)}")
    qa.score()

    handed_out = [path for part in ("readers", "judge") for path in (qa.run_folder / part).rglob("*") if path.is_file()]
    names = " ".join(str(path.relative_to(qa.run_folder)) for path in handed_out)
    texts = " ".join(path.read_text() for path in handed_out if path.name != "answers.jsonl" or "judge" in path.parts)
    assert {path.name for path in handed_out} == {"PROMPT.md", "given.jsonl", "answers.jsonl"}
    assert not [word for word in ("gold:", "fts5", "recall:", "search:", "both:") if word in names + texts]


def test_the_judge_sees_equal_answers_once_under_opaque_ids(qa: QaRun) -> None:
    qa.write("--arm", "gold:40", "--arm", "fts5:40")
    qa.answer(lambda arm, name: "NOT KNOWN" if name == "q4" else f"{arm} said so")

    assert qa.score()["answers"] == 7
    seen = qa.judge()

    assert len({line["id"] for line in seen}) == 7
    assert not {line["id"] for line in seen} & {"q1", "q2", "q3", "q4"}
    assert {line["reference"] for line in seen} == {fact for _, fact in FACTS.values()} | {""}


def test_figures_are_paired_by_question_and_count_the_unanswerable_apart(qa: QaRun) -> None:
    qa.write("--arm", "gold:40", "--arm", "fts5:40")
    qa.answer(
        lambda arm, name: (
            FACTS[name][1]
            if name in FACTS and (arm == "gold:40" or name == "q1")
            else "NOT KNOWN"
            if name != "q4" or arm == "gold:40"
            else "The boss does."
        )
    )
    qa.score()
    qa.judge()

    figures = qa.score()

    assert figures["questions"] == 3
    gold, fts5 = figures["arms"]["gold:40"], figures["arms"]["fts5:40"]
    assert (gold["right"], gold["unanswerable left unanswered"]) == (100, 1)
    assert (fts5["right"], fts5["unanswered"], fts5["unanswerable left unanswered"]) == (33.3, 66.7, 0)
    paired = figures["paired"]["fts5:40 to gold:40"]
    assert paired["difference"] == -66.7
    assert paired["low"] == -100
    assert paired["high"] <= 0
    assert figures == qa.score()


def test_a_recorded_run_is_scored_without_what_was_given(qa: QaRun, tmp_path: Path) -> None:
    qa.write("--arm", "gold:40", "--arm", "fts5:40")
    qa.answer(lambda arm, name: FACTS[name][1] if name in FACTS else "NOT KNOWN")
    qa.score()
    qa.judge()
    recorded = tmp_path / "recorded-run"

    figures = qa.score("--record", str(recorded), "--model", "a model", "--date", "2026-11-22")

    assert qa.score(folder=recorded) == figures
    assert (figures["model"], figures["date"]) == ("a model", "2026-11-22")
    assert not list(recorded.rglob("given.jsonl"))
    assert all(question.keys() == {"id", "project", "answerable"} for question in key_of(recorded)["questions"])


def key_of(folder: Path) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((folder / "key.json").read_text())
    return record


def test_missing_answers_and_missing_verdicts_are_named(qa: QaRun) -> None:
    qa.write("--arm", "fts5:40")
    assert "answers.jsonl" in run("--answers", str(qa.run_folder)).output

    qa.answer(lambda arm, name: f"an answer to {name}")
    qa.score()
    seen = qa.judge()
    qa._lines("run/judge/scores.jsonl", [{"id": seen[0]["id"], "verdict": "right"}])
    result = run("--answers", str(qa.run_folder))

    assert result.exit_code == 1
    assert "3 answers were not judged" in result.output


def test_the_same_seed_draws_the_same_questions(qa: QaRun) -> None:
    qa.write("--arm", "fts5:40", "--answerable", "2", "--unanswerable", "1", "--seed", "3")
    first = [question["id"] for question in qa.key["questions"]]
    (qa.run_folder / "key.json").unlink()
    lines = qa.questions.read_text().splitlines()
    qa.questions.write_text("\n".join(reversed(lines)))
    qa.write("--arm", "fts5:40", "--answerable", "2", "--unanswerable", "1", "--seed", "3")

    assert {question["id"] for question in qa.key["questions"]} == set(first)
    assert len(first) == 3
    assert "q4" in first


def test_a_file_of_answers_is_an_arm_without_the_name_of_its_program(qa: QaRun) -> None:
    long = "Dejavu found:\n" + "\n".join(f"line {number}" for number in range(40))
    answers = {"q1": "dejavu: the queue lock", "q2": "", "q3": long, "q4": "dejavus are none of its names", "other": ""}
    lines = [{"question": name, "answer": text} for name, text in answers.items()]
    file = qa._lines("answers.jsonl", [*lines, {"prompt": "p1", "answer": "a line"}])

    assert qa.write("--arm", f"dejavu={file}:20", "--arm", "fts5:20", "--hide", "dejavu").exit_code == 0

    given = qa.given("dejavu:20")
    assert given["q1"] == "memory: the queue lock"
    assert given["q2"] == NOTHING
    assert given["q3"] == "memory found:\n" + "\n".join(f"line {number}" for number in range(9)) + " […]"
    assert given["q4"] == answers["q4"]
    assert list(given) == list(qa.given("fts5:20"))


def test_a_file_of_answers_needs_neither_sessions_nor_memories(qa: QaRun) -> None:
    file = qa._lines("answers.jsonl", [{"question": name, "answer": "x"} for name in (*FACTS, "q4")])
    given = ["--write", str(qa.run_folder), "--questions", str(qa.questions), "--arm", f"a=b={file}:9"]
    assert "can't read" in run(*given).output
    assert run(*given[:-1], f"other={file}:9").exit_code == 0
    assert set(qa.given("other:9").values()) == {"x"}


def test_a_file_without_an_answer_to_a_question_is_refused(qa: QaRun) -> None:
    file = qa._lines("answers.jsonl", [{"question": name, "answer": "x"} for name in FACTS])

    result = qa.write("--arm", f"other={file}:20")

    assert result.exit_code == 1
    assert "lacks 1 of 4 answers (first missing: q4)" in result.output


def test_a_new_reader_is_judged_beside_those_of_a_recorded_run(qa: QaRun, tmp_path: Path) -> None:
    qa.write("--arm", "gold:40", "--arm", "fts5:40", "--answerable", "2", "--seed", "3")
    asked = [question["id"] for question in qa.key["questions"]]
    sheet = list(qa.given("fts5:40"))
    qa.answer(lambda arm, name: FACTS[name][1] if name in FACTS and arm == "gold:40" else "NOT KNOWN")
    qa.score()
    qa.judge()
    recorded = tmp_path / "recorded-run"
    before = qa.score("--record", str(recorded))
    qa.run_folder = qa.folder / "second"
    file = qa._lines("answers.jsonl", [{"question": name, "answer": "It says so."} for name in (*FACTS, "q4")])

    result = qa.write("--arm", f"other={file}:20", "--beside", str(recorded))

    assert result.exit_code == 0
    assert str(qa.run_folder / "readers" / "3") in result.output
    assert [question["id"] for question in qa.key["questions"]] == asked
    assert list(qa.given("other:20")) == sheet
    assert not (qa.run_folder / "readers" / "1" / "PROMPT.md").exists()
    told = [{"id": name, "answer": FACTS.get(name, ("", "NOT KNOWN"))[1]} for name in asked]
    qa._lines("second/readers/3/answers.jsonl", told)
    qa.score()
    qa.judge()
    figures = qa.score()
    assert {arm: figures["arms"][arm] for arm in before["arms"]} == before["arms"]
    assert (figures["arms"]["other:20"]["right"], figures["arms"]["other:20"]["words"]) == (100, 3)
    assert "fts5:40 to other:20" in figures["paired"]


def test_an_arm_is_not_read_twice_beside_a_recorded_run(qa: QaRun, tmp_path: Path) -> None:
    qa.write("--arm", "fts5:40")
    qa.answer(lambda arm, name: "NOT KNOWN")
    qa.score()
    qa.judge()
    qa.score("--record", str(tmp_path / "recorded-run"))
    qa.run_folder = qa.folder / "second"

    result = qa.write("--arm", "fts5:40", "--beside", str(tmp_path / "recorded-run"))

    assert result.exit_code == 1
    assert "already has a reader for fts5:40" in result.output


@pytest.mark.parametrize("arm", ["recall", "recall:0", "magic:150", "recall:many", "recall=f:150", "=f:150", "magic=f"])
def test_an_unknown_arm_is_refused(qa: QaRun, arm: str) -> None:
    result = qa.write("--arm", arm)

    assert result.exit_code == 1
    assert "unknown arm" in result.output


def test_a_folder_with_a_run_is_not_overwritten(qa: QaRun) -> None:
    assert qa.write("--arm", "fts5:40").exit_code == 0

    result = qa.write("--arm", "fts5:40")

    assert result.exit_code == 1
    assert "already contains a run" in result.output
