"""Prompts that wait in Claude Code's queue, until a line shows what became of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

#: So many prompts may wait at once; beyond that the oldest counts as settled.
MAX_WAITING = 64
#: A line shows a prompt only if it was written at most so many milliseconds before it was queued (clocks differ).
SLACK_MS = 2000
#: So many lines of a prompt are compared with the waiting ones.
MAX_LINES = 2000


@dataclass(frozen=True, slots=True)
class Waiting:
    """One prompt that waits; its words are kept as a hash, so that no text stands in the reader's state."""

    #: Key of the turn it is, unless a line shows it.
    key: str
    #: Hash of its words.
    digest: str
    #: Lines it has.
    lines: int
    at_ms: int | None
    #: True where the user took it back into the input field.
    is_popped: bool = False

    @staticmethod
    def digest_of(text: str) -> str:
        """The hash of a prompt's words."""
        return hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:32]


@dataclass(slots=True)
class Queue:
    """The waiting prompts, oldest first."""

    waiting: list[Waiting] = field(default_factory=list)

    def add(self, key: str, text: str, at_ms: int | None) -> None:
        """A prompt was queued."""
        self.waiting.append(Waiting(key, Waiting.digest_of(text), text.strip().count("\n") + 1, at_ms))
        del self.waiting[:-MAX_WAITING]

    def hand_over(self) -> Waiting | None:
        """A prompt was handed to the model while it worked: the oldest that still waits; None where none does.

        The line does not say which; a notification may have been meant, which is not in this queue.
        """
        for index, one in enumerate(self.waiting):
            if not one.is_popped:
                return self.waiting.pop(index)
        return None

    def pop_all(self, text: str | None) -> None:
        """The user took prompts back into the input field: the one with these words, or all where none are given."""
        digest = Waiting.digest_of(text) if text else ""
        self.waiting = [
            replace(one, is_popped=True) if not text or one.digest == digest else one for one in self.waiting
        ]

    def settle(self, text: str, at_ms: int | None) -> list[Waiting]:
        """A line shows ``text``: take out the waiting prompts that it is made of, one by one or joined, and return them.

        Of several with the same words one goes, the newest, since a prompt is shown right after it was queued.
        """
        if not self.waiting:
            return []
        pieces = text.strip().split("\n")[:MAX_LINES]
        shown: list[Waiting] = []
        for one in reversed(self.waiting):
            if at_ms is not None and one.at_ms is not None and at_ms < one.at_ms - SLACK_MS:
                continue
            if all(one.digest != other.digest for other in shown) and _shows(pieces, one):
                shown.append(one)
        self.waiting = [one for one in self.waiting if one not in shown]
        return shown

    def dump(self) -> list[list[Any]]:
        """The queue as JSON."""
        return [[one.key, one.digest, one.lines, one.at_ms, one.is_popped] for one in self.waiting]

    @classmethod
    def load(cls, dumped: object) -> Queue:
        """The queue of ``dump``; what is not one gives an empty queue."""
        rows = dumped if isinstance(dumped, list) else []
        return cls([Waiting(*row) for row in rows if isinstance(row, list) and len(row) == 5])


def _shows(pieces: list[str], one: Waiting) -> bool:
    """True where some run of whole lines is the waiting prompt."""
    for start in range(len(pieces) - one.lines + 1):
        if Waiting.digest_of("\n".join(pieces[start : start + one.lines])) == one.digest:
            return True
    return False
