"""The one clock: milliseconds since 1970 for what is stored, seconds of a steady clock for what waits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """What time it is. Everything that decides by time takes one of these."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970; may jump."""

    def steady_seconds(self) -> float:
        """Seconds of a clock that never goes back; only differences mean anything."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def steady_seconds(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()


@dataclass(slots=True)
class FixedClock:
    """A clock that stands still until it is moved: for tests and simulated time."""

    #: Wall time in milliseconds since 1970.
    at_ms: int = 1_767_225_600_000
    #: Seconds of the steady clock.
    steady: float = field(default=0.0)

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""
        return self.at_ms

    def steady_seconds(self) -> float:
        """Seconds of the steady clock."""
        return self.steady

    def advance(self, seconds: float) -> None:
        """Move both clocks on by ``seconds``."""
        self.at_ms += int(seconds * 1000)
        self.steady += seconds


SYSTEM_CLOCK = SystemClock()


def parse_time_ms(text: object) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text; None where it is none. Without a zone it counts as UTC."""
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None


def iso_time(at_ms: int) -> str:
    """ISO 8601 in UTC, to the second."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def day_of(at_ms: int) -> str:
    """The local calendar day as ``YYYY-MM-DD``."""
    return datetime.fromtimestamp(at_ms / 1000).strftime("%Y-%m-%d")
