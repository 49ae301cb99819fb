"""What it would cost to let a language model write this user's memories, from the sessions of the last days."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from engram.transcripts.claude_code import AGENT
from engram.transcripts.source import Source

#: Days that are looked at.
DAYS = 30
#: Dollars for a thousand turns at list price, from the cheapest to the dearest case of docs/language-model.md: an
#: import of whole sessions with Claude Haiku 5.5, and memories while you work with Claude Haiku 4.5.
LOW_DOLLARS, HIGH_DOLLARS = 0.20, 2.41
#: Where these figures come from.
SOURCE: Final = "measured on 516 turns of 93 real sessions, list prices of Claude Haiku of 2026-11-22"
#: Bytes of transcripts that are counted; the number of turns of the rest follows from their size.
MAX_COUNTED_BYTES = 200_000_000
_DAY_NS = 86_400 * 10**9
_USER, _NO_PROMPT = (
    b'"type":"user"',
    (b'"tool_result"', b'"isMeta":true', b'"isSidechain":true', b'"isCompactSummary":true'),
)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The cost of a month like the last one."""

    #: Sessions of Claude Code that changed in the last ``DAYS`` days.
    sessions: int
    #: Their turns, estimated.
    turns: int

    @property
    def low_dollars(self) -> float:
        """Lowest cost of these turns at list price."""
        return self.turns * LOW_DOLLARS / 1000

    @property
    def high_dollars(self) -> float:
        """Highest cost of these turns at list price."""
        return self.turns * HIGH_DOLLARS / 1000


def estimate_cost(
    sources: Iterable[Source], now_seconds: float, *, max_counted_bytes: int = MAX_COUNTED_BYTES
) -> CostEstimate:
    """Count the prompts in the transcripts of the last ``DAYS`` days. Nothing is stored or sent."""
    since_ns = int(now_seconds * 10**9) - DAYS * _DAY_NS
    recent = [source for source in sources if source.agent == AGENT and source.changed_at_ns >= since_ns]
    recent.sort(key=lambda source: -source.changed_at_ns)
    counted = prompts = 0
    for source in recent:
        if counted >= max_counted_bytes:
            break
        counted += source.size or 0
        prompts += _count_prompts(source)
    total = sum(source.size or 0 for source in recent)
    return CostEstimate(len(recent), round(prompts * total / counted) if counted else 0)


def _count_prompts(source: Source) -> int:
    """Lines that look like a prompt; close to what reading finds, and much faster."""
    try:
        with open(source.path, "rb") as file:
            return sum(1 for line in file if _USER in line and not any(mark in line for mark in _NO_PROMPT))
    except OSError:
        return 0
