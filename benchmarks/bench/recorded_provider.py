"""A provider of recorded answers. A request without one is written to a file to be answered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engram.errors import BadRequest, ExtractionError
from engram.extraction.model.language_model import request_key
from engram.extraction.model.provider import OWN_SERVER_PRICE, ModelReply, ModelRequest, Price
from engram.system.atomic import write_atomic

#: Number of digits of a request's digest in the names of its files.
KEY_DIGITS = 20


class Unanswered(ExtractionError):
    """There is no recorded answer to this request, which was written to a file to be answered."""


class RecordedProvider:
    """Answers from a folder, by a digest of the request.

    Answers are stored in ``NAME.jsonl`` (a line is ``{"key", "answer", "model", "date"}``) or, exactly as the model
    returned them, in ``KEY.answer.json``. A request without an answer is written to ``KEY.request.txt``, and its system
    prompt to ``system.TASK.txt``.
    """

    model = "recorded"

    def __init__(self, folder: Path) -> None:
        """Read the recorded answers. Raises BadRequest."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        #: Key → text of the answer.
        self.answers = dict(_read(folder))
        #: Requested keys, in order; True if there is an answer.
        self.asked: dict[str, bool] = {}

    @property
    def price(self) -> Price:
        return OWN_SERVER_PRICE

    def close(self) -> None:
        """See ``Provider.close``: there is nothing to end."""

    def complete(self, request: ModelRequest) -> ModelReply:
        return self.reply(request_key(request)[:KEY_DIGITS], request)

    def reply(self, key: str, request: ModelRequest) -> ModelReply:
        """Return the recorded answer for a key. If there is none, write the request to a file and raise Unanswered."""
        self.asked[key] = key in self.answers
        if key not in self.answers:
            write_atomic(self.folder / f"system.{request.task}.txt", request.system.encode())
            write_atomic(self.folder / f"{key}.request.txt", request.user.encode())
            raise Unanswered(f"no answer is recorded for request {key}")
        return ModelReply(text=self.answers[key], model=self.model)

    def simplify(self) -> bool:
        return False


def _read(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield the key and the text of each answer."""
    try:
        for path in sorted(folder.glob("*.jsonl")):
            for line in path.read_text(encoding="utf-8").splitlines():
                record = json.loads(line)
                yield str(record["key"])[:KEY_DIGITS], _text(record["answer"])
        for path in sorted(folder.glob("*.answer.json")):
            yield path.name.partition(".")[0], path.read_text(encoding="utf-8")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadRequest(f"{folder} has an answer that cannot be read: {error!r}") from error


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
