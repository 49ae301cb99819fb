"""When to say nothing: no passage is near enough to the question. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import nlargest

from engram.search.asked import Asked

#: So many of the nearest passages are looked at.
_NEAREST = 5
#: The mean of their cosines must reach the model's own relevance floor times this: on questions over coding sessions two
#: fifths of those without an answer get silence, one in 25 of those with one, and recall in 800 words falls by 3 points.
FLOOR_FACTOR = 1.06
#: A query of fewer telling words is a look-up: what holds its words is shown.
_FEWEST_TERMS = 3


def is_silent(asked: Asked, cosines: Iterable[float], relevance_floor: float) -> bool:
    """True where nothing is near a question in plain words; a look-up by few words or by a name is always answered."""
    if len(asked.terms) < _FEWEST_TERMS or asked.names:
        return False
    nearest = nlargest(_NEAREST, cosines)
    return bool(nearest) and sum(nearest) / len(nearest) < FLOOR_FACTOR * relevance_floor
