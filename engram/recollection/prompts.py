"""Which prompt is it: the same one over the hook and the transcript, so that it is answered once."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

#: Sessions whose latest prompt is kept in mind.
MAX_SESSIONS = 500
#: A prompt of the transcript that was sent so near to one of the hook is the same, in milliseconds.
SAME_MOMENT_MS = 10_000

T = TypeVar("T")

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


class Claim(StrEnum):
    """Who has seen a prompt that a hook asks about."""

    NEW = "new"
    #: It was read in the transcript; no hook has asked.
    READ_BEFORE = "read before"
    #: Another hook has asked: it gets the answer.
    ASKED_BEFORE = "asked before"


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
    """The latest prompt of each session that is at work. Any thread may call any method.

    One prompt has one answer, whoever asks: hooks that are registered twice ask twice, at the same moment.
    """

    def __init__(self) -> None:
        """Know of none."""
        self._lock = threading.Lock()
        self._found: OrderedDict[str, AskedPrompt] = OrderedDict()
        self._calls: OrderedDict[str, str] = OrderedDict()
        #: Session → key of the latest prompt that a hook asked about.
        self._asked: OrderedDict[str, str] = OrderedDict()

    def find(self, session_id: str) -> AskedPrompt | None:
        """The latest prompt of a session; None where this process has seen none."""
        with self._lock:
            return self._found.get(session_id)

    def claim(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Take on a prompt that a hook asks about, unless another hook has asked about it."""
        with self._lock:
            if self._asked.get(session_id) == prompt.key:
                return Claim.ASKED_BEFORE
            _remember(self._asked, session_id, prompt.key)
            known = self._found.get(session_id)
            self._keep(session_id, prompt)
            return Claim.READ_BEFORE if known is not None and known.key in (prompt.key, prompt.digest) else Claim.NEW

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
            _remember(self._calls, session_id, call)
            return True

    def _keep(self, session_id: str, prompt: AskedPrompt) -> None:
        _remember(self._found, session_id, prompt)


def _remember(kept: OrderedDict[str, T], session_id: str, value: T) -> None:
    """Set the value of a session and drop the sessions that were set longest ago."""
    kept[session_id] = value
    kept.move_to_end(session_id)
    while len(kept) > MAX_SESSIONS:
        kept.popitem(last=False)
