"""Recorded answers to a task's extraction requests, found by what the request says of the session."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.recorded_provider import KEY_DIGITS, RecordedProvider
from engram.errors import BadRequest
from engram.extraction.model.provider import ModelReply, ModelRequest

#: The line of a request above the session's own lines.
_SESSION = "\nThe session:\n"
_SHORT_ID = re.compile(r"m\d+")
#: Characters of a summary that identify a memory's line.
_SUMMARY_CHARACTERS = 60


class SessionAnswers(RecordedProvider):
    """Answers by a digest of the session's lines alone.

    The system prompt and the memories that a request shows may change without making an answer void. Therefore the
    target of an action is recorded as the beginning of the memory's summary; here it becomes the short id that the
    memory has in the request.
    """

    def __init__(self, folder: Path, *, writes_requests: bool = False) -> None:
        """Read the answers of a folder.

        Args:
            folder: where the answers are.
            writes_requests: write a request without an answer to the folder; otherwise it is an error.
        """
        if not writes_requests and not folder.is_dir():
            raise BadRequest(f"{folder} does not exist: these sessions have no recorded answers")
        super().__init__(folder)
        self._writes_requests = writes_requests
        #: Where the sessions took place → the folder that requests name instead, the same on every machine.
        self.places: dict[str, str] = {}

    def complete(self, request: ModelRequest) -> ModelReply:
        """See ``Provider.complete``. Raises Unanswered or BadRequest."""
        for place, name in self.places.items():
            request = replace(request, user=request.user.replace(place, name))
        key = session_key(request.user)
        if key not in self.answers and not self._writes_requests:
            raise BadRequest(
                f"{self.folder} has no answer to the request {key}: the request changed, or is new. "
                "`--answers DIR` writes it to be answered"
            )
        reply = self.reply(key, request)
        answer = json.loads(reply.text)
        for memory in answer.get("memories", []):
            _set_target(memory, request.user)
        return ModelReply(text=json.dumps(answer, ensure_ascii=False), model=reply.model)


def session_key(text: str) -> str:
    """Return the key of a request: a digest of what it says of the session."""
    return hashlib.sha256(text.partition(_SESSION)[2].encode()).hexdigest()[:KEY_DIGITS]


def _set_target(memory: dict[str, Any], request: str) -> None:
    target = memory.get("target")
    if not isinstance(target, str) or _SHORT_ID.fullmatch(target):
        return
    beginning = " ".join(target.split())[:_SUMMARY_CHARACTERS]
    lines = (line for line in request.partition(_SESSION)[0].splitlines() if beginning in line)
    short = next((line[1:].partition("]")[0] for line in lines if line.startswith("[m")), None)
    if short is None:
        # The request does not show that memory, so nothing can be said about it.
        memory["action"] = "new"
    memory["target"] = short
