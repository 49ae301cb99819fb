"""Recorded answers to a task's extraction requests, found by the session's text in the request."""

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

#: The line that precedes the session's own lines in a request.
_SESSION = "\nThe session:\n"
_SHORT_ID = re.compile(r"m\d+")
#: Number of characters of a summary that identify a memory's line.
_SUMMARY_CHARACTERS = 60


class SessionAnswers(RecordedProvider):
    """Finds answers by a digest of only the session's lines.

    Answers therefore remain valid when the system prompt changes, or the memories that a request shows. The target of
    an action is recorded as the beginning of the memory's summary, and is replaced with the memory's short id in the
    request.
    """

    def __init__(self, folder: Path, *, writes_requests: bool = False) -> None:
        """Read the answers of a folder.

        Args:
            folder: the folder with the answers.
            writes_requests: write requests without an answer to the folder.
        """
        if not writes_requests and not folder.is_dir():
            raise BadRequest(f"{folder} does not exist, so these sessions have no recorded answers")
        super().__init__(folder)
        self._writes_requests = writes_requests
        #: Working folder of the sessions → its replacement in requests, which is the same on every machine.
        self.places: dict[str, str] = {}

    def complete(self, request: ModelRequest) -> ModelReply:
        """Return the recorded answer to a request. Raises Unanswered or BadRequest."""
        for place, name in self.places.items():
            request = replace(request, user=request.user.replace(place, name))
        key = session_key(request.user)
        if key not in self.answers and not self._writes_requests:
            raise BadRequest(
                f"{self.folder} has no answer to request {key}: the request has changed or is new. "
                "Use `--answers DIR` to write it to a folder"
            )
        reply = self.reply(key, request)
        answer = json.loads(reply.text)
        for memory in answer.get("memories", []):
            _set_target(memory, request.user)
        return ModelReply(text=json.dumps(answer, ensure_ascii=False), model=reply.model)


def session_key(text: str) -> str:
    """Return the key of a request: a digest of the session's lines in it."""
    return hashlib.sha256(text.partition(_SESSION)[2].encode()).hexdigest()[:KEY_DIGITS]


def _set_target(memory: dict[str, Any], request: str) -> None:
    target = memory.get("target")
    if not isinstance(target, str) or _SHORT_ID.fullmatch(target):
        return
    beginning = " ".join(target.split())[:_SUMMARY_CHARACTERS]
    lines = (line for line in request.partition(_SESSION)[0].splitlines() if beginning in line)
    short = next((line[1:].partition("]")[0] for line in lines if line.startswith("[m")), None)
    if short is None:
        # The request does not show that memory, so no action can refer to it.
        memory["action"] = "new"
    memory["target"] = short
