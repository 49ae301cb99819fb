"""The clock: wall time in milliseconds for stored times, monotonic seconds for waiting."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, tzinfo
from typing import Protocol

from engram.system.lazy_regex import lazy_regex


class Clock(Protocol):
    """The current time. All code whose decisions depend on time accepts a Clock."""

    def now_ms(self) -> int:
        """Return the wall time in milliseconds since 1970, which may jump."""

    def steady_seconds(self) -> float:
        """Return the seconds of a clock that never goes backwards; only differences are meaningful.

        Time during which the machine sleeps is included.
        """


#: The steady clock that keeps running while the machine sleeps. On Linux, CLOCK_MONOTONIC stops then. On a Mac it
#: doesn't, but ``time.monotonic`` reads a different clock there.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now_ms(self) -> int:
        # A process keeps the time zone of its start until it looks again, and a laptop may have travelled since.
        time.tzset()
        return time.time_ns() // 1_000_000

    def steady_seconds(self) -> float:
        return time.clock_gettime(_STEADY)


@dataclass(slots=True)
class FixedClock:
    """A clock for tests and simulations that moves only when ``advance`` is called."""

    #: Wall time in milliseconds since 1970.
    at_ms: int = 1_767_225_600_000
    #: Seconds of the steady clock.
    steady: float = field(default=0.0)

    def now_ms(self) -> int:
        return self.at_ms

    def steady_seconds(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        self.at_ms += int(seconds * 1000)
        self.steady += seconds


SYSTEM_CLOCK = SystemClock()

#: A day in milliseconds.
DAY_MS = 86_400_000
#: The last time for which every zone has a date, in milliseconds since 1970: a day before the year 10000.
LAST_MS = 253_402_214_400_000


def parse_time_ms(text: object, zone: tzinfo | None = UTC) -> int | None:
    """Return the milliseconds since 1970 of an ISO 8601 time; None for anything else.

    A time without a zone is in ``zone``, or local if that is None, as for a time that a person types. Times before 1970
    and after ``LAST_MS`` are rejected too, because no session can have such a time.
    """
    if not isinstance(text, str):
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.astimezone() if zone is None else moment.replace(tzinfo=zone)
        at_ms = int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
    return at_ms if 0 <= at_ms <= LAST_MS else None


def moment_of(at_ms: int, zone: tzinfo | None = None) -> datetime:
    """Return a stored time as a datetime in a zone, by default the local one; a time out of range is clamped."""
    return datetime.fromtimestamp(min(max(at_ms, 0), LAST_MS) / 1000, zone)


def iso_time(at_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, to the second."""
    return moment_of(at_ms, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_or_none(at_ms: int | None) -> str | None:
    """Return a time as ``iso_time`` does, for JSON; None if there is none."""
    return iso_time(at_ms) if at_ms else None


def day_of(at_ms: int) -> str:
    """Return the local calendar day as ``YYYY-MM-DD``."""
    return moment_of(at_ms).strftime("%Y-%m-%d")


def noon_of(day: str) -> int | None:
    """Return the local noon of a day ``YYYY-MM-DD``, in milliseconds since 1970; None if it is not a day."""
    try:
        noon_ms = int(datetime.strptime(day, "%Y-%m-%d").replace(hour=12).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
    return noon_ms if 0 <= noon_ms <= LAST_MS else None


#: A date as written, whether or not a calendar has it.
_DATE = lazy_regex(r"\b(?:19|20)\d\d-\d\d-\d\d\b")


def impossible_day(text: str) -> str:
    """Return the first impossible date in a text, such as 2026-02-30; "" if there is none."""
    for day in _DATE.findall(text):
        try:
            date.fromisoformat(day)
        except ValueError:
            return str(day)
    return ""
