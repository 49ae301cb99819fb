"""Prompts that wait in Claude Code's queue until a line shows what became of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

#: Most prompts that may wait at once; beyond that, the oldest are dropped from the queue and keep their own turns.
MAX_WAITING = 64
#: A line shows a prompt only if it was written at most this long before the prompt was queued (clocks differ).
MAX_CLOCK_SKEW_MS = 2000
#: Lines of a prompt that are compared with the waiting prompts.
MAX_LINES = 2000


@dataclass(frozen=True, slots=True)
class Waiting:
    """A prompt that waits. Its words are kept as a hash, so that the reader's state holds no text."""

    #: Key of the turn that it is, unless a line shows it.
    key: str
    #: Hash of its words.
    digest: str
    #: Number of its lines.
    lines: int
    at_ms: int | None
    #: True if the user took it back into the input field.
    is_popped: bool = False

    @staticmethod
    def digest_of(text: str) -> str:
        """Return the hash of a prompt's words."""
        return hashlib.sha256(text.strip().encode("utf-8", "replace")).hexdigest()[:32]


@dataclass(slots=True)
class Queue:
    """The waiting prompts, oldest first."""

    waiting: list[Waiting] = field(default_factory=list)

    def add(self, key: str, text: str, at_ms: int | None) -> None:
        """Add a prompt that was queued."""
        lines = text.strip().count("\n") + 1
        self.waiting.append(Waiting(key=key, digest=Waiting.digest_of(text), lines=lines, at_ms=at_ms))
        del self.waiting[:-MAX_WAITING]

    def hand_over(self) -> Waiting | None:
        """Take out the oldest prompt that still waits: it was handed to the model while it worked. None if none waits.

        The line does not say which prompt it was. It may mean a notification, which is not in this queue.
        """
        for index, prompt in enumerate(self.waiting):
            if not prompt.is_popped:
                return self.waiting.pop(index)
        return None

    def pop_all(self, text: str | None) -> None:
        """Mark the prompt with these words (without words, every prompt) as taken back into the input field."""
        digest = Waiting.digest_of(text) if text else ""
        self.waiting = [
            replace(prompt, is_popped=True) if not text or prompt.digest == digest else prompt
            for prompt in self.waiting
        ]

    def settle(self, text: str, at_ms: int | None) -> list[Waiting]:
        """Take out and return the waiting prompts that a line shows, each alone or several joined.

        Of several with the same words the newest goes, since a prompt is shown right after it was queued.
        """
        if not self.waiting:
            return []
        lines = text.strip().split("\n")[:MAX_LINES]
        shown: list[Waiting] = []
        for prompt in reversed(self.waiting):
            if at_ms is not None and prompt.at_ms is not None and at_ms < prompt.at_ms - MAX_CLOCK_SKEW_MS:
                continue
            if all(prompt.digest != other.digest for other in shown) and _contains(lines, prompt):
                shown.append(prompt)
        self.waiting = [prompt for prompt in self.waiting if prompt not in shown]
        return shown

    def dump(self) -> list[list[Any]]:
        """Return the queue as JSON."""
        return [[prompt.key, prompt.digest, prompt.lines, prompt.at_ms, prompt.is_popped] for prompt in self.waiting]

    @classmethod
    def load(cls, dumped: object) -> Queue:
        """Return the queue that ``dump`` wrote; an empty one for anything else."""
        rows = dumped if isinstance(dumped, list) else []
        return cls([Waiting(*row) for row in rows if isinstance(row, list) and len(row) == 5])


def _contains(lines: list[str], prompt: Waiting) -> bool:
    """True if some run of whole lines is the waiting prompt."""
    for start in range(len(lines) - prompt.lines + 1):
        if Waiting.digest_of("\n".join(lines[start : start + prompt.lines])) == prompt.digest:
            return True
    return False
