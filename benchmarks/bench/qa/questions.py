"""The questions of a reader's test: read from a file, and drawn by a seed. Pure but for the reading."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engram.errors import BadRequest


@dataclass(frozen=True, slots=True)
class ReaderQuestion:
    """A question about a project's sessions, with its reference answer."""

    id: str
    project: str
    text: str
    #: The reference answer; "" for a question that the sessions do not answer.
    reference: str
    is_answerable: bool


def read_reader_questions(path: Path) -> list[ReaderQuestion]:
    """Read JSON lines with id, project, question, answer and evidence; without evidence there is no answer.

    Raises:
        BadRequest: the file has another format.
    """
    try:
        records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        return [
            ReaderQuestion(
                id=str(record["id"]),
                project=str(record["project"]),
                text=str(record["question"]),
                reference=str(record["answer"] or "") if record["evidence"] else "",
                is_answerable=bool(record["evidence"]),
            )
            for record in records
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{path} is not a file of questions with answers: {error!r}") from error


def draw_questions(
    questions: Sequence[ReaderQuestion], *, answerable: int, unanswerable: int, seed: int
) -> list[ReaderQuestion]:
    """Draw questions by a seed, in the order of the file.

    The draw depends on the ids and the seed, not on the order of the file. If there are fewer questions than asked
    for, all are taken.
    """
    random_ = random.Random(seed)
    drawn: set[str] = set()
    for is_answerable, count in ((True, answerable), (False, unanswerable)):
        ids = sorted(question.id for question in questions if question.is_answerable == is_answerable)
        drawn.update(random_.sample(ids, min(count, len(ids))))
    return [question for question in questions if question.id in drawn]
