"""How near a text comes to what was said: by its nearest few passages. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

#: Passages whose cosines are averaged.
NEAREST = 5


def mean_of_nearest(cosines: Iterable[float]) -> float:
    """The mean of the largest few cosines; 0 where there are none."""
    nearest = nlargest(NEAREST, cosines)
    return sum(nearest) / max(len(nearest), 1)
