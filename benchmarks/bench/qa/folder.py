"""The folder of a reader test: a folder for each reader, one for the judge, and the key that assigns readers to arms.

Whoever runs the test keeps ``key.json``. A reader gets only ``readers/N``, and the judge only ``judge``. Neither folder
names an arm.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from bench.json_lines import read_lines, write_lines
from bench.qa.questions import ReaderQuestion
from engram.errors import BadRequest
from engram.system.atomic import write_atomic

#: Digits of an opaque id in the judge's file.
_ID_DIGITS = 12
VERDICTS = ("right", "wrong", "unanswered")


@dataclass(frozen=True, slots=True)
class RunKey:
    """The content of ``key.json``: how a run was set up."""

    seed: int
    #: Number of the reader's folder → name of the arm.
    readers: Mapping[str, str]
    questions: Sequence[ReaderQuestion]
    #: Name of the arm → mean number of words in its texts.
    words: Mapping[str, float]
    #: The model that read and judged, and the date; "" if not recorded.
    model: str = ""
    date: str = ""

    def to_json(self, *, with_texts: bool = True) -> dict[str, Any]:
        """Return the content of ``key.json``; a run's record omits the texts of questions and reference answers."""
        questions: list[dict[str, Any]] = []
        for question in self.questions:
            texts = {"question": question.text, "reference": question.reference} if with_texts else {}
            questions.append(
                {"id": question.id, "project": question.project, **texts, "answerable": question.is_answerable}
            )
        return {
            "seed": self.seed,
            "readers": dict(self.readers),
            "words": dict(self.words),
            "model": self.model,
            "date": self.date,
            "questions": questions,
        }

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read ``key.json``. Raises BadRequest."""
        path = folder / "key.json"
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            return cls(
                seed=int(record["seed"]),
                readers={str(number): str(arm) for number, arm in record["readers"].items()},
                questions=[
                    ReaderQuestion(
                        id=question["id"],
                        project=question["project"],
                        text=question.get("question", ""),
                        reference=question.get("reference", ""),
                        is_answerable=bool(question["answerable"]),
                    )
                    for question in record["questions"]
                ],
                words={str(arm): float(words) for arm, words in record["words"].items()},
                model=str(record.get("model", "")),
                date=str(record.get("date", "")),
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadRequest(f"{path} is not the key of a run of `python -m bench qa --write`: {error!r}") from error


def write_run(
    folder: Path,
    questions: Sequence[ReaderQuestion],
    given: Mapping[str, Mapping[str, str]],
    seed: int,
    beside: Path | None = None,
) -> RunKey:
    """Write the key and a folder for each reader, numbered so that the number does not reveal the arm.

    ``beside`` is a recorded run: its readers keep their numbers and answers, and the new readers follow. The seed and
    the order of the questions are taken from that run, so that its answers keep their opaque ids.

    Raises:
        BadRequest: the folder already contains a run, or the recorded run has one of the arms or other questions.
    """
    if (folder / "key.json").exists():
        raise BadRequest(f"{folder} already contains a run: specify another folder, or remove this one first")
    earlier = RunKey.read(beside) if beside else None
    random_ = random.Random(seed)
    arms = list(given)
    random_.shuffle(arms)
    if earlier is None or beside is None:
        ordered, recorded, words = list(questions), {}, {}
        random_.shuffle(ordered)
    else:
        ordered, recorded, words = questions_of(earlier, questions), dict(earlier.readers), dict(earlier.words)
        seed = earlier.seed
        if twice := set(arms) & set(recorded.values()):
            raise BadRequest(f"{beside} already has a reader for {sorted(twice)[0]}")
        for number in recorded:
            answers = read_lines(reader_folder(beside, number) / "answers.jsonl")
            reader_folder(folder, number).mkdir(parents=True, exist_ok=True)
            write_lines(reader_folder(folder, number) / "answers.jsonl", answers)
    new = {str(number): arm for number, arm in enumerate(arms, 1 + max(map(int, recorded), default=0))}
    for number, arm in new.items():
        reader = reader_folder(folder, number)
        reader.mkdir(parents=True, exist_ok=True)
        write_atomic(reader / "PROMPT.md", prompt_text("reader"))
        lines = [{"id": q.id, "question": q.text, "given": given[arm][q.id]} for q in ordered]
        write_lines(reader / "given.jsonl", lines)
    for arm, texts in given.items():
        words[arm] = round(sum(len(text.split()) for text in texts.values()) / max(len(texts), 1), 1)
    key = RunKey(seed=seed, readers=recorded | new, questions=ordered, words=words)
    write_key(folder, key)
    return key


def questions_of(key: RunKey, questions: Sequence[ReaderQuestion]) -> list[ReaderQuestion]:
    """Return the questions of a recorded run in its order, with their texts. Raises BadRequest if one is missing."""
    known = {question.id: question for question in questions}
    if missing := [question.id for question in key.questions if question.id not in known]:
        raise BadRequest(f"some questions of the recorded run are missing (the first is {missing[0]})")
    return [known[question.id] for question in key.questions]


def write_key(folder: Path, key: RunKey, *, with_texts: bool = True) -> None:
    """Write ``key.json``, with or without the texts of questions and reference answers."""
    record = key.to_json(with_texts=with_texts)
    write_atomic(folder / "key.json", json.dumps(record, ensure_ascii=False, indent=1).encode())


def read_answers(folder: Path, key: RunKey) -> dict[str, dict[str, str]]:
    """Return arm → question's id → answer.

    Raises:
        BadRequest: a reader's answers are missing or incomplete.
    """
    wanted = {question.id for question in key.questions}
    answers: dict[str, dict[str, str]] = {}
    for number, arm in key.readers.items():
        path = reader_folder(folder, number) / "answers.jsonl"
        of_arm = {str(line.get("id")): str(line.get("answer", "")) for line in read_lines(path)}
        if missing := wanted - set(of_arm):
            raise BadRequest(f"{path} lacks {len(missing)} of {len(wanted)} answers (first missing: {min(missing)})")
        answers[arm] = {question_id: of_arm[question_id] for question_id in wanted}
    return answers


def write_judge(folder: Path, key: RunKey, answers: Mapping[str, Mapping[str, str]]) -> int:
    """Write the judge's folder and return the number of answers to judge.

    If several arms give the same answer to a question, it is judged once. Questions and their answers are shuffled.
    """
    random_ = random.Random(key.seed)
    questions = list(key.questions)
    random_.shuffle(questions)
    lines = []
    for question in questions:
        texts = sorted({of_arm[question.id] for of_arm in answers.values()})
        random_.shuffle(texts)
        lines += [
            {
                "id": answer_id(key, question.id, text),
                "question": question.text,
                "reference": question.reference,
                "answer": text,
            }
            for text in texts
        ]
    judge = folder / "judge"
    judge.mkdir(parents=True, exist_ok=True)
    write_atomic(judge / "PROMPT.md", prompt_text("judge"))
    write_lines(judge / "answers.jsonl", lines)
    return len(lines)


def read_scores(path: Path) -> dict[str, str]:
    """Return opaque id → verdict. Raises BadRequest for an unknown verdict."""
    scores = {str(line.get("id")): str(line.get("verdict")) for line in read_lines(path)}
    for opaque, verdict in scores.items():
        if verdict not in VERDICTS:
            raise BadRequest(f"{path}: verdict of {opaque} is {verdict!r}, but must be one of {', '.join(VERDICTS)}")
    return scores


def record_run(folder: Path, scores: Path, out: Path, key: RunKey) -> None:
    """Write what is needed to score a run again: the key, the answers and the verdicts.

    The readers' texts, the questions and the reference answers are left out.
    """
    for number in key.readers:
        reader = reader_folder(out, number)
        reader.mkdir(parents=True, exist_ok=True)
        write_lines(reader / "answers.jsonl", read_lines(reader_folder(folder, number) / "answers.jsonl"))
    (out / "judge").mkdir(parents=True, exist_ok=True)
    write_lines(out / "judge" / "scores.jsonl", read_lines(scores))
    write_key(out, key, with_texts=False)


def answer_id(key: RunKey, question_id: str, answer: str) -> str:
    """Return the opaque id of an answer. If another arm gave the same answer, the id is the same."""
    return hashlib.sha256(f"{key.seed}\0{question_id}\0{answer}".encode()).hexdigest()[:_ID_DIGITS]


def reader_folder(folder: Path, number: str) -> Path:
    """Return the folder of a reader."""
    return folder / "readers" / number


def prompt_text(name: str) -> bytes:
    """Return the prompt of the reader or the judge."""
    return files("bench.qa").joinpath(f"{name}.md").read_bytes()
