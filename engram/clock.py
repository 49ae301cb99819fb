"""The clock: wall time in milliseconds for what is stored, steady seconds for waiting."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The current time. All code that decides by time takes a Clock."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970; may jump."""

    def steady_seconds(self) -> float:
        """Seconds of a clock that never goes back; only differences have a meaning."""


class SystemClock:
    """The system clock."""

    def now_ms(self) -> int:
        """Wall time in milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    def steady_seconds(self) -> float:
        """Seconds of the monotonic clock."""
        return time.monotonic()


@dataclass(slots=True)
class FixedClock:
    """A clock that moves only when told to: for tests and simulations."""

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
        """Advance both clocks by ``seconds``."""
        self.at_ms += int(seconds * 1000)
        self.steady += seconds


SYSTEM_CLOCK = SystemClock()


def parse_time_ms(text: object) -> int | None:
    """Milliseconds since 1970 of an ISO 8601 text; None for any other text. A time without a zone is UTC."""
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
