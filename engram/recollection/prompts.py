"""Which prompt is it: the same one over the hook and the transcript, so that it is answered once."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

#: Sessions whose latest prompt is kept in mind.
KEPT_SESSIONS = 500
#: A prompt of the transcript that was sent so near to one of the hook is the same, in milliseconds.
SAME_MOMENT_MS = 10_000

_PROMPT_ID = re.compile(r"[0-9A-Za-z_-]{1,128}")


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """The latest prompt of a session."""

    #: Its id, else the hash of its text.
    key: str
    #: Hash of its text.
    digest: str
    #: What is searched for, redacted; "" where nothing is.
    text: str
    at_ms: int
    cwd: str = ""


def digest_of(text: str) -> str:
    """A hash of a prompt's words; spaces do not count."""
    return "h-" + hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:24]


def key_of(payload: Mapping[str, object], text: str) -> str:
    """What tells the prompt of a payload from all others: its id, else the hash of its text."""
    prompt_id = payload.get("prompt_id")
    return prompt_id if isinstance(prompt_id, str) and _PROMPT_ID.fullmatch(prompt_id) else digest_of(text)


def belongs_to(prompt: AskedPrompt, key: str, at_ms: int) -> bool:
    """True where a bite noted under ``key`` at a time was given to this prompt.

    A prompt read in a transcript has no id: there what was shown since it was typed counts.
    """
    is_written = prompt.key == prompt.digest
    return key in (prompt.key, prompt.digest) or (is_written and at_ms >= prompt.at_ms - SAME_MOMENT_MS)


class LatestPrompts:
    """The latest prompt of each session that is at work. Any thread may call any method."""

    def __init__(self) -> None:
        """Know of none."""
        self._lock = threading.Lock()
        self._found: OrderedDict[str, AskedPrompt] = OrderedDict()
        self._calls: OrderedDict[str, str] = OrderedDict()

    def find(self, session_id: str) -> AskedPrompt | None:
        """The latest prompt of a session; None where this process has seen none."""
        with self._lock:
            return self._found.get(session_id)

    def claim(self, session_id: str, prompt: AskedPrompt) -> bool:
        """Take on a prompt that a hook asks about; False where it was taken on before, over either channel."""
        with self._lock:
            known = self._found.get(session_id)
            self._keep(session_id, prompt)
            return known is None or known.key not in (prompt.key, prompt.digest)

    def claim_written(self, session_id: str, prompt: AskedPrompt) -> bool:
        """The same for a prompt that was read in a transcript, where its id may be missing."""
        with self._lock:
            known = self._found.get(session_id)
            if known is not None and (known.digest == prompt.digest or known.at_ms >= prompt.at_ms - SAME_MOMENT_MS):
                return False
            self._keep(session_id, prompt)
            return True

    def is_new_call(self, session_id: str, call: str) -> bool:
        """True for a tool call (its turn and its number in it) not looked at yet; it counts as looked at from now on."""
        with self._lock:
            if self._calls.get(session_id) == call:
                return False
            self._calls[session_id] = call
            self._calls.move_to_end(session_id)
            while len(self._calls) > KEPT_SESSIONS:
                self._calls.popitem(last=False)
            return True

    def _keep(self, session_id: str, prompt: AskedPrompt) -> None:
        self._found[session_id] = prompt
        self._found.move_to_end(session_id)
        while len(self._found) > KEPT_SESSIONS:
            self._found.popitem(last=False)
