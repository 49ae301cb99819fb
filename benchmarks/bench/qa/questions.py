"""The questions of a reader test: read from a file, and sampled with a seed."""

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
    #: The reference answer; "" if the sessions do not answer the question.
    reference: str
    is_answerable: bool


def read_reader_questions(path: Path) -> list[ReaderQuestion]:
    """Read JSON lines with id, project, question, answer and evidence; without evidence, the answer is "".

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
    """Sample questions with a seed, and return them in the order of the file.

    The sample depends only on the ids and the seed. If there are fewer questions than requested, all are returned.
    """
    random_ = random.Random(seed)
    drawn: set[str] = set()
    for is_answerable, count in ((True, answerable), (False, unanswerable)):
        ids = sorted(question.id for question in questions if question.is_answerable == is_answerable)
        drawn.update(random_.sample(ids, min(count, len(ids))))
    return [question for question in questions if question.id in drawn]
