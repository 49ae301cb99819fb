"""Stamps: when a field of a memory was decided, and on which device, by a hybrid logical clock.

A clock value is milliseconds since 1970, shifted by 16 bits, plus a counter. It never goes back on one machine, and
never falls behind what the machine has seen of its own person's other machines.
"""

from __future__ import annotations

from typing import NamedTuple

#: Bits of the counter below the milliseconds.
COUNTER_BITS = 16
#: Clocks that differ from the hub's by more than this are corrected by the hub's time, in milliseconds.
MAX_CLOCK_ERROR_MS = 300_000
#: Stamps further ahead of the hub's time are stamped anew before they are sent, in milliseconds.
MAX_AHEAD_MS = 7_200_000
#: Stamps further ahead are refused by the hub, in milliseconds.
MAX_ACCEPTED_AHEAD_MS = 86_400_000


class Stamp(NamedTuple):
    """When and where a field was decided. Of two stamps the greater one counts."""

    #: Hybrid logical clock.
    hlc: int
    #: Id of the device.
    device: int


def clock_of(at_ms: int) -> int:
    """Return the smallest clock value of a time."""
    return max(0, at_ms) << COUNTER_BITS


def next_clock(last: int, at_ms: int) -> int:
    """Return a clock value after ``last`` that is not before a time in milliseconds since 1970."""
    return max(last + 1, clock_of(at_ms))


def time_of(hlc: int) -> int:
    """Return the milliseconds since 1970 of a clock value."""
    return hlc >> COUNTER_BITS
