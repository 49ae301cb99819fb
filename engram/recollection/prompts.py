"""Recognize a prompt that arrives by a hook and by the transcript, so that it is answered once."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

#: Maximum number of sessions whose latest prompt is remembered.
MAX_SESSIONS = 500
#: A prompt of the transcript within this time of a hook's prompt is the same prompt, in milliseconds.
SAME_MOMENT_MS = 10_000

T = TypeVar("T")

_PROMPT_ID = re.compile(r"[0-9A-Za-z_-]{1,128}")


@dataclass(frozen=True, slots=True)
class AskedPrompt:
    """The latest prompt of a session."""

    #: Its id, or the hash of its text if it has none.
    key: str
    #: The hash of its text.
    digest: str
    #: The redacted text that is searched for; "" for none.
    text: str
    at_ms: int
    cwd: str = ""
    #: Row id of the project that is asked about, if that does not follow from session and folder.
    project_id: int | None = None


class Claim(StrEnum):
    """Who has seen a prompt before a hook asks about it."""

    NEW = "new"
    #: It was read in the transcript; no hook has asked about it.
    READ_BEFORE = "read before"
    #: Another hook has asked about it and gets the answer.
    ASKED_BEFORE = "asked before"


def digest_of(text: str) -> str:
    """Return a hash of a prompt's words; white space does not count."""
    return "h-" + hashlib.sha256(" ".join(text.split()).encode("utf-8", "replace")).hexdigest()[:24]


def key_of(payload: Mapping[str, object], text: str) -> str:
    """Return the key of a payload's prompt: its id, or the hash of its text if it has none."""
    prompt_id = payload.get("prompt_id")
    return prompt_id if isinstance(prompt_id, str) and _PROMPT_ID.fullmatch(prompt_id) else digest_of(text)


def belongs_to(prompt: AskedPrompt, key: str, at_ms: int) -> bool:
    """Return True if a bite stored under ``key`` at ``at_ms`` was given to this prompt.

    A prompt read in a transcript has no id: there, everything shown since it was sent counts.
    """
    is_written = prompt.key == prompt.digest
    return key in (prompt.key, prompt.digest) or (is_written and at_ms >= prompt.at_ms - SAME_MOMENT_MS)


class LatestPrompts:
    """The latest prompt of each active session. Any thread may call any method.

    A prompt is answered once. A hook that is registered twice asks twice at the same moment.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = threading.Lock()
        self._latest: OrderedDict[str, AskedPrompt] = OrderedDict()
        self._calls: OrderedDict[str, str] = OrderedDict()
        #: Session → the latest tool call for which nothing was shown although a memory names it.
        self._silences: OrderedDict[str, str] = OrderedDict()
        #: Session → key of the latest prompt that a hook asked about.
        self._asked: OrderedDict[str, str] = OrderedDict()

    def find(self, session_id: str) -> AskedPrompt | None:
        """Return the latest prompt of a session; None if this process has seen none."""
        with self._lock:
            return self._latest.get(session_id)

    def claim(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Record a prompt that a hook asks about, unless another hook has asked about it."""
        with self._lock:
            claim = self._check(session_id, prompt)
            if claim is not Claim.ASKED_BEFORE:
                _remember(self._asked, session_id, prompt.key)
                self._keep(session_id, prompt)
            return claim

    def check(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Return what ``claim`` would return, and record nothing."""
        with self._lock:
            return self._check(session_id, prompt)

    def _check(self, session_id: str, prompt: AskedPrompt) -> Claim:
        if self._asked.get(session_id) == prompt.key:
            return Claim.ASKED_BEFORE
        known = self._latest.get(session_id)
        return Claim.READ_BEFORE if known is not None and known.key in (prompt.key, prompt.digest) else Claim.NEW

    def claim_written(self, session_id: str, prompt: AskedPrompt) -> bool:
        """Record a prompt that was read in a transcript; returns False if it is known."""
        with self._lock:
            known = self._latest.get(session_id)
            if known is not None and (known.digest == prompt.digest or known.at_ms >= prompt.at_ms - SAME_MOMENT_MS):
                return False
            self._keep(session_id, prompt)
            return True

    def is_new_call(self, session_id: str, call: str) -> bool:
        """Return True at the first call for a tool call, given as its turn and its number in it."""
        return self._is_new(self._calls, session_id, call)

    def is_new_silence(self, session_id: str, digest: str) -> bool:
        """Return True at the first call for a tool call about which nothing was shown, given by its digest."""
        return self._is_new(self._silences, session_id, digest)

    def _is_new(self, kept: OrderedDict[str, str], session_id: str, value: str) -> bool:
        with self._lock:
            if kept.get(session_id) == value:
                return False
            _remember(kept, session_id, value)
            return True

    def _keep(self, session_id: str, prompt: AskedPrompt) -> None:
        _remember(self._latest, session_id, prompt)


def _remember(kept: OrderedDict[str, T], session_id: str, value: T) -> None:
    """Set the value of a session and drop the sessions that were set the longest ago."""
    kept[session_id] = value
    kept.move_to_end(session_id)
    while len(kept) > MAX_SESSIONS:
        kept.popitem(last=False)
