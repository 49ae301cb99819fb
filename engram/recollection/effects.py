"""What answering a prompt changes: everything for a hook, nothing for a dry run. The decision is the same code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from engram.models.outcomes import Outcome
from engram.recollection.choose import Bite
from engram.recollection.ledger import Ledger
from engram.recollection.pending import PendingBites
from engram.recollection.prompts import AskedPrompt, Claim, LatestPrompts
from engram.recollection.session_start import SessionStarts
from engram.recollection.topics import Topics


class Effects(Protocol):
    """Receives everything that an answer changes."""

    def take_missed_briefing(self, session_id: str, prompt: AskedPrompt) -> str:
        """Return the briefing that the session missed, once; "" for none."""

    def claim(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Record that a hook asks about a prompt."""

    def withdraw(self, session_id: str) -> None:
        """Withdraw what waits for the session's next tool call."""

    def note_shown(self, session_id: str, prompt: AskedPrompt, bites: Sequence[Bite]) -> None:
        """Note that bites are the answer to a prompt."""

    def record(self, outcome: Outcome, cwd: str) -> None:
        """Record what became of a prompt that was sent in a folder."""


@dataclass(frozen=True, slots=True)
class HookEffects:
    """Changes what a hook's answer changes."""

    ledger: Ledger
    prompts: LatestPrompts
    topics: Topics
    pending: PendingBites
    starts: SessionStarts

    def take_missed_briefing(self, session_id: str, prompt: AskedPrompt) -> str:
        """Return the briefing that the session missed, once; "" for none."""
        return self.starts.missed_briefing(session_id, prompt)

    def claim(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Record that a hook asks about a prompt."""
        return self.prompts.claim(session_id, prompt)

    def withdraw(self, session_id: str) -> None:
        """Withdraw what waits for the session's next tool call."""
        self.pending.withdraw(session_id)

    def note_shown(self, session_id: str, prompt: AskedPrompt, bites: Sequence[Bite]) -> None:
        """Note that bites are the answer to a prompt, and its text the topic of the session."""
        self.ledger.note_shown(session_id, prompt.key, bites)
        self.topics.note(session_id, prompt.text)

    def record(self, outcome: Outcome, cwd: str) -> None:
        """Note what became of a prompt; it is stored after the answer was sent."""
        self.ledger.record(outcome, cwd)


@dataclass(frozen=True, slots=True)
class NoEffects:
    """Changes nothing: for a dry run."""

    prompts: LatestPrompts

    def take_missed_briefing(self, session_id: str, prompt: AskedPrompt) -> str:
        """Return "": a dry run brings no briefing."""
        return ""

    def claim(self, session_id: str, prompt: AskedPrompt) -> Claim:
        """Return what a hook would be told, and record nothing."""
        return self.prompts.check(session_id, prompt)

    def withdraw(self, session_id: str) -> None:
        """Leave what waits: the selection counts it as not shown anyway."""

    def note_shown(self, session_id: str, prompt: AskedPrompt, bites: Sequence[Bite]) -> None:
        """Do nothing."""

    def record(self, outcome: Outcome, cwd: str) -> None:
        """Do nothing."""
